"""What captions say about coverage; that the file behind it is what the simulation gives: `test_shapes`."""

from __future__ import annotations

import re

import pytest
from scipy import stats

from analysis.evidence.intervals import INTERVALS
from analysis.statistics.measured_coverage import SHOWN_SHAPES, coverage_words, measured_coverage, too_narrow
from tests.speed.interval_coverage import SEED_COUNTS, SHAPES


def test_every_interval_over_seeds_was_simulated_with_every_shape() -> None:
    for name, interval in INTERVALS.items():
        for shape in SHAPES:
            for count in SEED_COUNTS:
                found = measured_coverage(name, shape, count)
                assert (found is None) == (interval.needs_instances and shape != "normal")
                assert found is None or (0.4 < found[0] <= 1 and found[1] == count)
    assert set(SHOWN_SHAPES) <= set(SHAPES)


def test_a_number_of_seeds_that_was_not_simulated_gets_the_next_fewer() -> None:
    assert measured_coverage("t", "normal", 12) == measured_coverage("t", "normal", 10)
    assert measured_coverage("t", "normal", 1) is None
    assert "of the time" in coverage_words("crossed", 5) and "collapse" not in coverage_words("crossed", 5)


@pytest.mark.parametrize("n_seeds", [2, 3, 5, 8])
def test_the_papers_interval_is_too_narrow_by_what_students_distribution_says(n_seeds: int) -> None:
    """1.96 standard errors hold the mean of normal seeds as often as Student's t is within 1.96."""
    held = 100 * (2 * stats.t.cdf(1.96, n_seeds - 1) - 1)
    known = measured_coverage("paper", "normal", n_seeds)
    assert known is not None and 100 * known[0] == pytest.approx(held, abs=3)
    shown = re.fullmatch(r"covers (\d\d) %", too_narrow("paper", n_seeds))
    assert shown and int(shown[1]) == pytest.approx(100 * known[0], abs=0.5)


@pytest.mark.parametrize(
    ("interval", "n_seeds"),
    [("t", 2), ("t", 5), ("studentised", 5), ("pooled", 20), ("paper", 1), ("none", 5)],
)
def test_an_interval_that_holds_the_mean_often_enough_or_is_unknown_is_not_too_narrow(interval, n_seeds):
    assert too_narrow(interval, n_seeds) == ""


@pytest.mark.parametrize("n_seeds", [2, 5, 8, 15])
def test_students_interval_is_said_to_hold_the_mean_of_normal_seeds_in_95_percent(n_seeds: int) -> None:
    words = coverage_words("t", n_seeds)
    shown = re.fullmatch(
        rf"covers the true mean (\d\d) % of the time in simulations with {n_seeds} seeds "
        r"\((\d\d) % if one seed in ten collapses\)",
        words,
    )
    assert shown and int(shown[1]) == pytest.approx(95, abs=0.5) and 75 < int(shown[2]) < 95
    assert coverage_words("t", 1) == coverage_words("none", 5) == ""
