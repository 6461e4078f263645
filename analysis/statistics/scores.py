"""Scores: from runs, or from published cells, to one tidy frame that everything downstream reads.

Columns: `model, task, dataset` (or `average`), `mean, low, high` in percent, `n_seeds, interval, source`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.published_cells import N_SEEDS, published_values
from analysis.rows import records
from analysis.statistics.bounds import resample_seeds
from analysis.statistics.instance_bootstrap import resample_instances
from analysis.statistics.intervals import DEFAULT_SEED, INTERVALS, RESAMPLES, Interval, Sample
from analysis.statistics.selection import SELECTIONS, Selection, select_runs
from analysis.store.instances import read_instances
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE, DATASETS, TASKS
from common.errors import UserError
from common.progress import progress
from pretraining.study import MODELS

__all__ = [
    "COLUMNS", "Settings", "order_scores", "published_scores", "resampled_seed_scores", "run_scores", "seed_scores",
]  # fmt: skip

COLUMNS = ["model", "task", "dataset", "mean", "low", "high", "n_seeds", "interval", "source"]

_KEYS = ["model", "task", "dataset"]
_INSTANCE_DRAWS = 1_000
"""First key of the generators that draw instances, apart from those that draw seeds (keyed by their number)."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How runs become scores."""

    selection: str = "seed"
    """Rule that chooses the learning rate; one of `selection.SELECTIONS`."""
    interval: str = "paper"
    """Kind of 95 % interval; one of `intervals.INTERVALS`."""
    resamples: int = RESAMPLES
    """Resamples of the bootstraps."""
    seed: int = DEFAULT_SEED
    """Seed of the bootstraps' generators."""

    def __post_init__(self) -> None:
        _ = self.rule, self.method  # refuses unknown names
        if self.resamples < 100:
            raise UserError(f"{self.resamples} resamples are too few for a 95 % interval; take 100 or more")
        if self.seed < 0:
            raise UserError(f"--seed {self.seed}: a generator's seed is a whole number from 0 on")

    @property
    def rule(self) -> Selection:
        """The selection rule."""
        return SELECTIONS[self.selection]

    @property
    def method(self) -> Interval:
        """The interval."""
        return INTERVALS[self.interval]

    def rng(self, *key: int) -> np.random.Generator:
        """Return the generator for a purpose named by `key`: the same whatever was drawn for other purposes."""
        return np.random.default_rng([self.seed, *key])

    def picks(self, count: int) -> npt.NDArray[np.int64]:
        """Return the resamples of `count` seeds, (resamples, count) indices; always the same for a count."""
        return resample_seeds(count, self.resamples, self.rng(count))


def seed_scores(runs: pd.DataFrame, selection: str = "seed") -> pd.DataFrame:
    """Return the test score of every (model, task, dataset) and seed at the chosen learning rate, in percent.

    The `average` of a task is taken per seed first, over the seeds that have all three datasets (so the paper's
    210m-clm has +-0.02 on SC from datasets with +-0.30, 0.27 and 0.16).

    Returns:
        Index (model, task, dataset), a column for each seed, nan where a seed has no run.
    """
    chosen = select_runs(runs, selection)
    wide = chosen.pivot(index=_KEYS, columns="seed", values="test_score") * 100
    averages: list[pd.DataFrame] = []
    for task in TASKS:
        parts = [
            wide[wide.index.get_level_values("dataset") == name].droplevel([1, 2])
            for name in averaged_datasets(runs, task)
        ]
        if not parts:
            continue
        models = reduce(pd.Index.intersection, [part.index for part in parts])
        total = reduce(operator.add, [part.loc[models] for part in parts]) / len(parts)
        total.index = pd.MultiIndex.from_tuples([(model, task, AVERAGE) for model in models], names=_KEYS)
        averages.append(total)
    both: pd.DataFrame = pd.concat([wide, *averages])
    return both.loc[both.notna().any(axis=1)].sort_index()


def run_scores(
    runs: pd.DataFrame, settings: Settings, *, source: str, instances: Path | None = None
) -> pd.DataFrame:
    """Return the scores of a runs table.

    Args:
        runs: a runs table (see `analysis.store.runs_table`).
        settings: selection rule, interval and resampling.
        source: content of the `source` column.
        instances: the per-instance Parquet, for intervals that need it.

    Raises:
        UserError: an interval that needs instances, without them.
    """
    values = seed_scores(runs, settings.selection)
    frame = values.index.to_frame(index=False)
    frame["mean"] = values.mean(axis=1).to_numpy()
    frame["low"], frame["high"] = np.nan, np.nan
    frame["n_seeds"] = values.notna().sum(axis=1).to_numpy()
    needed = settings.method.need_instances(instances)
    if needed is None:
        frame[["low", "high"]] = _seed_bounds(values, settings)
    else:
        frame[["low", "high"]] = _instance_bounds(runs, values, settings, needed)
    frame["interval"], frame["source"] = settings.interval, source
    return order_scores(frame)


def published_scores(interval: str = "paper") -> pd.DataFrame:
    """Return the published cells as scores, the printed half-widths times the interval's `printed_factor`.

    Raises:
        UserError: an unknown interval, or one that printed cells cannot give.
    """
    factor = INTERVALS[interval].need_printed_factor()(N_SEEDS)
    cells = published_values()
    half = cells.pop("ci95") * factor
    cells["low"], cells["high"] = cells["mean"] - half, cells["mean"] + half
    cells["n_seeds"], cells["interval"], cells["source"] = N_SEEDS, interval, "published"
    return order_scores(cells)


def order_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with `COLUMNS`, in the paper's order of models, tasks and datasets; own models last."""
    models = {name: rank for rank, name in enumerate(MODELS)}
    datasets = {name: rank for rank, name in enumerate([*DATASETS, AVERAGE])}
    keyed = scores.assign(
        _model=[models.get(name, len(models)) for name in scores["model"]],
        _task=[list(TASKS).index(task) for task in scores["task"]],
        _dataset=[datasets[name] for name in scores["dataset"]],
    )
    return keyed.sort_values(["_model", "model", "_task", "_dataset"], ignore_index=True)[COLUMNS]


def _seed_bounds(values: pd.DataFrame, settings: Settings) -> Array:
    """Return (n_rows, 2) bounds over seeds; rows with the same number of seeds are computed together."""
    matrix = values.to_numpy()
    bounds = np.full((len(matrix), 2), np.nan)
    counts = np.isfinite(matrix).sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        present = np.stack([row[np.isfinite(row)] for row in matrix[rows]])
        low, high = settings.method.bounds(Sample(values=present, pick=settings.picks))
        bounds[rows, 0], bounds[rows, 1] = low, high
    return bounds


def resampled_seed_scores(
    runs: pd.DataFrame, settings: Settings, instances: Path
) -> dict[tuple[str, str, int], Array]:
    """Return for each (model, dataset, seed) the chosen run's test score, 0 to 1, on every resample of instances.

    Runs of one dataset share the resamples, so differences between models stay paired by instance; not so on NQ,
    whose instances differ run by run.

    Returns:
        Arrays of shape (resamples,).
    """
    chosen = select_runs(runs, settings.selection)
    resampled: dict[tuple[str, str, int], Array] = {}
    for rank, dataset in enumerate(progress(DATASETS.values(), "resample instances", unit="dataset")):
        rows = chosen[chosen["dataset"] == dataset.name]
        if rows.empty:
            continue
        scores = read_instances(instances, dataset.name, rows)
        rng = settings.rng(_INSTANCE_DRAWS, rank)
        means = resample_instances(scores, settings.resamples, rng, paired=dataset.paired)
        for column, (model, seed) in enumerate(records(rows, "model", "seed")):
            resampled[model, dataset.name, seed] = means[:, column]
    return resampled


def _instance_bounds(runs: pd.DataFrame, values: pd.DataFrame, settings: Settings, instances: Path) -> Array:
    """Return (n_rows, 2) bounds over seeds and instances; the datasets of an average are resampled together."""
    resampled = resampled_seed_scores(runs, settings, instances)
    bounds = np.full((len(values), 2), np.nan)
    for row, (model, task, dataset) in enumerate(values.index):
        names = averaged_datasets(runs, task) if dataset == AVERAGE else (dataset,)
        present = values.iloc[row].dropna()
        per_seed = np.mean(
            [[resampled[model, name, seed] for seed in present.index] for name in names], axis=0
        )
        sample = Sample(values=present.to_numpy(), pick=settings.picks, resampled=100 * per_seed.T)
        low, high = settings.method.bounds(sample)
        bounds[row] = float(low), float(high)
    return bounds
