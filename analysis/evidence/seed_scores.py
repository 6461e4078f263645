"""The score of every seed at its chosen learning rate: what every interval and test begins with."""

from __future__ import annotations

import operator
from functools import reduce

import pandas as pd

from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE, TASKS

__all__ = ["seed_scores"]

_KEYS = ["model", "task", "dataset"]


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
