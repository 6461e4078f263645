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
from scipy import special

from analysis.frames import records
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.statistics import intervals
from analysis.statistics.instance_bootstrap import resample_instances
from analysis.statistics.selection import SELECTIONS, select_runs
from analysis.store.instances import read_instances
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE, DATASETS, TASKS
from common.errors import UserError, nearest
from common.progress import progress
from pretraining.study import MODELS

__all__ = [
    "COLUMNS",
    "Settings",
    "order_scores",
    "published_scores",
    "resampled_seed_scores",
    "run_scores",
    "seed_scores",
]

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
    resamples: int = intervals.RESAMPLES
    """Resamples of the bootstraps."""
    seed: int = intervals.DEFAULT_SEED
    """Seed of the bootstraps' generators."""

    def __post_init__(self) -> None:
        for what, value, known in (
            ("selection", self.selection, SELECTIONS),
            ("interval", self.interval, intervals.INTERVALS),
        ):
            if value not in known:
                raise UserError(f"unknown {what} {value!r}{nearest(value, known)}; one of {', '.join(known)}")
        if self.resamples < 100:
            raise UserError(f"{self.resamples} resamples are too few for a 95 % interval; take 100 or more")
        if self.seed < 0:
            raise UserError(f"--seed {self.seed}: a generator's seed is a whole number from 0 on")

    def rng(self, *key: int) -> np.random.Generator:
        """Return the generator for a purpose named by `key`: the same whatever was drawn for other purposes."""
        return np.random.default_rng([self.seed, *key])


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
        source: what the `source` column says.
        instances: the per-instance Parquet, which `hierarchical` needs.

    Raises:
        UserError: `hierarchical` without instances.
    """
    values = seed_scores(runs, settings.selection)
    frame = values.index.to_frame(index=False)
    frame["mean"] = values.mean(axis=1).to_numpy()
    frame["low"], frame["high"] = np.nan, np.nan
    frame["n_seeds"] = values.notna().sum(axis=1).to_numpy()
    if settings.interval == "hierarchical":
        if instances is None:
            raise UserError(
                "the hierarchical interval needs per-instance scores: read the run store with "
                "`python -m analysis ingest STORE --instances DIR`, or choose --interval t or bootstrap"
            )
        bounds = _hierarchical_bounds(runs, values, settings, instances)
    else:
        bounds = _seed_bounds(values, settings)
    frame[["low", "high"]] = bounds
    frame["interval"], frame["source"] = settings.interval, source
    return order_scores(frame)


def published_scores(interval: str = "paper") -> pd.DataFrame:
    """Return the published cells as scores; `t` widens the printed interval to Student's with 4 degrees of freedom.

    Raises:
        UserError: an interval that printed cells cannot give.
    """
    if interval not in ("paper", "t"):
        raise UserError(
            f"the {interval} interval needs runs, and the published cells are only means and normal intervals: "
            "choose --interval paper or t, or give runs with --source"
        )
    cells = published_values()
    factor = 1.0 if interval == "paper" else special.stdtrit(N_SEEDS - 1, 0.975) / NORMAL_QUANTILE
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
    """Return (n_rows, 2) bounds; rows with the same number of seeds are computed together."""
    matrix = values.to_numpy()
    bounds = np.full((len(matrix), 2), np.nan)
    counts = np.isfinite(matrix).sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        present = np.stack([row[np.isfinite(row)] for row in matrix[rows]])
        if settings.interval == "paper":
            low, high = intervals.paper_interval(present)
        elif settings.interval == "t":
            low, high = intervals.t_interval(present)
        else:
            picks = intervals.resample_seeds(int(count), settings.resamples, settings.rng(int(count)))
            method = (
                intervals.percentile_interval if settings.interval == "bootstrap" else intervals.bca_interval
            )
            low, high = method(present, picks)
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
    found: dict[tuple[str, str, int], Array] = {}
    for rank, dataset in enumerate(progress(DATASETS.values(), "resample instances", unit="dataset")):
        rows = chosen[chosen["dataset"] == dataset.name]
        if rows.empty:
            continue
        scores = read_instances(instances, dataset.name, rows)
        rng = settings.rng(_INSTANCE_DRAWS, rank)
        means = resample_instances(scores, settings.resamples, rng, paired=dataset.paired)
        for column, (model, seed) in enumerate(records(rows, "model", "seed")):
            found[model, dataset.name, seed] = means[:, column]
    return found


def _hierarchical_bounds(
    runs: pd.DataFrame, values: pd.DataFrame, settings: Settings, instances: Path
) -> Array:
    """Return (n_rows, 2) bounds of the bootstrap over seeds and instances; an average resamples both jointly."""
    resampled = resampled_seed_scores(runs, settings, instances)
    bounds = np.full((len(values), 2), np.nan)
    for row, (model, task, dataset) in enumerate(values.index):
        names = averaged_datasets(runs, task) if dataset == AVERAGE else (dataset,)
        seeds = [int(seed) for seed in values.columns[values.iloc[row].notna()]]
        per_seed = np.mean([[resampled[model, name, seed] for seed in seeds] for name in names], axis=0)
        picks = intervals.resample_seeds(len(seeds), settings.resamples, settings.rng(len(seeds)))
        low, high = intervals.hierarchical_interval(100 * per_seed.T, picks)
        bounds[row] = float(low), float(high)
    return bounds
