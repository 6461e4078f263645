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
class _Rates:
    """Validation and test scores of one (model, dataset) at every rate."""

    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    validation: Array
    """(n_rates, n_seeds), nan where there is no run."""
    test: Array


@dataclass(frozen=True, kw_only=True)
class Reselection:
    """Scores of resampled seeds at the rate that these seeds choose together."""

    runs: pd.DataFrame
    rule: Selection

    @cached_property
    def _cells(self) -> dict[tuple[str, str], _Rates]:
        cells = {}
        for (model, dataset), rows in self.runs.groupby(["model", "dataset"]):
            tables = rows.pivot(index="lr", columns="seed", values=["validation_score", "test_score"])
            validation, test = tables["validation_score"], tables["test_score"]
            cells[str(model), str(dataset)] = _Rates(
                rates=tuple(validation.index), seeds=tuple(int(seed) for seed in validation.columns),
                validation=validation.to_numpy(), test=test.to_numpy(),
            )  # fmt: skip
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
        together = [names] if "dataset" not in self.rule.shares_rate else [(name,) for name in names]
        total = np.zeros(picks.shape)
        for group in together:
            pool = members if "dataset" not in self.rule.shares_rate else group
            part = self._group(
                model, [name for name in pool if (model, name) in self._cells], group, seeds, picks
            )
            if part is None:
                return None
            total += part
        scores: Array = 100 * total / len(names)
        return scores

    def _group(
        self, model: str, pool: Sequence[str], shown: Sequence[str], seeds: Sequence[int], picks: Picks
    ) -> Array | None:
        """Return the sum over `shown` of the scores at the rate that the datasets of `pool` choose together."""
        cells = {name: self._cells[model, name] for name in pool}
        if any(name not in cells for name in shown):
            return None
        common = set.intersection(*(set(cell.rates) for cell in cells.values()))
        complete = [
            rate for rate in sorted(common) if all(_has(cell, rate, seeds) for cell in cells.values())
        ]
        if not complete:
            return None
        validation = sum(_at(cell, "validation", complete, seeds) for cell in cells.values())
        means = np.asarray(validation)[:, picks].mean(axis=2)  # (n_rates, n_resamples)
        # The first of equal ones is the smallest rate, as in the choice itself.
        chosen = (means >= means.max(axis=0) - 1e-12).argmax(axis=0)
        test = sum(_at(cells[name], "test", complete, seeds) for name in shown)
        scores: Array = np.asarray(test)[chosen[:, None], picks]
        return scores


def _at(cell: _Rates, part: str, rates: Sequence[float], seeds: Sequence[int]) -> Array:
    rows = [cell.rates.index(rate) for rate in rates]
    columns = [cell.seeds.index(seed) for seed in seeds]
    table: Array = getattr(cell, part)[np.ix_(rows, columns)]
    return table


def _has(cell: _Rates, rate: float, seeds: Sequence[int]) -> bool:
    if any(seed not in cell.seeds for seed in seeds):
        return False
    return bool(np.isfinite(_at(cell, "validation", [rate], seeds)).all())
