"""From contrasts to verdicts: the tree of a finding, its parts, the families, the four outcomes.

The rules: docs/claims.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from analysis.claims.statements import AtLeast, Finding, Node, typical_contrast
from analysis.evidence.contrasts import AnyContrast, Result
from analysis.statistics.inference import holm, partial_conjunction
from common.registry import Registry

__all__ = [
    "ALPHA", "FAILS", "HOLDS", "IN_PART", "OPEN", "OUTCOMES", "Branch", "Outcome", "ResultOf", "Verdict", "judge",
    "judge_finding", "shown_to_hold",
]  # fmt: skip

ResultOf = Callable[[AnyContrast], Result]
"""What a source says about a comparison."""

ALPHA = 0.05
"""Level of every test; families are held to it by Holm's adjustment."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One of the four things that evidence can say of a statement."""

    name: str
    symbol: str
    """One character for grids."""
    counted: tuple[str, str]
    """What one finding of this outcome does, and what several do."""
    sided: int = 0
    """1 when it speaks for the statement, -1 when against, 0 when neither."""


OUTCOMES: Registry[Outcome] = Registry(
    "outcome",
    (
        Outcome(name="holds", symbol="+", counted=("holds", "hold"), sided=1),
        Outcome(name="fails", symbol="x", counted=("fails", "fail"), sided=-1),
        Outcome(name="holds in k of n", symbol="/", counted=("holds in some of its parts",
                                                             "hold in some of their parts")),
        Outcome(name="open", symbol="o", counted=("is open", "are open")),
    ),
)  # fmt: skip
"""In the order in which they are tried: the first that fits is given."""

HOLDS, FAILS, IN_PART, OPEN = OUTCOMES.values()


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

    @property
    def verdict(self) -> str:
        """The verdict on the statement taken alone, without adjustment for its family."""
        outcome = self.outcome(self.p_for, self.p_against, hold=self.hold, fail=self.fail)
        return _in_words(outcome, self.hold, len(self.units))

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """All results below, in order."""
        if self.result is not None:
            return (self.result,)
        return tuple(result for part in self.parts for result in part.results)

    @property
    def needs_all(self) -> bool:
        """Whether all of its parts have to hold."""
        return isinstance(self.node, AtLeast) and self.node.count == len(self.parts)

    @cached_property
    def units(self) -> tuple[Branch, ...]:
        """The parts that are counted: what "all of" joins, at any depth, or the parts of another rule."""
        if self.result is not None:
            return (self,)
        return flattened(self) if self.needs_all else self.parts

    @property
    def known_units(self) -> int:
        """How many units the source says anything about."""
        return sum(any(one.known for one in unit.results) for unit in self.units)

    @cached_property
    def hold(self) -> int:
        """Units that hold at least, simultaneous 95 %."""
        return shown_to_hold([unit.p_for for unit in self.units])

    @cached_property
    def fail(self) -> int:
        """Units that fail at least, simultaneous 95 %."""
        return shown_to_hold([unit.p_against for unit in self.units])

    def outcome(self, p_for: float, p_against: float, *, hold: int, fail: int) -> Outcome:
        """Return what its p's, as adjusted, and the numbers of parts shown to hold and to fail say.

        "All" is refuted by one part that is shown to fail.
        """
        if p_for <= ALPHA:
            return HOLDS
        if p_against <= ALPHA or (fail and (self.result is not None or self.needs_all)):
            return FAILS
        return IN_PART if hold else OPEN


def _in_words(outcome: Outcome, hold: int, parts: int) -> str:
    return f"holds in {hold} of {parts}" if outcome is IN_PART else outcome.name


def flattened(branch: Branch) -> tuple[Branch, ...]:
    """Return the parts that "all of" joins, through nested "all of"s."""
    if (
        branch.result is not None
        or not branch.needs_all
        or (isinstance(branch.node, AtLeast) and branch.node.whole)
    ):
        return (branch,)
    return tuple(unit for part in branch.parts for unit in flattened(part))


def shown_to_hold(p_values: Sequence[float]) -> int:
    """Return how many of several statements hold at least, with 95 % confidence.

    Holm's rejections at 5 % are the largest k for which "at least k hold" is shown by closed testing of the partial
    conjunctions (Benjamini and Heller 2008; Goeman and Solari 2011), however the tests depend on each other.
    """
    return sum(p <= ALPHA for p in holm(p_values))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A finding and what a source says about it."""

    finding: Finding
    tree: Branch
    """The finding's body, evaluated."""
    reported: tuple[Branch, ...]
    """What is judged next to the finding, each statement alone."""
    p_for_adjusted: float
    """p for the finding after Holm over the findings of the family."""
    p_against_adjusted: float
    family_size: int
    """Findings of the family that the source says anything about."""
    typical: Result | None = None
    """The mean of its comparisons, each in the claimed direction; None where they have no mean."""
    rivals: tuple[Branch, ...] = ()
    """Statements among which it was chosen: the counts of its parts are simultaneous with those of theirs."""

    @cached_property
    def outcome(self) -> Outcome:
        """Which of the four it is."""
        return self.tree.outcome(self.p_for_adjusted, self.p_against_adjusted, hold=self.hold, fail=self.fail)

    @property
    def verdict(self) -> str:
        """`holds`, `fails`, `holds in 8 of 12` or `open`."""
        return _in_words(self.outcome, self.hold, len(self.tree.units))

    @cached_property
    def hold(self) -> int:
        """Parts that hold at least, simultaneous 95 %."""
        return sum(p <= ALPHA for p in self.parts_for_adjusted)

    @cached_property
    def fail(self) -> int:
        """Parts that fail at least, simultaneous 95 %."""
        return sum(p <= ALPHA for p in self.parts_against_adjusted)

    @cached_property
    def parts_for_adjusted(self) -> tuple[float, ...]:
        """p for each part, after Holm over its own parts and those of the rivals."""
        return self._adjusted(lambda part: part.p_for)

    @cached_property
    def parts_against_adjusted(self) -> tuple[float, ...]:
        """p against each part, after Holm over its own parts and those of the rivals."""
        return self._adjusted(lambda part: part.p_against)

    def _adjusted(self, p_of: Callable[[Branch], float]) -> tuple[float, ...]:
        own = [p_of(part) for part in self.tree.units]
        others = [p_of(part) for tree in self.rivals if tree.known_units for part in tree.units]
        return tuple(holm([*own, *others])[: len(own)])

    @property
    def p_for(self) -> float:
        """Raw p for the finding."""
        return self.tree.p_for

    @property
    def p_against(self) -> float:
        """Raw p against the finding."""
        return self.tree.p_against

    @property
    def decisive(self) -> Result:
        """The most adverse contrast: the weakest link of what is supported, else the strongest counter-example."""
        sided = self.outcome.sided
        against = sided < 0 or (sided == 0 and (self.fail > 0 or self.leans_against))
        decides = self.tree.decides_against if against else self.tree.decides_for
        if not decides.known and self.known:
            return max(self.known, key=lambda result: result.p_for)
        return decides

    @property
    def leans_against(self) -> bool:
        """Whether the evidence against the finding is stronger than the evidence for it."""
        return self.p_against < self.p_for

    @property
    def p(self) -> float:
        """Raw p of the direction the evidence leans to."""
        return self.p_against if self.leans_against else self.p_for

    @property
    def p_adjusted(self) -> float:
        """Adjusted p of the direction the evidence leans to."""
        return self.p_against_adjusted if self.leans_against else self.p_for_adjusted

    @property
    def known(self) -> tuple[Result, ...]:
        """The contrasts of the finding that the source knows."""
        return tuple(result for result in self.tree.results if result.known)

    @property
    def seeds(self) -> str:
        """Seeds behind the contrasts: `5`, `3-5`, or empty."""
        counts = [count for result in self.known for count in result.seeds]
        if not counts:
            return ""
        return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"


def judge_finding(finding: Finding, result_of: ResultOf) -> Verdict:
    """Return the verdict on one finding as a family of its own."""
    tree = _evaluate(finding.body, result_of)
    return Verdict(
        finding=finding, tree=tree, reported=tuple(_evaluate(node, result_of) for node in finding.reported),
        p_for_adjusted=tree.p_for, p_against_adjusted=tree.p_against,
        family_size=int(any(result.known for result in tree.results)),
    )  # fmt: skip


def judge(findings: Mapping[str, Finding], result_of: ResultOf) -> list[Verdict]:
    """Return the verdict on every finding, p's adjusted by Holm within each family, with the typical effects.

    A finding can be wrongly held true or wrongly held false, never both, so the p's for and against are adjusted apart;
    findings that the source says nothing about do not count.
    """
    result_of = cache(result_of)
    verdicts = {name: judge_finding(finding, result_of) for name, finding in findings.items()}
    for family in dict.fromkeys(finding.family for finding in findings.values()):
        members = [name for name, v in verdicts.items() if v.finding.family == family and v.known]
        adjusted_for = holm([verdicts[name].p_for for name in members])
        adjusted_against = holm([verdicts[name].p_against for name in members])
        for name, p_for, p_against in zip(members, adjusted_for, adjusted_against, strict=True):
            known = verdicts[name].known
            others = (one for one in members if one != name and verdicts[name].finding.chosen)
            typical = typical_contrast(known) if len(known) > 1 else None
            verdicts[name] = replace(
                verdicts[name],
                p_for_adjusted=p_for,
                p_against_adjusted=p_against,
                family_size=len(members),
                typical=None if typical is None else result_of(typical),
                rivals=tuple(verdicts[one].tree for one in others),
            )
    return list(verdicts.values())


def _evaluate(node: Node, result_of: ResultOf) -> Branch:
    if not isinstance(node, AtLeast):
        result = result_of(node)
        return Branch(
            node=node, p_for=result.p_for, p_against=result.p_against, decides_for=result,
            decides_against=result, result=result,
        )  # fmt: skip
    parts = tuple(_evaluate(part, result_of) for part in node.parts)
    # Nested "all of"s are one: how they are bracketed is wording, and must not move a p.
    joined = parts
    if node.count == len(parts):
        joined = tuple(unit for part in parts for unit in flattened(part))
    count = len(joined) if node.count == len(parts) else node.count
    p_for, place_for = partial_conjunction([part.p_for for part in joined], count)
    # "At least k of n hold" fails when at least n - k + 1 of them do not.
    p_against, place_against = partial_conjunction(
        [part.p_against for part in joined], len(joined) - count + 1
    )
    return Branch(
        node=node, p_for=p_for, p_against=p_against, decides_for=joined[place_for].decides_for,
        decides_against=joined[place_against].decides_against, parts=parts,
    )  # fmt: skip
