"""The studentised bootstrap against the full list of resamples written out, and what it does without spread."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.resampling import every_resample
from analysis.statistics.studentised import Studentised, equal_tailed_bounds, studentise, symmetric_bounds

CELLS = np.random.default_rng(4).gamma(2.0, size=(6, 5))


def written_out(values: np.ndarray) -> np.ndarray:
    """t* of each of the 3,125 resamples that has a spread."""
    ratios = []
    for picks in itertools.product(values, repeat=len(values)):
        if len(set(picks)) > 1:
            error = np.std(picks, ddof=1) / np.sqrt(len(values))
            ratios.append((np.mean(picks) - values.mean()) / error)
    return np.array(ratios)


def bounds_of(method, values: np.ndarray) -> tuple[float, float]:
    every = every_resample(values.shape[-1])
    low, high = method(values, values[..., every.picks], every)
    return float(low), float(high)


def test_the_symmetric_interval_has_the_quantile_of_all_resamples_or_students() -> None:
    for cell in CELLS:
        ratios = np.sort(np.abs(written_out(cell)))
        quantile = ratios[int(np.ceil(0.95 * len(ratios))) - 1]
        factor = max(quantile, stats.t.ppf(0.975, 4))
        half = factor * cell.std(ddof=1) / np.sqrt(5)
        assert bounds_of(symmetric_bounds, cell) == pytest.approx((cell.mean() - half, cell.mean() + half))


def test_the_equal_tailed_interval_has_the_quantiles_of_all_resamples() -> None:
    for cell in CELLS:
        ratios = np.sort(written_out(cell))
        place = int(np.ceil(0.975 * len(ratios))) - 1
        error = cell.std(ddof=1) / np.sqrt(5)
        expected = cell.mean() - ratios[place] * error, cell.mean() + np.sort(-ratios)[place] * error
        assert bounds_of(equal_tailed_bounds, cell) == pytest.approx(expected)


def test_p_is_the_share_of_resamples_as_far_out_or_students_p() -> None:
    cell = CELLS[0]
    every = every_resample(5)
    ratios, counts = studentise(cell, cell[every.picks], every)
    error = cell.std(ddof=1) / np.sqrt(5)
    estimate = Studentised(
        effect=float(cell.mean()), error=float(error), df=4.0, ratios=ratios, counts=counts, symmetric=True
    )
    listed = np.abs(written_out(cell))
    for bound in (0.0, 0.5, 1.0, float(cell.mean()) - 0.1):
        ratio = (cell.mean() - bound) / error
        share = float(np.mean(listed >= ratio * (1 - 1e-12)))
        expected = max(share / 2, float(stats.t.sf(ratio, 4)))
        assert estimate.p_above(bound) == pytest.approx(expected)
        assert estimate.p_above(bound) + estimate.p_below(bound) == pytest.approx(1)


def test_a_p_is_never_below_students() -> None:
    """So five seeds can be held to the small levels of a long list of comparisons."""
    cell = np.array([10.0, 10.1, 10.2, 9.9, 10.05])
    every = every_resample(5)
    ratios, counts = studentise(cell, cell[every.picks], every)
    error = float(cell.std(ddof=1) / np.sqrt(5))
    estimate = Studentised(
        effect=float(cell.mean()), error=error, df=4.0, ratios=ratios, counts=counts, symmetric=True
    )
    assert estimate.p_above(0.0) == pytest.approx(stats.ttest_1samp(cell, 0.0).pvalue / 2)


@pytest.mark.parametrize("method", [symmetric_bounds, equal_tailed_bounds])
def test_seeds_that_agree_have_an_interval_of_no_width(method) -> None:
    assert bounds_of(method, np.full(5, 71.5)) == (71.5, 71.5)
    low, high = bounds_of(method, np.array([0.0, 0.0, 0.0, 0.0, 1.0]))
    assert np.isfinite([low, high]).all() and low <= 0.2 <= high


def test_error_rates_are_at_most_nominal_down_to_the_levels_of_long_lists() -> None:
    rng = np.random.default_rng(5)
    cells = rng.normal(size=(4_000, 5))
    every = every_resample(5)
    ratios, counts = studentise(cells, cells[:, every.picks], every)
    error = cells.std(axis=1, ddof=1) / np.sqrt(5)
    found = np.array([
        2 * min(one.p_above(0.0), one.p_below(0.0))
        for one in (
            Studentised(effect=float(c.mean()), error=float(e), df=4.0, ratios=r, counts=n, symmetric=True)
            for c, e, r, n in zip(cells, error, ratios, counts, strict=True)
        )
    ])  # fmt: skip
    for level in (0.05, 0.01, 0.0014):
        assert np.mean(found <= level) <= level + 3 * np.sqrt(level * (1 - level) / len(cells))
