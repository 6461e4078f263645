"""The cells of a source: scores by seed, printed cells, what seeds that agree are given; the seeds of contrasts."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.evidence.cells import SMALLEST_HALF_WIDTH
from analysis.evidence.contrasts import Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from tests.analysis.made_up import made_up_runs

CLM, MLM = "610m-clm-42k", "610m-mlm40-42k"
LEAST = SMALLEST_HALF_WIDTH / 1.96


def table(runs: pd.DataFrame | None, *, printed: bool = False) -> Evidence:
    return Evidence(Settings(resamples=200, seed=1), runs=runs, printed=printed)


def gap(
    first: float = 1.0, second: float = -1.0, dataset: str = "sst2"
) -> tuple[Term, ...]:
    pair = ((first, CLM), (second, MLM))
    return tuple(
        Term(weight=weight, model=model, task="SC", dataset=dataset)
        for weight, model in pair
    )


@pytest.fixture
def runs() -> pd.DataFrame:
    return made_up_runs(np.random.default_rng(0), models=(CLM, MLM)).assign(n_test=200)


def test_equal_seeds_get_the_error_of_one_instance(
    runs: pd.DataFrame,
) -> None:
    """The standard error of (x, x, x, x, x + d) is d / 5."""
    cells = table(runs)
    assert cells.least_error((CLM, "SC", "sst2"), 5) == pytest.approx(
        stats.sem([0, 0, 0, 0, 100 / 200])
    )
    assert cells.least_error((CLM, "SC", "average"), 5) == pytest.approx(
        100 / 200 / 5 / math.sqrt(3)
    )
    flat = table(runs.assign(test_score=0.75))
    assert flat.summary((CLM, "SC", "sst2")) == pytest.approx((75.0, 0.1, 5))


@pytest.mark.parametrize("size", [np.nan, 0, None])
def test_without_a_size_of_the_test_set_rounding_is_what_is_left(
    runs: pd.DataFrame, size: float | None
) -> None:
    unsized = runs.drop(columns="n_test") if size is None else runs.assign(n_test=size)
    assert table(unsized).least_error((CLM, "SC", "sst2"), 5) == pytest.approx(LEAST)
    tiny = table(runs.assign(n_test=1))
    assert tiny.least_error((CLM, "SC", "sst2"), 5) == pytest.approx(20.0)


@pytest.mark.parametrize("shared", [1, 2, 3])
def test_two_shared_seeds_are_enough_and_one_is_not(
    runs: pd.DataFrame, shared: int
) -> None:
    cells = table(runs[(runs["model"] == CLM) | (runs["seed"] < shared)])
    values, paired, welch = (
        cells.within_seeds(gap()),
        cells.paired(gap()),
        cells.welch(gap()),
    )
    if shared == 1:
        assert values is paired is welch is None
        return
    first, second = (
        cells.by_seed((model, "SC", "sst2"))[:shared] for model in (CLM, MLM)
    )
    assert values == pytest.approx(first - second)
    assert paired is not None and (paired.effect, paired.df) == pytest.approx(
        (values.mean(), shared - 1)
    )
    assert welch is not None and welch.df >= paired.df
