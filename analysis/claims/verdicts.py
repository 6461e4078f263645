"""From contrasts to a verdict: the tree of a finding, its parts, the four outcomes.

The rules: docs/claims.md. The p's of this module are not adjusted for other tests; `analysis.claims.judged` does that.
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
    """The verb for one finding of this outcome, and the verb for several: `holds`, `hold`."""
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
    """The statement's parts as the finding nests them; none of a single contrast."""
    counted: tuple[Branch, ...] = ()
    """The parts that "holds in k of n" counts. Of an "all of" they are those of all "all of"s nested in it, of another
    rule its own parts. Empty for a single contrast and for a statement that is a `whole`: these count as one part."""

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The results of all contrasts in the statement, in order."""
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
        """The counted parts of which the source says anything."""
        return tuple(unit for unit in self.units if unit.known)


def judge_node(node: Node, result_of: ResultOf) -> Branch:
    """Return what the source says about a statement and about each of its parts.

    A statement of parts is "at least `count` of them hold"; its p comes from the p's of the parts.
    """
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
    units = list(parts)  # the parts that are tested and counted
    needed = node.count
    if needed == len(parts):
        # All have to hold. Then nested "all of"s are one "all of": how a finding brackets its parts is wording, and
        # must not move a p.
        units = []
        for part in parts:
            units += part.units if joins(part.node) else [part]
        needed = len(units)

    p_for, deciding_for = _decided(units, needed, attrgetter("p_for"))
    # "At least k of n hold" is wrong when at least n - k + 1 of them do not hold.
    enough_to_fail = len(units) - needed + 1
    p_against, deciding_against = _decided(
        units, enough_to_fail, attrgetter("p_against")
    )

    # A fall and a rise make one U: a larger statement counts such a `whole` as one part.
    counted = () if node.whole else tuple(units)
    # The part that decides may have parts itself, of which one contrast decides.
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
    """Return the p of "at least `count` of the parts", and the part that this p comes from.

    A part that the source lacks is not tested: the p is corrected for the known parts only. Where these are fewer than
    `count`, the p is 1, and it comes from the first part that is lacking.

    Args:
        parts: the parts, one or more.
        count: how many of them it takes.
        p_of: the p of a part, which is the one for or the one against it.
    """
    known = [part for part in parts if part.known]
    lacking = [part for part in parts if not part.known]
    # There is a part that is lacking, since `count` is at most the number of all parts.
    if count > len(known):
        return 1.0, lacking[0]
    # The position among the known parts of the one whose p decides: the one with the `count`-th smallest p.
    p, position = partial_conjunction([p_of(part) for part in known], count)
    return p, known[position]
