"""The kinds of 95 % interval of a mean over seeds, each one object with all that depends on the kind.

An interval is added by registering an `Interval` here: scores, captions, claims, the multiverse and the coverage
simulation take it from the registry. Which to use, and what each one's true coverage is: docs/intervals.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.published_cells import NORMAL_QUANTILE
from analysis.statistics import bounds
from analysis.statistics.bounds import LEVEL, Bounds
from analysis.statistics.estimates import Estimate, Student, crossed_estimate, paired_estimate, seed_bootstrap
from common.errors import UserError
from common.registry import Registry

__all__ = [
    "CROSSED", "DEFAULT_SEED", "HIERARCHICAL", "INTERVALS", "LEVEL", "RESAMPLES", "IndependentTest", "Interval",
    "PairedTest", "Sample", "T",
]  # fmt: skip

Array = npt.NDArray[np.float64]

RESAMPLES = 10_000
DEFAULT_SEED = 20250701
"""Seed of the resampling when none is given; the paper's first day on arXiv."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What an interval or a test is computed from."""

    values: Array
    """(..., n_seeds) scores, or a contrast of scores within each seed."""
    pick: Callable[[int], bounds.Picks]
    """From the number of seeds to the resamples of a bootstrap, (resamples, n_seeds) indices."""
    resampled: Array | None = None
    """(..., resamples, n_seeds) the same on resamples of the test instances, shared by the seeds of a row."""
    known_covariance: Array | None = None
    """(..., n_seeds, n_seeds) of the seeds over the test instances, where it need not be estimated."""

    @property
    def picks(self) -> bounds.Picks:
        """(resamples, n_seeds) indices of resampled seeds."""
        return self.pick(self.values.shape[-1])

    @property
    def over_instances(self) -> Array:
        """The scores on resamples of the test instances; only for intervals that need instances."""
        assert self.resampled is not None
        return self.resampled

    @property
    def covariance(self) -> Array:
        """(..., n_seeds, n_seeds) of the seeds over the test instances."""
        if self.known_covariance is not None:
            return self.known_covariance
        assert self.over_instances.ndim == 2
        return np.cov(self.over_instances, rowvar=False)


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """The test of a contrast that is taken within each seed."""

    words: str
    """What the tests are by, for the legend of the claims."""
    estimate: Callable[[Sample], tuple[Estimate, str]]
    """Estimate of the contrast, and the test's name in a finding; `values` has two seeds or more."""


@dataclass(frozen=True, kw_only=True)
class IndependentTest:
    """The test of a contrast of models that share no seeds: published cells, or runs of different seeds."""

    words: str
    """What the tests are, for the legend of the claims."""
    name: str
    """The test's name in a finding from printed intervals."""
    estimate: Callable[[Student], Student]
    """From Welch's estimate to the test's."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A kind of 95 % interval, and the tests of differences that go with it."""

    name: str
    """What users call it, and what the column `interval` says."""
    words: str
    """As captions say it."""
    bounds: Callable[[Sample], Bounds]
    """(low, high) over seeds, each without the last axis of `Sample.values`; nan for what has no spread."""
    is_resampled: bool = False
    """Whether it depends on the number of resamples and their seed."""
    needs_instances: bool = False
    """Whether it needs `Sample.resampled`, so that it is about other test instances too."""
    printed_factor: Callable[[int], float] | None = None
    """The factor on a printed half-width (1.96 standard errors) of so many seeds; None: only runs can give it."""
    paired: PairedTest | None = None
    """None: no test within seeds goes with it, and runs give no verdicts by it."""
    independent: IndependentTest | None = None
    """None: no test goes with it for models that share no seeds."""
    coverage: float | None = None
    """In percent, with five seeds and the published cells' variances (docs/intervals.md): of the mean over seeds and
    instances where it needs instances, else of the mean over seeds on the same instances. None: not known."""

    def need_paired(self) -> PairedTest:
        """Return the test within seeds, or raise a `UserError` that names the intervals with one."""
        if self.paired is None:
            raise _refusal(
                f"no test of differences within seeds goes with the {self.name} interval:", lambda i: i.paired
            )
        return self.paired

    def need_independent(self) -> IndependentTest:
        """Return the test of printed cells, or raise a `UserError` that names the intervals with one."""
        self.need_printed_factor()
        if self.independent is None:
            raise _refusal(
                f"no test of differences of printed cells goes with the {self.name} interval:",
                lambda i: i.printed_factor and i.independent,
            )
        return self.independent

    def need_printed_factor(self) -> Callable[[int], float]:
        """Return `printed_factor`, or raise a `UserError` that names the intervals with one."""
        if self.printed_factor is None:
            raise _refusal(
                f"the {self.name} interval needs single runs, and the published cells are only means and normal "
                "intervals: give runs with --source, or",
                lambda i: i.printed_factor,
            )
        return self.printed_factor

    def need_instances(self, instances: Path | None) -> Path | None:
        """Return the per-instance scores if this interval needs them; without them, raise a `UserError`."""
        if self.needs_instances and instances is None:
            raise _refusal(
                f"the {self.name} interval needs per-instance scores: read the run store with `python -m analysis "
                "ingest STORE --instances DIR`, or",
                lambda i: not i.needs_instances,
            )
        return instances if self.needs_instances else None


def _refusal(why: str, others: Callable[[Interval], object]) -> UserError:
    *names, last = (name for name, interval in INTERVALS.items() if others(interval))
    return UserError(f"{why} choose --interval {', '.join(names)}{' or ' if names else ''}{last}")


def _normal(estimate: Student) -> Student:
    """Return the estimate with normal quantiles instead of Student's."""
    return replace(estimate, df=float("inf"))


def _paired_by_instance(sample: Sample) -> tuple[Student, str]:
    if sample.resampled is None:
        return paired_estimate(sample.values), "paired by seed (instances missing)"
    return crossed_estimate(sample.values, sample.covariance), "paired by seed and instance"


_WELCH = IndependentTest(
    words="Welch's t tests", name="Welch from printed intervals", estimate=lambda welch: welch
)
_BY_INSTANCE = PairedTest(
    words="Student's t on differences within seeds, with the error over seeds and test instances together",
    estimate=_paired_by_instance,
)

PAPER = Interval(
    name="paper",
    words="95 % interval as the paper computes it (1.96 sd/\u221an)",
    bounds=lambda sample: bounds.normal_bounds(sample.values),
    printed_factor=lambda n_seeds: 1.0,
    paired=PairedTest(
        words="the normal distribution on differences within seeds",
        estimate=lambda sample: (_normal(paired_estimate(sample.values)), "paired by seed, normal"),
    ),
    independent=IndependentTest(
        words="normal tests", name="normal approximation from printed intervals", estimate=_normal
    ),
    coverage=87.8,
)

T = Interval(
    name="t",
    words="95 % interval by Student's t",
    bounds=lambda sample: bounds.t_bounds(sample.values),
    printed_factor=lambda n_seeds: float(special.stdtrit(n_seeds - 1, 0.5 + LEVEL / 2)) / NORMAL_QUANTILE,
    paired=PairedTest(
        words="Student's t on differences within seeds",
        estimate=lambda sample: (paired_estimate(sample.values), "paired by seed, t"),
    ),
    independent=_WELCH,
    coverage=95.0,
)


def _bootstrap(
    name: str, kind: str, of: Callable[[Array, bounds.Picks], Bounds], coverage: float
) -> Interval:
    """Return a bootstrap over seeds, and the test by the same bootstrap of differences within seeds."""
    return Interval(
        name=name,
        words=f"95 % {kind} bootstrap interval over seeds",
        bounds=lambda sample: of(sample.values, sample.picks),
        is_resampled=True,
        paired=PairedTest(
            words=f"a {kind} bootstrap over seeds of differences within seeds",
            estimate=lambda sample: (
                seed_bootstrap(sample.values, sample.picks, bca=of is bounds.bca_bounds),
                f"{kind} bootstrap over paired seeds",
            ),
        ),
        coverage=coverage,
    )


BOOTSTRAP = _bootstrap("bootstrap", "percentile", bounds.percentile_bounds, coverage=83.6)
BCA = _bootstrap("bca", "BCa", bounds.bca_bounds, coverage=83.7)

HIERARCHICAL = Interval(
    name="hierarchical",
    words="95 % bootstrap interval over seeds and test instances",
    bounds=lambda sample: bounds.hierarchical_bounds(sample.over_instances, sample.picks),
    is_resampled=True,
    needs_instances=True,
    paired=_BY_INSTANCE,
    independent=_WELCH,
    coverage=94.7,
)

CROSSED = Interval(
    name="crossed",
    words="95 % interval by Student's t, with the error over seeds and test instances together",
    bounds=lambda sample: bounds.crossed_bounds(sample.values, sample.covariance),
    is_resampled=True,
    needs_instances=True,
    paired=_BY_INSTANCE,
    independent=_WELCH,
    coverage=94.9,
)
"""What the claims are tested with where instances are known; simulated, but not offered for scores."""

INTERVALS: Registry[Interval] = Registry("interval", (PAPER, T, BOOTSTRAP, BCA, HIERARCHICAL))
"""The intervals that users can choose, in the order in which they are listed."""
