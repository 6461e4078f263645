"""The kinds of 95 % interval, each with the test of contrasts that goes with it, and what each really covers.

A kind is added by registering an `Interval` here: scores, captions, findings, comparisons and sensitivity take it from
the registry. Which to use, and what each one's true coverage is: docs/intervals.md. Captions say the coverage of
`analysis/data/interval_coverage.csv`, which a simulation wrote (docs/intervals.md).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from analysis.evidence.contrasts import Cell, Term
from analysis.evidence.pooled import FEWEST_SEEDS
from analysis.statistics.estimates import LIMITS, Estimate, Student, is_flat, seed_bootstrap, student_estimate
from common.errors import UserError
from common.registry import Registry

if TYPE_CHECKING:
    from analysis.evidence.evidence import Evidence

__all__ = [
    "COVERAGE_FILE", "CROSSED", "DEFAULT_OF_CELLS", "DEFAULT_OF_RUNS", "ENOUGH", "INTERVALS", "PAPER", "POOLED",
    "SHOWN_SHAPES", "Estimated", "Interval", "T", "caption_of", "coverage_words", "measured_coverage", "too_narrow",
]  # fmt: skip

COVERAGE_FILE = "interval_coverage.csv"
SHOWN_SHAPES = {"normal": "of the time", "collapse": "if one seed in ten collapses"}
"""The shapes whose coverage captions say, and how."""
ENOUGH = 0.94
"""Coverage with normal seeds below which a nominal 95 % interval is known to be too narrow."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """An estimate, and how it came about."""

    estimate: Estimate
    interval: str
    """Name of the kind that was used, which with few seeds is not always the one asked for."""
    test: str
    """The test's name in a result."""
    seeds: tuple[int, ...] = ()
    """The seeds that the cells share, where it is within seeds; empty: each cell's own."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A kind of 95 % interval."""

    name: str
    """Its name on the command line and in the column `interval`."""
    words: str
    """The interval in the words of captions."""
    tests: str
    """The test of contrasts of runs, for the legend of the findings."""
    of_runs: Callable[[Evidence, Sequence[Term]], Estimated | None]
    """The estimate of a contrast whose cells have runs; None where they do not decide it."""
    of_cells: Callable[[Student], Student] | None = None
    """From Welch's estimate of printed cells to this kind's; None: only runs can give it."""
    tests_of_cells: str = ""
    """The test of contrasts of printed cells, for the legend of the findings."""
    test_of_cells: str = ""
    """The test's name in a result from printed cells."""
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

    def need_instances(self, instances: Path | None) -> None:
        """Raise a `UserError` where there are no per-instance scores, which this interval needs."""
        if instances is None:
            raise _refusal(
                f"the {self.name} interval needs per-instance scores: read the run store with `clm-or-mlm "
                "ingest STORE --instances DIR`, or",
                lambda one: not one.needs_instances,
            )


def _t(cells: Evidence, terms: Sequence[Term]) -> Estimated | None:
    paired = cells.paired(terms)
    if paired is not None:
        return _within_seeds(paired, int(paired.df) + 1, "t", "paired by seed, t")
    welch = cells.welch(terms)
    if welch is None:
        return None
    return Estimated(estimate=welch, interval="t", test="Welch (no seeds in common)")


def _within_seeds(estimate: Estimate, count: int, interval: str, test: str) -> Estimated:
    return Estimated(estimate=estimate, interval=interval, test=test, seeds=(count,))


def _normal(estimate: Student) -> Student:
    return Student(effect=estimate.effect, error=estimate.error, df=math.inf)


def _paper(cells: Evidence, terms: Sequence[Term]) -> Estimated | None:
    values = cells.within_seeds(terms)
    if values is not None:
        estimate = _normal(student_estimate(values))  # seeds that agree keep an error of 0, as in the paper
        return _within_seeds(estimate, len(values), "paper", "paired by seed, normal")
    welch = cells.welch(terms)
    if welch is None:
        return None
    return Estimated(
        estimate=_normal(welch), interval="paper", test="normal approximation (no seeds in common)"
    )


def _pooled(cells: Evidence, terms: Sequence[Term]) -> Estimated | None:
    weights: dict[Cell, float] = {}
    for term in terms:
        weights[term.cell] = weights.get(term.cell, 0.0) + term.weight
    # In one order, so that A - B mirrors B - A.
    used = sorted(cell for cell, weight in weights.items() if abs(weight) > 1e-12)
    if not used:
        return _t(cells, terms)
    means, errors, counts = np.array([cells.summary(cell) for cell in used], dtype=np.float64).T
    places = [(task, dataset) for _, task, dataset in used]
    estimate = cells.pools.estimate(places, np.array([weights[cell] for cell in used]), means, errors, counts)
    if estimate is None:
        return _t(cells, terms)
    return Estimated(estimate=estimate, interval="pooled", test="pooled bootstrap t")


def _bootstrap(cells: Evidence, terms: Sequence[Term]) -> Estimated | None:
    values = cells.within_seeds(terms)
    # Two or three seeds have 3 or 10 distinct resamples: too few for a tail of 2.5 %.
    if values is None or len(values) < FEWEST_SEEDS or is_flat(values):
        return _t(cells, terms)
    estimate = seed_bootstrap(values, cells.seed_resamples(len(values)))
    return _within_seeds(estimate, len(values), "bootstrap", "percentile bootstrap over paired seeds")


def _crossed(cells: Evidence, terms: Sequence[Term]) -> Estimated | None:
    from analysis.statistics.crossed import crossed_estimate  # not for those who hold instances fixed

    values = cells.within_seeds(terms)
    if values is None:
        return _crossed_apart(cells, terms)
    covariance = cells.covariance(terms)
    if covariance is None:
        found = _t(cells, terms)
        return found and replace(found, interval="crossed", test="paired by seed (instances missing)")
    is_level = len(terms) == 1 and terms[0].weight == 1  # a score, which ends where the metric does
    estimate = crossed_estimate(values, *covariance, limits=LIMITS if is_level else None)
    if estimate.error == 0:
        estimate = cells.paired(terms) or estimate
    return _within_seeds(estimate, len(values), "crossed", "paired by seed and instance")


def _crossed_apart(cells: Evidence, terms: Sequence[Term]) -> Estimated | None:
    """Return the estimate of cells without common seeds: Welch's, with what they share through the test instances."""
    found, welch = _t(cells, terms), cells.welch(terms)
    shared = None if cells.covariances is None else cells.covariances.between_cells(cells.weighted(terms))
    if shared is None or welch is None or welch.error == 0:
        return found
    variance, freedom = shared
    own = welch.error**2
    total = own + variance
    estimate = Student(
        effect=welch.effect, error=math.sqrt(total), instance_share=variance / total,
        df=total**2 / (own**2 / welch.df + variance**2 / freedom),
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
    of_runs=_bootstrap,
    is_resampled=True,
)
CROSSED = Interval(
    name="crossed",
    words="95 % interval by Student's t, with the error over seeds and test instances together",
    tests="Student's t on differences within seeds, with the error over seeds and test instances together",
    of_runs=_crossed,
    needs_instances=True,
)

INTERVALS: Registry[Interval] = Registry("interval", (PAPER, T, POOLED, BOOTSTRAP, CROSSED))
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


@cache
def _coverages() -> dict[tuple[str, str, int], float]:
    path = resources.files("analysis") / "data" / COVERAGE_FILE
    with path.open(encoding="utf-8") as file:
        return {
            (row["interval"], row["shape"], int(row["n_seeds"])): float(row["coverage"])
            for row in csv.DictReader(file)
        }


def measured_coverage(interval: str, shape: str, n_seeds: int) -> tuple[float, int] | None:
    """Return the coverage (0 to 1) and the seeds it was simulated with: as many, or the next fewer number.

    None: nothing was simulated for that interval, or not with so few seeds.
    """
    known = [
        seeds for name, of, seeds in _coverages() if (name, of) == (interval, shape) and seeds <= n_seeds
    ]
    if not known:
        return None
    return _coverages()[interval, shape, max(known)], max(known)


def too_narrow(interval: str, n_seeds: int) -> str:
    """Return `covers 84 %` of an interval that holds the mean of so many normal seeds too seldom, else nothing."""
    known = measured_coverage(interval, "normal", n_seeds)
    return f"covers {100 * known[0]:.0f} %" if known is not None and known[0] < ENOUGH else ""


def coverage_words(interval: str, n_seeds: int) -> str:
    """Return `covers the true mean 95 % of the time in simulations (...)`, or nothing if not known."""
    found = {words: measured_coverage(interval, shape, n_seeds) for shape, words in SHOWN_SHAPES.items()}
    known = {words: one for words, one in found.items() if one is not None}
    if not known:
        return ""
    seeds = next(iter(known.values()))[1]
    first, *others = (f"{100 * share:.0f} % {words}" for words, (share, _) in known.items())
    more = f" ({', '.join(others)})" if others else ""
    return f"covers the true mean {first} in simulations with {seeds} seeds{more}"


def _refusal(why: str, others: Callable[[Interval], bool]) -> UserError:
    *names, last = (name for name, interval in INTERVALS.items() if others(interval))
    return UserError(f"{why} choose --interval {', '.join(names)}{' or ' if names else ''}{last}")
