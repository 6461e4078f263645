"""How many seeds a difference needs: sample sizes for a two-sided t test with the variances observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, stats

from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.sources import Source
from analysis.statistics.seed_scores import seed_scores
from benchmarks.protocol import AVERAGE, DATASETS, TASKS, Dataset, title_of
from common.errors import UserError
from common.tables import Document, Grid

__all__ = [
    "SeedPlan",
    "detectable",
    "plan_document",
    "power_of",
    "power_of_paired",
    "power_table",
    "seeds_needed",
    "seeds_needed_paired",
]  # fmt: skip

Array = npt.NDArray[np.float64]

MOST_SEEDS = 100_000


def power_of(effect: float, sd: float, seeds: int, alpha: float = 0.05) -> float:
    """Return the power of the two-sided t test between two models with `seeds` independent runs each."""
    return _power(effect / (sd * math.sqrt(2 / seeds)), 2 * (seeds - 1), alpha)


def power_of_paired(effect: float, sd_of_differences: float, seeds: int, alpha: float = 0.05) -> float:
    """Return the power of the two-sided t test on differences within `seeds` seeds."""
    return _power(effect / (sd_of_differences / math.sqrt(seeds)), seeds - 1, alpha)


def seeds_needed(effect: float, sd: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Return the fewest seeds a model that reach `power`, two models independent; None above `MOST_SEEDS`."""
    return _fewest(lambda seeds: power_of(effect, sd, seeds, alpha), power)


def seeds_needed_paired(effect: float, sd: float, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """Return the fewest seeds that reach `power` with models paired by seed; None above `MOST_SEEDS`."""
    return _fewest(lambda seeds: power_of_paired(effect, sd, seeds, alpha), power)


def detectable(sd: float, seeds: int = N_SEEDS, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the difference that `seeds` seeds a model find with `power`, two models independent.

    Raises:
        UserError: the power is not above the level.
    """
    _check_power(power, alpha)
    if sd == 0:
        return 0.0
    least, most = 0.0, 100.0
    while power_of(most, 1.0, seeds, alpha) < power:
        most *= 2
    root = optimize.brentq(lambda ratio: power_of(ratio, 1.0, seeds, alpha) - power, least, most)
    return float(root) * sd


def _check_power(power: float, alpha: float) -> None:
    if power <= alpha:
        raise UserError(
            f"a power of {power:g} is not above the level of {alpha:g}, at which a test finds differences that are not "
            "there; ask for more power, such as 0.8"
        )


def _power(shift: float, df: int, alpha: float) -> float:
    limit = float(stats.t.isf(alpha / 2, df))
    above, below = float(stats.nct.sf(limit, df, shift)), float(stats.nct.cdf(-limit, df, shift))
    # Far out the noncentral t's series gives nan: there the test cannot miss.
    return (above if math.isfinite(above) else 1.0) + (below if math.isfinite(below) else 0.0)


def _fewest(power_at: Callable[[int], float], wanted: float) -> int | None:
    high = 2
    while power_at(high) < wanted:
        high *= 2
        if high > MOST_SEEDS:
            return None
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if power_at(middle) >= wanted else (middle + 1, high)
    return high


def power_table(
    source: Source, effect: float, *, power: float = 0.8, alpha: float = 0.05, selection: str = "seed"
) -> pd.DataFrame:
    """Return what a difference of `effect` points needs, by dataset and task average.

    Returns:
        Columns `task, dataset, n_cells, sd` (median over cells, points), `sd_high` (upper quartile), `seeds` and
        `seeds_high` (seeds a model, independent models, with either sd; nan: more than `MOST_SEEDS`), `power_now`
        (of five seeds), `detectable_now` (by five seeds), and with runs `correlation` of two models over seeds and
        `seeds_paired`.

    Raises:
        UserError: the power is not above the level, there is no variance to plan with, or a selection rule that the
            source cannot give.
    """
    _check_power(power, alpha)
    source.need_selection(selection)
    rows = []
    for task, dataset, deviations, correlation in _deviations(source, selection):
        sd, sd_high = (float(np.quantile(deviations, share)) for share in (0.5, 0.75))
        row: dict[str, object] = {
            "task": task, "dataset": dataset, "n_cells": len(deviations), "sd": sd, "sd_high": sd_high,
            "seeds": _optional(seeds_needed(effect, sd, power, alpha) if sd > 0 else 2),
            "seeds_high": _optional(seeds_needed(effect, sd_high, power, alpha) if sd_high > 0 else 2),
            "power_now": power_of(effect, sd, N_SEEDS, alpha) if sd > 0 else 1.0,
            "detectable_now": detectable(sd, N_SEEDS, power, alpha),
        }  # fmt: skip
        if not source.is_published:
            row["correlation"] = correlation
            paired_sd = (
                sd * math.sqrt(max(0.0, 2 * (1 - correlation))) if math.isfinite(correlation) else math.nan
            )
            row["seeds_paired"] = _optional(
                seeds_needed_paired(effect, paired_sd, power, alpha) if paired_sd > 0 else None
            )
        rows.append(row)
    if not rows:
        raise UserError(f"{source.label}: no model and dataset with two seeds, so no variance to plan with")
    return pd.DataFrame(rows)


def _optional(value: int | None) -> float:
    return math.nan if value is None else float(value)


def _deviations(source: Source, selection: str) -> list[tuple[str, str, Array, float]]:
    """Return (task, dataset or average, standard deviations over seeds of all cells, correlation of models)."""
    keys = [(dataset.task, dataset.name) for dataset in source.datasets.values()]
    keys += [(task, AVERAGE) for task in TASKS]
    if source.is_published:
        deviations = (
            published_values().set_index(["task", "dataset"])["ci95"] / NORMAL_QUANTILE * math.sqrt(N_SEEDS)
        )
        return [(*key, deviations.loc[[key]].to_numpy(), math.nan) for key in keys]
    values = seed_scores(source.need_runs("power"), selection)
    values = values[values.notna().sum(axis=1) >= 2]
    parts = dict(list(values.groupby(level=["task", "dataset"])))
    return [
        (*key, parts[key].std(axis=1, ddof=1).to_numpy(), _correlation(parts[key]))
        for key in keys
        if key in parts
    ]


def _correlation(values: pd.DataFrame) -> float:
    """Return the mean covariance of two models over their seeds, over the mean variance; nan below two models."""
    full = values.dropna(axis=0).to_numpy()
    if len(full) < 2:
        return math.nan
    covariance = np.cov(full)
    own = float(np.trace(covariance)) / len(covariance)
    shared = (float(covariance.sum()) - own * len(covariance)) / (len(covariance) * (len(covariance) - 1))
    return shared / own if own > 0 else math.nan


@dataclass(frozen=True, kw_only=True)
class SeedPlan:
    """How many seeds a difference needs, and for what power and level."""

    table: pd.DataFrame
    """As `power_table` returns it."""
    source: str
    """Where the variances come from."""
    effect: float
    """The difference, in points."""
    power: float = 0.8
    """The wanted chance to find it."""
    alpha: float = 0.05
    """The level of the test."""
    datasets: Mapping[str, Dataset] = field(default_factory=lambda: DATASETS, repr=False)
    """Those that are known."""


def plan_document(plan: SeedPlan) -> Document:
    """Return the plan as a table under a sentence."""
    paired = "seeds_paired" in plan.table
    head = [
        "dataset",
        "sd",
        "upper quartile",
        "seeds",
        "seeds (upper quartile)",
        "power of 5",
        "5 seeds find",
    ]
    rows = [head + (["correlation", "seeds, paired"] if paired else [])]
    for row in plan.table.to_dict("records"):
        name = (
            f"{row['task']} average" if row["dataset"] == AVERAGE else title_of(row["dataset"], plan.datasets)
        )
        cells = [
            name, f"{row['sd']:.2f}", f"{row['sd_high']:.2f}", _count(row["seeds"]), _count(row["seeds_high"]),
            f"{row['power_now']:.0%}", f"{row['detectable_now']:.2f}",
        ]  # fmt: skip
        if paired:
            alike = row["correlation"]
            cells += [f"{alike:+.2f}" if math.isfinite(alike) else "-", _count(row["seeds_paired"])]
        rows.append(cells)
    body: list[str | Grid] = [
        f"Seeds each model needs for a difference of {plan.effect:g} points to be found with power {plan.power:.0%} "
        f"at level {plan.alpha:g} (two-sided t test);",
        f"sd: standard deviation over seeds, median and upper quartile of the cells of {plan.source}, in points.",
        "",
        Grid(rows),
    ]
    return Document(body=body, records=plan.table, digits="%.6g")


def _count(value: float) -> str:
    return f"{int(value)}" if value == value else "-"
