from __future__ import annotations

import numpy as np
import pytest

from analysis.comparisons.comparison import compare
from analysis.evidence.evidence import Settings
from analysis.sources import PUBLISHED, Source
from common.errors import UserError
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn, real_and_made_up

SETTINGS = Settings(interval="t", resamples=500)


def test_a_mix_with_cells_and_missing_datasets_are_said_in_a_sentence_each():
    notes = compare(real_and_made_up(), [REAL, "210m-clm-42k"], SETTINGS).notes
    assert len(notes) == 3
    assert "printed cells" in notes[0] and "Welch" in notes[0]
    assert "no score on QQP, MNLI" in notes[1]
    assert "No difference over all tasks" in notes[2]


def test_unequal_seeds_and_one_seed_are_said_in_a_sentence_each():
    nan = np.nan
    scores = drawn({REAL: 0.0, MADE_UP: 0.0})
    scores[MADE_UP]["sst2"][3:] = [nan, nan]
    scores[MADE_UP]["squad"][1:] = [nan] * 4
    notes = compare(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS).notes
    assert notes[0].startswith(f"{MADE_UP} has one seed on SQuAD")
    assert notes[1].startswith(f"On SST-2, fewer seeds than the others' 5: {MADE_UP} 3")
    assert len(notes) == 2


def test_complete_runs_need_no_notes():
    assert (
        compare(
            Source(label="x", runs=best_runs(drawn({REAL: 0, MADE_UP: 0}))), [REAL, MADE_UP], SETTINGS
        ).notes
        == ()
    )


def test_two_models_have_details_and_many_a_ranking():
    assert compare(PUBLISHED, [REAL, MADE_UP], SETTINGS).ranking is None
    many = compare(PUBLISHED, [REAL, MADE_UP, "610m-mlm20-42k"], SETTINGS)
    assert [one.model for one in many.ranking.ranked][-1] == MADE_UP
    assert len(many.differences) == 2 * 17  # the best and each other one


def test_models_of_ones_own_are_compared_by_any_name():
    runs = best_runs(drawn({"mine": 1.0, "other": 0.0}))
    result = compare(
        Source(label="x", runs=runs, added_models=("mine", "other")), ["mine", "other"], SETTINGS
    )
    assert result.differences[-1].place.title == "all tasks"
    assert result.differences[-1].result.effect == pytest.approx(1, abs=0.5)


def test_models_without_a_dataset_in_common_are_refused_or_left_unranked():
    scores = {
        REAL: {"sst2": [90.0] * 5},
        MADE_UP: {"qqp": [80.0, 81, 82, 83, 84]},
        "210m-clm-42k": {"qqp": [79.0] * 5},
    }
    source = Source(label="x", runs=best_runs(scores))
    with pytest.raises(UserError, match="no dataset in common"):
        compare(source, [REAL, MADE_UP], SETTINGS)
    many = compare(source, list(scores), SETTINGS)
    assert many.ranking is None
    assert any("No ranking" in note for note in many.notes)
