"""The difference between two models on every scope: estimate, p, P(A > B), practical equivalence, seeds to come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from scipy import special

from analysis.claims.catalogue.terms import MARGINS
from analysis.comparisons.field import Field
from analysis.comparisons.scopes import ALL, Scope
from analysis.precision.power import seeds_needed, seeds_needed_paired
from analysis.statistics.bayesian import Region, Second, hierarchical, region_of
from analysis.statistics.estimates import Student
from analysis.statistics.inference import holm
from analysis.statistics.superiority import FEWEST_SEEDS, improvement_bounds, probability_of_improvement

__all__ = ["LEVEL_OF_TESTS", "Difference", "compare_pair", "margin_of", "pairwise"]

LEVEL_OF_TESTS = 0.05
WANTED_POWER = 0.8

AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN = "ahead", "behind", "equal", "open", "unknown"
"""What is said of the first model: better, worse, practically equal, not decided, no test possible."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first model minus the second on one scope, in points."""

    first: str
    second: str
    scope: Scope
    effect: float
    low: float = math.nan
    """Of the 95 % interval."""
    high: float = math.nan
    p: float = math.nan
    """Two-sided p of "no difference"."""
    p_holm: float = math.nan
    """Adjusted over the scopes of a kind (the datasets, the tasks), or over the pairs of many models."""
    p_equal: float = math.nan
    """p of two one-sided tests of "the difference is beyond the margin"."""
    margin: float = math.nan
    """The region of practical equivalence is (-margin, margin)."""
    test: str = ""
    interval: str = ""
    """Kind of the 95 % interval; one of `intervals.INTERVALS`."""
    seeds: tuple[int, ...] = ()
    """Seeds of the pair, once where they are paired, else of each."""
    superiority: float = math.nan
    """P(A > B): the chance that a run of the first scores above one of the second, ties counted half."""
    superiority_low: float = math.nan
    """Of its 95 % interval by rliable's stratified bootstrap; nan below four seeds, from cells and for many models."""
    superiority_high: float = math.nan
    posterior: Region | None = None
    """Probabilities that the difference is below, in or above the region, under a flat prior."""
    across: Second | None = None
    """The same over datasets as random effects, for a task or all; needs two datasets."""
    seeds_to_find: int | None = None
    """Seeds a model with which 80 of 100 comparisons find a difference as large; None: not computed, or never."""
    missing: str = ""
    """Why there is no test; empty where there is one."""

    @property
    def seeds_still(self) -> int | None:
        """How many more seeds each model needs; 0 when there are enough."""
        if self.seeds_to_find is None:
            return None
        return max(0, self.seeds_to_find - min(self.seeds))

    @property
    def outcome(self) -> str:
        """What can be said of the first model, at the level of 0.05 after Holm's adjustment."""
        if self.missing:
            return UNKNOWN
        if self.p_holm <= LEVEL_OF_TESTS:
            return AHEAD if self.effect > 0 else BEHIND
        return EQUAL if self.p_equal <= LEVEL_OF_TESTS else OPEN


def margin_of(scope: Scope, tasks: Iterable[str], given: float | None = None) -> float:
    """Return the half-width of the region of practical equivalence: the claims' of the task, or the one given."""
    if given is not None:
        return given
    if scope.task == ALL:
        margins = [MARGINS[task] for task in tasks]
        return sum(margins) / len(margins)
    return MARGINS[scope.task]


def compare_pair(
    field: Field,
    first: str,
    second: str,
    *,
    margin: float | None = None,
    rho: float = 0.0,
    details: bool = True,
) -> list[Difference]:
    """Return the differences on every scope that both have.

    Over all tasks they are of the tasks that all models of the field have, not of those that only these two have.

    Args:
        field: the models, and what is known of them.
        first: the model that is better where a difference is positive.
        second: the other.
        margin: of the region of practical equivalence, in points; None: the claims' by task.
        rho: correlation of the seeds' differences, which the seeds themselves cannot show (they share the test
            instances and the pretraining): the posterior's variance is 1/n + rho/(1 - rho) instead of 1/n.
        details: with Holm's adjustment over the scopes, the interval of P(A > B), the second opinion and the seeds
            that are needed.
    """
    scopes = field.shared(first, second)
    found: dict[Scope, Difference] = {}
    students: dict[Scope, Student] = {}
    for scope in scopes:
        contrast = field.difference(first, second, scope)
        one = _difference(field, first, second, scope, margin_of(scope, field.tasks, margin))
        student = field.evidence.student(contrast)
        if student is not None:
            students[scope] = _correlated(student, min(one.seeds), rho)
            one = replace(one, posterior=region_of(students[scope], one.margin))
            if details:
                one = replace(one, seeds_to_find=_seeds_to_find(one, student))
        found[scope] = one
    for scope, one in found.items():
        parts = field.datasets(scope, scopes)
        superior = _superiority(field, first, second, parts, details=details)
        across = None
        known = [part for part in parts if part in students]
        if details and not scope.is_dataset and len(known) >= 2:
            across = hierarchical([students[part] for part in known], [found[part].margin for part in known])
        low, high = superior[1:]
        found[scope] = replace(
            one, superiority=superior[0], superiority_low=low, superiority_high=high, across=across
        )
    rows = list(found.values())
    return _adjusted(rows) if details else rows


def pairwise(field: Field, *, margin: float | None = None, rho: float = 0.0) -> list[Difference]:
    """Return the differences of all pairs, the p's adjusted over the pairs of each scope (Holm)."""
    rows = [
        one
        for first, second in combinations(field.models, 2)
        for one in compare_pair(field, first, second, margin=margin, rho=rho, details=False)
    ]
    return _with_holm(rows, [one.scope for one in rows])


def _adjusted(rows: list[Difference]) -> list[Difference]:
    """Adjust over the datasets, over the tasks, and leave the overall difference alone."""
    return _with_holm(rows, [(one.scope.is_dataset, one.scope.task == ALL) for one in rows])


def _with_holm(rows: list[Difference], groups: Sequence[object]) -> list[Difference]:
    """Return the rows with Holm's p's within each group of those that have a p."""
    places: dict[object, list[int]] = {}
    for place, (one, group) in enumerate(zip(rows, groups, strict=True)):
        if not one.missing:
            places.setdefault(group, []).append(place)
    adjusted = list(rows)
    for held in places.values():
        for place, p in zip(held, holm([rows[place].p for place in held]), strict=True):
            adjusted[place] = replace(rows[place], p_holm=p)
    return adjusted


def _difference(field: Field, first: str, second: str, scope: Scope, margin: float) -> Difference:
    comparison = replace(field.difference(first, second, scope), low=-margin, high=margin)
    found = field.evidence.finding(comparison)
    seeds = (field.seeds(first, scope), field.seeds(second, scope))
    base = Difference(
        first=first, second=second, scope=scope, effect=field.mean(first, scope) - field.mean(second, scope),
        margin=margin, seeds=seeds,
    )  # fmt: skip
    if not found.known:
        which = first if seeds[0] < 2 else second
        return replace(base, missing=f"only one seed of {which}")
    return replace(
        base, effect=found.effect, low=found.low, high=found.high, p=found.p_zero, p_equal=found.p_for,
        seeds=found.seeds if found.within_seeds else seeds, test=found.test, interval=found.interval,
    )  # fmt: skip


def _correlated(estimate: Student, count: int, rho: float) -> Student:
    """Return the estimate with the variance of `count` correlated seeds (Nadeau and Bengio 2003, Corani 2017)."""
    if rho == 0:
        return estimate
    return replace(estimate, error=estimate.error * math.sqrt(1 + count * rho / (1 - rho)))


def _seeds_to_find(one: Difference, student: Student) -> int | None:
    """Return the seeds for the larger of the difference seen and the margin; None: more than any study has."""
    wanted = max(abs(one.effect), one.margin)
    sd = student.error * math.sqrt(min(one.seeds))  # of a difference between two single runs
    if len(one.seeds) == 1:
        return seeds_needed_paired(wanted, sd, WANTED_POWER, LEVEL_OF_TESTS)
    return seeds_needed(wanted, sd / math.sqrt(2), WANTED_POWER, LEVEL_OF_TESTS)


def _superiority(
    field: Field, first: str, second: str, parts: Sequence[Scope], *, details: bool
) -> tuple[float, float, float]:
    """Return P(A > B), the mean over datasets, and its 95 % interval (nan without details)."""
    runs = [(field.by_seed(first, scope), field.by_seed(second, scope)) for scope in parts]
    known = [(one, other) for one, other in runs if one is not None and other is not None]
    if len(known) < len(runs):
        chances = [_normal_superiority(field, first, second, scope) for scope in parts]
        return math.fsum(chances) / len(chances), math.nan, math.nan
    value = math.fsum(probability_of_improvement(*pair) for pair in known) / len(known)
    if not details or min(min(map(len, pair)) for pair in known) < FEWEST_SEEDS:
        return value, math.nan, math.nan
    return value, *improvement_bounds(known)


def _normal_superiority(field: Field, first: str, second: str, scope: Scope) -> float:
    """Return the chance for normal runs with the spread behind the printed intervals."""
    cells = field.evidence.cells
    (mean, error, count), (other, their_error, their_count) = (
        cells.summary((name, scope.task, scope.dataset)) for name in (first, second)
    )
    variance = error**2 * count + their_error**2 * their_count
    return math.nan if math.isnan(variance) else float(special.ndtr((mean - other) / math.sqrt(variance)))
