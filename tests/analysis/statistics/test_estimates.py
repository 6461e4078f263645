"""Each estimate against another library, a closed form, its definition written out, or a known truth; resamples."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from analysis.statistics.estimates import (
    MOST_ENUMERATED,
    Estimate,
    Resampled,
    Resamples,
    Student,
    Studentised,
    difference_estimate,
    every_resample,
    is_flat,
    seed_bootstrap,
    student_estimate,
    welch_estimate,
)
from tests.analysis.simulated import two_sided, welch_of

CELLS = [[1, 2, 4, 8, 32], [-16, 3, 5, 5, 6], [0, 0, 0, 1, 7], [3, 9, 10]]
"""Whole numbers: scipy compares means exactly and would see rounding where resamples hold every seed."""


def listed(values: np.ndarray) -> np.ndarray:
    """Every resample with its order, each once."""
    return np.array(
        list(itertools.product(values, repeat=len(values))), dtype=np.float64
    )


def bootstrapped(values: np.ndarray) -> Resampled:
    return seed_bootstrap(values, every_resample(len(values)))


@pytest.mark.parametrize("df", [1.0, 4.5, np.inf])
@pytest.mark.parametrize("error", [0.4, 1.0])
def test_students_ps_are_tails_around_the_effect(df, error):
    estimate, around = Student(effect=0.3, error=error, df=df), stats.t(df, 0.3, error)
    for bound in (-1.0, 0.25, 2.0):
        assert estimate.p_above(bound) == pytest.approx(around.cdf(bound))
        assert estimate.p_below(bound) == pytest.approx(around.sf(bound))
    assert estimate.interval(0.8) == pytest.approx(around.interval(0.8))
    # Instances are held fixed unless somebody says otherwise
    assert estimate.instance_share == 0


@pytest.mark.parametrize(
    ("bound", "above", "below"), [(1.5, 0, 1), (2.0, 1, 1), (2.5, 1, 0)]
)
def test_effects_without_error_are_certain_but_at_their_value(bound, above, below):
    estimate = Student(effect=2.0, error=0.0, df=4.0)
    assert (estimate.p_above(bound), estimate.p_below(bound)) == (above, below)
    assert estimate.interval() == (2.0, 2.0)


def test_welch_and_paired_are_scipys():
    rng = np.random.default_rng(0)
    for counts in ((5, 5), (3, 9), (2, 4)):
        first, second = rng.normal(1, 1, counts[0]), rng.normal(0, 3, counts[1])
        by_scipy = stats.ttest_ind(first, second, equal_var=False)
        pairs = [
            (estimate(first, second), by_scipy)
            for estimate in (welch_of, difference_estimate)
        ]
        if counts[0] == counts[1]:
            pairs.append(
                (student_estimate(first - second), stats.ttest_rel(first, second))
            )
        for ours, theirs in pairs:
            assert (two_sided(ours), ours.df) == pytest.approx(
                (theirs.pvalue, theirs.df), rel=1e-12
            )
            for level in (0.8, 0.95):
                ends = tuple(theirs.confidence_interval(level))
                assert ours.interval(level) == pytest.approx(ends, rel=1e-12)


@pytest.mark.parametrize(("few", "many"), [(2, 5), (2, 30), (3, 10)])
def test_few_seeds_against_many_have_their_own_df(few: int, many: int) -> None:
    rng = np.random.default_rng(few)
    first, second = rng.normal(1, 1, few), rng.normal(0, 3, many)
    ratio = stats.ttest_ind(first, second, equal_var=False).statistic
    for ours in (welch_of(first, second), difference_estimate(first, second)):
        assert two_sided(ours) == pytest.approx(2 * stats.t.sf(abs(ratio), few - 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("few", "many"), [(2, 4), (2, 5), (2, 30), (3, 9), (3, 10), (4, 30)]
)
def test_samples_of_any_two_sizes_seldom_differ(few: int, many: int) -> None:
    rng = np.random.default_rng([few, many])
    pairs = ((rng.normal(size=few), rng.normal(size=many)) for _ in range(4_000))
    leads = [two_sided(difference_estimate(*pair)) <= 0.05 for pair in pairs]
    assert np.mean(leads) <= 0.07


@pytest.mark.parametrize("seed", range(60))
def test_welchs_formula_is_statsmodels(seed):
    """Means and errors of small and large samples alike, with spreads from a hundredth to a hundred of each other's."""
    rng = np.random.default_rng([7, seed])
    samples = [
        rng.normal(rng.uniform(0, 100), 10 ** rng.uniform(-1, 1), rng.integers(4, 12))
        for _ in range(2)
    ]
    ours, pair = welch_of(*samples), CompareMeans(*map(DescrStatsW, samples))
    assert (ours.effect, ours.error, ours.df) == pytest.approx(
        (
            samples[0].mean() - samples[1].mean(),
            pair.std_meandiff_separatevar,
            pair.dof_satt(),
        ),
        rel=1e-12,
    )
    for level in (0.5, 0.9, 0.95, 0.99):
        assert ours.interval(level) == pytest.approx(
            pair.tconfint_diff(1 - level, usevar="unequal"), rel=1e-11, abs=1e-11
        )
    for bound in (0.0, ours.effect + 2 * ours.error, ours.effect - 9 * ours.error):
        for p, alternative in (
            (ours.p_above(bound), "larger"),
            (ours.p_below(bound), "smaller"),
        ):
            assert p == pytest.approx(
                pair.ttest_ind(alternative, "unequal", value=bound)[1], rel=1e-9
            )


def test_a_difference_taken_the_other_way_is_the_same_mirrored():
    rng = np.random.default_rng(2)
    first, second = rng.normal(80, 1, 5), rng.normal(79, 3, 4)
    there, back = welch_of(first, second), welch_of(second, first)
    assert there.interval() == tuple(-end for end in back.interval()[::-1])
    assert (there.effect, there.p_above(0.3)) == (-back.effect, back.p_below(-0.3))


def test_a_sum_of_cells_has_satterthwaites_degrees_of_freedom():
    errors, weights = np.array([0.1, 0.2, 0.3]), np.array([1.0, -1.0, 0.5])
    estimate = welch_estimate(
        np.array([4.0, 1.0, 2.0]), errors, np.array([5.0, 3.0, 2.0]), weights
    )
    variances = (weights * errors) ** 2
    assert (estimate.effect, estimate.error) == pytest.approx(
        (4.0, np.sqrt(variances.sum()))
    )
    assert estimate.df == pytest.approx(
        variances.sum() ** 2 / (variances**2 / [4, 2, 1]).sum()
    )


def test_cells_without_spread_have_the_fewest_degrees_of_freedom():
    estimate = welch_estimate(
        np.array([91.5, 90.0]), np.zeros(2), np.array([5.0, 3.0]), np.array([1.0, -1.0])
    )
    assert (estimate.effect, estimate.error, estimate.df) == (1.5, 0, 2)


def test_the_order_of_the_cells_changes_no_digit():
    """So no processor's way of adding does, and an effect on a printed tie prints alike everywhere."""
    rng = np.random.default_rng(3)
    arrays = [
        rng.normal(90, 3, 8),
        rng.random(8),
        np.full(8, 5.0),
        rng.normal(0, 0.1, 8),
    ]
    orders = [rng.permutation(8) for _ in range(50)]
    assert (
        len(
            {
                repr(welch_estimate(*(values[order] for values in arrays)))
                for order in orders
            }
        )
        == 1
    )


@pytest.mark.parametrize(
    ("values", "flat"),
    [
        ([71.5] * 3, True),
        ([1e3, 1e3 + 5e-10], True),
        ([0.0, 5e-12], False),
        ([0.0, 5e-13], True),
        ([1, 2], False),
    ],
)
def test_seeds_that_agree_but_for_rounding_have_no_error(values, flat):
    values = np.array(values, dtype=np.float64)
    assert is_flat(values) == flat
    estimate = student_estimate(values)
    assert estimate.error == (0 if flat else pytest.approx(stats.sem(values)))
    assert estimate.df == len(values) - 1


@pytest.mark.parametrize("cell", CELLS)
def test_the_bootstrap_is_scipys_over_all_resamples(cell):
    values = np.array(cell, dtype=np.float64)
    everything = SimpleNamespace(bootstrap_distribution=listed(values).mean(axis=1))
    for level in (0.5, 0.95):
        theirs = stats.bootstrap(
            (values,),
            np.mean,
            method="percentile",
            confidence_level=level,
            n_resamples=0,
            bootstrap_result=everything,
        ).confidence_interval
        assert bootstrapped(values).interval(level) == pytest.approx(
            (theirs.low, theirs.high), rel=1e-9
        )


@pytest.mark.parametrize(
    "bound", [-9, -1, -1 - 1.5e-12, -0.5, 0, 1.5e-12, 5e-13, 1, 3, 99]
)
def test_bootstrap_p_counts_ties_half(bound):
    """Half a draw or more from 0 and 1, so that it never claims more than its draws can say."""
    each = np.repeat([-1.0, 0.0, 1.0, 3.0], [2, 5, 4, 1])
    estimate = Resampled(effect=0.5, drawn=each)
    share = np.sum(each < bound - 1e-12) + np.sum(abs(each - bound) <= 1e-12) / 2
    level = min(max(share, 0.5), 11.5) / 12
    assert (estimate.p_above(bound), estimate.p_below(bound)) == pytest.approx(
        (level, 1 - level), rel=1e-9
    )


@pytest.mark.parametrize(
    ("effect", "bound"), [(0.0, 1e6), (1e6, 0.0), (-1e6, 0.0), (-0.2, 0.1)]
)
def test_ties_are_as_coarse_as_the_larger_number(effect, bound):
    """And at least as coarse as those of numbers about 1."""
    draws = bound + max(abs(effect), abs(bound), 1) * 1e-12 * np.array(
        [-2, 0.5, 0.7, 2, 3]
    )
    assert Resampled(effect=effect, drawn=draws).p_above(bound) == pytest.approx(2 / 5)


RATIOS, COUNTS = np.array([-3.0, -1.0, 0.5, 2.0]), np.array([1, 4, 4, 1])


def ten(*, symmetric: bool, df: float = 1.0) -> Studentised:
    return Studentised(
        effect=10.0,
        error=2.0,
        df=df,
        ratios=np.repeat(RATIOS, COUNTS),
        symmetric=symmetric,
    )


@pytest.mark.parametrize(
    "distance", [3.5, 3.0, 2.0, 0.6, 0.5, 0.0, -0.5, -0.6, -1.0, -3.0, -4.0]
)
def test_equal_tails_p_is_the_share_of_t_on_that_side(distance):
    """And half an occurrence or more away from 0 and 1."""
    estimate, each = ten(symmetric=False), np.repeat(RATIOS, COUNTS)
    for p_of, sign in ((estimate.p_above, 1), (estimate.p_below, -1)):
        expected = min(max(np.mean(sign * each >= distance), 0.05), 0.95)
        assert p_of(10.0 - sign * 2 * distance) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("level", "above", "below"), [(0.9, 2.0, 3.0), (0.6, 0.5, 1.0), (0.79, 0.5, 1.0)]
)
def test_equal_tails_interval_has_each_sides_quantile(level, above, below):
    assert ten(symmetric=False).interval(level) == pytest.approx(
        (10 - 2 * above, 10 + 2 * below)
    )


@pytest.mark.parametrize(
    ("level", "reached"), [(0.35, 0.5), (0.41, 1.0), (0.81, 2.0), (0.95, 3.0)]
)
@pytest.mark.parametrize("df", [1.0, 30.0])
def test_symmetric_interval_is_at_least_students(level, reached, df):
    half = 2 * max(reached, stats.t.ppf(0.5 + level / 2, df))
    assert ten(symmetric=True, df=df).interval(level) == pytest.approx(
        (10 - half, 10 + half)
    )


def several(values: np.ndarray) -> dict[str, Estimate]:
    student = student_estimate(values)
    drawn = listed(values)
    ratios = np.sort(
        stats.ttest_1samp(
            drawn[np.ptp(drawn, axis=1) > 0], values.mean(), axis=1
        ).statistic
    )
    symmetric, tailed = (
        Studentised(
            effect=student.effect,
            error=student.error,
            df=student.df,
            ratios=ratios,
            symmetric=one,
        )
        for one in (True, False)
    )
    means, errors = np.array([80.1, values.mean()]), np.array([0.2, student.error])
    welch = welch_estimate(means, errors, np.array([5.0, 5.0]), np.array([1.0, -1.0]))
    return {
        "t": student,
        "percentile": bootstrapped(values),
        "symmetric": symmetric,
        "equal tails": tailed,
        "Welch": welch,
        "normal": Student(effect=0.0, error=student.error, df=np.inf),
    }


@given(
    st.lists(st.integers(-60, 60), min_size=5, max_size=5, unique=True).map(np.array),
    st.sampled_from([0.5, 0.8, 0.9, 0.95]),
)
def test_p_is_the_level_at_which_the_interval_touches_the_bound(values, level):
    """A resample is a step of its distribution: p is at most the level outside the interval, and at least inside."""
    for name, estimate in several(values.astype(np.float64)).items():
        low, high = estimate.interval(level)
        step = 1e-6 * (high - low)
        slack = 1e-6 if name in ("t", "Welch", "normal") else 0.025
        for outside, inside, p_of in (
            (low - step, low + step, estimate.p_above),
            (high + step, high - step, estimate.p_below),
        ):
            assert p_of(outside) <= (1 - level) / 2 + slack, name
            assert p_of(inside) >= (1 - level) / 2 - slack, name


@pytest.mark.parametrize("count", range(1, MOST_ENUMERATED + 1))
def test_every_resample_occurs_as_often_as_in_the_full_list(count):
    found = every_resample(count)
    assert found.counts.sum() == count**count
    if count <= 5:
        expected = Counter(
            tuple(sorted(picks))
            for picks in itertools.product(range(count), repeat=count)
        )
        assert {
            tuple(row): int(n) for row, n in zip(found.picks, found.counts, strict=True)
        } == expected


def test_few_seeds_are_enumerated_many_are_drawn():
    assert Resamples.of_seeds(6, 30_000, 3) is every_resample(6)
    many = Resamples.of_seeds(7, 30_000, 3)
    assert many.picks.shape == (30_000, 7) and many.counts.sum() == 30_000
    for column in many.picks.T:
        values, counts = np.unique(column, return_counts=True)
        assert values.tolist() == list(range(7))
        assert counts / 30_000 == pytest.approx(1 / 7, abs=5 * (6 / 49 / 30_000) ** 0.5)
    assert abs(np.corrcoef(many.picks[:, 0], many.picks[:, 3])[0, 1]) < 4 / 30_000**0.5
    assert (Resamples.of_seeds(7, 30_000, 3).picks == many.picks).all()
    assert not (Resamples.of_seeds(7, 30_000, 4).picks == many.picks).all()
