"""Each test and adjustment against another library, a closed form, or a simulation with a known truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from analysis.statistics.estimates import (
    Resampled,
    Student,
    every_resample,
    student_estimate,
)
from analysis.statistics.inference import (
    brown_forsythe,
    holm,
    partial_conjunction,
    region_p,
    spread_ratios,
)
from tests.analysis.simulated import two_sided, welch_of

INF = float("inf")


def test_two_one_sided_tests_are_statsmodels():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.1, 0.3, 5), rng.normal(0, 0.5, 5)
    inside, _ = region_p(student_estimate(first - second), -0.5, 0.5)
    assert inside == pytest.approx(ttost_paired(first, second, -0.5, 0.5)[0], rel=1e-9)
    inside, _ = region_p(welch_of(first, second), -0.7, 0.7)
    assert inside == pytest.approx(
        ttost_ind(first, second, -0.7, 0.7, usevar="unequal")[0], rel=1e-9
    )


def test_the_p_against_a_range_is_twice_that_of_the_nearer_end():
    for effect in (-2.0, 0.1, 0.7, 3.0):
        _, against = region_p(Student(effect=effect, error=0.4, df=7.0), -0.5, 0.5)
        # The probability of an effect as far below -0.5, or as far above 0.5.
        below, above = (
            stats.t.sf((-0.5 - effect) / 0.4, 7),
            stats.t.sf((effect - 0.5) / 0.4, 7),
        )
        assert against == pytest.approx(min(1.0, 2 * min(below, above)))


def test_equivalence_goes_with_the_90_percent_interval():
    for effect in np.linspace(-1, 1, 41):
        estimate = Student(effect=float(effect), error=0.2, df=6.3)
        low, high = estimate.interval(0.90)
        inside, _ = region_p(estimate, -0.5, 0.5)
        assert (inside <= 0.05) == (low >= -0.5 and high <= 0.5)


def test_one_sided_regions_go_with_the_95_percent_interval():
    for effect in np.linspace(-1, 1, 41):
        estimate = Student(effect=float(effect), error=0.2, df=4.0)
        low, high = estimate.interval()
        p_for, p_against = region_p(estimate, 0.0, INF)
        assert (p_for <= 0.05, p_against <= 0.05) == (low >= 0, high <= 0)
        assert region_p(estimate, -INF, 0.0) == (p_against, p_for)


def test_a_score_without_spread_decides_by_its_sign():
    flat = Student(effect=0.3, error=0.0, df=4.0)
    assert region_p(flat, 0.0, INF) == (0.0, 1.0)
    assert region_p(flat, -0.5, 0.5) == (0.0, 1.0)
    level = Student(effect=0.0, error=0.0, df=4.0)
    assert region_p(level, 0.0, INF) == (1.0, 1.0)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_multiplies_each_p_by_those_not_below_it(p_values):
    """And none is below that of a smaller p."""
    ordered = sorted(p_values)
    steps = [min(1.0, (len(ordered) - place) * p) for place, p in enumerate(ordered)]
    expected = [max(steps[: ordered.index(p) + 1]) for p in p_values]
    assert holm(p_values) == pytest.approx(expected, abs=1e-15)


def test_holm_of_a_p_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="p 2 of 3"):
        holm([0.1, float("nan"), 0.2])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.data())
def test_partial_conjunction_is_below_bonferroni(p_values, data):
    count = data.draw(st.integers(1, len(p_values)))
    p, place = partial_conjunction(p_values, count)
    assert p == min(1.0, (len(p_values) - count + 1) * sorted(p_values)[count - 1])
    assert p_values[place] == sorted(p_values)[count - 1]
    assert partial_conjunction(p_values, len(p_values))[0] == max(p_values)
    assert partial_conjunction(p_values, 1)[0] == min(
        1.0, len(p_values) * min(p_values)
    )


def test_brown_forsythe_is_anova_of_distances_to_the_median():
    rng = np.random.default_rng(4)
    first, second = rng.normal(0, 1, (4, 5)), rng.normal(3, 2, (4, 5))
    distances = [np.abs(group - np.median(group)).ravel() for group in (first, second)]
    assert brown_forsythe(first, second) == pytest.approx(
        stats.f_oneway(*distances).pvalue, rel=1e-12
    )
    assert brown_forsythe(np.ones((2, 3)), np.ones((2, 3))) == 1.0
    assert (
        brown_forsythe(first, np.ones((2, 3)))
        < 0.1
        > brown_forsythe(np.ones((2, 3)), second)
    )


def test_type_one_error_of_brown_forsythe_and_of_the_ratio():
    rng = np.random.default_rng(16)
    every = every_resample(5)

    def both(scale):
        first, second = rng.normal(0, 1, (4, 5)), rng.normal(0, scale, (4, 5))
        logs = spread_ratios(first, second, every.picks)
        drawn = np.sort(np.repeat(logs, every.counts))
        ratio = Resampled(
            effect=float(np.log(first.std(ddof=1) / second.std(ddof=1))), drawn=drawn
        )
        p = brown_forsythe(first, second)
        return p, max(p, two_sided(ratio))

    found = np.array([both(1.0) for _ in range(2_000)])
    error = 3 * np.sqrt(0.05 * 0.95 / 2_000)
    # Known to be conservative in small samples
    assert abs(np.mean(found[:, 0] <= 0.05) - 0.05) < error + 0.01
    assert np.mean(found[:, 1] <= 0.05) <= 0.05 + error
    shares = [
        np.mean([both(scale)[1] <= 0.05 for _ in range(300)])
        for scale in (1.5, 2.5, 4.0)
    ]
    assert shares[0] < shares[1] < shares[2]
