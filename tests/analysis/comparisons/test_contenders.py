from __future__ import annotations

import numpy as np
import pytest

from analysis.comparisons.contenders import OVERALL, Scope, contenders, published_score, score_of
from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import AVERAGE
from common.errors import UserError
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn, real_and_made_up

SETTINGS = Settings(interval="t")


def test_the_overall_score_is_the_mean_of_task_averages_taken_per_seed():
    scores = drawn({REAL: 1.0, MADE_UP: 0.0})
    first, _ = contenders(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS)
    by_seed = np.mean(list(scores[REAL].values()), axis=0)  # three datasets a task: the mean of all twelve
    assert first.scores[OVERALL].by_seed == pytest.approx(by_seed)
    assert first.scores[OVERALL].mean == pytest.approx(by_seed.mean())
    assert first.scores[OVERALL].error == pytest.approx(by_seed.std(ddof=1) / 5**0.5)


def test_a_model_without_runs_takes_the_printed_cells():
    source = real_and_made_up()
    models = contenders(source, [REAL, "210m-clm-42k"], SETTINGS)
    assert [model.is_published for model in models] == [False, True]
    assert set(models[0].scores) == {Scope("SC", "sst2")}
    assert models[0].scores[Scope("SC", "sst2")].mean == pytest.approx(91.42, abs=0.005)
    assert models[1].scores[Scope("SC", AVERAGE)].count == 5


def test_an_interval_printed_as_zero_is_not_certainty():
    assert published_score(90.0, 0.0).error == pytest.approx(0.005 / 1.96)
    assert np.isnan(score_of(np.array([90.0, np.nan])).error)


def test_patterns_take_models_in_the_papers_order():
    names = [model.name for model in contenders(PUBLISHED, ["610m-*-12k"], SETTINGS)]
    assert len(names) == 5
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["610m-clm-42k"], "two models or more"),
        (["610m-clm-42k", "610m-clm-42k"], "two models or more"),
        (["610m-clm-42k", "610m-mlm40-42"], "did you mean|610m-mlm40-42k"),
        (["610m-clm-42k", "nothing*"], "no cells of"),
    ],
)
def test_what_cannot_be_compared_is_refused(names, words):
    with pytest.raises(UserError, match=words):
        contenders(PUBLISHED, names, SETTINGS)


def test_other_metrics_never_mix_with_the_papers_cells():
    runs = best_runs(drawn({REAL: 0.0}))
    with pytest.raises(UserError, match="no runs of"):
        contenders(Source(label="x", runs=runs, protocol="standard"), [REAL, MADE_UP], SETTINGS)
