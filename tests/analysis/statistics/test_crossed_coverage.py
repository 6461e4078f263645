"""Right and wrong answers from known chances: crossed intervals hold the truth where clusters or limits matter."""

import numpy as np
import pytest
from scipy import special

from analysis.statistics.crossed import (
    covariance_of_means,
    crossed_estimate,
    freedom_of,
)
from analysis.statistics.estimates import LIMITS


@pytest.mark.parametrize(
    ("sizes", "right", "instance", "cluster"),
    [((20,) * 40, 0.85, 1.2, 1.0), ((1,) * 43, 0.97, 4.0, 0.0)],
    ids=[
        "40 clusters of 20 that are right together",
        "43 instances near 100 % on which seeds agree",
    ],
)
def test_crossed_interval_with_clusters_holds_a_score(
    sizes: tuple[int, ...], right: float, instance: float, cluster: float
) -> None:
    """Standard deviations of what all runs share on an instance and in a cluster; a single answer's own is 1."""
    rng, trials = np.random.default_rng([1, len(sizes)]), 300
    labels = np.repeat(np.arange(len(sizes)), sizes)
    middle = np.sqrt(1 + instance**2 + cluster**2) * special.ndtri(right)
    held = np.zeros(2)
    for _ in range(trials):
        ease = (
            instance * rng.normal(size=len(labels))
            + cluster * rng.normal(size=len(sizes))[labels]
        )
        scores = 100.0 * (middle + ease + rng.normal(size=(5, len(labels))) > 0)
        means = scores.mean(axis=1)
        alone = crossed_estimate(means, covariance_of_means(scores))
        crossed = crossed_estimate(
            means,
            covariance_of_means(scores, labels),
            freedom_of(labels),
            limits=LIMITS,
        )
        ends = np.array([alone.interval(), crossed.interval()])
        held += (ends[:, 0] - 1e-9 <= 100 * right) & (100 * right <= ends[:, 1] + 1e-9)
    assert held[0] / trials < 0.82 and held[1] / trials > 0.91
