"""Made-up runs and instances with known structure, for the tests of the analysis."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.store.instances import (
    RunScores,
    instances_folder,
    instances_name,
    write_cell,
)
from analysis.store.runs_table import COLUMNS
from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from pretraining.paper_models import MODELS


def made_up_runs(
    rng: np.random.Generator,
    *,
    models: Iterable[str] = MODELS,
    shift: Mapping[str, float] | None = None,
    sd: float = 0.004,
    rates: Iterable[float] = LEARNING_RATES,
    seeds: Iterable[int] = SEEDS,
) -> pd.DataFrame:
    """Return runs around 0.8, best at 1e-04, with `shift` added for a model and a common effect of each seed."""
    rows = []
    common = {(name, seed): rng.normal(0, sd) for name in DATASETS for seed in seeds}
    for model in models:
        for dataset in DATASETS.values():
            for place, lr in enumerate(rates):
                for seed in seeds:
                    level = 0.8 + (shift or {}).get(model, 0.0) - 0.01 * abs(place - 3)
                    score = level + common[dataset.name, seed] + rng.normal(0, sd)
                    rows.append(
                        (
                            model,
                            dataset.task,
                            dataset.name,
                            lr,
                            seed,
                            level,
                            score,
                            100,
                            100,
                        )
                    )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def random_runs(
    seed: int = 0,
    models: Iterable[str] = ("610m-clm-42k", "610m-mlm40-42k"),
    seeds: Sequence[int] = tuple(SEEDS),
) -> pd.DataFrame:
    """Return full grids of runs on all twelve datasets whose scores are random and follow no order."""
    rng = np.random.default_rng(seed)
    rows = [
        (
            model,
            dataset.task,
            dataset.name,
            lr,
            run_seed,
            rng.random(),
            rng.random(),
            100,
            100,
        )
        for model in models
        for dataset in DATASETS.values()
        for lr in LEARNING_RATES
        for run_seed in seeds
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def write_instances(
    folder: Path, cells: Mapping[tuple[str, str], Sequence[RunScores]]
) -> None:
    """Write the runs of each model and dataset as `ingest` does."""
    with instances_folder(folder) as (new, hashes):
        for (model, dataset), runs in cells.items():
            hashes[instances_name(model, dataset)] = write_cell(
                new, model, DATASETS[dataset], runs
            )


def with_instances(
    folder: Path,
    rng: np.random.Generator,
    *,
    models: Iterable[str],
    counts: Mapping[str, int],
    shift: float = 0.0,
) -> tuple[pd.DataFrame, Path]:
    """Write per-instance scores and return the runs made of them; the last of `models` is better by `shift`."""
    models = list(models)
    rows = []
    cells: dict[tuple[str, str], list[RunScores]] = {}
    for dataset in DATASETS.values():
        count = counts.get(dataset.name, 60)
        hard = rng.normal(0, 0.2, count)
        for place, model in enumerate(models):
            taste = rng.normal(0, 0.1, count)
            runs = []
            for seed in SEEDS:
                base = hard + taste if dataset.paired else rng.normal(0, 0.22, count)
                scores = 0.7 + base + rng.normal(0, 0.003) + rng.normal(0, 0.05, count)
                scores = np.clip(
                    scores + (shift if place == len(models) - 1 else 0.0), 0, 1
                )
                runs.append(
                    RunScores(lr=1e-4, seed=seed, validation=scores[:5], test=scores)
                )
                means = (scores[:5].mean(), scores.mean())
                rows.append(
                    (model, dataset.task, dataset.name, 1e-4, seed, *means, 5, count)
                )
            cells[model, dataset.name] = runs
    write_instances(folder, cells)
    return pd.DataFrame(rows, columns=list(COLUMNS)), folder
