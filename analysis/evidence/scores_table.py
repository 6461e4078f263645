"""Scores: from runs, or from published cells, to one tidy frame that everything downstream reads.

Columns: `model, task, dataset` (or `average`), `mean, low, high` in percent, `n_seeds, interval, source`.
"""

from __future__ import annotations

import pandas as pd

from analysis.evidence.evidence import Evidence
from benchmarks.protocol import AVERAGE, TASKS, in_order
from pretraining.model_names import MODELS

__all__ = ["COLUMNS", "order_scores", "scores_of"]

COLUMNS = ["model", "task", "dataset", "mean", "low", "high", "n_seeds", "interval", "source"]


def scores_of(evidence: Evidence, *, source: str) -> pd.DataFrame:
    """Return the score of every cell with its interval; `source` is the content of that column."""
    rows = [(*cell, *evidence.level(cell), source) for cell in evidence.cells]
    return order_scores(pd.DataFrame(rows, columns=COLUMNS))


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
