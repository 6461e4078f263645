"""Scores: from runs, or from published cells, to one tidy frame that everything downstream reads.

Columns: `model, task, dataset` (or `average`), `mean, low, high` in percent, `n_seeds, interval, source`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields, replace
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.published_cells import N_SEEDS, published_values
from analysis.records import records
from analysis.statistics.crossed import LIMITS
from analysis.statistics.instance_bootstrap import resample_instances
from analysis.statistics.instance_covariance import InstanceCovariance, note_single_instances
from analysis.statistics.interval_kinds import (
    DEFAULT_OF_CELLS,
    DEFAULT_OF_RUNS,
    DEFAULT_SEED,
    INTERVALS,
    RESAMPLES,
    Interval,
    Sample,
)
from analysis.statistics.learning_rate_selection import SELECTIONS, Selection, select_runs
from analysis.statistics.resampling import Picks, Resamples, all_or_drawn, draw_picks
from analysis.statistics.reselection import Reselection
from analysis.store.instances import read_clusters, read_instances
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE, DATASETS, TASKS, in_order, is_paired
from common.errors import UserError
from common.progress import progress
from pretraining.model_names import MODELS

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
    """Rule that chooses the learning rate; one of `learning_rate_selection.SELECTIONS`."""
    interval: str = ""
    """Kind of 95 % interval; one of `interval_kinds.INTERVALS`, or empty for the default of the source, which for runs
    is `interval_kinds.DEFAULT_OF_RUNS`."""
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
        return INTERVALS[self.interval] if self.interval else DEFAULT_OF_RUNS

    def options(self, usual: Settings) -> list[str]:
        """Return the command-line options that turn the usual settings into these."""
        names = (one.name for one in fields(self) if getattr(self, one.name) != getattr(usual, one.name))
        return [word for name in names for word in (f"--{name}", str(getattr(self, name)))]

    def rng(self, *key: int) -> np.random.Generator:
        """Return the generator for a purpose named by `key`: the same whatever was drawn for other purposes."""
        return np.random.default_rng([self.seed, *key])

    def picks(self, count: int) -> Picks:
        """Return drawn resamples of `count` seeds, (resamples, count) indices; always the same for a count."""
        return draw_picks(count, self.resamples, self.rng(count))

    def seed_resamples(self, count: int) -> Resamples:
        """Return the resamples of a bootstrap over `count` seeds: all of them, or drawn ones of many seeds."""
        return all_or_drawn(count, self.picks)


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
        frame[["low", "high"]] = _seed_bounds(runs, values, settings)
    else:
        frame[["low", "high"]] = _instance_bounds(runs, values, settings, needed)
    frame["interval"] = [settings.method.of(count).name for count in frame["n_seeds"]]
    frame["source"] = source
    return order_scores(frame)


def published_scores(interval: str = DEFAULT_OF_CELLS.name) -> pd.DataFrame:
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
    datasets = {
        name: rank for rank, name in enumerate([*in_order({*scores["dataset"]} - {AVERAGE}), AVERAGE])
    }
    keyed = scores.assign(
        _model=[models.get(name, len(models)) for name in scores["model"]],
        _task=[list(TASKS).index(task) for task in scores["task"]],
        _dataset=[datasets[name] for name in scores["dataset"]],
    )
    return keyed.sort_values(["_model", "model", "_task", "_dataset"], ignore_index=True)[COLUMNS]


def _seed_bounds(runs: pd.DataFrame, values: pd.DataFrame, settings: Settings) -> Array:
    """Return (n_rows, 2) bounds over seeds; rows with the same number of seeds are computed together."""
    matrix = values.to_numpy()
    bounds = np.full((len(matrix), 2), np.nan)
    reselection = Reselection(runs=runs, rule=settings.rule)
    counts = np.isfinite(matrix).sum(axis=1)
    for count in (int(one) for one in np.unique(counts)):
        rows = np.flatnonzero(counts == count)
        present = np.stack([row[np.isfinite(row)] for row in matrix[rows]])
        method = settings.method.of(count)
        if method.is_resampled and settings.rule.shares_rate:
            picks = settings.seed_resamples(count).picks
            for row, scores in zip(rows, present, strict=True):
                seeds = [int(seed) for seed in values.columns[np.isfinite(matrix[row])]]
                model, task, dataset = values.index[int(row)]
                reselected = reselection.scores((model, task, dataset), seeds, picks)
                low, high = method.bounds(Sample(values=scores, pick=settings.picks, reselected=reselected))
                bounds[row] = float(low), float(high)
            continue
        low, high = method.bounds(Sample(values=present, pick=settings.picks))
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
    single: list[str] = []
    names = in_order([*DATASETS, *chosen["dataset"]])
    for rank, dataset in enumerate(progress(names, "resample instances", unit="dataset")):
        rows = chosen[chosen["dataset"] == dataset]
        if rows.empty:
            continue
        scores = read_instances(instances, dataset, rows)
        rng = settings.rng(_INSTANCE_DRAWS, rank)
        clusters = read_clusters(instances, dataset, rows)
        single += [dataset] if clusters is None else []
        means = resample_instances(scores, settings.resamples, rng, clusters, paired=is_paired(dataset))
        for column, (model, seed) in enumerate(records(rows, "model", "seed")):
            resampled[model, dataset, seed] = means[:, column]
    note_single_instances(single)
    return resampled


def _instance_bounds(runs: pd.DataFrame, values: pd.DataFrame, settings: Settings, instances: Path) -> Array:
    """Return (n_rows, 2) bounds over seeds and instances; the datasets of an average are taken together."""
    counts = values.notna().sum(axis=1).to_numpy()
    used = [settings.method.of(int(count)) for count in counts]
    covariance = (
        InstanceCovariance.of(select_runs(runs, settings.selection), instances)
        if any(method.from_covariance for method in used)
        else None
    )
    resampled = (
        {}
        if all(method.from_covariance for method in used)
        else resampled_seed_scores(runs, settings, instances)
    )
    bounds = np.full((len(values), 2), np.nan)
    for row, ((model, task, dataset), method) in enumerate(zip(values.index, used, strict=True)):
        names = averaged_datasets(runs, task) if dataset == AVERAGE else (dataset,)
        present = values.iloc[row].dropna()
        sample = Sample(values=present.to_numpy(), pick=settings.picks)
        if method.from_covariance and covariance is not None:
            if counts[row] < 2:
                continue
            parts = [(1 / len(names), model, name) for name in names]
            seeds = [int(seed) for seed in present.index]
            sample = replace(
                sample,
                known_covariance=covariance.between_seeds(parts, seeds),
                freedom=covariance.freedom(parts, seeds),
                limits=LIMITS,
            )
        else:
            per_seed = np.mean(
                [[resampled[model, name, seed] for seed in present.index] for name in names], axis=0
            )
            sample = replace(sample, resampled=100 * per_seed.T)
        low, high = method.bounds(sample)
        bounds[row] = float(low), float(high)
    return bounds
