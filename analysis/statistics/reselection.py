"""The choice of a learning rate, made again on every resample of the seeds.

Under the rules `mean` and `pooled` the seeds choose a rate together, so another set of seeds could choose another rate.
A bootstrap that keeps the rate fixed leaves that out; here every resample of the seeds chooses its own. (Under `seed`
every seed has its own rate, which it brings along.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.statistics.learning_rate_selection import Selection
from analysis.statistics.resampling import Picks
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE

__all__ = ["Reselection"]

Array = npt.NDArray[np.float64]
Cell = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True)
class Reselection:
    """Scores of resampled seeds at the rate that these seeds choose together."""

    runs: pd.DataFrame
    rule: Selection

    @cached_property
    def _seeds(self) -> list[int]:
        return sorted(int(seed) for seed in self.runs["seed"].unique())

    @cached_property
    def _cells(self) -> dict[tuple[str, str], Array]:
        """Validation and test scores of every model and dataset: (2, n_rates, n_seeds), nan where there is no run."""
        rates, parts = sorted(self.runs["lr"].unique()), ("validation_score", "test_score")
        cells = {}
        for (model, dataset), rows in self.runs.groupby(["model", "dataset"]):
            tables = [rows.pivot(index="lr", columns="seed", values=part) for part in parts]
            cells[str(model), str(dataset)] = np.array([
                table.reindex(index=rates, columns=self._seeds) for table in tables
            ])  # fmt: skip
        return cells

    def scores(self, cell: Cell, seeds: Sequence[int], picks: Picks) -> Array | None:
        """Return the scores, in percent, of resampled seeds at the rate that they choose.

        Args:
            cell: (model, task, dataset or `average`).
            seeds: the seeds that are resampled.
            picks: (n_resamples, n_seeds) indices into `seeds`.

        Returns:
            (n_resamples, n_seeds); None where no rate has runs of all these seeds, so that it stays as it is, and for
            a rule by which every seed has its own.
        """
        model, task, dataset = cell
        if not self.rule.shares_rate:
            return None
        members = averaged_datasets(self.runs, task)
        names = members if dataset == AVERAGE else (dataset,)
        if any((model, name) not in self._cells for name in names) or not {*seeds} <= {*self._seeds}:
            return None
        pools: dict[tuple[str, ...], Sequence[str]] = {(name,): (name,) for name in names}
        if "dataset" not in self.rule.shares_rate:
            pools = {tuple(name for name in members if (model, name) in self._cells): names}
        columns = [self._seeds.index(seed) for seed in seeds]
        total: Array = np.zeros(picks.shape)
        for pool, shown in pools.items():
            validation = np.sum([self._cells[model, name][0, :, columns] for name in pool], axis=0).T
            complete = np.flatnonzero(np.isfinite(validation).all(axis=1))
            if not len(complete):
                return None
            means = validation[complete][:, picks].mean(axis=2)  # (n_rates, n_resamples)
            # The first of equal ones is the smallest rate, as in the choice itself.
            chosen = complete[(means >= means.max(axis=0) - 1e-12).argmax(axis=0)]
            for name in shown:
                total += self._cells[model, name][1, :, columns].T[chosen[:, None], picks]
        scores: Array = 100 * total / len(names)
        return scores
