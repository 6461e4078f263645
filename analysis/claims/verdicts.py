"""From contrasts to a verdict: the tree of a finding, its parts, the four outcomes.

The rules: docs/claims.md. `analysis.claims.judged` adjusts what stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from analysis.claims.statements import AtLeast, Node, joins
from analysis.evidence.contrasts import AnyContrast, Result
from analysis.statistics.inference import partial_conjunction
from common.level import ALPHA
from common.registry import Registry

ResultOf = Callable[[AnyContrast], Result]
"""What a source says about a comparison."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One of the four things that evidence can say of a statement."""

    name: str
    counted: tuple[str, str]
    """What one finding of this outcome does, and what several do."""
    sided: int = 0
    """1 when it speaks for the statement, -1 when against, 0 when neither."""


OUTCOMES: Registry[Outcome] = Registry(
    "outcome",
    (
        Outcome(name="holds", counted=("holds", "hold"), sided=1),
        Outcome(name="fails", counted=("fails", "fail"), sided=-1),
        Outcome(
            name="holds in k of n",
            counted=("holds in some of its parts", "hold in some of their parts"),
        ),
        Outcome(name="open", counted=("is open", "are open")),
    ),
)
"""In the order in which they are tried: the first that fits is given."""

HOLDS, FAILS, IN_PART, OPEN = OUTCOMES.values()


def outcome_of(p_for: float, p_against: float, *, holds_in: int = 0) -> Outcome:
    """Return which of the four outcomes a statement has.

    Args:
        p_for: of "it does not hold", adjusted for its family.
        p_against: of "it holds", adjusted in the same way.
        holds_in: parts that are shown to hold; a comparison on its own has none.
    """
    if p_for <= ALPHA:
        return HOLDS
    if p_against <= ALPHA:
        return FAILS
    return IN_PART if holds_in else OPEN


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A statement and what the source says about it."""

    node: Node
    p_for: float
    """p of "the statement does not hold": small is evidence for it."""
    p_against: float
    """p of "the statement holds": small is evidence against it."""
    decides_for: Result
    """The contrast that `p_for` comes from."""
    decides_against: Result
    """The contrast that `p_against` comes from."""
    result: Result | None = None
    """The result, when the statement is a single contrast."""
    parts: tuple[Branch, ...] = ()
    counted: tuple[Branch, ...] = ()
    """The parts that are counted: what "all of" joins, at any depth, or those of another rule; none of what is one."""

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """All results below, in order."""
        if self.result is not None:
            return (self.result,)
        return tuple(result for part in self.parts for result in part.results)

    @property
    def known(self) -> bool:
        """Whether the source says anything about it."""
        return any(result.known for result in self.results)

    @property
    def outcome(self) -> str:
        """What it is on its own: `holds`, `fails`, or `open`."""
        return outcome_of(self.p_for, self.p_against).name

    @property
    def rule(self) -> str:
        """How many of its parts have to hold, in words; empty for a single contrast."""
        return self.node.rule if isinstance(self.node, AtLeast) else ""

    @property
    def units(self) -> tuple[Branch, ...]:
        """The parts that are counted; a single contrast is its own only part."""
        return self.counted or (self,)

    @cached_property
    def known_units(self) -> tuple[Branch, ...]:
        """Those of which the source says anything."""
        return tuple(unit for unit in self.units if unit.known)


def judge_node(node: Node, result_of: ResultOf) -> Branch:
    """Return what the source says about a statement and about each of its parts."""
    if not isinstance(node, AtLeast):
        result = result_of(node)
        return Branch(
            node=node,
            p_for=result.p_for,
            p_against=result.p_against,
            decides_for=result,
            decides_against=result,
            result=result,
        )
    parts = tuple(judge_node(part, result_of) for part in node.parts)
    units, count = list(parts), node.count
    if count == len(parts):
        # Nested "all of"s are one: how they are bracketed is wording, and must not move a p.
        units = []
        for part in parts:
            units += part.units if joins(part.node) else [part]
        count = len(units)
    p_for, deciding_for = _decided(units, count, attrgetter("p_for"))
    # "At least k of n hold" fails when at least n - k + 1 of them do not.
    failing = len(units) - count + 1
    p_against, deciding_against = _decided(units, failing, attrgetter("p_against"))
    # A fall and a rise make one U: such a statement is counted as a whole.
    counted = () if node.whole else tuple(units)
    return Branch(
        node=node,
        p_for=p_for,
        p_against=p_against,
        decides_for=deciding_for.decides_for,
        decides_against=deciding_against.decides_against,
        parts=parts,
        counted=counted,
    )


def _decided(
    parts: Sequence[Branch], count: int, p_of: Callable[[Branch], float]
) -> tuple[float, Branch]:
    """Return the p of "at least `count` of the parts", and the part that decides.

    What a source lacks is not tested: the p is corrected for the parts that it has, and is 1 where those are too few.
    """
    known = [part for part in parts if part.known]
    if count > len(known):
        return 1.0, next(part for part in parts if not part.known)
    p, place = partial_conjunction([p_of(part) for part in known], count)
    return p, known[place]
