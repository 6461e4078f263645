"""What the tests of evidence ask, of which models."""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.evidence.cells import seed_scores
from analysis.evidence.contrasts import Cell, Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from benchmarks.protocol import DATASETS

MLM, CLM = "610m-mlm40-42k", "610m-clm-42k"


def on_dataset(dataset: str, first: str = MLM, second: str = CLM) -> Contrast:
    pair = ((1.0, first), (-1.0, second))
    task = DATASETS[dataset].task
    return Contrast(
        label="",
        terms=tuple(
            Term(weight=w, model=m, task=task, dataset=dataset) for w, m in pair
        ),
    )


def level_of(cell: Cell) -> Contrast:
    """A cell's own score."""
    model, task, dataset = cell
    return Contrast(
        label="", terms=(Term(weight=1.0, model=model, task=task, dataset=dataset),)
    )


def evidence(
    runs: pd.DataFrame | None,
    interval: str = "t",
    *,
    instances: Path | None = None,
    **options,
):
    settings = Settings(interval=interval, resamples=2_000, **options)
    return Evidence(settings, runs=runs, instances=instances, printed=runs is None)


def seeds_of(runs: pd.DataFrame, model: str, dataset: str = "average") -> np.ndarray:
    return seed_scores(runs).loc[(model, "SC", dataset)].to_numpy()
