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
"""The simulated shapes of a cell's scores whose coverage captions say, and the words for each."""
SOURCE_CELLS = 46
"""Simulated cells that are one source, as many as the released runs have of a dataset."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """An estimate of a contrast, with the kind of interval, the test and the seeds that gave it."""

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
    """Returns the estimate of a contrast whose cells have runs; None where a cell has only one seed."""
    of_cells: Callable[[Student], Student] | None = None
    """Turns Welch's estimate of printed cells into this kind's; None: only runs can give it."""
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
        """Return the words of a caption: the interval, and its measured coverage with so many seeds, at least 2.

        `link` and `n_cells` are as in `caption_of`.
        """
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
    estimate = cells.welch(terms) if weights_of(terms) else cells.paired(terms)
    if estimate is None:
        return None

    # Cells of one group are of the same pretrainings, and groups are independent: between groups the test is
    # Welch's. Without any group, where all terms cancel, it is called the same.
    groups = cells.joint(terms)
    if len(groups) != 1:
        return Estimated(estimate=estimate, interval="t", test="Welch")

    # Several cells of the same pretrainings were summed within each, so that the degrees of freedom are one less than
    # the pretrainings.
    seeds: tuple[int, ...] = ()
    if len(groups[0]) > 1:
        seeds = (round(estimate.df) + 1,)
    return Estimated(estimate=estimate, interval="t", test="Student's t", seeds=seeds)


def _normal(estimate: Student) -> Student:
    """Return the estimate with the normal distribution in place of Student's."""
    from analysis.statistics.estimates import Student

    return Student(effect=estimate.effect, error=estimate.error, df=math.inf)


def _paper(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return the normal approximation from standard errors over seeds, as the paper prints it."""
    from analysis.statistics.estimates import student_estimate

    estimate = cells.welch(terms)
    if estimate is None:
        return None
    is_score = len(terms) == 1 and terms[0].weight == 1
    if is_score:
        # Seeds that agree keep an error of 0, as in the paper; `welch` has the least error that could be seen.
        estimate = student_estimate(cells.values_of(terms[0].cell))

    # The released runs give the printed digits only with 1.96 and the sample standard deviation, not with Student's t.
    return Estimated(
        estimate=_normal(estimate), interval="paper", test="normal approximation"
    )


def _pooled(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return the pooled bootstrap t (`analysis.evidence.pooled`), or `_t` where there is no pool."""
    import numpy as np

    from analysis.evidence.contrasts import weights_of

    weights_by_cell = weights_of(terms)
    # In one order, so that the cells of A - B and of B - A get the same draws.
    ordered = sorted(weights_by_cell)
    if not ordered:  # all terms cancel
        return _t(cells, terms)
    # Of each cell its mean, the error of the mean and the number of seeds.
    summaries = np.array([cells.summary(cell) for cell in ordered], dtype=np.float64)
    means, errors, counts = summaries.T
    places = [(task, dataset) for _, task, dataset in ordered]
    weights = np.array([weights_by_cell[cell] for cell in ordered])
    estimate = cells.pools.estimate(places, weights, means, errors, counts)
    if estimate is None:
        return _t(cells, terms)
    return Estimated(estimate=estimate, interval="pooled", test="pooled bootstrap t")


def _bootstrap(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return the percentile bootstrap over each cell's seeds, or `_t` where they are too few or all equal."""
    from analysis.evidence.contrasts import weights_of
    from analysis.evidence.pooled import FEWEST_SEEDS
    from analysis.statistics.estimates import apart_bootstrap, is_flat, seed_bootstrap

    weights_by_cell = weights_of(terms)
    rows = [cells.values_of(cell) for cell in weights_by_cell]
    weights = list(weights_by_cell.values())
    if not rows:  # all terms cancel
        return _t(cells, terms)
    fewest_seeds = min(len(row) for row in rows)

    # Two or three seeds have 3 or 10 distinct resamples: too few for a tail of 2.5 %.
    if fewest_seeds < FEWEST_SEEDS or all(is_flat(row) for row in rows):
        return _t(cells, terms)
    # Of a single cell with few seeds, every resample is listed (`Resamples.of_seeds`). Of several cells, the
    # seeds of each are drawn independently, by a generator.
    if len(rows) == 1:
        [row] = rows
        [weight] = weights
        estimate = seed_bootstrap(weight * row, cells.seed_resamples(len(row)))
    else:
        estimate = apart_bootstrap(rows, weights, cells.resamples, cells.seed)

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
    seed_counts = [len(cells.values_of(term.cell)) for term in terms]
    if max(seed_counts) > len(values):
        return _crossed_apart(cells, terms)

    # Scores of one seed under two models share only the test instances. Where each run has other instances, as on NQ,
    # they share nothing, so that a pairing by seed has no reason.
    shares_instances = any(is_paired(name) for _, _, name in cells.weighted(terms))
    if len(terms) > 1 and not shares_instances:
        return _crossed_apart(cells, terms)
    # The covariance between seeds over samples of the instances, and its degrees of freedom.
    over_instances = cells.covariance(terms)
    if over_instances is None:
        by_t = _t(cells, terms)
        if by_t is None:
            return None
        test = f"{by_t.test} (instances missing)"
        return replace(by_t, interval="crossed", test=test)

    # A score may be close to the ends of its metric; a difference is far from its own.
    is_score = len(terms) == 1 and terms[0].weight == 1
    limits = LIMITS if is_score else None
    covariance, freedom = over_instances
    estimate = crossed_estimate(values, covariance, freedom, limits=limits)

    # Where neither seeds nor instances move the contrast, its error is the least that could have been seen.
    # `paired` gives an estimate for every contrast that has `values`.
    if estimate.error == 0:
        estimate = cells.paired(terms) or estimate
    return Estimated(
        estimate=estimate,
        interval="crossed",
        test="paired by seed and instance",
        seeds=(len(values),),
    )


def _crossed_apart(cells: Cells, terms: Sequence[Term]) -> Estimated | None:
    """Return Welch's estimate of cells whose seeds are not paired, with the variance over their shared instances added.

    Where the instances are not known, or the error over seeds is 0, return `_t`.
    """
    from analysis.evidence.contrasts import weights_of
    from analysis.statistics.estimates import Student

    if cells.covariances is None:
        return _t(cells, terms)
    of_instances = cells.covariances.between_cells(cells.weighted(terms))
    if of_instances is None:
        return _t(cells, terms)
    # The variance over test instances, in squared points, and its degrees of freedom.
    over_instances, freedom = of_instances
    welch = cells.welch(terms)

    # Welch's estimate is None where a cell has a single run. A model with a single run against itself, whose
    # terms all cancel, has nothing to estimate; it is left to `_t`, which gives None.
    if welch is None and weights_of(terms):
        return _of_single_runs(cells, terms, over_instances, freedom)
    if welch is None or welch.error == 0:
        return _t(cells, terms)
    over_seeds = welch.error**2
    total = over_seeds + over_instances

    # Satterthwaite's degrees of freedom of the sum of two independent variances.
    uncertain = over_seeds**2 / welch.df + over_instances**2 / freedom
    estimate = Student(
        effect=welch.effect,
        error=math.sqrt(total),
        instance_share=over_instances / total,
        df=total**2 / uncertain,
    )
    return Estimated(
        estimate=estimate, interval="crossed", test="Welch and by instance"
    )


def _of_single_runs(
    cells: Cells, terms: Sequence[Term], variance: float, freedom: float
) -> Estimated:
    """Return the estimate of a contrast in which a cell has one run, such as that of a model that is not trained.

    The error of such a cell is only that over test instances; cells with several runs add theirs over seeds.

    Args:
        cells: the scores.
        terms: the weighted sum that is estimated.
        variance: of the sum over test instances, in squared points.
        freedom: degrees of freedom of that variance.
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

    # Satterthwaite's degrees of freedom of the sum of independent variances: its square over `uncertain`.
    total = math.fsum(part for part, _ in variances)
    uncertain = math.fsum(part**2 / part_df for part, part_df in variances)

    # Where runs answer every instance alike, the variance is 0, and nothing can be divided by it.
    instance_share = variance / total if total else 0.0
    df = total**2 / uncertain if uncertain else math.inf
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
    """Return the words of a caption for the intervals of some scores, with their measured coverages.

    Args:
        seen: of every score its number of seeds and the name of its interval.
        link: words between an interval and its coverage.
        n_cells: number of cells in the smallest pool of the pooled bootstrap; None: not known.
    """
    # By kind of interval, the fewest seeds of its scores, for which the coverage is given: scores come from
    # most seeds to fewest, so that of each kind the last number stays. The dict keeps the order in which
    # kinds first come: the kind of the score with the most seeds is its first. A single seed has no interval,
    # except over test instances.
    fewest_seeds: dict[str, int] = {}
    for n_seeds, name in sorted(seen, reverse=True):
        if n_seeds > 1 or name == CROSSED.name:
            fewest_seeds[name] = n_seeds

    if not fewest_seeds:
        return "single seeds, which have no interval"
    captions: list[str] = []
    for name, n_seeds in fewest_seeds.items():
        caption = INTERVALS[name].caption(n_seeds, link, n_cells)
        # The first caption is about the kind that the scores with the most seeds have. The other kinds are
        # those of scores to which the first does not apply, such as Student's t where the seeds are too few
        # for the pooled bootstrap: only these others name their number of seeds.
        if captions:
            caption = f"with {n_seeds} seeds {caption}"
        captions.append(caption)

    return "; ".join(captions)


class _Simulated(NamedTuple):
    """The conditions of a simulation: one row of the file of coverages."""

    interval: str
    """Name of the interval."""
    shape: str
    """Name of the distribution of a cell's scores over seeds."""
    n_seeds: int
    n_cells: int
    """Cells of a dataset."""


class Coverage(NamedTuple):
    """How often an interval held the true mean, and with how many seeds and cells that was simulated."""

    share: float
    """Share of the simulations, 0 to 1."""
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
    """Return the coverage with so many seeds and cells, or with the next smaller numbers that were simulated.

    Return None where that interval was not simulated, or not with so few seeds.
    """
    simulated = []
    for key in _coverages():
        is_same_kind = key.interval == interval and key.shape == shape
        if is_same_kind and key.n_seeds <= n_seeds:
            simulated.append(key)

    if not simulated:
        return None
    seeds = max(key.n_seeds for key in simulated)
    pool_sizes = sorted(key.n_cells for key in simulated if key.n_seeds == seeds)
    not_larger = [size for size in pool_sizes if size <= n_cells]

    # An interval that does not depend on other cells was simulated with `SOURCE_CELLS` cells only. A request
    # for fewer then finds no smaller number, and gets the smallest that there is.
    cells = max(not_larger, default=pool_sizes[0])
    share = _coverages()[_Simulated(interval, shape, seeds, cells)]
    return Coverage(share, seeds, cells)


def coverage_words(interval: str, n_seeds: int, n_cells: int | None = None) -> str:
    """Return `covers the true mean 95 % of the time (...) in simulations with ...`; empty for what was not simulated.

    Args:
        interval: name of the interval.
        n_seeds: seeds of the score that has the fewest.
        n_cells: cells of the smallest pool of the pooled bootstrap; None: not known. The words then give the range from
            the smallest pool to one of `SOURCE_CELLS` cells.
    """
    from analysis.evidence.pooled import FEWEST_CELLS

    pool_sizes = [FEWEST_CELLS, SOURCE_CELLS] if n_cells is None else [n_cells]
    # By the words for a shape, its coverage with each of the pool sizes; in the order of `SHOWN_SHAPES`.
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
    # All shapes were simulated with the same numbers of seeds and cells, so that the first says them.
    of_first_shape = next(iter(by_shape.values()))
    simulated = f"{of_first_shape[0].n_seeds} seeds"

    # The other intervals do not depend on how many models a source has.
    if interval == POOLED.name:
        models = _range(coverage.n_cells for coverage in of_first_shape)
        simulated = f"{simulated} and {models} models"

    return f"covers the true mean {first} in simulations with {simulated}{more}"


def _range(values: Iterable[float]) -> str:
    """Return the range of some numbers without decimals: `92 to 94`, or `94` where they are alike."""
    low, *more = dict.fromkeys(f"{value:.0f}" for value in sorted(values))
    return f"{low} to {more[-1]}" if more else low


def _refusal(why: str, others: Callable[[Interval], bool]) -> UserError:
    """Return the error of a refused interval: `why`, and as the choice all intervals of which `others` is true."""
    *names, last = [name for name, interval in INTERVALS.items() if others(interval)]
    choice = f"{', '.join(names)} or {last}" if names else last
    return UserError(f"{why} choose --interval {choice}")
