"""The difference between two models on every place: its result, practical equivalence, the seeds that would show it.

A place is what a score is over (`analysis.comparisons.contestants.Place`): a dataset, a task's average, or all tasks.
Two models are practically equal if their difference is shown to be smaller than a margin.
"""

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
    """The first model minus the second on one place, in points or in a table's own unit."""

    first: str
    second: str
    place: Place
    result: Result
    """The result of the contrast that claims the region of practical equivalence, (-margin, margin): its `p_for` is
    that of two one-sided tests, its `p_zero` that of "no difference". Its `seeds` are those of each model, or one
    number where both models share their seeds. With a single seed of a model, only the effect is known."""
    p_holm: float = math.nan
    """The p of "no difference", adjusted over the places of a kind (the datasets, the tasks), or over all pairs of many
    models."""
    spread: float = math.nan
    """Standard deviation of a score over seeds, in the unit of the difference: the root of the mean of both models'
    variances."""
    at_limit: bool = False
    """Whether a score is within the margin of a limit: 0 or 100 %, or what a model scores without reading its input."""
    spreads: NestedSpreads | None = None
    """For models that are arms, the spread between their pretrainings and that between the seeds of one pretraining;
    None: not computed, or too few pretrainings or seeds."""
    lower_is_better: bool = False
    seeds_to_find: int | None = None
    """Seeds of each model with which 80 of 100 comparisons find a difference as large; None: not computed, or more than
    can be had."""

    @property
    def margin(self) -> float:
        """Models that differ by less are practically equal; in the unit of the difference."""
        return self.result.comparison.high

    @property
    def seeds_still(self) -> int | None:
        """How many more seeds each model needs to find the difference; 0 when it has enough."""
        if self.seeds_to_find is None:
            return None
        return max(0, self.seeds_to_find - min(self.result.seeds))

    @property
    def outcome(self) -> str:
        """Whether the first model is ahead, behind or practically equal, at a level of 0.05 after Holm's adjustment."""
        if not self.result.known:
            return UNKNOWN
        if self.p_holm <= ALPHA:
            is_better = self.result.effect > 0
            if self.lower_is_better:
                is_better = not is_better
            return AHEAD if is_better else BEHIND
        is_within_margin = self.result.p_for <= ALPHA
        # At a limit, models score alike though they may not be equally good (`Contestants.at_limit`).
        return EQUAL if is_within_margin and not self.at_limit else OPEN

    @property
    def p_exceeds(self) -> float:
        """The probability that the first model is better by more than the margin; nan without a standard error.

        With a flat prior, the difference has a t distribution about its estimate. So the probability that it is above
        the margin is the one-sided p of "the difference is at least the margin", which `p_below` gives.
        """
        student = Student(
            effect=self.result.effect, error=self.result.error, df=self.result.df
        )
        if self.lower_is_better:  # to be better is to be below -margin
            return student.p_above(-self.margin)
        return student.p_below(self.margin)

    @property
    def standardised(self) -> float:
        """The difference in units of the spread over seeds; nan where there is none."""
        return self.result.effect / self.spread if self.spread > 0 else math.nan


def margin_of(
    contestants: Contestants, place: Place, given: float | None = None
) -> float:
    """Return the half-width of the region of practical equivalence, in the unit of the scores.

    It is the one given. By default it is the task's margin in the findings (`MARGINS`, in points); for all tasks it is
    the mean of their margins. It is 0, so that no models are practically equal, where the task is none of the paper's
    or the unit is not known.
    """
    if given is not None:
        return given
    if place.task == ALL and contestants.tasks:
        margins = [MARGINS[task] for task in contestants.tasks]
        return sum(margins) / len(margins)
    # The mean over a table's datasets has no tasks. `MARGINS` has no task of the name `all`, so that the
    # margin of this mean is 0.
    point = contestants.point(place) or 0.0
    return MARGINS.get(place.task, 0.0) * point


def compare_pair(
    contestants: Contestants, first: str, second: str, *, margin: float | None = None
) -> list[Difference]:
    """Return the differences on every place that both models have, with the seeds that would show each difference.

    The difference over all tasks is over the tasks that all contestants have, not over those that only these two have.
    The p's are adjusted over the datasets, and over the tasks; the p over all tasks is not adjusted.

    Args:
        contestants: the models, and what is known of them.
        first: the model that differences are counted from: a positive one says that it scores higher.
        second: the other model.
        margin: half-width of the region of practical equivalence; None: the findings' by task (`margin_of`).
    """
    differences = []
    kinds = []  # of each difference: p's are adjusted over those of one kind
    for difference in _differences(contestants, first, second, margin):
        seeds = _seeds_to_find(contestants, difference)
        differences.append(replace(difference, seeds_to_find=seeds))
        place = difference.place
        # Three kinds: datasets, averages of tasks, and all tasks, which is one.
        kinds.append((place.is_dataset, place.task == ALL))
    return _with_holm(differences, kinds)


def _differences(
    contestants: Contestants, first: str, second: str, margin: float | None
) -> Iterator[Difference]:
    """Yield the differences on every place that both models have, with p's that are not adjusted."""
    places = contestants.shared(first, second)
    for place in places:
        half = margin_of(contestants, place, margin)
        contrast = contestants.difference(first, second, place)
        # What is claimed is practical equivalence; the p of "no difference" does not depend on the claim.
        contrast = replace(contrast, low=-half, high=half)
        result = _result(contestants, first, second, place, contrast)
        spreads = [contestants.spread(model, place) for model in (first, second)]
        root_mean_square = math.hypot(*spreads) / math.sqrt(2)
        at_limit = False

        # Only where the difference is within the margin does it matter whether a score is at a limit.
        if result.p_for <= ALPHA:
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
    """Return the differences between a model and each of the others, on every place that both have.

    The model is usually chosen by its scores, so any pair of models might have been tested: on each place Holm's
    adjustment counts all pairs, and those that are not computed have a p of 1.

    Args:
        contestants: the models, and what is known of them.
        first: the model that is compared with all others.
        margin: half-width of the region of practical equivalence; None: the findings' by task (`margin_of`).
    """
    differences: list[Difference] = []
    for other in contestants.models:
        if other != first:
            differences += _differences(contestants, first, other, margin)
    places = [difference.place for difference in differences]
    pairs_on = {}
    for place in places:
        n_models = sum(place in scored for scored in contestants.places.values())
        pairs_on[place] = math.comb(n_models, 2)
    return _with_holm(differences, places, pairs_on)


def _with_holm(
    differences: list[Difference],
    groups: Sequence[object],
    tests: Mapping[Any, int] = MappingProxyType({}),
) -> list[Difference]:
    """Return the differences with p's after Holm's adjustment within each group; one without a p stays as it is.

    Args:
        differences: with p's that are not adjusted.
        groups: for each difference the group that it is in.
        tests: by group over how many tests its p's are adjusted, where that is more than its differences. A group
            without an entry is adjusted over its differences.
    """
    # By group the positions of its differences that have a p.
    positions_in: dict[object, list[int]] = {}
    for position, group in enumerate(groups):
        if differences[position].result.known:
            positions_in.setdefault(group, []).append(position)

    adjusted = list(differences)
    for group, positions in positions_in.items():
        ps = [differences[position].result.p_zero for position in positions]
        # Tests that are counted but not computed have a p of 1. A negative number of them adds none.
        not_computed = tests.get(group, 0) - len(positions)
        ps += [1.0] * not_computed
        # Not strict: the p's of the tests that are not computed, at the end, are dropped.
        for position, p in zip(positions, holm(ps), strict=False):
            adjusted[position] = replace(differences[position], p_holm=p)

    return adjusted


def _result(
    contestants: Contestants, first: str, second: str, place: Place, contrast: Contrast
) -> Result:
    """Return the contrast's result with the seeds of each model, and with its effect even where there is no test."""
    result = contestants.evidence.result(contrast)
    seeds = (contestants.seeds(first, place), contestants.seeds(second, place))
    # Both models have scores here, so that a result is unknown only for want of seeds or of a spread.
    if not result.known:
        missing = "all seeds of each model are equal"
        if min(seeds) < 2:
            missing = "a test needs two seeds of each model"
        effect = contestants.mean(first, place) - contestants.mean(second, place)
        return replace(result, effect=effect, seeds=seeds, missing=missing)
    # A difference that was taken within each seed already has the one number of seeds that both models share.
    return result if result.within_seeds else replace(result, seeds=seeds)


def _seeds_to_find(contestants: Contestants, observed: Difference) -> int | None:
    """Return the seeds of each model that would show a difference as large as the one observed, or as the margin.

    The larger of the two counts: a difference below the margin need not be found. None where there is no standard
    error, or where it takes more seeds than can be had.
    """
    contrast = contestants.difference(observed.first, observed.second, observed.place)
    student = contestants.evidence.student(contrast.terms)
    if student is None:
        return None
    effect = max(abs(observed.result.effect), observed.margin)
    seeds = observed.result.seeds
    is_paired = len(seeds) == 1  # one number of seeds, which both models share
    return seeds_needed(effect, student.error, min(seeds), paired=is_paired)
