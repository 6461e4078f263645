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
"""How many trunks a sentence names at most; of more it gives only the number."""


@dataclass(frozen=True, kw_only=True)
class AtLeast:
    """The statement that at least `count` of its parts hold."""

    label: str
    count: int
    parts: tuple[AnyContrast | AtLeast, ...]
    whole: bool = False
    """Whether a larger statement counts it as a single part, though all of its own parts have to hold."""

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
    """Return whether a larger "all of" counts a statement's parts one by one, in place of the statement.

    That is so where the statement is itself an "all of": "SC and TC, and QA and IR" has four parts, not two. One that
    is declared a `whole` stays a single part.
    """
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
    """Statements that are judged and printed next to it, but that its verdict does not use."""
    needs: str = "cells"
    """`cells`: published means and intervals are enough; `runs`: single runs are needed."""
    remark: str = ""
    """What a reader should know about the wording, whatever the source."""
    rivals: tuple[Node, ...] = ()
    """The statements among which its body was chosen by their scores, such as those about other shares of CLM. When
    its parts are counted, the p's are corrected for the parts of these statements as well."""
    scope: str = ""
    """Which of the study's models it compares, where they are few; headlines print it."""

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
    """Return a weighted sum of task averages as a contrast.

    Args:
        label: the comparison in words.
        weights: (weight, model, task) triples; the weights of one model on one task are added up.
        low: lower end of the claimed region.
        high: upper end of the claimed region.
        unit: unit of the sum.
    """
    weight_of: dict[tuple[str, str], float] = {}
    for weight, model, task in weights:
        weight_of[model, task] = weight_of.get((model, task), 0.0) + weight
    terms = []
    for (model, task), weight in weight_of.items():
        if weight:  # a score that is added and subtracted alike is not compared
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
    """Return the mean of a finding's contrasts as a contrast, so that the mean gets an interval too.

    Contrasts that claim a direction are averaged; only where there are none, those that claim a margin ("on par"), and
    only where there are none of these, those that claim a range ("comparable"). The result is None where there is no
    mean: of ratios of spreads, or where every contrast is there with its reverse (F5a searches both ways).
    """
    contrasts = [one for one in compared if isinstance(one, Contrast)]
    directed = [one for one in contrasts if one.has_direction]
    # `margin` is 0 for a contrast that claims a direction or a range.
    with_margin = [one for one in contrasts if one.margin]
    averaged = directed or with_margin or contrasts
    if not averaged:
        return None

    # A difference in points and a slope have no common mean: only the contrasts in the most frequent unit are averaged.
    # Of equally frequent units, the one that comes first counts.
    units = Counter(one.unit for one in averaged)
    [(unit, _)] = units.most_common(1)
    averaged = [one for one in averaged if one.unit == unit]
    weighted_terms = []
    for contrast in averaged:
        # A contrast that claims to be below 0 enters the mean with its sign reversed: only its region has no
        # lower end.
        sign = 1.0 if math.isfinite(contrast.low) else -1.0
        for term in contrast.terms:
            weight = sign * term.weight / len(averaged)
            weighted_terms.append(replace(term, weight=weight))

    # The weights of one model on one place are added up, and those that cancel are left out.
    weights = weights_of(weighted_terms)
    if not weights:  # every contrast and its reverse: all weights cancel
        return None
    terms = []
    for (model, task, dataset), weight in weights.items():
        term = Term(weight=weight, model=model, task=task, dataset=dataset)
        terms.append(term)

    low, high = 0.0, math.inf
    if not directed:  # the claimed range of a mean is the mean of the ranges
        low = math.fsum(one.low for one in averaged) / len(averaged)
        high = math.fsum(one.high for one in averaged) / len(averaged)

    # What the mean is over, in words. `directed` and `contrasts` are of all units. In the catalogue, a
    # contrast that is averaged alone beside others always claims a direction: in F4, F11, F12 and F13, whose
    # other contrasts claim a margin or a range.
    label = f"mean of {len(averaged)} comparisons, in the claimed direction"
    if 0 < len(directed) < len(contrasts):
        label = f"mean of the {len(averaged)} that claim a direction"
    if len(averaged) == 1:
        label = f"{averaged[0].label}, the only one that claims a direction"
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
