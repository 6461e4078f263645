"""The studentised bootstrap against the full list of resamples written out, and what it does without spread."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.resampling import Resamples, every_resample
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


def blocks(count: int) -> tuple[np.ndarray, np.ndarray, Resamples]:
    """(2, 3) cells of `count` seeds, and scores of their resamples that are not just the picked seeds' own."""
    rng = np.random.default_rng(count)
    every = every_resample(count)
    values = rng.normal(size=(2, 3, count))
    return values, values[..., every.picks] + rng.normal(0, 0.1, (2, 3, *every.picks.shape)), every


@pytest.mark.parametrize("count", [2, 4, 5])
def test_every_resample_has_the_t_of_its_own_mean_and_error(count: int) -> None:
    values, resampled, every = blocks(count)
    resampled[1, 2, 1] = 7.0
    ratios, counts = studentise(values, resampled, every)
    assert ratios.shape == counts.shape == (2, 3, len(every.picks))
    for row, cell, place in np.ndindex(ratios.shape):
        scores = resampled[row, cell, place]
        if (row, cell, place) == (1, 2, 1):
            assert (ratios[row, cell, place], counts[row, cell, place]) == (0.0, 0)
        else:
            expected = stats.ttest_1samp(scores, values[row, cell].mean()).statistic
            assert ratios[row, cell, place] == pytest.approx(expected, rel=1e-9)
            assert counts[row, cell, place] == every.counts[place]


@pytest.mark.parametrize("centre", [-80.0, 0.5, 80.0])
def test_a_resample_of_one_value_has_no_t_not_even_by_rounding(centre: float) -> None:
    values = np.array([centre, np.nextafter(centre, np.inf), centre + 1.0])
    picks = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 2], [2, 2, 2]])
    resamples = Resamples(picks=picks, counts=np.array([3, 4, 5, 6]))
    ratios, counts = studentise(values, values[picks], resamples)
    assert counts.tolist() == [0, 0, 5, 0]
    assert ratios[[0, 1, 3]].tolist() == [0.0] * 3 and ratios[2] == pytest.approx(0.0, abs=1e-9)


def quantile(ratios: np.ndarray, counts: np.ndarray, share: float) -> float:
    """The smallest t* up to which `share` of the occurrences are, from the list written out."""
    listed = np.sort(np.repeat(ratios, counts))
    return float(listed[int(np.ceil(share * len(listed) - 1e-9)) - 1])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_intervals_of_many_cells_are_those_of_each(level: float) -> None:
    values, resampled, every = blocks(4)
    symmetric = symmetric_bounds(values, resampled, every, level)
    tailed = equal_tailed_bounds(values, resampled, every, level)
    student = stats.t.ppf(0.5 + level / 2, 3)
    for place in np.ndindex(2, 3):
        mean, error = values[place].mean(), values[place].std(ddof=1) / 2
        ratios = np.array([stats.ttest_1samp(scores, mean).statistic for scores in resampled[place]])
        factor = max(quantile(np.abs(ratios), every.counts, level), student)
        ends = [float(end[place]) for end in symmetric]
        assert ends == pytest.approx([mean - factor * error, mean + factor * error])
        above, below = (quantile(sign * ratios, every.counts, 0.5 + level / 2) for sign in (1, -1))
        ends = [float(end[place]) for end in tailed]
        assert ends == pytest.approx([mean - above * error, mean + below * error])


@pytest.mark.parametrize("method", [symmetric_bounds, equal_tailed_bounds])
@pytest.mark.parametrize("level", [0.6, 0.95])
def test_students_t_stands_in_where_no_resample_has_a_spread(method, level: float) -> None:
    values = np.array([[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]])
    flat = Resamples(picks=np.array([[0, 0, 0], [2, 2, 2]]), counts=np.array([1, 1]))
    low, high = method(values, values[:, flat.picks], flat, level)
    for row, cell in enumerate(values):
        half = stats.t.ppf(0.5 + level / 2, 2) * stats.sem(cell)
        assert [low[row], high[row]] == pytest.approx([cell.mean() - half, cell.mean() + half])


def test_one_resample_with_a_spread_is_enough_for_equal_tails() -> None:
    values = np.array([1.0, 2.0, 6.0])
    one = Resamples(picks=np.array([[1, 1, 1], [1, 2, 2]]), counts=np.array([1, 1]))
    ratio = stats.ttest_1samp([2.0, 6.0, 6.0], 3.0).statistic
    low, high = equal_tailed_bounds(values, values[one.picks], one)
    assert [float(low), float(high)] == pytest.approx([3 - ratio * stats.sem(values)] * 2)


def estimate_of(
    *, symmetric: bool, ratios=(-3.0, -1.0, 0.5, 2.0), counts=(1, 4, 4, 1), effect=10.0, error=1.0, df=1.0
) -> Studentised:
    return Studentised(
        effect=effect,
        error=error,
        df=df,
        ratios=np.array(ratios),
        counts=np.array(counts),
        symmetric=symmetric,
    )


@pytest.mark.parametrize(
    "distance", [3.5, 3.0, 2.5, 2.0, 1.0, 0.6, 0.5, 0.0, -0.5, -0.6, -1.0, -2.0, -3.0, -4.0]
)
def test_with_equal_tails_p_is_the_share_of_t_as_far_on_that_side(distance: float) -> None:
    """And half an occurrence or more away from 0 and 1."""
    estimate, listed = estimate_of(symmetric=False), np.repeat([-3.0, -1.0, 0.5, 2.0], [1, 4, 4, 1])
    for p_of, sign in ((estimate.p_above, 1), (estimate.p_below, -1)):
        expected = min(max(np.mean(sign * listed >= distance), 0.5 / 10), 9.5 / 10)
        assert p_of(10.0 - sign * distance) == pytest.approx(expected)


def test_with_equal_tails_a_resample_without_effect_is_as_far_out_as_a_bound_at_the_effect() -> None:
    estimate = estimate_of(symmetric=False, ratios=(-1.0, 0.0, 2.0), counts=(3, 4, 1))
    assert (estimate.p_above(10.0), estimate.p_below(10.0)) == (5 / 8, 7 / 8)


@pytest.mark.parametrize(
    ("distance", "share"),
    [(0.25, 1.0), (0.5, 1.0), (0.6, 0.6), (1.0, 0.6), (1.5, 0.2), (2.0, 0.2), (3.0, 0.1), (4.0, 0.0)],
)
@pytest.mark.parametrize("df", [1.0, 30.0])
def test_a_symmetric_p_is_half_the_share_of_t_as_far_on_either_side_or_students(
    distance: float, share: float, df: float
) -> None:
    estimate = estimate_of(symmetric=True, df=df)
    expected = max(share / 2, float(stats.t.sf(distance, df)))
    for p_of, sign in ((estimate.p_above, -1), (estimate.p_below, 1)):
        assert p_of(10.0 + sign * distance) == pytest.approx(expected)
        assert p_of(10.0 - sign * distance) == pytest.approx(1 - expected)


@pytest.mark.parametrize("symmetric", [True, False])
def test_an_effect_without_error_is_above_or_below_for_certain(symmetric: bool) -> None:
    estimate = estimate_of(symmetric=symmetric, error=0.0)
    for distance in (0.5, 3.0):
        assert (estimate.p_above(10 - distance), estimate.p_above(10 + distance)) == (0.0, 1.0)
        assert (estimate.p_below(10 + distance), estimate.p_below(10 - distance)) == (0.0, 1.0)
    assert (estimate.p_above(10.0), estimate.p_below(10.0)) == (1.0, 1.0)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("level", [0.6, 0.95])
def test_without_any_t_the_estimate_is_students(symmetric: bool, level: float) -> None:
    estimate = estimate_of(symmetric=symmetric, counts=(0, 0, 0, 0), error=2.0, df=3.0)
    half = 2 * stats.t.ppf(0.5 + level / 2, 3)
    assert estimate.interval(level) == pytest.approx((10 - half, 10 + half))
    for distance in (-3.0, -1.0, 0.0, 1.0, 3.0):
        assert estimate.p_above(10 - distance) == pytest.approx(float(stats.t.sf(distance / 2, 3)))
        assert estimate.p_below(10 + distance) == pytest.approx(float(stats.t.sf(distance / 2, 3)))


def test_a_single_t_with_equal_tails_says_nothing() -> None:
    estimate = estimate_of(symmetric=False, ratios=(2.0,), counts=(1,))
    assert [estimate.p_above(bound) for bound in (5.0, 8.0, 15.0)] == [0.5] * 3


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_an_estimates_interval_goes_as_far_as_its_quantiles_of_t(level: float) -> None:
    ratios, counts = np.array([-3.0, -1.0, 0.5, 2.0]), np.array([1, 4, 4, 1])
    above, below = (quantile(sign * ratios, counts, 0.5 + level / 2) for sign in (1, -1))
    tailed = estimate_of(symmetric=False, error=2.0)
    assert tailed.interval(level) == pytest.approx((10 - 2 * above, 10 + 2 * below))
    for df in (1.0, 30.0):
        factor = max(quantile(np.abs(ratios), counts, level), stats.t.ppf(0.5 + level / 2, df))
        symmetric = estimate_of(symmetric=True, error=2.0, df=df)
        assert symmetric.interval(level) == pytest.approx((10 - 2 * factor, 10 + 2 * factor))


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
