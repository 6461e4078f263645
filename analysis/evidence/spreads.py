"""Ratios of spreads: do scores of one group of conditions vary less than those of another (Figures 5 and 7)?"""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import pandas as pd

from analysis.evidence.contrasts import Finding, Spread
from analysis.statistics.estimates import Resampled
from analysis.statistics.inference import brown_forsythe, region_p, spread_ratios
from analysis.statistics.resampling import Resampling
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE

__all__ = ["spread_finding"]


def spread_finding(
    comparison: Spread, runs: pd.DataFrame, values: pd.DataFrame, resampling: Resampling
) -> Finding:
    """Return what runs say: Brown and Forsythe's test, and a bootstrap of the ratio over the seeds of both groups.

    Args:
        comparison: the groups.
        runs: a runs table.
        values: its scores by seed (`analysis.evidence.cells`).
        resampling: the resamples.
    """
    groups = []
    for models in (comparison.narrow, comparison.wide):
        group = _conditions(comparison, models, runs, values)
        if isinstance(group, str):
            return Finding(comparison=comparison, missing=group)
        groups.append(group)
    narrow, wide = groups
    seeds = narrow.columns.intersection(wide.columns)
    first, second = narrow[seeds].to_numpy(), wide[seeds].to_numpy()
    complete = np.isfinite(first).all(axis=0) & np.isfinite(second).all(axis=0)
    if complete.sum() < 2:
        return Finding(comparison=comparison, missing="fewer than two seeds have runs under every condition")
    first, second = first[:, complete], second[:, complete]
    count = int(complete.sum())
    resamples = resampling.of_seeds(count)
    spreads = [float(group.std(ddof=1)) for group in (first, second)]
    if 0.0 in spreads:
        return Finding(comparison=comparison, missing="all scores of a group are equal")
    logs = spread_ratios(first, second, resamples.picks)
    ratio = spreads[0] / spreads[1]
    finite = np.isfinite(logs)
    drawn = np.sort(np.repeat(logs[finite], resamples.counts[finite]))
    draws = Resampled(effect=float(np.log(ratio)), drawn=drawn)
    equal = brown_forsythe(first, second)
    boot_for, boot_against = region_p(draws, -np.inf, 0.0)
    low, high = np.exp(draws.interval())
    inner_low, inner_high = np.exp(draws.interval(0.90))
    return Finding(
        comparison=comparison, effect=ratio, low=float(low), high=float(high),
        inner_low=float(inner_low), inner_high=float(inner_high),
        p_for=max(equal, boot_for) if ratio < 1 else 1.0,
        p_against=max(equal, boot_against) if ratio > 1 else 1.0,
        p_zero=equal, seeds=(count,),
        test="Brown-Forsythe and bootstrap of the ratio over seeds, the larger p of the two",
        inputs=tuple(
            f"{', '.join(models)} {comparison.task} {comparison.dataset}: sd {spread:.4f} over {len(group)} "
            f"conditions x {count} seeds"
            for models, spread, group in zip(
                (comparison.narrow, comparison.wide), spreads, (first, second), strict=True
            )
        ),
    )  # fmt: skip


def _conditions(
    comparison: Spread, models: tuple[str, ...], runs: pd.DataFrame, values: pd.DataFrame
) -> pd.DataFrame | str:
    """Return task averages with conditions as rows and seeds as columns, or why there are none."""
    if not comparison.learning_rates:
        keys = [(model, comparison.task, comparison.dataset) for model in models]
        absent = [key[0] for key in keys if key not in values.index]
        return f"no runs of {', '.join(absent)}" if absent else values.loc[keys].reset_index(drop=True)
    rows = runs[
        runs["model"].isin(models)
        & (runs["task"] == comparison.task)
        & runs["lr"].isin(comparison.learning_rates)
    ]
    rates = list(comparison.learning_rates)
    single = comparison.dataset != AVERAGE
    names = (comparison.dataset,) if single else averaged_datasets(runs, comparison.task)
    parts = []
    for name in names:
        part = rows[rows["dataset"] == name].pivot(index="lr", columns="seed", values="test_score") * 100
        if any(rate not in part.index for rate in rates):
            return f"runs of {', '.join(models)} at some learning rate of {name} are missing"
        parts.append(part.loc[rates])
    return reduce(operator.add, parts) / len(parts)
