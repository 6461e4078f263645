import numpy as np
import pytest

from analysis.comparisons.comparison import compare
from analysis.evidence.settings import Settings
from analysis.sources import Source
from common.errors import UserError
from tests.analysis.comparisons.given import (
    MADE_UP,
    REAL,
    best_runs,
    drawn,
    real_and_made_up,
)

SETTINGS = Settings(interval="t", resamples=500)


def test_mixed_cells_and_missing_datasets_are_named():
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
    notes = compare(
        Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS
    ).notes
    assert notes[0].startswith(f"{MADE_UP} has one seed on SQuAD")
    assert notes[1].startswith(f"On SST-2, fewer seeds than the others' 5: {MADE_UP} 3")
    assert all("counts the same averages" in note for note in notes[2:])


def test_complete_runs_need_no_notes_but_who_counts_the_same():
    source = Source(label="x", runs=best_runs(drawn({REAL: 0, MADE_UP: 0})))
    notes = compare(source, [REAL, MADE_UP], SETTINGS).notes
    assert [note.split()[:4] for note in notes] == [
        ["F1", "counts", "the", "same"],
        ["F4", "counts", "the", "same"],
    ]


def test_no_common_dataset_is_refused_or_leaves_no_order():
    scores = {
        REAL: {"sst2": [90.0] * 5},
        MADE_UP: {"qqp": [80.0, 81, 82, 83, 84]},
        "210m-clm-42k": {"qqp": [79.0] * 5},
    }
    source = Source(label="x", runs=best_runs(scores))
    with pytest.raises(UserError, match="no dataset in common"):
        compare(source, [REAL, MADE_UP], SETTINGS)
    many = compare(source, list(scores), SETTINGS)
    assert many.over is None and list(scores) == list(many.contestants.models)
    assert any("in no order" in note for note in many.notes)
