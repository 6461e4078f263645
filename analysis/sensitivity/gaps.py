"""What the rule that chooses the learning rate does to the gap between MLM and CLM."""

from __future__ import annotations

from itertools import product

import pandas as pd

from analysis.evidence.cells import seed_scores
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.statistics.estimates import standard_error
from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import AVERAGE, TASKS, datasets_of
from pretraining.paper_settings import SHAPES

__all__ = ["gap_by_selection"]

_SIDES = {"mlm": "mlm40", "clm": "clm"}
_COLUMNS = [
    "size", "task", "dataset", "selection", *(f"{side}{part}" for side in _SIDES for part in ("", "_ci95", "_from")),
    "gap",
]  # fmt: skip


def gap_by_selection(runs: pd.DataFrame | None, *, fill: bool = True) -> pd.DataFrame:
    """Return the MLM-CLM gap of every size and dataset of the paper under each selection rule; empty without runs.

    Where only one of the two models has runs, the other's published cell stands in, and `mlm_from` or `clm_from`
    says so: that cell does not change with the rule. Pairs without any runs are left out; without `fill`, for runs
    that the paper's numbers do not compare with, also those without runs of both.
    """
    printed = {
        (model, dataset): (mean, half)
        for model, dataset, mean, half in records(published_values(), "model", "dataset", "mean", "ci95")
        if dataset != AVERAGE
    }
    rows: list[dict[str, object]] = []
    values = {} if runs is None else {rule: seed_scores(runs, rule).T for rule in SELECTIONS}
    for task, size in product(TASKS, SHAPES):
        for dataset, (rule, scores) in product(datasets_of(task), values.items()):
            row: dict[str, object] = {"size": size, "task": task, "dataset": dataset, "selection": rule}
            means, known = [], 0
            for side, objective in _SIDES.items():
                model = f"{size}-{objective}-42k"
                mean, half = printed[model, dataset]
                origin = f"published, n = {N_SEEDS}"
                if (model, task, dataset) in scores:
                    seeds = scores[model, task, dataset].dropna().to_numpy()
                    mean, half = float(seeds.mean()), NORMAL_QUANTILE * float(standard_error(seeds))
                    origin, known = f"runs, n = {len(seeds)}", known + 1
                row |= {side: mean, f"{side}_ci95": half, f"{side}_from": origin}
                means.append(mean)
            if known == len(_SIDES) or (fill and known):
                rows.append(row | {"gap": means[0] - means[1]})
    return pd.DataFrame(rows, columns=_COLUMNS)
