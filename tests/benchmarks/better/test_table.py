"""Intervals of the table against the package's crossed estimate and SciPy, and batches without duplicates."""

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.crossed import covariance_of_means, crossed_estimate
from tests.benchmarks.better.closing import batches
from tests.benchmarks.better.table import difference, p_of


def drawn(runs: int) -> np.ndarray:
    generator = np.random.default_rng([7, runs])
    easy = generator.normal(50, 20, 200)
    return (
        easy + generator.normal(0, 5, (runs, 200)) + generator.normal(0, 1, (runs, 1))
    )


def test_two_single_runs_are_a_paired_t_test():
    first, second = drawn(1), drawn(2)[:1]
    theirs = stats.ttest_rel(first[0], second[0])
    ours = difference(first, second)
    assert p_of(ours) == pytest.approx(theirs.pvalue, rel=1e-6)
    low, high = theirs.confidence_interval()
    assert ours.interval() == pytest.approx((low, high), rel=1e-6)


def test_seeds_against_one_run_are_the_crossed_estimate():
    first, second = drawn(3), drawn(1)
    apart = first - second
    theirs = crossed_estimate(apart.mean(axis=1), covariance_of_means(apart), 199.0)
    ours = difference(first, second)
    assert (ours.effect, ours.error, ours.df) == pytest.approx(
        (theirs.effect, theirs.error, theirs.df), rel=1e-6
    )


def test_variances_of_two_models_seeds_add_up():
    first = np.array([[10.0], [12.0], [14.0]]) + np.zeros((3, 50))
    second = np.array([[20.0], [26.0]]) + np.zeros((2, 50))
    assert difference(first, second).error == pytest.approx(np.sqrt(4 / 3 + 18 / 2))


def test_batches_hold_each_positive_once():
    rows = [
        (f"query {number}", f"document {number % 5}", "other") for number in range(40)
    ]
    order = batches(rows, seed=1, size=4)
    taken = [next(order) for _ in range(7)]  # of the first pass
    assert all(len({positive for _, positive, _ in batch}) == 4 for batch in taken)
    asked = [query for batch in taken for query, _, _ in batch]
    assert len(set(asked)) == len(asked)
