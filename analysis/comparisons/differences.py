"""The difference between two models on every scope: its result, practical equivalence, seeds to come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from analysis.claims.catalogue.terms import MARGINS
from analysis.comparisons.contestants import ALL, Contestants, Place
from analysis.evidence.contrasts import Contrast, Result
from analysis.precision.design import seeds_needed
from analysis.statistics.estimates import Student
from analysis.statistics.inference import holm
from analysis.statistics.nested_spreads import NestedSpreads
from common.level import ALPHA

AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN = "ahead", "behind", "equal", "open", "unknown"
"""What is said of the first model: better, worse, practically equal, not decided, no test possible."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first model minus the second on one scope, in points."""

    first: str
    second: str
    place: Place
    result: Result
    """About the region of practical equivalence, (-margin, margin): the p for is that of two one-sided tests. Seeds are
    those of each model, once where they are paired. With one seed only the effect is known."""
    p_holm: float = math.nan
    """Adjusted over the scopes of a kind (the datasets, the tasks), or over all pairs of many models."""
    spread: float = math.nan
    """Standard deviation of a score over seeds, in points: the root of the mean of both models' variances."""
    at_limit: bool = False
    """Whether a score is within the margin of a limit: 0 or 100 %, or its floor."""
    spreads: NestedSpreads | None = None
    """Between the pretrainings of those that are arms, and between the seeds of one; None: not computed, or too few."""
    lower_is_better: bool = False
    seeds_to_find: int | None = None
    """Seeds a model with which 80 of 100 comparisons find a difference as large; None: not computed, or never."""

    @property
    def margin(self) -> float:
        """Models that differ by less are practically equal, in points."""
        return self.result.comparison.high

    @property
    def seeds_still(self) -> int | None:
        """How many more seeds each model needs; 0 when there are enough."""
        if self.seeds_to_find is None:
            return None
        return max(0, self.seeds_to_find - min(self.result.seeds))

    @property
    def outcome(self) -> str:
        """Whether the first model is ahead, behind or practically equal, at a level of 0.05 after Holm's adjustment."""
        if not self.result.known:
            return UNKNOWN
        if self.p_holm <= ALPHA:
            is_better = (self.result.effect > 0) != self.lower_is_better
            return AHEAD if is_better else BEHIND
        is_within_margin = self.result.p_for <= ALPHA
        return EQUAL if is_within_margin and not self.at_limit else OPEN

    @property
    def p_exceeds(self) -> float:
        """The probability that the first is better by more than the margin (t, flat prior); nan without an error."""
        student = Student(
            effect=self.result.effect, error=self.result.error, df=self.result.df
        )
        if self.lower_is_better:
            return student.p_above(-self.margin)
        return student.p_below(self.margin)

    @property
    def standardised(self) -> float:
        """The difference in units of the spread over seeds; nan where there is none."""
        return self.result.effect / self.spread if self.spread > 0 else math.nan


def margin_of(
    contestants: Contestants, place: Place, given: float | None = None
) -> float:
    """Return the half-width of the region of practical equivalence: the one given, or the findings' of the task.

    Where the unit is not known, or the task is none of the paper's, there is no such region: 0.
    """
    if given is not None:
        return given
    if place.task == ALL and contestants.tasks:
        margins = [MARGINS[task] for task in contestants.tasks]
        return sum(margins) / len(margins)
    return MARGINS.get(place.task, 0.0) * (contestants.point(place) or 0.0)


def compare_pair(
    contestants: Contestants, first: str, second: str, *, margin: float | None = None
) -> list[Difference]:
    """Return the differences on every scope that both models have, with the seeds that would show each difference.

    The difference over all tasks is over the tasks that all contestants have, not over those that only these two have.
    The p's are adjusted over the datasets, and over the tasks; the p over all tasks is not adjusted.

    Args:
        contestants: the models, and what is known of them.
        first: the model that is better where a difference is positive.
        second: the other.
        margin: of the region of practical equivalence, in points; None: the findings' by task.
    """
    rows, families = [], []
    for difference in _differences(contestants, first, second, margin):
        seeds = _seeds_to_find(contestants, difference)
        rows.append(replace(difference, seeds_to_find=seeds))
        place = difference.place
        families.append((place.is_dataset, place.task == ALL))
    return _with_holm(rows, families)


def _differences(
    contestants: Contestants, first: str, second: str, margin: float | None
) -> Iterator[Difference]:
    """Yield the differences on every scope that both models have, with p's that are not adjusted."""
    places = contestants.shared(first, second)
    for place in places:
        half = margin_of(contestants, place, margin)
        contrast = contestants.difference(first, second, place)
        contrast = replace(contrast, low=-half, high=half)
        result = _result(contestants, first, second, place, contrast)
        spreads = [contestants.spread(model, place) for model in (first, second)]
        root_mean_square = math.hypot(*spreads) / math.sqrt(2)
        at_limit = False
        if result.p_for <= ALPHA:  # only "practically equal" asks for it
            parts = contestants.datasets(place, places)
            for model in (first, second):
                if contestants.at_limit(model, place, parts, half):
                    at_limit = True
        yield Difference(
            first=first,
            second=second,
            place=place,
            result=result,
            lower_is_better=contestants.lower_is_better,
            spread=root_mean_square,
            at_limit=at_limit,
        )


def against(
    contestants: Contestants, first: str, *, margin: float | None = None
) -> list[Difference]:
    """Return the differences of a model and each of the others.

    The model is usually chosen by its scores, so any pair of models might have been tested: on each place Holm's
    adjustment counts all pairs, and those that are not computed have a p of 1.
    """
    rows: list[Difference] = []
    for other in contestants.models:
        if other != first:
            rows += _differences(contestants, first, other, margin)
    places = [row.place for row in rows]
    pairs_on = {}
    for place in places:
        n_models = sum(place in scored for scored in contestants.places.values())
        pairs_on[place] = math.comb(n_models, 2)
    return _with_holm(rows, places, pairs_on)


def _with_holm(
    rows: list[Difference],
    groups: Sequence[object],
    tests: Mapping[Any, int] = MappingProxyType({}),
) -> list[Difference]:
    """Return the rows with p's after Holm's adjustment within each group, over its rows with a p or over `tests`.

    Args:
        rows: differences, whose p's are not adjusted.
        groups: of each row the group that it is in.
        tests: by group how many tests it counts as; those that are not among the rows have a p of 1.
    """
    numbers_in: dict[object, list[int]] = {}
    for number, group in enumerate(groups):
        if rows[number].result.known:
            numbers_in.setdefault(group, []).append(number)
    adjusted = list(rows)
    for group, numbers in numbers_in.items():
        ps = [rows[number].result.p_zero for number in numbers]
        not_computed = tests.get(group, 0) - len(numbers)
        # An empty list where a group has no more tests than rows.
        ps += [1.0] * not_computed
        for number, p in zip(numbers, holm(ps), strict=False):
            adjusted[number] = replace(rows[number], p_holm=p)
    return adjusted


def _result(
    contestants: Contestants, first: str, second: str, place: Place, contrast: Contrast
) -> Result:
    """Return the contrast's result with the seeds of each model, and its effect even where there is no test."""
    result = contestants.evidence.result(contrast)
    seeds = (contestants.seeds(first, place), contestants.seeds(second, place))
    # Both models have scores here, so that a result is unknown only for want of seeds or of a spread.
    if not result.known:
        missing = "all seeds of each model are equal"
        if min(seeds) < 2:
            missing = "a test needs two seeds of each model"
        effect = contestants.mean(first, place) - contestants.mean(second, place)
        return replace(result, effect=effect, seeds=seeds, missing=missing)
    # A result within seeds has the seeds that both models share.
    return result if result.within_seeds else replace(result, seeds=seeds)


def _seeds_to_find(contestants: Contestants, seen: Difference) -> int | None:
    """Return the seeds that would show the larger of the difference seen and the margin; None: more than can be had."""
    contrast = contestants.difference(seen.first, seen.second, seen.place)
    student = contestants.evidence.student(contrast.terms)
    if student is None:
        return None
    # A difference below the margin need not be found.
    effect = max(abs(seen.result.effect), seen.margin)
    seeds = seen.result.seeds
    is_paired = len(seeds) == 1
    return seeds_needed(effect, student.error, min(seeds), paired=is_paired)
