"""Spreads between pretrainings and between seeds: scipy's analysis of variance, statsmodels' mixed model, coverage."""

import math

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM

from analysis.statistics.nested_spreads import SpreadEstimate, nested_spreads


def drawn(
    rng: np.random.Generator,
    pretrainings: int,
    seeds: int,
    *,
    between: float,
    within: float = 1.0,
) -> npt.NDArray[np.float64]:
    """Return the scores of an arm."""
    levels = rng.normal(0, between, (pretrainings, 1))
    scores: npt.NDArray[np.float64] = (
        70 + levels + rng.normal(0, within, (pretrainings, seeds))
    )
    return scores


def test_one_arm_is_the_analysis_of_variance() -> None:
    scores = np.random.default_rng(0).normal(0, 1, (5, 4)) + np.arange(5)[:, None]
    found = nested_spreads([scores])
    within = np.mean([row.var(ddof=1) for row in scores])
    f = stats.f_oneway(*scores).statistic
    assert found.seeds.sd == pytest.approx(math.sqrt(within))
    assert found.pretrainings.sd == pytest.approx(math.sqrt(within * (f - 1) / 4))
    ends = np.sqrt(15 * within / stats.chi2.ppf([0.975, 0.025], 15))
    assert (found.seeds.low, found.seeds.high) == pytest.approx(tuple(ends))


@pytest.mark.parametrize("pretrainings", [(6,), (5, 5, 5), (3, 7)])
def test_spreads_are_those_of_statsmodels_mixed_model(
    pretrainings: tuple[int, ...],
) -> None:
    """Arms are fixed effects, pretrainings random ones, by restricted maximum likelihood."""
    rng = np.random.default_rng(1)
    arms = [
        drawn(rng, count, 4, between=2.0) + 5 * place
        for place, count in enumerate(pretrainings)
    ]
    rows = [
        {"arm": arm, "pretraining": f"{arm}-{number}", "score": score}
        for arm, scores in enumerate(arms)
        for number, of_seeds in enumerate(scores)
        for score in of_seeds
    ]
    fit = MixedLM.from_formula(
        "score ~ C(arm)", pd.DataFrame(rows), groups="pretraining"
    ).fit(reml=True)
    found = nested_spreads(arms)
    assert found.pretrainings.sd == pytest.approx(
        math.sqrt(fit.cov_re.iloc[0, 0]), rel=1e-3
    )
    assert found.seeds.sd == pytest.approx(math.sqrt(fit.scale), rel=1e-3)


@pytest.mark.parametrize("between", [0.0, 0.7, 2.0])
def test_intervals_hold_the_spread_in_95_of_100(between: float) -> None:
    rng = np.random.default_rng(2)
    found = [nested_spreads([drawn(rng, 5, 5, between=between)]) for _ in range(2_000)]
    held = np.mean(
        [one.pretrainings.low <= between <= one.pretrainings.high for one in found]
    )
    assert 0.94 <= held <= 0.985
    held = np.mean([one.seeds.low <= 1 <= one.seeds.high for one in found])
    assert held == pytest.approx(0.95, abs=0.015)


@given(st.floats(0.1, 10), st.floats(-50, 50))
def test_spreads_scale_with_the_unit_and_ignore_the_level(
    scale: float, shift: float
) -> None:
    scores = np.array([[1.0, 2.0, 4.0], [2.0, 3.5, 3.0], [5.0, 4.0, 7.0]])
    base, moved = nested_spreads([scores]), nested_spreads([scale * scores + shift])
    for name in ("pretrainings", "seeds"):
        for end in ("sd", "low", "high"):
            expected = scale * getattr(getattr(base, name), end)
            assert getattr(getattr(moved, name), end) == pytest.approx(
                expected, rel=1e-6, abs=1e-6
            )


def test_what_does_not_vary_has_no_spread() -> None:
    alike = nested_spreads([np.array([[1.0, 3.0], [3.0, 1.0], [2.0, 2.0]])])
    assert (
        (alike.pretrainings.sd, alike.pretrainings.low)
        == (0, 0)
        < (alike.seeds.sd, alike.seeds.low)
    )
    flat = nested_spreads([np.full((2, 2), 3.0)])
    assert flat.pretrainings == flat.seeds == SpreadEstimate(sd=0.0, low=0.0, high=0.0)


@pytest.mark.parametrize(
    "arms",
    [
        [],
        [np.ones((1, 5))],
        [np.ones((5, 1))],
        [np.ones((5, 2)), np.ones((5, 3))],
        [np.array([[1.0, np.nan], [1.0, 2.0]])],
    ],
    ids=[
        "no arm",
        "one pretraining",
        "one seed",
        "other numbers of seeds",
        "missing score",
    ],
)
def test_what_cannot_be_split_is_refused(arms: list[npt.NDArray[np.float64]]) -> None:
    with pytest.raises(ValueError, match="two pretrainings or more"):
        nested_spreads(arms)
