"""The questions that scores can answer, each with the region that a statement claims, and the answers (`Result`).

A question is a contrast, about a weighted sum of cells, or about a ratio of spreads. A contrast claims that the sum is
in an open region: `(0, inf)` for "better than", `(-m, m)` for "comparable", `(-m, inf)` for "on par", `(1, 3)` for "by
one to three points". A level is a contrast of one cell, a difference of two, an average over tasks or a slope over
masking ratios of many. A ratio of spreads asks whether the scores of one group of conditions vary less than those of
another (Figures 5 and 7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from analysis.statistics.estimates import Estimate, Resampled, Resamples, Student
from analysis.statistics.inference import brown_forsythe, region_p, spread_ratios
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE
from common.level import INNER_LEVEL

Cell = tuple[str, str, str]
"""(model, task, dataset or `average`)."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """One score of a weighted sum."""

    weight: float
    model: str
    task: str
    dataset: str = AVERAGE
    """A dataset of the task, or `average`."""

    @property
    def cell(self) -> Cell:
        """(model, task, dataset)."""
        return self.model, self.task, self.dataset


def weights_of(terms: Sequence[Term]) -> dict[Cell, float]:
    """Return the weight of every cell that counts, each cell once."""
    weights: dict[Cell, float] = {}
    for term in terms:
        weights[term.cell] = weights.get(term.cell, 0.0) + term.weight
    return {cell: weight for cell, weight in weights.items() if abs(weight) > 1e-12}


class _Region:
    """An open region in which an effect is claimed to be."""

    low: float
    high: float

    @property
    def is_range(self) -> bool:
        """Whether the region ends on both sides, so that it takes two one-sided tests."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def has_direction(self) -> bool:
        """Whether it claims that one side is ahead."""
        return not self.is_range

    @property
    def region(self) -> str:
        """The claimed region in words."""
        if self.is_range:
            return f"in ({self.low:g}, {self.high:g})"
        return f"> {self.low:g}" if math.isfinite(self.low) else f"< {self.high:g}"

    def holds(self, effect: float) -> bool:
        """Whether `effect` is in the claimed region."""
        return self.low < effect < self.high


@dataclass(frozen=True, kw_only=True)
class Contrast(_Region):
    """The statement that a weighted sum of scores, in points, is in an open region."""

    label: str
    """The comparison in words."""
    terms: tuple[Term, ...]
    low: float = 0.0
    """Lower end of the claimed region, in points."""
    high: float = math.inf
    """Upper end of the claimed region, in points."""
    unit: str = "points"
    """Unit of the sum."""

    @property
    def margin(self) -> float:
        """Points by which one side may be behind and is still "competitive" or "on par"; 0 where it may not be.

        With a margin, the region is `(-margin, inf)` and is tested in one direction only.
        """
        is_above = math.isfinite(self.low) and math.isinf(self.high)
        return max(0.0, -self.low) if is_above else 0.0

    @property
    def has_direction(self) -> bool:
        """Whether it claims that one side is ahead."""
        return not (self.is_range or self.margin)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return tuple(dict.fromkeys(term.model for term in self.terms))

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The models with positive weights, which are claimed to be ahead, and those with negative ones."""
        ahead = dict.fromkeys(term.model for term in self.terms if term.weight > 0)
        behind = dict.fromkeys(term.model for term in self.terms if term.weight < 0)
        return tuple(ahead), tuple(behind)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it is about."""
        return tuple(dict.fromkeys(term.task for term in self.terms))

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The tasks, each with the dataset of it or `average`, that it is about."""
        return tuple(dict.fromkeys((term.task, term.dataset) for term in self.terms))


@dataclass(frozen=True, kw_only=True)
class Spread(_Region):
    """The statement that scores of one group of conditions spread less than those of another (ratio below 1).

    The spread is the sample standard deviation over all seeds and conditions of a group (Figures 5 and 7).
    """

    label: str
    task: str
    """The task whose scores are compared."""
    narrow: tuple[str, ...]
    """Models of the group claimed to spread less."""
    wide: tuple[str, ...]
    """Models of the other group."""
    learning_rates: tuple[float, ...] = ()
    """Conditions are these learning rates when given, else the groups' models at their chosen rates."""
    dataset: str = AVERAGE
    """A dataset of the task, or `average`."""
    low: float = -math.inf
    """Lower end of the claimed region of the ratio."""
    high: float = 1.0
    """Upper end of the claimed region of the ratio."""
    unit: str = "ratio of sd"

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return *self.narrow, *self.wide

    @property
    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The group that is claimed to spread less, and the other."""
        return self.narrow, self.wide

    @property
    def tasks(self) -> tuple[str, ...]:
        """The task that it is about."""
        return (self.task,)

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The task with the dataset of it, or `average`, that it is about."""
        return ((self.task, self.dataset),)


@dataclass(frozen=True, kw_only=True)
class SeedSpread(Spread):
    """The statement that scores of some models spread less over fine-tuning seeds than those of others.

    The ratio is the geometric mean over pairs of models and datasets. Printed cells are enough for it.
    """

    task: str = ""
    """Empty: it is about several."""
    datasets: tuple[tuple[str, str], ...]
    """(task, dataset) of every score that is compared."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it is about."""
        return tuple(dict.fromkeys(task for task, _ in self.datasets))

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The tasks, each with the dataset of it, that it is about."""
        return self.datasets


AnyContrast = Contrast | Spread
"""A contrast or a ratio of spreads: every question that evidence answers."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The answer of a source to one contrast or spread."""

    comparison: AnyContrast
    effect: float = float("nan")
    low: float = float("nan")
    """Lower end of the 95 % interval."""
    high: float = float("nan")
    """Upper end of the 95 % interval."""
    inner_low: float = float("nan")
    """Lower end of the 90 % interval, which goes with two one-sided tests."""
    inner_high: float = float("nan")
    p_for: float = 1.0
    p_against: float = 1.0
    p_zero: float = float("nan")
    """Two-sided p of "no difference" (for a spread: of the Brown-Forsythe test)."""
    df: float = float("nan")
    error: float = float("nan")
    """Standard error."""
    seeds: tuple[int, ...] = ()
    """Seeds used: how many, once when all scores have the same, else for each score."""
    within_seeds: bool = False
    """Whether the contrast was taken within each of `seeds`."""
    test: str = ""
    """The test, in words."""
    interval: str = ""
    """Kind of the interval; one of `intervals.INTERVALS`, empty for what has a kind of its own."""
    inputs: tuple[str, ...] = field(default=())
    """The numbers that enter, one line a score."""
    missing: str = ""
    """Why the source does not decide it; empty when it does."""
    instance_share: float = 0.0
    """Share of the squared error that comes from the test instances."""

    @property
    def known(self) -> bool:
        """Whether the source has the scores that the comparison needs."""
        return not self.missing

    @property
    def label(self) -> str:
        """The comparison in words."""
        return self.comparison.label

    @property
    def claimed(self) -> str:
        """The claimed region in words."""
        return self.comparison.region

    @property
    def unit(self) -> str:
        """Unit of the effect."""
        return self.comparison.unit

    @property
    def task(self) -> str:
        """The task that is compared; of several, `QA, SC`."""
        return ", ".join(self.comparison.tasks)


def contrast_result(
    comparison: Contrast,
    estimate: Estimate,
    *,
    test: str,
    inputs: tuple[str, ...],
    seeds: tuple[int, ...],
    interval: str = "",
    within_seeds: bool = False,
) -> Result:
    """Return the result of an estimated contrast."""
    # A model that leads is "on par" as well, by however much: with a margin, one one-sided test at 5 % is enough.
    p_for, p_against = region_p(
        estimate, comparison.low, comparison.high, one_sided=bool(comparison.margin)
    )
    low, high = estimate.interval()

    # Two one-sided tests at 5 % go with the 90 % interval.
    inner_low, inner_high = estimate.interval(INNER_LEVEL)
    smaller_p = min(estimate.p_above(0.0), estimate.p_below(0.0))

    # A number of seeds that all scores share is given once.
    if len(set(seeds)) == 1:
        seeds = seeds[:1]
    # The bootstraps hold the test instances fixed.
    instance_share = 0.0
    if isinstance(estimate, Student):
        instance_share = estimate.instance_share
    return Result(
        comparison=comparison,
        effect=estimate.effect,
        low=low,
        high=high,
        inner_low=inner_low,
        inner_high=inner_high,
        p_for=p_for,
        p_against=p_against,
        p_zero=min(1.0, 2 * smaller_p),
        df=estimate.df,
        error=estimate.error,
        seeds=seeds,
        test=test,
        interval=interval,
        within_seeds=within_seeds,
        inputs=inputs,
        instance_share=instance_share,
    )


def spread_result(
    comparison: Spread,
    runs: pd.DataFrame,
    values: pd.DataFrame,
    resamples_of: Callable[[int], Resamples],
) -> Result:
    """Return what runs say about a ratio of spreads, by two tests: Brown and Forsythe's, and a bootstrap over seeds.

    Args:
        comparison: the two groups of conditions.
        runs: a runs table.
        values: its scores by seed (`analysis.evidence.cells.seed_scores`).
        resamples_of: returns the resamples of a number of seeds.
    """
    # The scores of both groups: conditions by seeds.
    groups = []
    for models in (comparison.narrow, comparison.wide):
        group = _conditions(comparison, models, runs, values)
        if isinstance(group, str):  # why there are no scores
            return Result(comparison=comparison, missing=group)
        groups.append(group)

    narrow, wide = groups
    seeds = narrow.columns.intersection(wide.columns)
    first = narrow[seeds].to_numpy()
    second = wide[seeds].to_numpy()

    # A resample draws a seed under all conditions of both groups at once: only seeds that have all of them count.
    is_complete = np.isfinite(first).all(axis=0) & np.isfinite(second).all(axis=0)
    count = int(is_complete.sum())
    if count < 2:
        return Result(
            comparison=comparison,
            missing="fewer than two seeds have runs under every condition",
        )

    first = first[:, is_complete]
    second = second[:, is_complete]
    # The ratio. `first` is the group that is claimed to spread less.
    first_spread = float(first.std(ddof=1))
    second_spread = float(second.std(ddof=1))
    if 0.0 in (first_spread, second_spread):
        return Result(comparison=comparison, missing="all scores of a group are equal")
    ratio = first_spread / second_spread

    # The bootstrap is of the ratio's logarithm, in which 1/2 and 2 are equally far from equal spreads.
    resamples = resamples_of(count)
    log_ratios = spread_ratios(first, second, resamples.picks)

    # Without any spread in one of the groups, a resample has no ratio.
    is_finite = np.isfinite(log_ratios)
    # Each ratio as often as its resample occurs.
    drawn = np.sort(np.repeat(log_ratios[is_finite], resamples.counts[is_finite]))
    draws = Resampled(effect=float(np.log(ratio)), drawn=drawn)

    # Both tests. The statement is that the log ratio is below 0, so that the first group varies less.
    p_equal = brown_forsythe(first, second)
    boot_for, boot_against = region_p(draws, -np.inf, 0.0)

    # Brown and Forsythe's test has no direction: it speaks for the side that the ratio is on. Both tests must agree, so
    # that the larger p counts.
    p_for, p_against = 1.0, 1.0
    if ratio < 1:
        p_for = max(p_equal, boot_for)
    elif ratio > 1:
        p_against = max(p_equal, boot_against)

    # The intervals, from logarithms back to ratios; then what went in, in words.
    low, high = np.exp(draws.interval())
    inner_low, inner_high = np.exp(draws.interval(INNER_LEVEL))
    place = f"{comparison.task} {comparison.dataset}"
    inputs = []
    for models, spread, scores in (
        (comparison.narrow, first_spread, first),
        (comparison.wide, second_spread, second),
    ):
        size = f"{len(scores)} conditions x {count} seeds"
        inputs.append(f"{', '.join(models)} {place}: sd {spread:.4f} over {size}")

    return Result(
        comparison=comparison,
        effect=ratio,
        low=float(low),
        high=float(high),
        inner_low=float(inner_low),
        inner_high=float(inner_high),
        p_for=p_for,
        p_against=p_against,
        p_zero=p_equal,
        seeds=(count,),
        test="Brown-Forsythe and bootstrap of the ratio over seeds, the larger p of the two",
        inputs=tuple(inputs),
    )


def seed_spread_result(
    comparison: SeedSpread, spread_of: Callable[[Cell], float]
) -> Result:
    """Return what a source says about the ratio of spreads over seeds: Student's t of the mean of its logs.

    Args:
        comparison: two groups of models, the first of one paired with the first of the other, and the datasets.
        spread_of: returns the standard deviation of a cell over seeds; 0 or nan where the cell has none.
    """
    logs: list[float] = []
    # One log ratio for each pair of models and each dataset.
    for models in zip(comparison.narrow, comparison.wide, strict=True):
        for task, dataset in comparison.datasets:
            narrow, wide = [spread_of((model, task, dataset)) for model in models]
            # Written with `not`, since a single seed has a spread of nan, for which every comparison is false.
            if not (narrow > 0 and wide > 0):
                missing = f"no spread over seeds of {', '.join(models)} on {dataset}"
                return Result(comparison=comparison, missing=missing)
            logs.append(math.log(narrow / wide))

    # Logs, so that ratios of 1/2 and 2 weigh the same.
    deviation = float(np.std(logs, ddof=1))
    mean = Student(
        effect=float(np.mean(logs)),
        error=deviation / math.sqrt(len(logs)),
        df=len(logs) - 1,
    )
    p_for, p_against = region_p(mean, -math.inf, 0.0)
    log_low, log_high = mean.interval()
    inner_log_low, inner_log_high = mean.interval(INNER_LEVEL)
    return Result(
        comparison=comparison,
        effect=math.exp(mean.effect),
        low=math.exp(log_low),
        high=math.exp(log_high),
        inner_low=math.exp(inner_log_low),
        inner_high=math.exp(inner_log_high),
        p_for=p_for,
        p_against=p_against,
        # Each p is twice its one-sided p, at most 1: the smaller of them is that of "the ratio is 1".
        p_zero=min(p_for, p_against),
        df=mean.df,
        test=f"Student's t of the mean log ratio of {len(logs)} pairs of spreads",
    )


def _conditions(
    comparison: Spread,
    models: tuple[str, ...],
    runs: pd.DataFrame,
    values: pd.DataFrame,
) -> pd.DataFrame | str:
    """Return the scores of a group of models in percent, with conditions as rows and seeds as columns.

    Where some are missing, return a sentence that says which.
    """
    if not comparison.learning_rates:  # each model is a condition
        cells = [(model, comparison.task, comparison.dataset) for model in models]
        absent = [cell for cell in cells if cell not in values.index]
        if absent:
            names = [model for model, _, _ in absent]
            return f"no runs of {', '.join(names)}"
        # Without the names of the rows: of conditions, only their scores count.
        return values.loc[cells].reset_index(drop=True)

    is_of_models = runs["model"].isin(models)
    is_of_task = runs["task"] == comparison.task
    is_at_rates = runs["lr"].isin(comparison.learning_rates)
    rows = runs[is_of_models & is_of_task & is_at_rates]

    # Each rate is a condition; the group is then one model, so that a rate and a seed name one run of a dataset.
    rates = list(comparison.learning_rates)
    parts = []
    for name in averaged_datasets(runs, comparison.task, comparison.dataset):
        of_dataset = rows[rows["dataset"] == name]
        part = of_dataset.pivot(index="lr", columns="seed", values="test_score")
        if any(rate not in part.index for rate in rates):
            return f"runs of {', '.join(models)} at some learning rate of {name} are missing"
        parts.append(part.loc[rates] * 100)

    # The paper does not say what counts as one score in Figure 5: here it is a task's mean for one seed and
    # rate. There is a part for each dataset. Sums align seeds by their number, and a seed that one part lacks
    # is nan.
    total, *others = parts
    for part in others:
        total = total + part
    return total / len(parts)
