"""What a finding is made of: contrasts of scores, ratios of spreads, and how many of them have to hold.

A finding is a tree of contrasts (`analysis.evidence.contrasts`): "at each size" needs all of its parts, "most tasks"
some of them, "differs somewhere" one. Its mean is that of its contrasts, each in the claimed direction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from analysis.claims.titles import ANSWER, ANSWER_TITLE, TITLES
from analysis.evidence.contrasts import AnyContrast, Contrast, Term, weights_of
from common.errors import UserError
from pretraining.paper_models import parse

_MOST_NAMED = 6
"""Trunks that are named."""


@dataclass(frozen=True, kw_only=True)
class AtLeast:
    """The statement that at least `count` of its parts hold."""

    label: str
    count: int
    parts: tuple[AnyContrast | AtLeast, ...]
    whole: bool = False
    """Whether it counts as one part where parts are counted, though all of its own parts have to hold."""

    def __post_init__(self) -> None:
        assert 1 <= self.count <= len(self.parts), self.label

    @property
    def rule(self) -> str:
        """How many of the parts have to hold, in words."""
        total = len(self.parts)
        if total == 1:
            return "one part"
        if self.count == total:
            return f"all {total} parts"
        if self.count == 1:
            return f"one of {total} parts"
        return f"at least {self.count} of {total} parts"


Node = AnyContrast | AtLeast


def joins(node: Node) -> bool:
    """Return whether a statement is an "all of" whose parts are counted with those around it."""
    if not isinstance(node, AtLeast) or node.whole:
        return False
    return node.count == len(node.parts)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding as a statement that can be tested."""

    id: str
    """`F1` to `F17`, `F5a` to `F5e`."""
    statement: str
    """The finding in one sentence."""
    where: str
    """Where the paper, or a summary of it, says so."""
    family: str
    """Its question: Holm's adjustment is over the findings of a family."""
    body: Node
    """What has to hold."""
    reported: tuple[Node, ...] = ()
    """Statements judged next to it that its verdict does not use."""
    needs: str = "cells"
    """`cells`: published means and intervals are enough; `runs`: single runs are needed."""
    remark: str = ""
    """What a reader should know about the wording, whatever the source."""
    rivals: tuple[Node, ...] = ()
    """The statements among which its body was chosen: counts of its parts are corrected for theirs."""
    scope: str = ""
    """Which of the study's models it compares, where they are few."""

    @property
    def short(self) -> str:
        """A few words for figures (`analysis.claims.titles`)."""
        return ANSWER_TITLE if self.family == ANSWER else TITLES[self.id]

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that it compares, once."""
        names: dict[str, None] = {}
        for comparison in comparisons(self.body):
            names |= dict.fromkeys(comparison.models)
        return tuple(names)


def all_of(label: str, parts: Iterable[Node]) -> AtLeast:
    """Return the statement that every part holds."""
    needed = tuple(parts)
    return AtLeast(label=label, count=len(needed), parts=needed)


def both_of(label: str, first: Node, second: Node) -> AtLeast:
    """Return the statement that both hold, which counts as one part of a larger one: a fall and a rise make one U."""
    return AtLeast(label=label, count=2, parts=(first, second), whole=True)


def any_of(label: str, parts: Iterable[Node]) -> AtLeast:
    """Return the statement that one part holds."""
    return AtLeast(label=label, count=1, parts=tuple(parts))


def weighted(
    label: str,
    weights: Iterable[tuple[float, str, str]],
    *,
    low: float = 0.0,
    high: float = math.inf,
    unit: str = "points",
) -> Contrast:
    """Return the contrast of (weight, model, task) triples on task averages; equal cells are merged."""
    merged: dict[tuple[str, str], float] = {}
    for weight, model, task in weights:
        merged[model, task] = merged.get((model, task), 0.0) + weight
    terms = []
    for (model, task), weight in merged.items():
        if weight:
            terms.append(Term(weight=weight, model=model, task=task))
    return Contrast(label=label, terms=tuple(terms), low=low, high=high, unit=unit)


def difference(
    label: str,
    better: str,
    worse: str,
    task: str,
    *,
    low: float = 0.0,
    high: float = math.inf,
) -> Contrast:
    """Return the contrast S(better, task) - S(worse, task)."""
    scores = [(1.0, better, task), (-1.0, worse, task)]
    return weighted(label, scores, low=low, high=high)


def mean_of(label: str, contrasts: Iterable[Contrast]) -> Contrast:
    """Return the mean of contrasts of one unit as a contrast that claims to be above 0."""
    averaged = tuple(contrasts)
    weights = []
    for contrast in averaged:
        for term in contrast.terms:
            weights.append((term.weight / len(averaged), term.model, term.task))
    return weighted(label, weights, unit=averaged[0].unit)


def comparisons(node: Node) -> Iterator[AnyContrast]:
    """Yield the contrasts and spreads of a statement, in order."""
    if isinstance(node, AtLeast):
        for part in node.parts:
            yield from comparisons(part)
    else:
        yield node


def typical_contrast(compared: Iterable[AnyContrast]) -> Contrast | None:
    """Return the mean of a finding's contrasts as a contrast, so that it has an interval.

    Contrasts that claim a direction are averaged; only where there are none, those that claim a margin ("on par"), and
    only where there are none of these, those that claim a range ("comparable"). A contrast and its reverse (F5a
    searches both ways) have no mean, and ratios of spreads have none.
    """
    contrasts = [one for one in compared if isinstance(one, Contrast)]
    directed = [one for one in contrasts if one.has_direction]
    with_margin = [one for one in contrasts if one.margin]
    chosen = directed or with_margin or contrasts
    if not chosen:
        return None
    # An effect in points and a slope cannot be averaged: only the contrasts in the most frequent unit are.
    units = Counter(one.unit for one in chosen)
    [(unit, _)] = units.most_common(1)
    chosen = [one for one in chosen if one.unit == unit]
    parts = []
    for contrast in chosen:
        # A contrast that claims to be below 0 enters the mean reversed.
        sign = 1.0 if math.isfinite(contrast.low) else -1.0
        for term in contrast.terms:
            parts.append(replace(term, weight=sign * term.weight / len(chosen)))
    weights = weights_of(parts)
    if not weights:
        return None
    terms = []
    for (model, task, dataset), weight in weights.items():
        term = Term(weight=weight, model=model, task=task, dataset=dataset)
        terms.append(term)
    low, high = 0.0, math.inf
    if not directed:  # the claimed range of a mean is the mean of the ranges
        low = math.fsum(one.low for one in chosen) / len(chosen)
        high = math.fsum(one.high for one in chosen) / len(chosen)
    label = f"mean of {len(chosen)} comparisons, in the claimed direction"
    if 0 < len(directed) < len(contrasts):
        label = f"mean of the {len(chosen)} that claim a direction"
    if len(chosen) == 1:
        label = f"{chosen[0].label}, the only one that claims a direction"
    return Contrast(label=label, terms=tuple(terms), low=low, high=high, unit=unit)


def shared_trunks(compared: Iterable[AnyContrast]) -> str:
    """Return `the 6 models compared branch from 2 trunks (610m-clm, 610m-mlm40)`; empty where each has its own.

    A trunk starts from random weights. Models of one trunk were not pretrained independently of each other: what luck
    the trunk had is in all of them, and their mean does not average it out.
    """
    models: dict[str, None] = {}
    for comparison in compared:
        models |= dict.fromkeys(comparison.models)
    trunks = dict.fromkeys(trunk_of(model) for model in models)
    if len(trunks) == len(models):
        return ""
    noun = "trunk" if len(trunks) == 1 else "trunks"
    named = ""
    if len(trunks) <= _MOST_NAMED:
        named = f" ({', '.join(trunks)})"
    return f"the {len(models)} models compared branch from {len(trunks)} {noun}{named}"


@cache
def trunk_of(model: str) -> str:
    """Return the first stage of a model: `610m-clm` for all that begins with CLM at 610M.

    A name that says nothing about stages is a trunk of its own.
    """
    try:
        return parse(model).stages[0].name
    except UserError:
        return model
