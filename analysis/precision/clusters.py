"""Coverage over test instances: clusters that are right or wrong together, and few instances near 100 %.

    clm-or-mlm coverage --clusters

Right and wrong answers of two models and five seeds are drawn from a known chance, instance by instance, so that the
whole way from scores to a crossed interval is tried, and not a normal limit of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.precision.coverage import holding
from analysis.published_cells import N_SEEDS
from analysis.statistics.crossed import LIMITS, Clusters, covariance_of_means, crossed_estimate, freedom_of
from common.progress import progress
from common.registry import Registry
from common.tables import Document, Grid

__all__ = ["TEST_SETS", "TestSet", "clusters_document", "simulate_clusters"]

Array = npt.NDArray[np.float64]

_GAP = 0.02
"""How much less likely the second model is right."""
_MODEL, _SEED = 0.5, 0.05
"""Standard deviations of what a model's runs have in common on an instance, and of a seed; what is left to a single
answer has 1."""


@dataclass(frozen=True, kw_only=True)
class TestSet:
    """Instances, their clusters, and how likely the better model is right."""

    __test__ = False  # a test set, not a set of tests
    name: str
    sizes: tuple[int, ...]
    """Instances of each cluster."""
    right: float
    """Chance of a right answer over all instances and seeds."""
    instance: float = 1.2
    """Standard deviation of what all runs have in common on an instance."""
    cluster: float = 0.0
    """Standard deviation of what all instances of a cluster have in common, for all models; a model's own is half."""

    @property
    def clusters(self) -> Clusters:
        """(n_instances,) labels."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def draw(self, rng: np.random.Generator) -> Array:
        """Return right (1) and wrong (0) answers of both models, (2, N_SEEDS, n_instances)."""
        labels, count = self.clusters, sum(self.sizes)
        scale = float(np.sqrt(1 + self.instance**2 + _MODEL**2 + _SEED**2 + 1.25 * self.cluster**2))
        middle = scale * special.ndtri(np.array([self.right, self.right - _GAP]))
        ease = (
            self.instance * rng.normal(size=count) + self.cluster * rng.normal(size=len(self.sizes))[labels]
        )
        own = _MODEL * rng.normal(size=(2, count))
        own += self.cluster / 2 * rng.normal(size=(2, len(self.sizes)))[:, labels]
        seeds = _SEED * rng.normal(size=(2, N_SEEDS, 1))
        noise = rng.normal(size=(2, N_SEEDS, count))
        latent: Array = middle[:, None, None] + ease + own[:, None] + seeds + noise
        return (latent > 0).astype(np.float64)


_UNEQUAL = tuple(int(size) for size in np.random.default_rng(0).geometric(1 / 9, size=100))
"""As many questions a passage as SQuAD has on average."""

TEST_SETS: Registry[TestSet] = Registry(
    "test set",
    (
        TestSet(name="872 instances", sizes=(1,) * 872, right=0.9),
        TestSet(name="200 clusters of 5", sizes=(5,) * 200, right=0.9, cluster=0.7),
        TestSet(name="50 clusters of 20", sizes=(20,) * 50, right=0.9, cluster=0.7),
        TestSet(name="50 clusters of 20, much alike", sizes=(20,) * 50, right=0.9, cluster=1.1),
        TestSet(name="100 clusters of 1 to 40", sizes=_UNEQUAL, right=0.9, cluster=0.7),
        TestSet(name="43 instances", sizes=(1,) * 43, right=0.8),
        TestSet(name="43 instances, 95 % right", sizes=(1,) * 43, right=0.95),
        TestSet(name="43 instances, 98 % right", sizes=(1,) * 43, right=0.98),
        TestSet(name="43 instances, 97 % right, seeds agree", sizes=(1,) * 43, right=0.97, instance=4.0),
    ),
)  # fmt: skip
"""The test sets, in the order in which they are listed."""


def simulate_clusters(*, trials: int, seed: int) -> pd.DataFrame:
    """Return how often intervals over seeds and instances hold the mean over both.

    Args:
        trials: simulated pairs of cells of each test set.
        seed: of the simulation.

    Returns:
        Columns `test_set, of` (`score` of the better model, or `difference`), the coverages `single` (as Student's
        interval with every instance for itself) and `crossed` (0 to 1), and `width`, the median width of the second
        over that of the first.
    """
    rows: list[dict[str, object]] = []
    for rank, test_set in enumerate(progress(TEST_SETS.values(), "test sets", unit="test set")):
        rng = np.random.default_rng([seed, rank])
        rows += _of_test_set(test_set, trials, rng)
    return pd.DataFrame(rows)


def _of_test_set(test_set: TestSet, trials: int, rng: np.random.Generator) -> list[dict[str, object]]:
    labels, count = test_set.clusters, sum(test_set.sizes)
    truths = {"score": 100 * test_set.right, "difference": 100 * _GAP}
    alone: dict[str, list[tuple[float, float]]] = {of: [] for of in truths}
    ours: dict[str, list[tuple[float, float]]] = {of: [] for of in truths}
    freedom = freedom_of(labels)
    for _ in range(trials):
        first, second = 100 * test_set.draw(rng)
        for of, scores, limits in (("score", first, LIMITS), ("difference", first - second, None)):
            means, clustered = scores.mean(axis=1), covariance_of_means(scores, labels)
            alone[of].append(crossed_estimate(means, covariance_of_means(scores)).interval())
            ours[of].append(crossed_estimate(means, clustered, freedom, limits=limits).interval())
    rows: list[dict[str, object]] = []
    for of, truth in truths.items():
        single, crossed = np.array(alone[of]), np.array(ours[of])
        true = np.full(trials, truth)
        rows.append(
            {
                "test_set": test_set.name, "n_test": count, "of": of,
                "single": holding(single, true) / trials, "crossed": holding(crossed, true) / trials,
                "width": float(np.median(np.ptp(crossed, axis=1)) / np.median(np.ptp(single, axis=1))),
            }
        )  # fmt: skip
    return rows


def clusters_document(frame: pd.DataFrame, trials: int) -> Document:
    """Return the coverages of `simulate_clusters` as a table under a sentence."""
    rows = [["test set", "of", "t, independent instances", "crossed", "width"]]
    rows += [
        [row["test_set"], row["of"], f"{100 * row['single']:.1f}", f"{100 * row['crossed']:.1f}", f"{row['width']:.2f}"]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals over {N_SEEDS} seeds and test instances, {trials:,} test sets each: "
        "Student's t with instances taken as independent, and crossed; width: median width of crossed over that of t.",
        "",
        Grid(rows),
    ]
    return Document(body=body, records=frame, digits="%.6g")
