"""Seeds crossed with test instances, or with clusters of them: the error of a mean over both at once.

Instances of one cluster (the questions of one passage) are right or wrong together, so clusters are what is sampled:
a cluster contributes its sum, and the degrees of freedom count clusters. Runs are paired if they are tested on the same
instances. Those of NQ are not: its split differs run by run. All functions are pure but for the reading of the
instances (`InstanceCovariance.of`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.records import records
from analysis.statistics.estimates import Student, quantile
from analysis.statistics.learning_rate_selection import MEMBERS
from analysis.store.instances import read_clusters, read_instances
from analysis.store.stand_ins import RECORDED_AS
from benchmarks.protocol import DATASETS, in_order, is_paired
from common.level import LEVEL
from common.progress import progress

logger = logging.getLogger(__name__)

Array = npt.NDArray[np.float64]
Clusters = npt.NDArray[np.int64]
"""The cluster of each instance, as a number."""
Weighted = tuple[float, str, str]
"""A weight, a model and a dataset."""

_ADDED = 2
"""Clusters that are added at each limit of the scores where the interval would leave them: half the square of 1.96, as
Agresti and Coull (1998) add."""
_MANY = 1e9
"""Degrees of freedom that stand for infinitely many."""


def cluster_sums(values: Array, clusters: Clusters) -> Array:
    """Return the sums over the instances of each cluster.

    Args:
        values: (..., n_instances).
        clusters: (n_instances,) labels, in any order.

    Returns:
        (..., n_clusters), clusters in the order of their labels.

    >>> scores = np.array([1.0, 0.0, 1.0, 1.0])
    >>> cluster_sums(scores, np.array([7, 7, 9, 9]))
    array([1., 2.])
    """
    # With its instances side by side, a cluster is what lies between two starts.
    order = np.argsort(clusters, kind="stable")
    _, starts = np.unique(clusters[order], return_index=True)
    sums: Array = np.add.reduceat(values[..., order], starts, axis=-1)
    return sums


def covariance_of_means(
    scores: Array, clusters: Clusters | None = None, *, paired: bool = True
) -> Array:
    """Return the covariance of runs' mean scores over samples of test instances.

    It is what a bootstrap over clusters would estimate by drawing; for means no drawing is needed. A residual is an
    instance's score less the run's mean. The sum of a cluster's residuals is divided by the root of 1 minus the
    cluster's share of the instances (CR2; Bell and McCaffrey 2002), so that the covariance is unbiased for independent
    instances and few clusters.

    Args:
        scores: (n_runs, n_instances).
        clusters: (n_instances,) labels; None: each instance stands for itself.
        paired: whether a column of `scores` is the same instance in every run.

    Returns:
        (n_runs, n_runs), diagonal where runs are not paired; zero for a single cluster, which says nothing.

    >>> scores = np.array([[1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]])
    >>> covariance_of_means(scores)
    array([[0.0625    , 0.04166667],
           [0.04166667, 0.08333333]])
    """
    count = scores.shape[1]
    # Without clusters, each instance is one of size 1, whose sum is its own residual.
    sums = scores - scores.mean(axis=1, keepdims=True)
    sizes = np.ones(count)
    if clusters is not None:
        sums, sizes = cluster_sums(sums, clusters), cluster_sums(sizes, clusters)
    if len(sizes) < 2:
        return np.zeros((len(scores), len(scores)))

    # Divided by the number of instances, since the covariance is of means.
    sums = sums / (count * np.sqrt(1 - sizes / count))
    # NQ is halved anew for every run, so that no two runs share a sample of queries.
    if not paired:
        return np.diag((sums**2).sum(axis=1))

    # Rounded, so that matrix products of all machines agree.
    covariance: Array = np.round(sums @ sums.T, 16)
    return covariance


def freedom_of(clusters: Clusters | int) -> float:
    """Return the degrees of freedom of a variance over clusters (Bell and McCaffrey 2002).

    For equal clusters they are one less than the clusters, for unequal ones still fewer: they are Satterthwaite's for
    instances that agree within their clusters, so that the large clusters decide.

    Args:
        clusters: (n_instances,) labels, or the number of instances that stand for themselves.

    Returns:
        At least 1; of a single cluster, which has no variance, 1.

    >>> freedom_of(872)
    871.0
    >>> round(freedom_of(np.array([0, 0, 0, 0, 1, 2])), 2)  # a large cluster, two small ones
    1.25
    """
    if isinstance(clusters, int):
        return max(float(clusters - 1), 1.0)
    _, sizes = np.unique(clusters, return_counts=True)
    shares = sizes / len(clusters)
    if len(shares) < 2:
        return 1.0

    # The variance is a sum over clusters: weight x (the cluster's mean - the mean of all)^2. By CR2, which
    # divides a cluster's squared deviation by 1 less its share, the weights are:
    weights = shares**2 / (1 - shares)
    # With p for a cluster's share and S for the sum of all p^2, the deviations in brackets have the covariance
    # S - p_i - p_j of two clusters and 1 + S - 2 p_i of one, if the means of clusters are independent and vary alike.
    # Satterthwaite's degrees of freedom are trace(WC)^2 / trace(WCWC), for the weights W and these covariances C.
    squares = float((shares**2).sum())
    diagonal = weights * (1 - 2 * shares + squares)
    trace = float(diagonal.sum())

    # trace(WCWC) is the sum of w_i w_j C_ij^2 over all pairs of clusters. It is first computed as if every
    # C_ij were S - p_i - p_j. The sum of w_i w_j (S - p_i - p_j)^2 is multiplied out, so that no matrix of
    # pairs is needed. With A, B and D for the sums of w, of w p and of w p^2, it is
    # 2 D A + 2 B^2 + S^2 A^2 - 4 S B A.
    of_weights = float(weights.sum())
    of_shares = float((weights * shares).sum())
    of_squares = float((weights * shares**2).sum())
    pairs = 2 * of_squares * of_weights + 2 * of_shares**2
    pairs += squares**2 * of_weights**2
    pairs -= 4 * squares * of_shares * of_weights

    # Then, for each cluster paired with itself, the term w_i^2 (S - 2 p_i)^2 of that sum is replaced by the
    # true one, w_i^2 (1 + S - 2 p_i)^2.
    self_pairs = weights * (squares - 2 * shares)
    trace_of_square = float((diagonal**2 - self_pairs**2).sum()) + pairs
    return trace**2 / trace_of_square


def crossed_variance(
    values: Array, covariance: Array, freedom: float = math.inf
) -> tuple[float, float, float]:
    """Return the variance of a mean over seeds and test instances together, crossed random factors.

    The variance of the mean has two parts. S^2 / n, with S^2 the variance over the n seeds, holds what differs between
    seeds: their own effect and their interaction with the instances. The covariance between seeds over samples of the
    instances is what all seeds have in common because they share the test instances. Adding the variance of the mean
    itself over such samples would count the interaction twice. Where runs are not paired by instance (NQ) that
    covariance is zero, and S^2 / n holds the instances already.

    Args:
        values: (n_seeds,) a score or contrast of each seed, on the test set as it is; two or more.
        covariance: (n_seeds, n_seeds) of the seeds over samples of the instances.
        freedom: degrees of freedom of the covariance (`freedom_of`).

    Returns:
        The seeds' part, the instances' part, and Satterthwaite's degrees of freedom of their sum.

    >>> seeds = np.array([90.0, 91.0, 92.0])
    >>> shared = np.full((3, 3), 0.25)
    >>> [round(part, 3) for part in crossed_variance(seeds, shared)]
    [0.333, 0.25, 6.125]
    """
    count = len(values)
    over_seeds = float(values.var(ddof=1)) / count
    # Without the diagonal: the covariance of a seed with itself is already in the variance over seeds.
    between = float(covariance.sum() - np.trace(covariance))

    # The mean over pairs of seeds. An estimated covariance can be below 0, a part of a variance cannot.
    over_instances = max(0.0, between / (count * (count - 1)))
    total = over_seeds + over_instances

    # Satterthwaite's formula, with shares of the total: squares of small variances would be below the
    # smallest float. Where both parts are 0, any total but 0 lets the share be computed: it is 0.
    share = over_seeds / (total or 1.0)
    uncertain = share**2 / (count - 1) + (1 - share) ** 2 / freedom
    df = 1 / uncertain if uncertain else math.inf
    return over_seeds, over_instances, df


@dataclass(frozen=True, kw_only=True)
class BoundedStudent(Student):
    """An estimate of a score that has limits, such as 0 and 100 %.

    Near a limit, the error of a score depends on the score: of a lucky test set it is smaller than of an unlucky one.
    Student's interval takes the error as given. Wilson's score interval (1927), with the effective sample size that the
    error stands for, takes for each possible mean the error that it would have. Where Student's would leave the limits,
    the error itself cannot be believed, since all instances, or nearly all, have the same score. There two clusters are
    added at each limit (Agresti and Coull 1998).
    """

    limits: tuple[float, float]
    """The least and the largest score."""
    centre: float | None = None
    """The middle of Student's interval where clusters were added at the limits; None: the interval is Wilson's."""

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Two-sided interval, within the limits."""
        half = quantile(self.df, level) * self.error
        low, high = self.limits
        if self.centre is not None:
            return max(self.centre - half, low), min(self.centre + half, high)

        # A score varies like a share: the variance of a mean m is proportional to (m - low) (high - m). Wilson's
        # interval holds every m that is at most as far from the effect as its own half-width. Its ends are the two
        # solutions of (effect - m)^2 = ratio (m - low) (high - m).
        # The room is not 0: an effect at a limit has a `centre`, for which the interval was returned above.
        # The error stands for an effective size: its square is the room over that size.
        room = (self.effect - low) * (high - self.effect)
        ratio = half**2 / room  # squared quantile over effective size

        # By powers of m: (1 + ratio) m^2 - 2 pulled m + effect^2 + ratio low high = 0. The middle between its
        # solutions is pulled / (1 + ratio). Their squared distance from the middle is, simplified,
        # (ratio room + at_middle) / (1 + ratio)^2.
        pulled = self.effect + ratio * (low + high) / 2  # towards the middle
        at_middle = (ratio * (high - low) / 2) ** 2
        centre = pulled / (1 + ratio)
        half_width = math.sqrt(ratio * room + at_middle) / (1 + ratio)
        return centre - half_width, centre + half_width


def crossed_estimate(
    values: Array,
    covariance: Array,
    freedom: float = math.inf,
    *,
    limits: tuple[float, float] | None = None,
) -> Student:
    """Return the mean of a contrast over seeds, with the error over seeds and test instances together.

    Args:
        values: (n_seeds,) contrast within each seed, on the test set as it is; two or more.
        covariance: (n_seeds, n_seeds) of the same over samples of the instances (see `crossed_variance`).
        freedom: degrees of freedom of the covariance.
        limits: least and largest score, if the contrast is a score; None for a difference, which is far from its own.

    >>> differences = np.array([1.0, 2.0, 3.0])
    >>> estimate = crossed_estimate(differences, np.full((3, 3), 0.25), freedom=871)
    >>> low, high = estimate.interval()
    >>> f"{estimate.effect} [{low:.2f}, {high:.2f}]"
    '2.0 [0.14, 3.86]'
    """
    effect = float(values.mean())
    over_seeds, over_instances, df = crossed_variance(values, covariance, freedom)
    centre = None
    if limits is not None:
        low, high = limits
        half = quantile(df, LEVEL) * math.sqrt(over_seeds + over_instances)
        # Where Student's interval would reach or leave the limits, clusters are added (`BoundedStudent`). Error,
        # degrees of freedom and the middle of the interval are then those with added clusters; the effect
        # stays that of the scores.
        if effect - half <= low or effect + half >= high:
            values, covariance, freedom = _with_added(
                values, covariance, freedom, limits
            )
            over_seeds, over_instances, df = crossed_variance(
                values, covariance, freedom
            )
            centre = float(values.mean())

    variance = over_seeds + over_instances
    share = over_instances / variance if variance > 0 else 0.0
    error = math.sqrt(variance)
    if limits is None:
        return Student(effect=effect, error=error, df=df, instance_share=share)
    return BoundedStudent(
        effect=effect,
        error=error,
        df=df,
        instance_share=share,
        limits=limits,
        centre=centre,
    )


def _with_added(
    values: Array, covariance: Array, freedom: float, limits: tuple[float, float]
) -> tuple[Array, Array, float]:
    """Return the arguments of `crossed_variance` with `_ADDED` more clusters at each limit, all of the mean size."""
    low, high = limits
    # Equal clusters have one degree of freedom fewer than there are clusters.
    count = min(freedom, _MANY) + 1
    total = count + 2 * _ADDED
    means = (count * values + _ADDED * (low + high)) / total

    # For every pair of seeds, the sum over clusters of the products of both seeds' deviations from their new means. The
    # old clusters give their sum about the old means, which the covariance is made of, and the shift of the means.
    products = count * (count - 1) * covariance
    shift = values - means
    products = products + count * np.outer(shift, shift)

    # Each added cluster is at a limit.
    below, above = means - low, high - means
    at_limits = np.outer(below, below) + np.outer(above, above)
    products = products + _ADDED * at_limits

    # From the sum of products back to the covariance of means, by the new number of clusters. Each added
    # cluster is one more degree of freedom.
    return means, products / (total * (total - 1)), freedom + 2 * _ADDED


def _note_single_instances(datasets: Iterable[str]) -> None:
    """Warn of datasets whose instances may come in clusters that no run names."""
    names = []
    for name in datasets:
        # It is known which of the paper's datasets come in clusters; any other dataset may.
        if name not in DATASETS or DATASETS[name].cluster:
            names.append(name)
    if names:
        logger.warning(
            "%s: the runs do not record which test instances share a passage, premise or document, so instances are "
            "treated as independent; if some are related, intervals over instances are too narrow (docs/claims.md)",
            ", ".join(names),
        )


@dataclass(frozen=True, kw_only=True)
class InstanceCovariance:
    """The covariances between the chosen runs of every dataset, by its name."""

    _matrices: dict[str, Array]
    """(n_runs, n_runs), in squared points."""
    _freedoms: dict[str, float]
    """Degrees of freedom of each matrix."""
    _row_of: dict[str, dict[tuple[str, int], int]]
    """From a run's model and seed to its row in the matrix."""

    @classmethod
    def of(cls, chosen: pd.DataFrame, instances: Path) -> InstanceCovariance:
        """Read the instances of the chosen runs, one dataset after another, and keep only the covariances."""
        matrices: dict[str, Array] = {}
        freedoms: dict[str, float] = {}
        row_of: dict[str, dict[tuple[str, int], int]] = {}
        without_clusters = []

        # One dataset's instances are in memory at a time.
        datasets = in_order(chosen["dataset"])
        for dataset in progress(datasets, "covariances over instances", unit="dataset"):
            rows = chosen[chosen["dataset"] == dataset]
            if MEMBERS in rows:
                # A row may be a mean of runs: each of its runs is read, and the mean is taken for every instance.
                runs, weights = _runs_of(rows)
                scores = weights @ read_instances(instances, dataset, runs)
            else:
                runs = rows
                scores = read_instances(instances, dataset, runs)

            clusters = read_clusters(instances, dataset, runs)
            covariance = covariance_of_means(
                scores, clusters, paired=is_paired(dataset)
            )

            # Scores of instances are from 0 to 1; the covariance is in squared points.
            matrices[dataset] = 1e4 * covariance
            if clusters is None:
                without_clusters.append(dataset)
                _, n_instances = scores.shape
                freedoms[dataset] = freedom_of(n_instances)
            else:
                freedoms[dataset] = freedom_of(clusters)

            row_of[dataset] = {}
            for row, key in enumerate(records(rows, "model", "seed")):
                row_of[dataset][key] = row

        _note_single_instances(without_clusters)
        return cls(_matrices=matrices, _freedoms=freedoms, _row_of=row_of)

    def between_seeds(
        self, parts: Sequence[Weighted], seeds: Sequence[int]
    ) -> tuple[Array, float] | None:
        """Return the covariance between seeds of a weighted sum of scores, in squared points.

        Args:
            parts: weights with their models and datasets.
            seeds: the seeds, within each of which the sum is taken.

        Returns:
            (n_seeds, n_seeds), and the degrees of freedom of the variance that the seeds have in common:
            Satterthwaite's over the datasets, infinite where nothing is in common. None when a run's instances are not
            known.
        """
        size = len(seeds)
        covariance = np.zeros((size, size))
        variances = []

        # Datasets share no instance, so that their covariances add up.
        for dataset in dict.fromkeys(name for _, _, name in parts):
            models, model_weights = [], []
            for weight, model, name in parts:
                if name == dataset:
                    models.append(model)
                    model_weights.append(weight)

            row_of = self._row_of.get(dataset, {})
            # All seeds of a model before those of the next, as the shape of `blocks` has them.
            keys = [(model, seed) for model in models for seed in seeds]
            if any(key not in row_of for key in keys):
                return None
            rows = np.array([row_of[key] for key in keys])
            weights = np.array(model_weights)
            matrix = self._matrices[dataset][np.ix_(rows, rows)]
            blocks = matrix.reshape(len(models), size, len(models), size)

            # Summed over pairs of models (i, j) with both weights, for every pair of seeds (k, l).
            block = np.einsum("i,ikjl,j->kl", weights, blocks, weights)
            covariance = covariance + block

            # Different seeds only, as in `crossed_variance`. Here the sum over pairs of seeds stands for
            # their mean: a common factor of all datasets does not change Satterthwaite's degrees of freedom.
            between = max(0.0, float(block.sum() - np.trace(block)))
            variances.append((between, self._freedoms[dataset]))

        return covariance, _satterthwaite(variances)

    def between_cells(self, parts: Sequence[Weighted]) -> tuple[float, float] | None:
        """Return the variance over test instances of a weighted sum of models' means whose seeds are not paired.

        The variance of a run by itself is left out, since the spread between the model's seeds contains it. A model
        with a single run has no such spread, so there the run's own variance counts.

        Args:
            parts: weights with their models and datasets.

        Returns:
            The variance in squared points and Satterthwaite's degrees of freedom; None where a model has no runs whose
            instances are known.
        """
        # By dataset, then by model: a model that occurs several times has the sum of its weights.
        weights: dict[str, dict[str, float]] = {}
        for weight, model, dataset in parts:
            of_models = weights.setdefault(dataset, {})
            of_models[model] = of_models.get(model, 0.0) + weight

        variances = []
        for dataset, of_models in weights.items():
            rows: dict[str, list[int]] = {name: [] for name in of_models}
            for (model, _), row in self._row_of.get(dataset, {}).items():
                if model in rows:
                    rows[model].append(row)

            if not all(rows.values()):
                return None
            total = 0.0

            # For every pair of models, the mean covariance between a run of one and a run of the other.
            for first, second in product(of_models, repeat=2):
                block = self._matrices[dataset][np.ix_(rows[first], rows[second])]
                covariances, count = float(block.sum()), block.size
                # Of one model's runs, only pairs of different runs.
                if first == second and len(block) > 1:
                    covariances = float(block.sum() - np.trace(block))
                    count = block.size - len(block)
                total += of_models[first] * of_models[second] * covariances / count

            # Estimated covariances may add up to less than 0, a variance cannot be.
            variances.append((max(0.0, total), self._freedoms[dataset]))

        # Datasets share no instance, so that their variances add up.
        whole = sum(variance for variance, _ in variances)
        return whole, _satterthwaite(variances)


def run_key(runs: pd.DataFrame) -> list[str]:
    """Return the columns by which the instances of a run are found.

    >>> run_key(pd.DataFrame(columns=["model", "lr", "seed", "test_score"]))
    ['model', 'lr', 'seed']
    """
    columns = ["model", "lr", "seed"]
    # A stand-in's runs are stored under the name that it was trained by.
    if RECORDED_AS in runs:
        columns.append(RECORDED_AS)
    return columns


def _satterthwaite(variances: Sequence[tuple[float, float]]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of independent variances, each given with its own.

    They are infinite where all variances are 0, and the same for any common multiple of the variances.
    """
    squares = sum(variance**2 / freedom for variance, freedom in variances)
    if squares == 0:
        return math.inf
    total = sum(variance for variance, _ in variances)
    return total**2 / squares


def _runs_of(rows: pd.DataFrame) -> tuple[pd.DataFrame, Array]:
    """Return the runs whose means some rows are, and the weight of each run in each row's mean: (n_rows, n_runs)."""
    names = run_key(rows)
    runs: list[tuple[object, ...]] = []
    counts = []
    for members, key in zip(rows[MEMBERS], records(rows, *names), strict=True):
        # A list has the key of each run that the row is the mean of, in the order of `names`. Where the row is itself
        # a run, `members` is nan.
        runs_of_row = members if isinstance(members, list) else [key]
        runs += runs_of_row
        counts.append(len(runs_of_row))

    # 1 where a run is one of a row's, else 0: in the identity matrix, the column of each row is repeated for its runs.
    is_of_row = np.repeat(np.eye(len(rows)), counts, axis=1)
    weights = is_of_row / is_of_row.sum(axis=1, keepdims=True)
    return pd.DataFrame(runs, columns=names), weights
