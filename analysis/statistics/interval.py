"""What a kind of 95 % interval of a mean over seeds is: one object with all that depends on the kind.

The kinds themselves: `analysis.statistics.interval_kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from analysis.statistics.bounds import Bounds
from analysis.statistics.estimates import Estimate, Student
from analysis.statistics.measured_coverage import coverage_words
from analysis.statistics.resampling import Picks, Resamples, all_or_drawn, mean_in_order, resampled_means
from common.errors import UserError
from common.registry import Registry

__all__ = ["INTERVALS", "IndependentTest", "Interval", "PairedTest", "Sample", "caption_of"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What an interval or a test is computed from."""

    values: Array
    """(..., n_seeds) scores, or a contrast of scores within each seed."""
    pick: Callable[[int], Picks]
    """From the number of seeds to drawn resamples of them, (n_resamples, n_seeds) indices."""
    reselected: Array | None = None
    """(..., n_resamples, n_seeds) the scores of the seeds of `resamples`, at the learning rates that these seeds
    choose together; None where a seed's score does not depend on the others."""
    resampled: Array | None = None
    """(..., resamples, n_seeds) the same on resamples of the test instances, shared by the seeds of a row."""
    known_covariance: Array | None = None
    """(..., n_seeds, n_seeds) of the seeds over the test instances, where it need not be estimated."""
    freedom: float = math.inf
    """Degrees of freedom of the covariance over the test instances (`analysis.statistics.crossed.freedom_of`)."""
    limits: tuple[float, float] | None = None
    """Least and largest value of a score; None of a contrast of scores."""

    @property
    def picks(self) -> Picks:
        """(n_resamples, n_seeds) indices of drawn seeds, as many as `resampled` has rows."""
        return self.pick(self.values.shape[-1])

    @property
    def resamples(self) -> Resamples:
        """All resamples of a few seeds, drawn ones of many."""
        return all_or_drawn(self.values.shape[-1], self.pick)

    @property
    def drawn(self) -> Array:
        """(..., n_resamples, n_seeds) the scores of the seeds of `resamples`."""
        return self.values[..., self.resamples.picks] if self.reselected is None else self.reselected

    @property
    def means(self) -> Array:
        """(..., n_resamples) the means over the seeds of `resamples`."""
        if self.reselected is None:
            return resampled_means(self.values, self.resamples.picks)
        count = self.values.shape[-1]
        return mean_in_order((self.reselected[..., place] for place in range(count)), count)

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
    interval: str = ""
    """Name of the kind of interval that the estimate gives; empty: the one that the test goes with."""


@dataclass(frozen=True, kw_only=True)
class IndependentTest:
    """The test of a contrast of models that share no seeds: published cells, or runs of different seeds."""

    words: str
    """What the tests are, for the legend of the claims."""
    name: str
    """The test's name in a finding from printed intervals."""
    estimate: Callable[[Student], Student]
    """From Welch's estimate to the test's."""
    interval: str = "t"
    """The kind of interval whose coverage captions say of it; Welch's is Student's."""


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
    """Whether it needs per-instance scores, so that it is about other test instances too."""
    printed_factor: Callable[[int], float] | None = None
    """The factor on a printed half-width (1.96 standard errors) of so many seeds; None: only runs can give it."""
    paired: PairedTest | None = None
    """None: no test within seeds goes with it, and runs give no verdicts by it."""
    independent: IndependentTest | None = None
    """None: no test goes with it for models that share no seeds."""
    least_seeds: int = 1
    """Seeds from which on it can be trusted; fewer get `with_fewer` (but a single one has no spread at all)."""
    with_fewer: Interval | None = None
    """What stands in below `least_seeds`; the column `interval` then names it."""
    from_covariance: bool = False
    """Whether of the instances it needs the covariance between seeds alone, and no resamples."""

    def of(self, n_seeds: int) -> Interval:
        """Return the interval that so many seeds get."""
        return self.with_fewer if self.with_fewer is not None and 1 < n_seeds < self.least_seeds else self

    @property
    def name_within_seeds(self) -> str:
        """Name of the interval that a difference within seeds gets: that of its test."""
        return self.paired.interval or self.name if self.paired is not None else self.name

    def caption(self, n_seeds: int) -> str:
        """Return the words of a caption: the interval, and its measured coverage with so many seeds, at least 2."""
        return f"{self.words}{coverage_words(self.name, n_seeds)}"

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


INTERVALS: Registry[Interval] = Registry("interval")
"""The intervals that users can choose, in the order in which they are listed (`analysis.statistics.interval_kinds`)."""


def caption_of(seen: Iterable[tuple[int, str]]) -> str:
    """Return the words of a caption for the intervals seen, with their measured coverages.

    Args:
        seen: of every score its number of seeds and the name of its interval; single seeds have none.
    """
    fewest: dict[str, int] = {}
    for n_seeds, name in sorted(seen, reverse=True):
        if n_seeds > 1:
            fewest[name] = n_seeds
    if not fewest:
        return "single seeds, which have no interval"
    (first, seeds), *others = fewest.items()
    words = [INTERVALS[first].caption(seeds)]
    words += [f"with {seeds} seeds {INTERVALS[name].caption(seeds)}" for name, seeds in others]
    return "; ".join(words)


def _refusal(why: str, others: Callable[[Interval], object]) -> UserError:
    *names, last = (name for name, interval in INTERVALS.items() if others(interval))
    return UserError(f"{why} choose --interval {', '.join(names)}{' or ' if names else ''}{last}")
