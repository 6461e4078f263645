"""The difference between two models on every scope: estimate, p, P(A > B), practical equivalence, seeds to come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.inference import holm
from analysis.comparisons.contenders import ALL, Contender, Scope, ScopeScore, scopes_in_order
from analysis.precision.power import seeds_needed, seeds_needed_paired
from analysis.statistics.bayesian import Region, Second, hierarchical, region_of
from analysis.statistics.estimates import Estimate, Student, paired_estimate, welch_estimate
from analysis.statistics.interval_kinds import WELCH, Sample
from analysis.statistics.scores_table import Settings
from analysis.statistics.superiority import FEWEST_SEEDS, improvement_bounds, probability_of_improvement
from benchmarks.protocol import DATASETS

__all__ = ["LEVEL_OF_TESTS", "Difference", "compare_pair", "margin_of", "pairwise", "shared_scopes"]

Array = npt.NDArray[np.float64]

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
    """Kind of the 95 % interval; one of `interval_kinds.INTERVALS`."""
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


def shared_scopes(models: Sequence[Contender]) -> list[Scope]:
    """Return the scopes that all models have, by task: its datasets, its average; all tasks last."""
    common = set.intersection(*(set(model.scores) for model in models))
    return scopes_in_order(common)


def compare_pair(
    first: Contender,
    second: Contender,
    settings: Settings,
    *,
    margin: float | None = None,
    rho: float = 0.0,
    details: bool = True,
) -> list[Difference]:
    """Return the differences on every scope that both have.

    Over all tasks they are of the tasks that all contenders made together have, not of those that only these two have.

    Args:
        first: the model that is better where a difference is positive.
        second: the other.
        settings: its interval chooses test and interval.
        margin: of the region of practical equivalence, in points; None: the claims' by task.
        rho: correlation of the seeds' differences, which the seeds themselves cannot show (they share the test
            instances and the pretraining): the posterior's variance is 1/n + rho/(1 - rho) instead of 1/n.
        details: with Holm's adjustment over the scopes, the interval of P(A > B), the second opinion and the seeds
            that are needed.
    """
    scopes = shared_scopes([first, second])
    tasks = first.overall_tasks
    found: dict[Scope, Difference] = {}
    estimates: dict[Scope, Student] = {}
    for scope in scopes:
        one, student, sd = _difference(first, second, scope, settings, margin_of(scope, tasks, margin))
        if student is not None and details:
            one = replace(one, seeds_to_find=_seeds_to_find(one, sd))
        if student is not None:
            widened = _correlated(student, min(one.seeds), rho)
            estimates[scope] = widened
            one = replace(one, posterior=region_of(widened, one.margin))
        found[scope] = one
    for scope, one in found.items():
        parts = [scope] if scope.is_dataset else _parts(scope, scopes, tasks)
        superior = _superiority(first, second, parts, settings if details else None)
        across = None
        known = [part for part in parts if part in estimates and estimates[part].error > 0]
        if details and not scope.is_dataset and len(known) >= 2:
            across = hierarchical([estimates[part] for part in known], [found[part].margin for part in known])
        low, high = superior[1:]
        found[scope] = replace(
            one, superiority=superior[0], superiority_low=low, superiority_high=high, across=across
        )
    rows = list(found.values())
    return _adjusted(rows) if details else rows


def pairwise(
    models: Sequence[Contender], settings: Settings, *, margin: float | None = None, rho: float = 0.0
) -> list[Difference]:
    """Return the differences of all pairs, the p's adjusted over the pairs of each scope (Holm)."""
    rows = [
        one
        for first, second in combinations(models, 2)
        for one in compare_pair(first, second, settings, margin=margin, rho=rho, details=False)
    ]
    by_scope: dict[Scope, list[int]] = {}
    for place, one in enumerate(rows):
        if not one.missing:
            by_scope.setdefault(one.scope, []).append(place)
    for places in by_scope.values():
        for place, p in zip(places, holm([rows[place].p for place in places]), strict=True):
            rows[place] = replace(rows[place], p_holm=p)
    return rows


def _adjusted(rows: list[Difference]) -> list[Difference]:
    """Adjust over the datasets, over the tasks, and leave the overall difference alone."""
    for group in ("dataset", "task", "all"):
        places = [
            place
            for place, one in enumerate(rows)
            if not one.missing and _kind(one.scope) == group
        ]  # fmt: skip
        for place, p in zip(places, holm([rows[place].p for place in places]), strict=True):
            rows[place] = replace(rows[place], p_holm=p)
    return rows


def _kind(scope: Scope) -> str:
    return "dataset" if scope.is_dataset else "all" if scope.task == ALL else "task"


def _difference(
    first: Contender, second: Contender, scope: Scope, settings: Settings, margin: float
) -> tuple[Difference, Student | None, float]:
    """Return the difference, its estimate by Student's t, and the standard deviation that further seeds would have."""
    one, other = first.scores[scope], second.scores[scope]
    base = Difference(
        first=first.name, second=second.name, scope=scope, effect=one.mean - other.mean, margin=margin,
        seeds=(one.count, other.count),
    )  # fmt: skip
    shared = _shared(one, other)
    if shared is not None and shared.sum() >= 2:
        assert one.by_seed is not None and other.by_seed is not None
        values = one.by_seed[shared] - other.by_seed[shared]
        resampled = None
        if one.resampled is not None and other.resampled is not None:
            resampled = one.resampled[:, shared] - other.resampled[:, shared]
        sample = Sample(values=values, pick=settings.picks, resampled=resampled)
        method = settings.method.of(len(values))
        estimate, test = method.need_paired().estimate(sample)
        done = _tested(base, estimate, seeds=(len(values),), test=test, interval=method.name_within_seeds)
        # A flat prior's posterior is Student's, whatever the interval is by.
        student = estimate if isinstance(estimate, Student) else paired_estimate(values)
        return done, student, float(values.std(ddof=1))
    if min(one.count, other.count) < 2:
        which = first.name if one.count < 2 else second.name
        return replace(base, missing=f"one seed of {which}"), None, math.nan
    means, errors = np.array([one.mean, other.mean]), np.array([one.error, other.error])
    counts = np.array([one.count, other.count], dtype=np.float64)
    welch = welch_estimate(means, errors, counts, np.array([1.0, -1.0]))
    independent = settings.method.independent or WELCH
    test = independent.words.removesuffix("s t tests").rstrip("'")
    estimate = independent.estimate(welch)
    sd = math.sqrt(float(np.mean(errors**2 * counts)))
    return _tested(base, estimate, test=test, interval=independent.interval), welch, sd


def _tested(base: Difference, estimate: Estimate, **others: Any) -> Difference:
    low, high = estimate.interval()
    above, below = estimate.p_above(0.0), estimate.p_below(0.0)
    return replace(
        base, effect=estimate.effect, low=low, high=high,
        p=min(1.0, 2 * min(above, below)),
        p_equal=max(estimate.p_above(-base.margin), estimate.p_below(base.margin)),
        **others,
    )  # fmt: skip


def _shared(one: ScopeScore, other: ScopeScore) -> npt.NDArray[np.bool_] | None:
    if one.by_seed is None or other.by_seed is None:
        return None
    return np.isfinite(one.by_seed) & np.isfinite(other.by_seed)


def _correlated(estimate: Student, count: int, rho: float) -> Student:
    """Return the estimate with the variance of `count` correlated seeds (Nadeau and Bengio 2003, Corani 2017)."""
    if rho == 0:
        return estimate
    return replace(estimate, error=estimate.error * math.sqrt(1 + count * rho / (1 - rho)))


def _seeds_to_find(one: Difference, sd: float) -> int | None:
    """Return the seeds for the larger of the difference seen and the margin; None: more than any study has."""
    wanted = max(abs(one.effect), one.margin)
    if sd == 0:
        return 2
    needed = seeds_needed_paired if len(one.seeds) == 1 else seeds_needed
    return needed(wanted, sd, WANTED_POWER, LEVEL_OF_TESTS)


def _parts(scope: Scope, scopes: Sequence[Scope], overall_tasks: Sequence[str]) -> list[Scope]:
    """Return the datasets that an average is over."""
    tasks = overall_tasks if scope.task == ALL else (scope.task,)
    return [one for one in scopes if one.is_dataset and one.task in tasks and one.dataset in DATASETS]


def _superiority(
    first: Contender, second: Contender, parts: Sequence[Scope], settings: Settings | None
) -> tuple[float, float, float]:
    """Return P(A > B), the mean over datasets, and its 95 % interval (nan without `settings`)."""
    pairs = [(first.scores[scope], second.scores[scope]) for scope in parts]
    if any(one.by_seed is None or other.by_seed is None for one, other in pairs):
        chances = [_normal_superiority(one, other) for one, other in pairs]
        return math.fsum(chances) / len(chances), math.nan, math.nan
    runs = [(one.present, other.present) for one, other in pairs]
    value = math.fsum(probability_of_improvement(*pair) for pair in runs) / len(runs)
    if settings is None or min(min(map(len, pair)) for pair in runs) < FEWEST_SEEDS:
        return value, math.nan, math.nan
    return value, *improvement_bounds(runs)


def _normal_superiority(one: ScopeScore, other: ScopeScore) -> float:
    """Return the chance for normal runs with the spread behind the printed intervals."""
    variance = one.error**2 * one.count + other.error**2 * other.count
    if not variance > 0:
        return math.nan if math.isnan(variance) else 0.5 + 0.5 * float(np.sign(one.mean - other.mean))
    return float(special.ndtr((one.mean - other.mean) / math.sqrt(variance)))
