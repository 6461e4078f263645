from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.comparisons.contenders import Scope, contenders
from analysis.comparisons.draws import mean_draws
from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores import Settings
from tests.analysis.comparisons.given import MADE_UP, REAL, best_runs, drawn

SETTINGS = Settings(interval="t", resamples=20_000)
SST2 = Scope("SC", "sst2")


def test_draws_of_runs_have_the_spread_of_the_standard_error_and_keep_what_seeds_share():
    scores = drawn({REAL: 0.0})
    scores[MADE_UP] = {name: [value + 1 for value in values] for name, values in scores[REAL].items()}
    models = contenders(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS)
    draws = mean_draws(models, [SST2, Scope("SC", "qqp")], SETTINGS)
    assert draws[:, 0, 0].std() == pytest.approx(models[0].scores[SST2].error, rel=0.03)
    assert draws[:, 1, 0] - draws[:, 0, 0] == pytest.approx(np.ones(20_000))
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 0, 1])[0, 1]) < 0.03


def test_draws_of_cells_are_students_and_independent():
    models = contenders(PUBLISHED, [REAL, MADE_UP], SETTINGS)
    draws = mean_draws(models, [SST2], SETTINGS)
    assert stats.kstest((draws[:, 0, 0] - 91.42) / (0.62 / 1.96), stats.t(4).cdf).pvalue > 0.001
    assert abs(stats.spearmanr(draws[:, 0, 0], draws[:, 1, 0]).statistic) < 0.03


def test_one_seed_has_no_spread_and_other_models_change_no_draw():
    scores = drawn({REAL: 0.0, MADE_UP: 0.0, "610m-mlm20-42k": 0.0})
    scores["610m-mlm20-42k"] = {"sst2": [80.0] + [np.nan] * 4}
    source = Source(label="x", runs=best_runs(scores))
    three = mean_draws(contenders(source, ["610m-*"], SETTINGS), [SST2], SETTINGS)
    assert sorted(np.ptp(three[:, place, 0]) == 0 for place in range(3)) == [False, False, True]
    two = mean_draws(contenders(source, [REAL, MADE_UP], SETTINGS), [SST2], SETTINGS)
    names = [model.name for model in contenders(source, ["610m-*"], SETTINGS)]
    assert (two[:, 0] == three[:, names.index(REAL)]).all()


def test_two_or_three_seeds_are_drawn_from_students_t_and_stay_paired():
    scores = drawn({REAL: 0.0})
    scores[REAL] = {name: values[:3] for name, values in scores[REAL].items()}
    scores[MADE_UP] = {name: [value + 1 for value in values] for name, values in scores[REAL].items()}
    models = contenders(Source(label="x", runs=best_runs(scores)), [REAL, MADE_UP], SETTINGS)
    draws = mean_draws(models, [SST2], SETTINGS)[:, :, 0]
    score = models[0].scores[SST2]
    assert stats.kstest((draws[:, 0] - score.mean) / score.error, stats.t(2).cdf).pvalue > 0.001
    assert draws[:, 1] - draws[:, 0] == pytest.approx(np.ones(20_000))
