import numpy as np
import pytest

from analysis.comparisons.contestants import OVERALL, Place, contestants_of
from analysis.evidence.settings import Settings
from analysis.sources import PUBLISHED, Source
from benchmarks.protocol import AVERAGE
from common.errors import UserError
from tests.analysis.comparisons.given import (
    MADE_UP,
    REAL,
    best_runs,
    drawn,
    real_and_made_up,
)

SETTINGS = Settings(interval="t")


def test_overall_score_is_the_mean_of_task_averages():
    scores = drawn({REAL: 1.0, MADE_UP: 0.0})
    contestants = contestants_of(
        Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS
    )
    # Three datasets a task: the mean of all twelve
    by_seed = np.mean(list(scores[REAL].values()), axis=0)
    assert contestants.mean(REAL, OVERALL) == pytest.approx(by_seed.mean())
    tasks = np.array(list(scores[REAL].values())).reshape(4, 3, 5).mean(axis=1)
    spread = np.hypot.reduce(tasks.std(axis=1, ddof=1)) / 4
    assert contestants.spread(REAL, OVERALL) == pytest.approx(spread)


def test_a_model_without_runs_takes_the_printed_cells():
    source = real_and_made_up()
    contestants = contestants_of(source, [REAL, "210m-clm-42k"], SETTINGS)
    assert contestants.printed == {"210m-clm-42k"}
    assert contestants.places[REAL] == (Place("SC", "sst2"),)
    assert contestants.mean(REAL, Place("SC", "sst2")) == pytest.approx(
        91.42, abs=0.005
    )
    assert contestants.seeds("210m-clm-42k", Place("SC", AVERAGE)) == 5


def test_patterns_take_models_in_the_papers_order():
    names = contestants_of(PUBLISHED, ["610m-*-12k"], SETTINGS).models
    assert len(names) == 5
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["610m-clm-42k"], "at least two models"),
        (["610m-clm-42k", "610m-clm-42k"], "at least two models"),
        (["610m-clm-42k", "610m-mlm40-42"], "did you mean|610m-mlm40-42k"),
        (["610m-clm-42k", "nothing*"], "no cells of .*--source takes runs"),
    ],
)
def test_what_cannot_be_compared_is_refused(names, words):
    with pytest.raises(UserError, match=words):
        contestants_of(PUBLISHED, names, SETTINGS)


def test_other_metrics_never_mix_with_the_papers_cells():
    runs = best_runs(drawn({REAL: 0.0}))
    with pytest.raises(UserError, match="no runs of"):
        contestants_of(
            Source(label="x", runs=runs, protocol="standard"), [REAL, MADE_UP], SETTINGS
        )
