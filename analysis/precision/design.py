"""What a study can show, and how many seeds a difference needs, for the test that `compare` will run.

A test finds a difference that is farther from 0 than a number of standard errors. That number is its limit
(its critical value). Runs are compared by the pooled bootstrap t (`analysis.evidence.pooled`) unless another
test is named.

An arm is what is compared with another arm: a model, pretrained once or several times. The difference between two arms
has the squared error

    2 (tau^2 / R + sigma^2 / (R n))

for n fine-tuning seeds of each of an arm's R pretrainings. Each seed has one score, on a dataset or as the average of a
task; sigma is its standard deviation over seeds, tau that over pretrainings.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.evidence.contrasts import Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.intervals import POOLED, SOURCE_CELLS
from analysis.evidence.pooled import FEWEST_CELLS, FEWEST_SEEDS
from analysis.evidence.settings import Settings
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.sources import Source
from common.level import ALPHA

MOST_SEEDS = 100_000
"""Where more seeds or pretrainings than this would be needed, no number is given."""
_PAIRS = 120
"""Pairs of cells that the limit of the pooled bootstrap is simulated with, at least."""
_PAIRS_OF_SOURCE = 6
"""The most of them that are of one simulated source."""
# Written down, since simulating them takes seconds and most plans are at this level.
_WIDENING = (
    1.08359042,
    1.03463420,
    1.01577373,
    1.01633881,
    1.00801528,
    1.00846678,
    1.00745216,
    1.00691622,
    1.00578733,
    1.00531355,
    1.00510985,
    1.00486909,
    1.00591768,
    1.00434916,
    1.00449517,
    1.00161646,
    1.00260701,
    1.00512000,
    1.00317715,
    1.00274833,
    1.00623962,
    1.00166978,
    1.00354764,
)
"""`simulated_widening` of all cells of a source at a level of 0.05, from `FEWEST_SEEDS` seeds on; 1 after the last."""
POWER = 0.8
"""The wanted chance to find a difference."""


@dataclass(frozen=True, kw_only=True)
class PlannedStudy:
    """The design of a comparison of two arms."""

    seeds: int = N_SEEDS
    """Fine-tuning seeds of each pretraining."""
    pretrainings: int = 1
    """Pretrainings of each arm; if several, they are the units of the test."""
    pretraining_sd: float = 0.0
    """Spread between pretrainings, in points; 0: the study is about these alone."""
    tests: int = 1
    """Tests that Holm's adjustment covers."""


@dataclass(frozen=True, kw_only=True)
class AssumedSpread:
    """What moves the scores of a dataset or a task average."""

    sd: float
    """Standard deviation of a score over fine-tuning seeds, in points: the median over the cells of a source."""
    cells: int = SOURCE_CELLS
    """Cells of a source whose seeds do not all agree; with too few, Welch's t replaces the pooled bootstrap."""


class PlannedTest(NamedTuple):
    """A two-sided t test of a difference."""

    name: str
    parts: npt.NDArray[np.float64]
    """(n, 3) the squared error as a sum: in each row a variance, the degrees of freedom of its estimate (infinite where
    it is known), and how many times it is in the sum, with an independent estimate each time."""
    alpha: float = ALPHA
    """Level of the test."""
    wider: float = 1.0
    """The test's limit as a multiple of that of Student's t; above 1 for the pooled bootstrap t."""

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.parts[:, 2] @ self.parts[:, 0])

    @property
    def limit(self) -> float:
        """How many standard errors a difference has to be from 0 to be found: the test's critical value.

        A test has to estimate its degrees of freedom, and on average finds too few: for five seeds of each of two
        models 6.7 in place of 8. Its limit follows from the estimated ones.
        """
        variance, freedom, count = self.parts.T
        # Satterthwaite's degrees of freedom are the squared variance of the whole over the sum of these.
        uncertain = count * variance**2 / freedom
        mean_freedom = math.inf
        if uncertain.any():
            # With estimated variances, both sides of that fraction are larger on average. An estimate of the
            # variance v with f degrees of freedom has itself the variance 2 v^2 / f, and its square the mean
            # v^2 (1 + 2 / f). Above the line: the squared variance of the whole, plus the variance of its
            # estimate. Since the estimates are independent, that is the sum of all 2 v^2 / f, twice the sum
            # of `uncertain`.
            mean_of_square = self.error**4 + 2 * uncertain.sum()
            # Below the line: every v^2 of `uncertain` is replaced by the mean of its estimate's square.
            mean_of_uncertain = (uncertain * (1 + 2 / freedom)).sum()
            mean_freedom = mean_of_square / mean_of_uncertain

        quantile = special.stdtrit(mean_freedom, 1 - self.alpha / 2)
        return float(self.wider * quantile)

    def power(self, effect: float) -> float:
        """Return the chance that the test finds a difference of `effect`; 1 without any error.

        The statistic is a noncentral t with Satterthwaite's degrees of freedom.
        """
        if self.error == 0:
            return 1.0
        variance, freedom, count = self.parts.T
        # Satterthwaite's degrees of freedom are the squared variance of the whole over this sum.
        uncertain = float((count * variance**2 / freedom).sum())
        satterthwaite = self.error**4 / uncertain if uncertain else math.inf
        shift = effect / self.error

        # scipy gives the chance to be below a value. The chance to be above the limit, on the effect's side,
        # is therefore that of the mirrored statistic, with `-shift`, to be below the mirrored limit. With
        # `shift` it is the chance to be beyond the limit on the other side, where scipy sometimes gives nan
        # for a tail below 1e-7.
        tails = special.nctdtr(satterthwaite, [-shift, shift], -self.limit)
        return float(np.nansum(tails))

    def detectable(self, power: float = POWER) -> float:
        """Return the difference that the test finds with a power of `power`, which must be above its level."""
        from scipy import optimize  # takes longer to import than a plan to make

        # Power rises with the difference: doubling finds one that is large enough; the smallest lies below it.
        large = self.error
        while self.power(large) < power:
            large *= 2
        if not large:  # without any error, every difference is found
            return 0.0
        smallest = optimize.brentq(lambda effect: self.power(effect) - power, 0, large)
        return float(smallest)


def seeds_needed(
    effect: float,
    error: float,
    seeds: int,
    *,
    paired: bool = False,
    alpha: float = ALPHA,
) -> int | None:
    """Return how many seeds of each model a difference needs, to be found with a power of 0.8; None above `MOST_SEEDS`.

    Args:
        effect: the difference, in points.
        error: the standard error of the difference with `seeds` seeds of each model.
        seeds: the number of seeds that `error` is for.
        paired: whether the difference is taken within each seed (Student's t) or between models (Welch's).
        alpha: level of the test.
    """
    # The squared error is `means` times the variance of one seed over `seeds`; paired differences have a single mean.
    means = 1 if paired else 2
    variance = error**2 * seeds / means

    def power_at(count: int) -> float:
        # A row of `PlannedTest.parts`: a variance, its degrees of freedom, and how many times it is in the
        # sum.
        parts = np.array([(variance / count, count - 1, means)])
        # Without a name, which the power does not depend on.
        return PlannedTest("", parts, alpha).power(effect)

    # From two seeds on: a single one has no degrees of freedom.
    return fewest(power_at, POWER, 2)


def fewest(power_at: Callable[[int], float], power: float, least: int) -> int | None:
    """Return the smallest number of seeds or pretrainings, from `least` on, that has so much power.

    None if `MOST_SEEDS` have less.
    """
    # `least` is asked for by itself: two pretrainings can have less power than one, whose spread has to be given and is
    # taken as known. From two on, power rises, and the first number that has enough is found by bisection.
    if power_at(least) >= power:
        return least
    counts = range(least + 1, MOST_SEEDS + 1)
    position = bisect_left(counts, True, key=lambda count: power_at(count) >= power)
    return counts[position] if position < len(counts) else None


def planned_test(study: PlannedStudy, spread: AssumedSpread) -> PlannedTest:
    """Return the test of the difference between two scores that have this spread.

    Of several pretrainings, each counts once, with the mean of its seeds. Of several tests, the one with the smallest p
    is planned: its p has to be below 0.05 over the number of tests.
    """
    seeds, pretrainings = study.seeds, study.pretrainings
    # Holm's adjustment compares the smallest p with the level over the number of tests.
    alpha = ALPHA / study.tests

    # The variances that pretrainings and seeds give to an arm's mean.
    by_pretraining = study.pretraining_sd**2 / pretrainings
    by_seed = spread.sd**2 / (pretrainings * seeds)

    # Rows of `PlannedTest.parts`: a variance, its degrees of freedom, and 2 where each arm has an estimate of it.
    if pretrainings > 1:
        of_arm = (by_pretraining + by_seed, pretrainings - 1, 2)
        return PlannedTest("over pretrainings", np.array([of_arm]), alpha)

    of_seeds = (by_seed, seeds - 1, 2)
    # With one pretraining of each arm, the spread between pretrainings cannot be estimated: the given one is taken as
    # known, for both arms together.
    of_pretrainings = (2 * by_pretraining, math.inf, 1)
    parts = np.array([of_seeds, of_pretrainings])
    if spread.cells < FEWEST_CELLS or seeds < FEWEST_SEEDS:
        return PlannedTest("Welch", parts, alpha)
    cells = min(spread.cells, SOURCE_CELLS)
    wider = _widening(seeds, cells, alpha)
    return PlannedTest(POOLED.name, parts, alpha, wider)


def _widening(seeds: int, cells: int, alpha: float) -> float:
    """Return the limit of the pooled bootstrap t as a multiple of Student's, for scores normal over seeds.

    With five seeds of 46 cells it is 3 % larger at a level of 0.05, and 8 % at 0.05 / 12.

    Args:
        seeds: seeds of each cell; `FEWEST_SEEDS` or more, since fewer get Welch's t (`planned_test`).
        cells: cells of the dataset, whose residuals are pooled.
        alpha: level of the test.
    """
    index = seeds - FEWEST_SEEDS
    # With so many seeds, the two limits are as good as equal.
    if index >= len(_WIDENING):
        return 1.0
    if (cells, alpha) == (SOURCE_CELLS, ALPHA):
        return _WIDENING[index]
    return simulated_widening(seeds, cells, alpha)


@cache
def simulated_widening(seeds: int, cells: int, alpha: float) -> float:
    """Return `_widening` from simulated seeds: the mean limit of the bootstrap, divided by that of Welch's t.

    Sources are simulated. The cells of each are of one dataset, with a true difference of 0 between any two.
    Pairs of cells are compared as `compare` would.
    """
    limits = []
    models = [str(number) for number in range(cells)]
    # The names of task and dataset do not matter, only that all cells have the same.
    keys = [(model, "SC", "planned") for model in models]
    index = pd.MultiIndex.from_tuples(keys, names=["model", "task", "dataset"])

    # The cells of a source share one pool of residuals, which moves all their limits by a common error (1.4 %
    # of a limit). It averages out only over sources, so that few pairs of each are taken.
    pairs = min(cells // 2, _PAIRS_OF_SOURCE)
    for source in range(math.ceil(_PAIRS / pairs)):
        generator = np.random.default_rng([seeds, cells, source])
        scores = generator.standard_normal((cells, seeds))
        values = pd.DataFrame(scores, index=index)

        # Settings that name no interval have the one of runs by default, the pooled bootstrap t. The seed is
        # that of its resampling, so that no two sources share draws.
        evidence = Evidence(Settings(seed=source), values=values)

        # Each cell is in only one pair, so that the limits of a source share nothing but the pool.
        for pair in range(pairs):
            first, second = models[2 * pair], models[2 * pair + 1]
            terms = [
                Term(weight=1.0, model=first, task="SC", dataset="planned"),
                Term(weight=-1.0, model=second, task="SC", dataset="planned"),
            ]
            estimated = evidence.estimate(terms)
            assert estimated is not None
            estimate = estimated.estimate
            _, high = estimate.interval(1 - alpha)

            # The half-width in standard errors is the limit of a test at this level.
            limits.append((high - estimate.effect) / estimate.error)

    # Welch's t between two models of so many seeds. Its limit does not depend on the variance, which is set
    # to 1.
    welch = PlannedTest("Welch", np.array([(1.0, seeds - 1, 2)]), alpha)
    return float(np.mean(limits)) / welch.limit


def seed_spreads(source: Source) -> Iterator[tuple[tuple[str, str], AssumedSpread]]:
    """Yield each task and dataset (or `average`) of which a source has a cell with two seeds, and the spread there."""
    # Standard deviations over seeds, one a cell.
    if source.is_published:
        # The printed half-width is 1.96 sd / sqrt(5).
        halves = published_values().set_index(["task", "dataset"])["ci95"]
        sds = halves / NORMAL_QUANTILE * math.sqrt(N_SEEDS)
    else:
        values = source.evidence(Settings()).values
        n_seeds = values.notna().sum(axis=1)
        sds = values[n_seeds >= 2].std(axis=1)

    for key, spreads in sds.groupby(level=["task", "dataset"]):
        task, name = cast("tuple[str, str]", key)
        # A cell whose seeds all agree lends the pooled bootstrap no residuals. A printed spread of 0 may be rounded, so
        # that all printed cells count.
        cells = spreads.size if source.is_published else int((spreads > 0).sum())
        spread = AssumedSpread(sd=float(spreads.median()), cells=cells)
        yield (str(task), str(name)), spread
