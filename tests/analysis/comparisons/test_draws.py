from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.comparisons.contenders import Scope, contenders
from analysis.comparisons.draws import mean_draws
from analysis.sources import PUBLISHED, Source
from analysis.statistics.resampling import every_resample
from analysis.statistics.scores_table import Settings
from analysis.statistics.studentised import symmetric_bounds
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn

SETTINGS = Settings(interval="t", resamples=20_000)
SST2 = Scope("SC", "sst2")


@pytest.mark.parametrize("interval", ["t", "studentised", "paper", "bca"])
def test_the_middle_of_the_draws_of_runs_is_the_interval_and_what_seeds_share_cancels(interval):
    settings = Settings(interval=interval, resamples=20_000)
    scores = drawn({REAL: 0.0})
    scores[MADE_UP] = {name: [value + 1 for value in values] for name, values in scores[REAL].items()}
    source = Source(label="x", runs=best_runs(scores))
    models = contenders(source, [REAL, MADE_UP], settings)
    draws = mean_draws(models, [SST2, Scope("SC", "qqp")], settings)
    score = source.scores(settings).set_index(["model", "dataset"]).loc[(REAL, "sst2")]
    assert ((draws[:, 0, 0] < score["low"]) | (draws[:, 0, 0] > score["high"])).mean() == pytest.approx(
        0.05, abs=1e-3
    )
    assert draws[:, 1, 0] - draws[:, 0, 0] == pytest.approx(np.ones(20_000))
    assert abs(stats.spearmanr(draws[:, 0, 0], draws[:, 0, 1]).statistic) < 0.03


def test_the_difference_of_two_models_has_the_interval_of_the_paired_difference():
    """Each half of it is the difference from their mean."""
    settings = Settings(resamples=20_000)
    models = contenders(
        Source(label="x", runs=best_runs(drawn({REAL: 0.0, MADE_UP: 0.3}))), [REAL, MADE_UP], settings
    )
    draws = mean_draws(models, [SST2], settings)[:, :, 0]
    first, second = (model.scores[SST2].present for model in models)
    low, high = symmetric_bounds(first - second, (first - second)[every_resample(5).picks], every_resample(5))
    apart = draws[:, 0] - draws[:, 1]
    assert ((apart < low) | (apart > high)).mean() == pytest.approx(0.05, abs=1e-3)


def test_draws_of_cells_are_students_and_independent():
    models = contenders(PUBLISHED, [REAL, MADE_UP], SETTINGS)
    draws = mean_draws(models, [SST2], SETTINGS)
    assert stats.kstest((draws[:, 0, 0] - 91.42) / (0.62 / 1.96), stats.t(4).cdf).pvalue > 0.001
    assert abs(stats.spearmanr(draws[:, 0, 0], draws[:, 1, 0]).statistic) < 0.03


def test_one_seed_has_no_spread_and_models_of_other_seeds_change_no_draw():
    scores = drawn({REAL: 0.0, MADE_UP: 0.0, "610m-mlm20-42k": 0.0})
    scores["610m-mlm20-42k"] = {"sst2": [80.0] + [np.nan] * 4}
    source = Source(label="x", runs=best_runs(scores))
    three = mean_draws(contenders(source, ["610m-*"], SETTINGS), [SST2], SETTINGS)
    assert sorted(np.ptp(three[:, place, 0]) == 0 for place in range(3)) == [False, False, True]
    two = mean_draws(contenders(source, [REAL, MADE_UP], SETTINGS), [SST2], SETTINGS)
    names = [model.name for model in contenders(source, ["610m-*"], SETTINGS)]
    assert two[:, 0] == pytest.approx(three[:, names.index(REAL)], rel=1e-12)


def test_two_or_three_seeds_are_drawn_from_students_t_and_stay_paired():
    scores = drawn({REAL: 0.0})
    scores[REAL] = {name: values[:3] for name, values in scores[REAL].items()}
    scores[MADE_UP] = {name: [value + 1 for value in values] for name, values in scores[REAL].items()}
    models = contenders(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS)
    draws = mean_draws(models, [SST2], SETTINGS)[:, :, 0]
    score = models[0].scores[SST2]
    assert stats.kstest((draws[:, 0] - score.mean) / score.error, stats.t(2).cdf).pvalue > 0.001
    assert draws[:, 1] - draws[:, 0] == pytest.approx(np.ones(20_000))
