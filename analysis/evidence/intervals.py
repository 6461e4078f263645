"""The kinds of 95 % interval, each with the test of contrasts that goes with it, and what each really covers.

A kind is added by registering an `Interval` here: scores, captions, findings, comparisons and sensitivity take it from
the registry. Which to use, and what each one's true coverage is: docs/claims.md. Captions say the coverage of
`analysis/data/interval_coverage.csv`, which a simulation wrote (docs/claims.md).

Every help lists the kinds, so NumPy and SciPy are imported by the functions that compute with them.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.protocol import is_paired
from common.errors import UserError
from common.level import LEVEL_IN_WORDS
from common.registry import Registry

if TYPE_CHECKING:
    from analysis.evidence.cells import Cells
    from analysis.evidence.contrasts import Term
    from analysis.statistics.estimates import Estimate, Student

COVERAGE_FILE = "interval_coverage.csv"
SHOWN_SHAPES = {"normal": "of the time", "collapse": "if one seed in ten collapses"}
"""The shapes whose coverage captions say, and how."""
SOURCE_CELLS = 46
"""Simulated cells that are one source, as many as the released runs have of a dataset."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """An estimate of a contrast, with the interval, the test and the seeds that it is by."""

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
    of_runs: Callable[[Cells, Sequence[Term]], Estimated | None]
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

    def caption(
        self, n_seeds: int, link: str = ", which ", n_cells: int | None = None
    ) -> str:
        """Return the words of a caption: the interval, and its measured coverage with so many seeds, at least 2."""
        coverage = coverage_words(self.name, n_seeds, n_cells)
        return f"{self.words}{link}{coverage}" if coverage else self.words

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


def _t(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return Student's t for one cell, Welch's for several cells, whose seeds are not paired."""
    from analysis.evidence.contrasts import weights_of

    # Where all terms cancel (a model against itself), `paired` gives the least error that could be seen, that of one
    # test instance; Welch's would be 0.
    welch = cells.welch(terms) if weights_of(terms) else cells.paired(terms)
    if welch is None:
        return None
    groups = cells.joint(terms)
    if len(groups) != 1:
        return Estimated(estimate=welch, interval="t", test="Welch")
    # Several cells of the same pretrainings are summed within each pretraining; there is one more of these than df.
    is_within = len(groups[0]) > 1
    seeds = (round(welch.df) + 1,) if is_within else ()
    return Estimated(estimate=welch, interval="t", test="Student's t", seeds=seeds)


def _normal(estimate: Student) -> Student:
    """Return the estimate with the normal distribution in place of Student's."""
    from analysis.statistics.estimates import Student

    return Student(effect=estimate.effect, error=estimate.error, df=math.inf)


def _paper(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return the normal approximation from standard errors over seeds, as the paper prints it."""
    from analysis.statistics.estimates import student_estimate

    # The released runs give the printed digits only with 1.96 and the sample standard deviation, not with Student's t.
    welch = cells.welch(terms)
    if welch is None:
        return None
    if len(terms) == 1 and terms[0].weight == 1:
        # Seeds that agree keep an error of 0, as in the paper.
        welch = student_estimate(cells.values_of(terms[0].cell))
    return Estimated(
        estimate=_normal(welch), interval="paper", test="normal approximation"
    )


def _pooled(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return the pooled bootstrap t (`analysis.evidence.pooled`), or `_t` where there is no pool."""
    import numpy as np

    from analysis.evidence.contrasts import weights_of

    weights = weights_of(terms)
    used = sorted(weights)  # in one order, so that A - B mirrors B - A
    if not used:
        return _t(cells, terms)
    summaries = np.array([cells.summary(cell) for cell in used], dtype=np.float64)
    means, errors, counts = summaries.T
    places = [(task, dataset) for _, task, dataset in used]
    factors = np.array([weights[cell] for cell in used])
    estimate = cells.pools.estimate(places, factors, means, errors, counts)
    if estimate is None:
        return _t(cells, terms)
    return Estimated(estimate=estimate, interval="pooled", test="pooled bootstrap t")


def _bootstrap(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return the percentile bootstrap over each cell's seeds, or `_t` where they are too few or all equal."""
    from analysis.evidence.contrasts import weights_of
    from analysis.evidence.pooled import FEWEST_SEEDS
    from analysis.statistics.estimates import apart_bootstrap, is_flat, seed_bootstrap

    weights = weights_of(terms)
    rows = [cells.values_of(cell) for cell in weights]
    # Two or three seeds have 3 or 10 distinct resamples: too few for a tail of 2.5 %.
    if not rows or min(map(len, rows)) < FEWEST_SEEDS or all(map(is_flat, rows)):
        return _t(cells, terms)
    if len(rows) == 1:
        [row] = rows
        [weight] = weights.values()
        estimate = seed_bootstrap(weight * row, cells.seed_resamples(len(row)))
    else:
        factors = list(weights.values())
        estimate = apart_bootstrap(rows, factors, cells.resamples, cells.seed)
    return Estimated(
        estimate=estimate,
        interval="bootstrap",
        test="percentile bootstrap over each cell's seeds",
    )


def _crossed(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return Student's t within the shared seeds, with the error over test instances; else `_crossed_apart`."""
    from analysis.statistics.crossed import crossed_estimate
    from analysis.statistics.estimates import LIMITS

    values = cells.within_seeds(terms)
    if values is None:
        return _crossed_apart(cells, terms)
    # The contrast within shared seeds would drop the seeds that one cell has and others lack.
    most_seeds = max(cells.summary(term.cell)[2] for term in terms)
    if most_seeds > len(values):
        return _crossed_apart(cells, terms)
    # The seeds of two models share only the test instances; on NQ each run has other queries, so not even those.
    shares_instances = any(is_paired(name) for _, _, name in cells.weighted(terms))
    if len(terms) > 1 and not shares_instances:
        return _crossed_apart(cells, terms)
    covariance = cells.covariance(terms)
    if covariance is None:
        by_t = _t(cells, terms)
        if by_t is None:
            return None
        test = f"{by_t.test} (instances missing)"
        return replace(by_t, interval="crossed", test=test)
    # A score ends where the metric does; a difference is far from its ends.
    is_level = len(terms) == 1 and terms[0].weight == 1
    limits = LIMITS if is_level else None
    estimate = crossed_estimate(values, *covariance, limits=limits)
    # Where neither seeds nor instances move the contrast, its error is the least that could have been seen.
    if estimate.error == 0:
        estimate = cells.paired(terms) or estimate
    return Estimated(
        estimate=estimate,
        interval="crossed",
        test="paired by seed and instance",
        seeds=(len(values),),
    )


def _crossed_apart(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return Welch's estimate of cells whose seeds are not paired, with the covariance through shared instances."""
    from analysis.evidence.contrasts import weights_of
    from analysis.statistics.estimates import Student

    if cells.covariances is None:
        return _t(cells, terms)
    shared = cells.covariances.between_cells(cells.weighted(terms))
    if shared is None:
        return _t(cells, terms)
    variance, freedom = shared
    welch = cells.welch(terms)
    if welch is None and weights_of(terms):
        return _of_single_runs(cells, terms, variance, freedom)
    if welch is None or welch.error == 0:
        return _t(cells, terms)
    by_seeds = welch.error**2
    total = by_seeds + variance
    # Satterthwaite's degrees of freedom of the sum of two independent variances.
    uncertain = by_seeds**2 / welch.df + variance**2 / freedom
    estimate = Student(
        effect=welch.effect,
        error=math.sqrt(total),
        instance_share=variance / total,
        df=total**2 / uncertain,
    )
    return Estimated(
        estimate=estimate, interval="crossed", test="Welch and by instance"
    )


def _of_single_runs(
    cells: Cells, terms: Sequence[Term], variance: float, freedom: float
) -> Estimated:
    """Return the estimate over test instances only, where a cell has one run, such as that of a model not trained.

    Args:
        cells: the scores.
        terms: what is estimated.
        variance: over test instances, in squared points.
        freedom: its degrees of freedom.
    """
    from analysis.evidence.contrasts import weights_of
    from analysis.statistics.estimates import Student

    effect = 0.0
    variances = [(variance, freedom)]
    for cell, weight in weights_of(terms).items():
        mean, error, count = cells.summary(cell)
        effect += weight * mean
        if count > 1:
            variances.append(((weight * error) ** 2, count - 1.0))
    total = math.fsum(part for part, _ in variances)
    squares = math.fsum(part**2 / df for part, df in variances)
    # Where runs answer every instance alike, the variance is 0, and nothing can be divided by it.
    instance_share = variance / total if total else 0.0
    df = total**2 / squares if squares else math.inf
    estimate = Student(
        effect=effect,
        error=math.sqrt(total),
        instance_share=instance_share,
        df=df,
    )
    return Estimated(
        estimate=estimate, interval="crossed", test="by instance, single runs as given"
    )


PAPER_INTERVAL = Interval(
    name="paper",
    words="95 % interval of the paper (\u00b11.96 sd/\u221an)",
    tests="the normal distribution",
    of_runs=_paper,
    of_cells=_normal,
    tests_of_cells="normal tests",
    test_of_cells="normal approximation from printed intervals",
)
T = Interval(
    name="t",
    words=f"{LEVEL_IN_WORDS} interval by Student's t",
    tests="Welch's t",
    of_runs=_t,
    of_cells=lambda welch: welch,
    tests_of_cells="Welch's t tests",
    test_of_cells="Welch from printed intervals",
)
POOLED = Interval(
    name="pooled",
    words=f"{LEVEL_IN_WORDS} interval by a bootstrap t that pools the errors of seeds over all models on a dataset",
    tests="a bootstrap t of Welch's statistic that pools the errors of seeds over all models on a dataset",
    of_runs=_pooled,
    is_resampled=True,
)
BOOTSTRAP = Interval(
    name="bootstrap",
    words=f"{LEVEL_IN_WORDS} percentile bootstrap interval over seeds",
    tests="a percentile bootstrap over each model's seeds",
    of_runs=_bootstrap,
    is_resampled=True,
)
CROSSED = Interval(
    name="crossed",
    words=f"{LEVEL_IN_WORDS} interval by Student's t, with the error over seeds and test instances together",
    tests="Student's t on differences within seeds, with the error over seeds and test instances together",
    of_runs=_crossed,
    needs_instances=True,
)

INTERVALS: Registry[Interval] = Registry(
    "interval", (PAPER_INTERVAL, T, POOLED, BOOTSTRAP, CROSSED)
)
"""The intervals that users can choose, in the order in which they are listed."""

DEFAULT_OF_RUNS = POOLED
"""The interval of runs unless another is named: it covers in every shape of the seeds that was simulated, and is as
narrow as a test needs (docs/claims.md)."""
DEFAULT_OF_CELLS = T
"""The interval of published cells unless another is named: the printed one with Student's quantile in place of 1.96."""


def caption_of(
    seen: Iterable[tuple[int, str]], link: str = ", which ", n_cells: int | None = None
) -> str:
    """Return the words of a caption for the intervals seen, with their measured coverages.

    Args:
        seen: of every score its number of seeds and the name of its interval; single seeds have none.
        link: between an interval and its coverage.
        n_cells: cells of the smallest pool, where they are known.
    """
    # The coverage is that of the score with the fewest seeds: from most to fewest, the last one stays.
    fewest_seeds: dict[str, int] = {}
    for n_seeds, name in sorted(seen, reverse=True):
        if n_seeds > 1 or name == CROSSED.name:
            fewest_seeds[name] = n_seeds
    if not fewest_seeds:
        return "single seeds, which have no interval"
    captions: list[str] = []
    for name, n_seeds in fewest_seeds.items():
        caption = INTERVALS[name].caption(n_seeds, link, n_cells)
        # The first caption is about the scores with the most seeds; only the others name their number of seeds.
        if captions:
            caption = f"with {n_seeds} seeds {caption}"
        captions.append(caption)
    return "; ".join(captions)


class _Simulated(NamedTuple):
    """What was simulated together: one row of the file of coverages."""

    interval: str
    shape: str
    n_seeds: int
    n_cells: int


class Coverage(NamedTuple):
    """How often an interval held the true mean, and what was simulated."""

    share: float
    """0 to 1."""
    n_seeds: int
    n_cells: int
    """Cells of a dataset."""


@cache
def _coverages() -> dict[_Simulated, float]:
    """Return the simulated coverage by interval, shape of the seeds, number of seeds and number of cells."""
    path = resources.files("analysis") / "data" / COVERAGE_FILE
    coverages = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            n_seeds, n_cells = int(row["n_seeds"]), int(row["n_cells"])
            key = _Simulated(row["interval"], row["shape"], n_seeds, n_cells)
            coverages[key] = float(row["coverage"])
    return coverages


def measured_coverage(
    interval: str, shape: str, n_seeds: int, n_cells: int = SOURCE_CELLS
) -> Coverage | None:
    """Return the coverage with as many seeds and cells as asked for, or the next fewer that were simulated.

    An interval that depends on no other cells was simulated with `SOURCE_CELLS` cells.

    None: nothing was simulated for that interval, or not with so few seeds.
    """
    simulated = []
    for key in _coverages():
        is_asked = key.interval == interval and key.shape == shape
        if is_asked and key.n_seeds <= n_seeds:
            simulated.append(key)
    if not simulated:
        return None
    seeds = max(key.n_seeds for key in simulated)
    pool_sizes = sorted(key.n_cells for key in simulated if key.n_seeds == seeds)
    not_larger = [size for size in pool_sizes if size <= n_cells]
    cells = max(not_larger, default=pool_sizes[0])
    share = _coverages()[_Simulated(interval, shape, seeds, cells)]
    return Coverage(share, seeds, cells)


def coverage_words(interval: str, n_seeds: int, n_cells: int | None = None) -> str:
    """Return `covers the true mean 95 % of the time in simulations (...)`; empty where it was not simulated.

    Args:
        interval: its name.
        n_seeds: of the score with the fewest.
        n_cells: of the smallest pool; None: not known, so that the range over what was simulated is said.
    """
    from analysis.evidence.pooled import FEWEST_CELLS

    pool_sizes = [FEWEST_CELLS, SOURCE_CELLS] if n_cells is None else [n_cells]
    by_shape: dict[str, list[Coverage]] = {}
    for shape, words in SHOWN_SHAPES.items():
        for size in pool_sizes:
            coverage = measured_coverage(interval, shape, n_seeds, size)
            if coverage is not None:
                by_shape.setdefault(words, []).append(coverage)
    if not by_shape:
        return ""
    shares = []
    for words, measured in by_shape.items():
        percents = _range(100 * coverage.share for coverage in measured)
        shares.append(f"{percents} % {words}")
    first, *others = shares
    more = f" ({', '.join(others)})" if others else ""
    of_first = next(iter(by_shape.values()))
    simulated = f"{of_first[0].n_seeds} seeds"
    # The other intervals do not depend on how many models a source has.
    if interval == POOLED.name:
        models = _range(coverage.n_cells for coverage in of_first)
        simulated = f"{simulated} and {models} models"
    return f"covers the true mean {first} in simulations with {simulated}{more}"


def _range(values: Iterable[float]) -> str:
    """Return `94` or `92 to 94`."""
    low, *more = dict.fromkeys(f"{value:.0f}" for value in sorted(values))
    return f"{low} to {more[-1]}" if more else low


def _refusal(why: str, others: Callable[[Interval], bool]) -> UserError:
    """Return the error that says why, and names the intervals to choose instead."""
    *names, last = [name for name, interval in INTERVALS.items() if others(interval)]
    choice = f"{', '.join(names)} or {last}" if names else last
    return UserError(f"{why} choose --interval {choice}")
