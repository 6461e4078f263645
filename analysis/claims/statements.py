"""What a claim is made of: contrasts of scores, ratios of spreads, and how many of them have to hold.

A contrast claims that a weighted sum of scores is in an open region: `(0, inf)` for "better than", `(-m, m)`
for "comparable", `(1, 3)` for "by one to three points". A claim is a tree of those: "at each size" needs all of
its parts, "most tasks" some of them, "differs somewhere" one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.protocol import AVERAGE

__all__ = [
    "AtLeast",
    "Claim",
    "Comparison",
    "Contrast",
    "Node",
    "Spread",
    "Term",
    "all_of",
    "any_of",
    "both_of",
    "comparisons",
    "difference",
    "weighted",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Term:
    """One score of a weighted sum."""

    weight: float
    model: str
    task: str
    dataset: str = AVERAGE
    """A dataset of the task, or `average`."""

    @property
    def cell(self) -> tuple[str, str, str]:
        """(model, task, dataset)."""
        return self.model, self.task, self.dataset


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """The statement that a weighted sum of scores, in points, is in an open region."""

    label: str
    """What is compared, in words."""
    terms: tuple[Term, ...]
    low: float = 0.0
    """Lower end of the claimed region, in points."""
    high: float = math.inf
    """Upper end of the claimed region, in points."""
    unit: str = "points"
    """Unit of the sum."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return tuple(dict.fromkeys(term.model for term in self.terms))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that it is about."""
        return tuple(dict.fromkeys(term.task for term in self.terms))

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The tasks, each with the dataset of it or `average`, that it is about."""
        return tuple(dict.fromkeys((term.task, term.dataset) for term in self.terms))

    @property
    def ends(self) -> tuple[float, float]:
        """Lower and upper end of the claimed region."""
        return self.low, self.high

    @property
    def is_range(self) -> bool:
        """Whether the region ends on both sides, so that it takes two one-sided tests."""
        return math.isfinite(self.low) and math.isfinite(self.high)

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
class Spread:
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
    unit: str = "ratio of sd"

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return *self.narrow, *self.wide

    @property
    def tasks(self) -> tuple[str, ...]:
        """The task that it is about."""
        return (self.task,)

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The task with the dataset of it, or `average`, that it is about."""
        return ((self.task, self.dataset),)

    @property
    def ends(self) -> tuple[float, float]:
        """Lower and upper end of the claimed region."""
        return -math.inf, 1.0

    @property
    def region(self) -> str:
        """The claimed region in words."""
        return "< 1"

    @property
    def is_range(self) -> bool:
        """Never: the region is one-sided."""
        return False

    def holds(self, effect: float) -> bool:
        """Whether `effect`, a ratio, is in the claimed region."""
        return effect < 1


Comparison = Contrast | Spread


@dataclass(frozen=True, kw_only=True)
class AtLeast:
    """The statement that at least `count` of its parts hold."""

    label: str
    count: int
    parts: tuple[Comparison | AtLeast, ...]
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
        return f"one of {total} parts" if self.count == 1 else f"at least {self.count} of {total} parts"


Node = Comparison | AtLeast


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One finding as a statement that can be tested."""

    id: str
    """`F1` to `F15`, `F5a` to `F5e`."""
    statement: str
    """The finding in one sentence."""
    where: str
    """Where the paper, or a summary of it, says so."""
    family: str
    """Its question: Holm's adjustment is over the claims of a family."""
    body: Node
    """What has to hold."""
    reported: tuple[Node, ...] = ()
    """Statements judged next to it that its verdict does not use."""
    needs: str = "cells"
    """`cells`: published means and intervals are enough; `runs`: single runs are needed."""
    mixed: bool = False
    """Whether runs also get a mixed-effects model (objective x size) as a second opinion."""
    remark: str = ""
    """What a reader should know about the wording, whatever the source."""
    scope: str = ""
    """Which of the study's models it compares, where they are few."""
    short: str = field(default="")
    """A few words for figures."""

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that it compares, once."""
        named = (model for comparison in comparisons(self.body) for model in comparison.models)
        return tuple(dict.fromkeys(named))


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
    terms = tuple(
        Term(weight=weight, model=model, task=task) for (model, task), weight in merged.items() if weight
    )
    return Contrast(label=label, terms=terms, low=low, high=high, unit=unit)


def difference(
    label: str, better: str, worse: str, task: str, *, low: float = 0.0, high: float = math.inf
) -> Contrast:
    """Return the contrast S(better, task) - S(worse, task)."""
    return weighted(label, [(1.0, better, task), (-1.0, worse, task)], low=low, high=high)


def comparisons(node: Node) -> Iterator[Comparison]:
    """Yield the contrasts and spreads of a statement, in order."""
    if isinstance(node, AtLeast):
        for part in node.parts:
            yield from comparisons(part)
    else:
        yield node
