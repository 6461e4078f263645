"""The kinds of 95 % interval, each with the test of contrasts that goes with it.

A kind is added by registering an `Interval` here: scores, captions, claims, comparisons, the forks of an analysis and
the coverage simulation take it from the registry. Which to use, and what each one's true coverage is:
docs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analysis.evidence.pooled import FEWEST_SEEDS
from analysis.evidence.sample import Sample
from analysis.statistics.crossed import LIMITS, crossed_estimate
from analysis.statistics.estimates import (
    Estimate,
    Student,
    is_flat,
    seed_bootstrap,
    student_estimate,
    studentised_estimate,
)
from analysis.statistics.measured_coverage import coverage_words
from analysis.statistics.resampling import Resamples
from common.errors import UserError
from common.registry import Registry

__all__ = [
    "CROSSED", "DEFAULT_OF_CELLS", "DEFAULT_OF_RUNS", "INTERVALS", "PAPER", "POOLED", "Estimated", "Interval", "T",
    "caption_of",
]  # fmt: skip

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """An estimate, and how it came about."""

    estimate: Estimate
    interval: str
    """Name of the kind that was used, which with few seeds is not always the one asked for."""
    test: str
    """The test's name in a finding."""
    seeds: tuple[int, ...] = ()
    """The seeds that the cells share, where it is within seeds; empty: each cell's own."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A kind of 95 % interval."""

    name: str
    """What users call it, and what the column `interval` says."""
    words: str
    """As captions say it."""
    tests: str
    """What contrasts of runs are tested by, for the legend of the claims."""
    of_runs: Callable[[Sample], Estimated | None]
    """The estimate of a contrast of runs; None where they do not decide it."""
    of_cells: Callable[[Student], Student] | None = None
    """From Welch's estimate of printed cells to this kind's; None: only runs can give it."""
    tests_of_cells: str = ""
    """What contrasts of printed cells are tested by, for the legend of the claims."""
    test_of_cells: str = ""
    """The test's name in a finding from printed cells."""
    is_resampled: bool = False
    """Whether it depends on the number of resamples and their seed."""
    needs_instances: bool = False
    """Whether it needs per-instance scores, so that it is about other test instances too."""

    def caption(self, n_seeds: int, link: str = ", which ") -> str:
        """Return the words of a caption: the interval, and its measured coverage with so many seeds, at least 2."""
        return link.join(filter(None, (self.words, coverage_words(self.name, n_seeds))))

    def need_cells(self) -> Callable[[Student], Student]:
        """Return `of_cells`, or raise a `UserError` that names the intervals that printed cells can give."""
        if self.of_cells is None:
            raise _refusal(
                f"the {self.name} interval needs individual runs, and the published cells are only means and normal "
                "intervals: give runs with --source, or",
                lambda one: one.of_cells is not None,
            )
        return self.of_cells

    def need_instances(self, instances: Path | None) -> Path | None:
        """Return the per-instance scores if this interval needs them; without them, raise a `UserError`."""
        if self.needs_instances and instances is None:
            raise _refusal(
                f"the {self.name} interval needs per-instance scores: read the run store with `clm-or-mlm "
                "ingest STORE --instances DIR`, or",
                lambda one: not one.needs_instances,
            )
        return instances if self.needs_instances else None


def _within(values: Array, estimate: Estimate, interval: str, test: str) -> Estimated:
    return Estimated(estimate=estimate, interval=interval, test=test, seeds=(len(values),))


def _t(sample: Sample) -> Estimated | None:
    if sample.values is not None:
        estimate = student_estimate(sample.values, sample.if_flat)
        return _within(sample.values, estimate, "t", "paired by seed, t")
    if sample.welch is None:
        return None
    return Estimated(estimate=sample.welch, interval="t", test="Welch (no seeds in common)")


def _normal(estimate: Student) -> Student:
    return replace(estimate, df=float("inf"))


def _paper(sample: Sample) -> Estimated | None:
    if sample.values is not None:
        estimate = _normal(student_estimate(sample.values))
        return _within(sample.values, estimate, "paper", "paired by seed, normal")
    if sample.welch is None:
        return None
    return Estimated(
        estimate=_normal(sample.welch), interval="paper", test="normal approximation (no seeds in common)"
    )


def _pooled(sample: Sample) -> Estimated | None:
    if not sample.parts or not sample.cells.pools.can_give(sample.parts):
        return _t(sample)
    return Estimated(
        estimate=sample.cells.pools.estimate(sample.parts), interval="pooled", test="pooled bootstrap t"
    )


def _over_seeds(
    name: str, kind: str, estimate: Callable[[Array, Array, Resamples], Estimate]
) -> Callable[[Sample], Estimated | None]:
    """Return a bootstrap over the seeds of a contrast; with few seeds, or seeds that agree, Student's t."""

    def of_runs(sample: Sample) -> Estimated | None:
        values = sample.values
        # Two or three seeds have 3 or 10 distinct resamples: too few for a tail of 2.5 %.
        if values is None or len(values) < FEWEST_SEEDS or is_flat(values):
            return _t(sample)
        resamples, reselected = sample.resamples, sample.reselected
        drawn = values[resamples.picks] if reselected is None else reselected
        return _within(values, estimate(values, drawn, resamples), name, f"{kind} over paired seeds")

    return of_runs


def _crossed(sample: Sample) -> Estimated | None:
    if sample.values is None:
        return _crossed_apart(sample)
    if sample.covariance is None:
        found = _t(sample)
        return found and replace(found, interval="crossed", test="paired by seed (instances missing)")
    limits = LIMITS if sample.is_level else None
    estimate = crossed_estimate(sample.values, *sample.covariance, limits=limits)
    if estimate.error == 0:
        estimate = student_estimate(sample.values, sample.if_flat)
    return _within(sample.values, estimate, "crossed", "paired by seed and instance")


def _crossed_apart(sample: Sample) -> Estimated | None:
    """Return the estimate of cells without common seeds: Welch's, with what they share through the test instances."""
    found, known = _t(sample), sample.cells.covariances
    shared = None if known is None else known.between_cells(sample.weighted)
    if found is None or shared is None or sample.welch is None or sample.welch.error == 0:
        return found
    variance, freedom = shared
    own = sample.welch.error**2
    total = own + variance
    estimate = Student(
        effect=sample.welch.effect, error=math.sqrt(total), instance_share=variance / total,
        df=total**2 / (own**2 / sample.welch.df + variance**2 / freedom),
    )  # fmt: skip
    return Estimated(estimate=estimate, interval="crossed", test="Welch and by instance (no seeds in common)")


PAPER = Interval(
    name="paper",
    words="95 % interval of the paper (\u00b11.96 sd/\u221an)",
    tests="the normal distribution on differences within seeds",
    of_runs=_paper,
    of_cells=_normal,
    tests_of_cells="normal tests",
    test_of_cells="normal approximation from printed intervals",
)
T = Interval(
    name="t",
    words="95 % interval by Student's t",
    tests="Student's t on differences within seeds",
    of_runs=_t,
    of_cells=lambda welch: welch,
    tests_of_cells="Welch's t tests",
    test_of_cells="Welch from printed intervals",
)
POOLED = Interval(
    name="pooled",
    words="95 % interval by a bootstrap t that pools the errors of seeds over all models on a dataset",
    tests="a bootstrap t of Welch's statistic that pools the errors of seeds over all models on a dataset",
    of_runs=_pooled,
    is_resampled=True,
)
BOOTSTRAP = Interval(
    name="bootstrap",
    words="95 % percentile bootstrap interval over seeds",
    tests="a percentile bootstrap over seeds of differences within seeds",
    of_runs=_over_seeds("bootstrap", "percentile bootstrap", seed_bootstrap),
    is_resampled=True,
)
BCA = Interval(
    name="bca",
    words="95 % BCa bootstrap interval over seeds",
    tests="a BCa bootstrap over seeds of differences within seeds",
    of_runs=_over_seeds("bca", "BCa bootstrap", partial(seed_bootstrap, bca=True)),
    is_resampled=True,
)
STUDENTISED = Interval(
    name="studentised",
    words="95 % symmetric studentised bootstrap interval over seeds",
    tests="a symmetric studentised bootstrap over seeds of differences within seeds",
    of_runs=_over_seeds("studentised", "symmetric studentised bootstrap", studentised_estimate),
    is_resampled=True,
)
CROSSED = Interval(
    name="crossed",
    words="95 % interval by Student's t, with the error over seeds and test instances together",
    tests="Student's t on differences within seeds, with the error over seeds and test instances together",
    of_runs=_crossed,
    needs_instances=True,
)

INTERVALS: Registry[Interval] = Registry("interval", (PAPER, T, POOLED, BOOTSTRAP, BCA, STUDENTISED, CROSSED))
"""The intervals that users can choose, in the order in which they are listed."""

DEFAULT_OF_RUNS = POOLED
"""The interval of runs unless another is named: it covers in every shape of the seeds that was simulated, and is as
narrow as a test needs (docs/intervals.md)."""
DEFAULT_OF_CELLS = T
"""The interval of published cells unless another is named: the printed one with Student's quantile in place of 1.96."""


def caption_of(seen: Iterable[tuple[int, str]], link: str = ", which ") -> str:
    """Return the words of a caption for the intervals seen, with their measured coverages.

    Args:
        seen: of every score its number of seeds and the name of its interval; single seeds have none.
        link: between an interval and its coverage.
    """
    fewest: dict[str, int] = {}
    for n_seeds, name in sorted(seen, reverse=True):
        if n_seeds > 1:
            fewest[name] = n_seeds
    if not fewest:
        return "single seeds, which have no interval"
    (first, seeds), *others = fewest.items()
    words = [INTERVALS[first].caption(seeds, link)]
    words += [f"with {seeds} seeds {INTERVALS[name].caption(seeds, link)}" for name, seeds in others]
    return "; ".join(words)


def _refusal(why: str, others: Callable[[Interval], bool]) -> UserError:
    *names, last = (name for name, interval in INTERVALS.items() if others(interval))
    return UserError(f"{why} choose --interval {', '.join(names)}{' or ' if names else ''}{last}")
