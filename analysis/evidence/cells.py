"""The cells that results are made from: scores by seed where there are runs, elsewhere the paper's printed numbers.

A cell is one model on one dataset, or on `average`, the mean over the datasets of a task. Its seeds are those of
fine-tuning one pretrained model. Of an arm, a model that was pretrained several times, they are the pretrainings.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence.contrasts import Cell, Term, weights_of
from analysis.evidence.pooled import ResidualPools
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.statistics.estimates import (
    Resamples,
    Student,
    difference_estimate,
    is_flat,
    student_estimate,
    welch_estimate,
)
from analysis.statistics.learning_rate_selection import CELL, MEMBERS, select_runs
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE, TASKS

if TYPE_CHECKING:
    from analysis.statistics.crossed import InstanceCovariance, Weighted

Array = npt.NDArray[np.float64]

SMALLEST_HALF_WIDTH = 0.005
"""A half-width printed as 0.00 is rounded from less than this, which is taken in its place, in points."""


class Summary(NamedTuple):
    """A cell of which only the mean and its error are known, not the scores by seed."""

    mean: float
    error: float
    """Standard error; nan for one seed, 0 where seeds agree and no printed digit says how far apart they may be."""
    seeds: int
    """Number of seeds."""
    half: float
    """Half-width of the interval as it is printed."""


class Part(NamedTuple):
    """A part of a weighted sum that varies independently of the others."""

    weight: float
    mean: float
    error: float
    """Standard error; nan for one seed."""
    seeds: int
    """Number of seeds; of an arm's cells, number of pretrainings."""


class Cells:
    """Runs, printed cells or both, by (model, task, dataset)."""

    def __init__(
        self,
        runs: pd.DataFrame | None,
        values: pd.DataFrame | None,
        instances: Path | None,
        *,
        arms: Iterable[str],
        half_digits: Mapping[Cell, float] | None,
        summaries: Mapping[Cell, Summary],
        printed: bool,
        selection: str,
        resamples: int,
        seed: int,
    ) -> None:
        """Read the cells; the arguments are those of `analysis.evidence.evidence.Evidence`, and its settings'.

        Args:
            runs: a runs table; None where there are none.
            values: scores by seed in place of those of `runs`; None: they are taken from `runs`.
            instances: the per-instance scores; None: intervals hold the test instances fixed.
            arms: the models of `values` whose seeds are pretrainings.
            half_digits: half of the last written digit of each cell of a table of scores; None for runs.
            summaries: cells of which only a mean and its error are known.
            printed: whether models without runs have the paper's printed cells. The attribute of the same name
                has the cells themselves.
            selection: rule that chooses learning rates.
            resamples: number of bootstrap resamples.
            seed: of the resampling.
        """
        self.runs = runs
        self.selection = selection
        self.resamples = resamples
        self.seed = seed
        self._instances = instances
        self._half_digits = half_digits
        if values is None and runs is not None:
            values = seed_scores(runs, selection)
        if values is None:  # there are only printed cells or other summaries
            values = pd.DataFrame(index=pd.MultiIndex.from_arrays([[], [], []]))
        self.values = values

        # A lookup in the frame for each cell would take longer than the computation from its scores.
        self._matrix = self.values.to_numpy(dtype=np.float64)
        self._rows: dict[Cell, int] = {}
        for row, cell in enumerate(self.values.index):
            self._rows[cell] = row

        # With --replicates, a row of an arm is the mean over a pretraining's runs, which the column `MEMBERS` lists. So
        # runs name their arms themselves, and the argument is for scores without runs.
        if runs is not None and MEMBERS in runs:
            arms = runs.loc[runs[MEMBERS].notna(), "model"].unique()
        self._pretrainings = {arm: self._seeds_of(arm) for arm in arms}
        """By arm its pretrainings. Arms of one trunk (they branch from one pretraining) have the same, so that their
        scores vary together."""
        self.summary = cache(self._summary)
        """From a cell to its mean, standard error (nan for one seed) and number of seeds."""
        self.printed: dict[Cell, Summary] = dict(summaries)
        """The cells of which only summaries are known; all others have runs."""
        if printed:
            with_runs = {model for model, _, _ in self._rows}
            # In place of `summaries`: these are given only for tables of scores, without printed cells.
            self.printed = {}
            for cell, summary in _printed_summaries().items():
                # A model with runs on one dataset takes none of its other scores from print.
                if cell[0] not in with_runs:
                    self.printed[cell] = summary

    def __contains__(self, cell: Cell) -> bool:
        """Return whether there is a score of the cell."""
        return cell in self._rows or cell in self.printed

    def __iter__(self) -> Iterator[Cell]:
        """Yield the cells, those of runs first."""
        yield from self._rows
        yield from self.printed

    def by_seed(self, cell: Cell) -> Array:
        """Return (n_seeds,) scores in percent over all seeds of the source, nan where a cell has none."""
        row: Array = self._matrix[self._rows[cell]]
        return row

    def values_of(self, cell: Cell) -> Array:
        """Return (n_seeds,) scores in percent of the seeds that the cell has."""
        row = self._matrix[self._rows[cell]]
        scores: Array = row[np.isfinite(row)]
        return scores

    def _summary(self, cell: Cell) -> tuple[float, float, int]:
        """Return the mean, its standard error (nan for one seed) and the number of seeds."""
        if cell in self.printed:
            printed = self.printed[cell]
            return printed.mean, printed.error, printed.seeds
        scores = self.values_of(cell)
        if len(scores) < 2:
            return float(scores.mean()), math.nan, len(scores)
        student = student_estimate(scores)
        # Seeds that all agree would give an error of 0, too small: the least error that can be seen replaces it.
        error = student.error or self.least_error(cell, len(scores))
        return student.effect, error, len(scores)

    def _seeds_of(self, model: str) -> Hashable:
        """Return the positions of the seeds that a model has on any dataset, as a key by which models are grouped.

        In a row of an arm, the seed is the number of a pretraining
        (`analysis.comparisons.comparison.with_arms`): arms with the same seeds have the same pretrainings. Arms
        that share only some pretrainings have different keys.
        """
        rows = [row for cell, row in self._rows.items() if cell[0] == model]
        has_run = np.isfinite(self._matrix[rows]).any(axis=0)
        return tuple(np.flatnonzero(has_run))

    def joint(self, terms: Sequence[Term]) -> list[list[Term]]:
        """Return the cells with a weight, grouped so that cells of the same pretrainings are together.

        One pretraining gives the scores of all tasks, and of all models that branch from it. Where seeds are
        fine-tunings, no two cells share them, and each cell is a group.
        """
        # Why cells are grouped at all: with all cells taken as independent, one of two equal arms of five
        # pretrainings led in 18 to 31 % of simulated studies, where 5 % are meant.
        groups: dict[Hashable, list[Term]] = {}
        for cell, weight in weights_of(terms).items():
            model, task, dataset = cell
            term = Term(weight=weight, model=model, task=task, dataset=dataset)
            # A cell whose seeds are fine-tunings has a group of its own.
            shared = self._pretrainings.get(model, cell)
            groups.setdefault(shared, []).append(term)
        return list(groups.values())

    def parts(self, terms: Sequence[Term]) -> list[Part]:
        """Return the independent parts of a weighted sum; cells of the same pretrainings are summed within each."""
        parts = []
        for group in self.joint(terms):
            if len(group) == 1:
                [term] = group
                # The summary is the mean, its error and the number of seeds, in the order of the fields of
                # `Part`.
                parts.append(Part(term.weight, *self.summary(term.cell)))
                continue

            within = self.paired(group)
            if within is not None:
                # Student's degrees of freedom are one less than the pretrainings.
                seeds = round(within.df) + 1
                # The weight is 1, since the sum within each pretraining has the weights of its cells already.
                parts.append(Part(1.0, within.effect, within.error, seeds))
                continue

            # The cells share one pretraining at most: their weighted sum is known, but not its error.
            weighted_means = []
            for term in group:
                mean, _, _ = self.summary(term.cell)
                weighted_means.append(term.weight * mean)

            parts.append(Part(1.0, math.fsum(weighted_means), math.nan, 1))

        return parts

    def words(self, cell: Cell) -> str:
        """Return the cell's numbers for a list of what enters a contrast."""
        if cell in self.printed:
            printed = self.printed[cell]
            return f"{printed.mean:.2f} (+-{printed.half:.2f}), n = {printed.seeds}"
        row = self.by_seed(cell)
        has_run = np.isfinite(row)
        seeds = ", ".join(str(seed) for seed in self.values.columns[has_run])
        return f"mean {row[has_run].mean():.4f}, n = {has_run.sum()} (seeds {seeds})"

    def least_error(self, cell: Cell, count: int) -> float:
        """Return the standard error, in points, of `count` seeds that all agree.

        It is the error that the smallest visible spread would give. For runs, one seed differs in one test instance.
        For a table of scores, half of their last digit is the half-width of an interval, and the error is 0 where their
        digits are not known.
        """
        if self._half_digits is not None:
            return self._half_digits.get(cell, 0.0) / NORMAL_QUANTILE
        model, task, dataset = cell
        names = averaged_datasets(self.runs, task, dataset)
        errors = []
        for name in names:
            # If one of n seeds differs by x, the standard deviation is x / sqrt(n), the error of the mean x / n.
            points = self._points_of_instance.get((model, name), 0.0)
            errors.append(points / count)

        # The error of the mean over datasets, whose errors are independent.
        by_instances = math.hypot(*errors) / len(names)
        # Not below that of a printed interval of 0.00, also where the number of test instances is not known.
        return max(by_instances, SMALLEST_HALF_WIDTH / NORMAL_QUANTILE)

    @cached_property
    def _points_of_instance(self) -> dict[tuple[str, str], float]:
        """The points that one test instance is worth, by model and dataset, where the number of instances is known."""
        if self.runs is None or "n_test" not in self.runs:
            return {}
        of_cells = self.runs.groupby(["model", "dataset"], observed=True)
        # All runs of a cell have the same number, unless somebody else wrote the runs table.
        sizes = of_cells["n_test"].median().dropna()
        points = {}
        for (model, name), size in zip(sizes.index, sizes.to_numpy(), strict=True):
            if size > 0:
                points[str(model), str(name)] = 100 / size
        return points

    def within_seeds(self, terms: Sequence[Term]) -> Array | None:
        """Return (n_seeds,) the contrast within each seed that all cells have; None with fewer than two such seeds."""
        table, seeds = self._shared(terms)
        if len(seeds) < 2:
            return None
        weights = np.array([term.weight for term in terms])
        # Exact sums: a product of vectors rounds differently on each processor, and some effects lie halfway between
        # two numbers of the printed digits.
        return np.array([math.fsum(weights * column) for column in table.T])

    def paired(self, terms: Sequence[Term]) -> Student | None:
        """Return Student's estimate from the seeds that all cells share; None with fewer than two such seeds.

        Where the seeds do not differ, the error is the least that could be seen.
        """
        values = self.within_seeds(terms)
        if values is None:
            return None
        student = student_estimate(values)
        if student.error:
            return student
        least = []
        for term in terms:
            least.append(term.weight * self.least_error(term.cell, len(values)))
        return replace(student, error=math.hypot(*least))

    def welch(self, terms: Sequence[Term]) -> Student | None:
        """Return Welch's estimate from the seeds of each part; None where a part has one seed.

        Of a printed cell only the mean, the error and the number of seeds are needed.
        """
        weights = weights_of(terms)
        parts = self.parts(terms)
        # A model against itself: all terms cancel, so that there is no part. A part of weight 0 makes the
        # difference 0, with the degrees of freedom of the cell's seeds.
        if not parts:
            parts = [Part(0.0, *self.summary(terms[0].cell))]
        # One cell less another. Two cells of the same pretrainings would be a single part.
        is_difference = len(parts) == 2 and sorted(weights.values()) == [-1, 1]
        has_printed = any(cell in self.printed for cell in weights)

        # Where the scores of both cells are known, the difference is that of statsmodels. `welch_estimate`
        # has the same formula written out, for sums of other cells (`analysis.statistics.estimates`).
        if is_difference and not has_printed:
            behind, ahead = sorted(weights, key=weights.__getitem__)  # -1, then 1
            first = self.values_of(ahead)
            second = self.values_of(behind)
            have_seeds = min(len(first), len(second)) > 1
            # Of seeds that all agree, statsmodels does not know the least error that could have been seen.
            if have_seeds and not (is_flat(first) or is_flat(second)):
                return difference_estimate(first, second)

        # An array for each field of a part, in the order of the fields.
        part_weights, means, errors, counts = np.array(parts, dtype=np.float64).T
        if counts.min() < 2:
            return None
        return welch_estimate(means, errors, counts, part_weights)

    def seed_resamples(self, count: int) -> Resamples:
        """Return resamples of `count` seeds."""
        return Resamples.of_seeds(count, self.resamples, self.seed)

    def covariance(self, terms: Sequence[Term]) -> tuple[Array, float] | None:
        """Return the covariance of `within_seeds` over the test instances, and its degrees of freedom.

        Returns:
            (n_seeds, n_seeds) in squared points; None where instances or a second seed are missing.
        """
        _, seeds = self._shared(terms)
        if self.covariances is None or len(seeds) < 2:
            return None
        return self.covariances.between_seeds(self.weighted(terms), seeds)

    def weighted(self, terms: Sequence[Term]) -> list[Weighted]:
        """Return weight, model and dataset of every score that a contrast is made of."""
        scores: list[Weighted] = []
        for term in terms:
            names = averaged_datasets(self.runs, term.task, term.dataset)
            weight = term.weight / len(names)
            scores += [(weight, term.model, name) for name in names]
        return scores

    @cached_property
    def covariances(self) -> InstanceCovariance | None:
        """The covariances between runs over test instances, where these are read."""
        if self._instances is None or self.runs is None:
            return None
        # Imported here: only intervals over test instances need it.
        from analysis.statistics.crossed import InstanceCovariance

        chosen = select_runs(self.runs, self.selection)
        return InstanceCovariance.of(chosen, self._instances)

    @cached_property
    def pools(self) -> ResidualPools:
        """The errors of seeds, pooled over the cells of a dataset."""
        return ResidualPools(self.values, self.resamples, self.seed)

    def _shared(self, terms: Sequence[Term]) -> tuple[Array, list[int]]:
        """Return (n_terms, n_seeds) scores of the seeds that all cells have, and these seeds."""
        table = np.array([self.by_seed(term.cell) for term in terms])
        is_shared = np.isfinite(table).all(axis=0)
        seeds = [int(seed) for seed in self.values.columns[is_shared]]
        return table[:, is_shared], seeds


def _printed_summaries() -> dict[Cell, Summary]:
    """Return mean, error and seeds of every cell that the paper prints."""
    summaries = {}
    columns = ("model", "task", "dataset", "mean", "ci95")
    for model, task, dataset, mean, half in records(published_values(), *columns):
        # 1.96 standard errors of the released runs are the printed half-widths, to the digit.
        error = max(half, SMALLEST_HALF_WIDTH) / NORMAL_QUANTILE
        summaries[model, task, dataset] = Summary(mean, error, N_SEEDS, half)
    return summaries


def seed_scores(runs: pd.DataFrame, selection: str = "seed") -> pd.DataFrame:
    """Return the test score of every (model, task, dataset) and seed at the chosen learning rate, in percent.

    The `average` of a task is taken within each seed that has a run on all its datasets. So its interval can be
    narrower than each dataset's: the paper's 210m-clm has +-0.02 on SC from +-0.30, 0.27 and 0.16.

    Returns:
        Index (model, task, dataset), a column for each seed, nan where a seed has no run.
    """
    chosen = select_runs(runs, selection)
    wide = chosen.pivot(index=CELL, columns="seed", values="test_score") * 100
    # Arrays by cell take a third of the time that indexing and joining frames for each average would.
    rows = dict(zip(wide.index, wide.to_numpy(), strict=True))
    for task in TASKS:
        names = averaged_datasets(runs, task)
        # Without datasets there is no average, as of a task of which stand-ins name none.
        if not names:
            continue
        for model in wide.index.unique("model"):
            cells = [(model, task, name) for name in names]
            if all(cell in rows for cell in cells):
                # A seed that one dataset lacks is nan in the sum, so that it has no average.
                total = np.sum([rows[cell] for cell in cells], axis=0)
                rows[model, task, AVERAGE] = total / len(cells)

    index = pd.MultiIndex.from_tuples(sorted(rows), names=CELL)
    # Reshaped for runs without any row, of which NumPy would make an array of one dimension.
    shape = len(index), len(wide.columns)
    scores = np.array([rows[cell] for cell in index]).reshape(shape)
    with_averages = pd.DataFrame(scores, index=index, columns=wide.columns, copy=False)
    # Datasets that share no seed give an average without any score: such a row is left out.
    has_runs = with_averages.notna().any(axis=1)
    return with_averages.loc[has_runs]
