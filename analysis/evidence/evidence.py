"""From a source's cells to what they say about a contrast, a score or a ratio of spreads.

Cells have scores by seed where there are runs, the paper's printed means and intervals elsewhere. How a contrast is
estimated depends on which of these it has:

printed cells       Welch, from means and intervals (half-width / 1.96 is the standard error, n = 5)
runs                by the kind of interval (`analysis.evidence.intervals`)
runs and cells      Welch, each from its own seeds
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from analysis.evidence.cells import Cells, Summary
from analysis.evidence.contrasts import (
    AnyContrast,
    Cell,
    Result,
    SeedSpread,
    Spread,
    Term,
    contrast_result,
    seed_spread_result,
    spread_result,
)
from analysis.evidence.intervals import PAPER_INTERVAL, Estimated, T
from analysis.evidence.settings import Settings
from analysis.published_cells import NORMAL_QUANTILE
from analysis.statistics.estimates import LIMITS, Student
from benchmarks.protocol import AVERAGE, TASKS, in_order
from pretraining.paper_models import MODELS

SCORE_COLUMNS = [
    "model",
    "task",
    "dataset",
    "mean",
    "low",
    "high",
    "n_seeds",
    "interval",
    "source",
]
"""The columns of the table of scores that everything downstream reads."""


class Evidence(Cells):
    """The cells of a source, and the kind of interval by which its questions are answered."""

    def __init__(
        self,
        settings: Settings,
        *,
        runs: pd.DataFrame | None = None,
        values: pd.DataFrame | None = None,
        arms: Iterable[str] = (),
        half_digits: Mapping[Cell, float] | None = None,
        summaries: Mapping[Cell, Summary] | None = None,
        instances: Path | None = None,
        printed: bool = False,
    ) -> None:
        """Refuse an interval that cannot be computed from what is given; else read the cells.

        Args:
            settings: selection rule, interval and resamples.
            runs: a runs table.
            values: scores by seed in place of those of `runs`, as `analysis.evidence.cells.seed_scores` returns them; a
                simulation has no runs.
            arms: the models of `values` whose seeds are pretrainings; those of runs are known.
            half_digits: half of the last written digit of each cell of a table of scores, where it is known; None for
                runs.
            summaries: cells of which only a mean and its error are known, in place of runs.
            instances: the per-instance Parquet; read when the interval needs it.
            printed: whether models without runs have the paper's printed cells.

        Raises:
            UserError: an interval that needs instances, or single runs, without them.
        """
        method = settings.method
        # Without runs there are only means with errors, from which some intervals cannot be computed.
        if runs is None and values is None:
            method.need_cells()  # for its error, if the method is one of these
        elif method.needs_instances:
            method.need_instances(instances)

        # The other intervals hold the test instances fixed.
        if not method.needs_instances:
            instances = None
        self.settings = settings
        super().__init__(
            runs,
            values,
            instances,
            arms=arms,
            half_digits=half_digits,
            summaries=summaries or {},
            printed=printed,
            selection=settings.selection,
            resamples=settings.resamples,
            seed=settings.seed,
        )

    def result(self, comparison: AnyContrast) -> Result:
        """Return the result of a comparison; where scores are missing, it says which and has no numbers."""
        # First, since it is a kind of `Spread` as well.
        if isinstance(comparison, SeedSpread):
            return seed_spread_result(comparison, self._spread_over_seeds)
        if isinstance(comparison, Spread):
            if self.runs is None:
                return Result(comparison=comparison, missing="needs individual runs")
            return spread_result(
                comparison, self.runs, self.values, self.seed_resamples
            )

        absent = [term for term in comparison.terms if term.cell not in self]
        if absent:
            where = "no published cell for" if self.runs is None else "no runs of"
            return Result(comparison=comparison, missing=f"{where} {_names(absent)}")

        lines, seed_counts = [], []
        for term in comparison.terms:
            name = f"{term.model} {term.task} {term.dataset}"
            lines.append(f"{term.weight:+.4g} x {name}: {self.words(term.cell)}")
            _, _, count = self.summary(term.cell)
            seed_counts.append(count)

        inputs = tuple(lines)
        found = self.estimate(comparison.terms)
        if found is None:
            # For runs and printed cells the reason is a single seed, so the score with the fewest seeds is
            # named. In a table of scores it may be seeds that all agree: `analysis.comparisons.differences`
            # says so instead.
            position = seed_counts.index(min(seed_counts))
            missing = f"only one seed of {_names([comparison.terms[position]])}"
            return Result(comparison=comparison, missing=missing, inputs=inputs)

        return contrast_result(
            comparison,
            found.estimate,
            test=found.test,
            inputs=inputs,
            # An estimate names its seeds only where the contrast was taken within each of them.
            seeds=found.seeds or tuple(seed_counts),
            interval=found.interval,
            within_seeds=bool(found.seeds),
        )

    def _spread_over_seeds(self, cell: Cell) -> float:
        """Return the standard deviation over seeds; 0 for a cell that is not there, nan for one seed."""
        if cell not in self:
            return 0.0
        _, error, count = self.summary(cell)
        return error * math.sqrt(count)

    def estimate(self, terms: Sequence[Term]) -> Estimated | None:
        """Return the estimate of a weighted sum whose cells are all there; None where its error cannot be known.

        That is so where a cell has only one seed. A sum with a printed cell has Welch's error, and the interval of the
        settings if printed cells can give it, else Student's t.
        """
        method = self.settings.method
        if not any(term.cell in self.printed for term in terms):
            # Cells that share pretrainings are summed within each of them. The bootstraps resample the seeds of single
            # cells, not such sums, so that Student's t takes their place.
            is_joint = any(len(group) > 1 for group in self.joint(terms))
            if is_joint and method.is_resampled:
                method = T
            found = method.of_runs(self, terms)
            if found is None:
                return None

            # In a table of scores, seeds that all agree may have been rounded. Without the number of their digits,
            # nothing says how far they were apart.
            is_unknown = found.estimate.error == 0 and self._half_digits is not None
            return None if is_unknown else found

        if method.of_cells is None:
            method = T
        welch = self.welch(terms)
        # None where a part has one seed. The error is 0 where seeds agree and no printed digit says how far apart they
        # may be (`Summary.error`), or where all terms cancel.
        if welch is None or welch.error == 0:
            return None
        # `of_cells` of this kind, which turns Welch's estimate into the kind's own. Since `T` took the place
        # of a method without it, nothing is refused here.
        from_welch = method.need_cells()
        return Estimated(
            estimate=from_welch(welch),
            interval=method.name,
            test=method.test_of_cells,
        )

    def student(self, terms: Sequence[Term]) -> Student | None:
        """Return the estimate with its standard error and degrees of freedom, by Student's t where it has no error."""
        found = self.estimate(terms)
        if found is None:
            return None
        estimate = found.estimate
        # The percentile bootstrap has an interval, but neither a standard error nor degrees of freedom. `T` has an
        # estimate wherever the bootstrap has one.
        if math.isnan(estimate.error):
            by_t = T.of_runs(self, terms)
            estimate = estimate if by_t is None else by_t.estimate
        if isinstance(estimate, Student):
            return estimate
        return Student(effect=estimate.effect, error=estimate.error, df=estimate.df)

    def score(self, cell: Cell) -> tuple[float, float, float, int, str]:
        """Return a cell's mean, both ends of its interval, number of seeds and kind of interval; scores in percent.

        The interval is cut where the metric ends; a single seed has none, so its ends are nan.
        """
        mean, _, count = self.summary(cell)
        model, task, dataset = cell
        term = Term(weight=1.0, model=model, task=task, dataset=dataset)
        found = self.estimate([term])
        if found is None:
            return mean, math.nan, math.nan, count, self.settings.method.name
        low, high = found.estimate.interval()

        # As the paper prints it: with its factor of 1.96, and not cut where the metric ends.
        if found.interval == PAPER_INTERVAL.name:
            half = NORMAL_QUANTILE * found.estimate.error
            if cell in self.printed:  # a printed 0.00 stays 0.00
                half = self.printed[cell].half
            return mean, mean - half, mean + half, count, PAPER_INTERVAL.name

        # A correlation ends at -1; it is the only metric, of datasets of one's own, that can be negative.
        least, most = LIMITS
        if cell not in self.printed and self.values_of(cell).min() < 0:
            least = -most
        return mean, max(low, least), min(high, most), count, found.interval


def scores_of(
    evidence: Evidence, *, source: str, averages_only: bool = False
) -> pd.DataFrame:
    """Return the score of every cell with its interval, in percent.

    Args:
        evidence: the cells.
        source: name of the source, for the column `source`.
        averages_only: whether cells of single datasets are left out.

    Returns:
        `SCORE_COLUMNS`, in the paper's order of models, tasks and datasets; own models last.
    """
    model_rank = {name: rank for rank, name in enumerate(MODELS)}
    task_rank = {name: rank for rank, name in enumerate(TASKS)}
    single_datasets = {dataset for _, _, dataset in evidence} - {AVERAGE}
    datasets = [*in_order(single_datasets), AVERAGE]
    dataset_rank = {name: rank for rank, name in enumerate(datasets)}

    def place(cell: Cell) -> tuple[int, str, int, int]:
        model, task, dataset = cell
        # Own models share the last rank, so that their names decide.
        rank = model_rank.get(model, len(model_rank))
        return rank, model, task_rank[task], dataset_rank[dataset]

    rows = []
    for cell in sorted(evidence, key=place):
        _, _, dataset = cell
        if dataset == AVERAGE or not averages_only:
            # In the order of `SCORE_COLUMNS`.
            rows.append((*cell, *evidence.score(cell), source))

    return pd.DataFrame(rows, columns=SCORE_COLUMNS)


def _names(terms: Sequence[Term]) -> str:
    """Return the scores' names for a sentence, each once."""
    names = [f"{term.model} on {term.task} {term.dataset}" for term in terms]
    return ", ".join(dict.fromkeys(names))
