"""Runs for the tests of comparisons: one model's released runs on SST-2, the others made up."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from analysis.sources import Source
from analysis.store.runs_table import COLUMNS, read_runs
from benchmarks.protocol import DATASETS, SEEDS
from common.provenance import ROOT

REAL, MADE_UP = "610m-mlm40-42k", "610m-clm-42k"
RELEASED = ROOT / "tests" / "data" / "released_sst2_610m-mlm40-42k.csv"


def best_runs(scores: Mapping[str, Mapping[str, list[float]]]) -> pd.DataFrame:
    """Return one run a seed from {model: {dataset: scores by seed in percent}}; nan leaves a seed out."""
    rows = [
        (model, DATASETS[dataset].task, dataset, 1e-4, seed, value / 100, value / 100, 100, 100)
        for model, datasets in scores.items()
        for dataset, values in datasets.items()
        for seed, value in enumerate(values)
        if np.isfinite(value)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def drawn(models: Mapping[str, float], seed: int = 0, sd: float = 0.8) -> dict[str, dict[str, list[float]]]:
    """Return scores around 80 plus each model's level on all datasets, five seeds."""
    rng = np.random.default_rng(seed)
    return {
        model: {name: list(80 + level + rng.normal(0, sd, len(SEEDS))) for name in DATASETS}
        for model, level in models.items()
    }


def real_and_made_up() -> Source:
    """Return the released runs of one model on SST-2, and made-up ones of another."""
    rng = np.random.default_rng(5)
    other = best_runs({MADE_UP: {"sst2": list(91 + rng.normal(0, 0.4, 5))}})
    return Source(label="mixed.parquet", runs=pd.concat([read_runs(RELEASED), other], ignore_index=True))


def certificate_p(
    reference: npt.NDArray[np.float64], again: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return what `certify` should find of many studies: t with the cell's squares and at most 4 df of the others'.

    Args:
        reference, again: (studies, models, datasets, seeds) angles.

    Returns:
        (studies, models, datasets) p-values before Holm's adjustment.
    """
    models, seeds = reference.shape[1], reference.shape[-1]
    own = ((reference - reference.mean(-1, keepdims=True)) ** 2).sum(-1)
    freedom = (models - 1) * (seeds - 1)
    prior = min(4, freedom)
    others = (own.sum(1, keepdims=True) - own) / max(1, freedom)
    df = prior + seeds - 1
    error = np.sqrt((prior * others + own) / df * (1 / seeds + 1 / again.shape[-1]))
    p: npt.NDArray[np.float64] = 2 * stats.t.sf(np.abs(again.mean(-1) - reference.mean(-1)) / error, df)
    return p


def share_refused(models: int, datasets: int, studies: int, *, off: float = 0.0) -> float:
    """Return the share of normal studies of five seeds that `certify` should refuse, one cell `off` by so many sd."""
    rng = np.random.default_rng([models, datasets])
    reference, again = rng.normal(size=(2, studies, models, datasets, 5))
    again[:, 0, 0] += off
    least = certificate_p(reference, again).min((1, 2))
    return float((least * models * datasets < 0.05).mean())  # Holm's first step
