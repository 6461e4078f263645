"""What a claim is made of: contrasts of scores, ratios of spreads, and how many of them have to hold.

A claim is a tree of contrasts (`analysis.evidence.contrasts`): "at each size" needs all of its parts, "most tasks"
some of them, "differs somewhere" one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from analysis.evidence.contrasts import AnyContrast, Contrast, Term

__all__ = [
    "AtLeast",
    "Claim",
    "Node",
    "all_of",
    "any_of",
    "both_of",
    "comparisons",
    "difference",
    "weighted",
]  # fmt: skip


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
        return f"one of {total} parts" if self.count == 1 else f"at least {self.count} of {total} parts"


Node = AnyContrast | AtLeast


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


def comparisons(node: Node) -> Iterator[AnyContrast]:
    """Yield the contrasts and spreads of a statement, in order."""
    if isinstance(node, AtLeast):
        for part in node.parts:
            yield from comparisons(part)
    else:
        yield node
