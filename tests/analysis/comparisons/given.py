"""Runs for the tests of comparisons: one model's released runs on SST-2, the others made up."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.sources import Source
from analysis.store.runs_table import COLUMNS, read_runs
from benchmarks.protocol import DATASETS, SEEDS
from common.provenance import ROOT

REAL, MADE_UP = "610m-mlm40-42k", "610m-clm-42k"
RELEASED = ROOT / "tests" / "data" / "released_sst2_610m-mlm40-42k.csv"


def best_runs(scores: Mapping[str, Mapping[str, list[float]]]) -> pd.DataFrame:
    """Return one run a seed from {model: {dataset: scores by seed in percent}}; nan leaves a seed out."""
    rows = [
        (
            model,
            DATASETS[dataset].task,
            dataset,
            1e-4,
            seed,
            value / 100,
            value / 100,
            100,
            100,
        )
        for model, datasets in scores.items()
        for dataset, values in datasets.items()
        for seed, value in enumerate(values)
        if np.isfinite(value)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def drawn(
    models: Mapping[str, float], seed: int = 0, sd: float = 0.8
) -> dict[str, dict[str, list[float]]]:
    """Return scores around 80 plus each model's level on all datasets, five seeds."""
    rng = np.random.default_rng(seed)
    return {
        model: {
            name: list(80 + level + rng.normal(0, sd, len(SEEDS))) for name in DATASETS
        }
        for model, level in models.items()
    }


def real_and_made_up() -> Source:
    """Return the released runs of one model on SST-2, and made-up ones of another."""
    rng = np.random.default_rng(5)
    other = best_runs({MADE_UP: {"sst2": list(91 + rng.normal(0, 0.4, 5))}})
    return Source(
        label="mixed.parquet",
        runs=pd.concat([read_runs(RELEASED), other], ignore_index=True),
    )
