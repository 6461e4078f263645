"""Judged findings: each with its verdict, the comparisons behind it, their mean, and what is reported beside it.

A finding has two p's, for and against it. Both are adjusted by Holm's procedure: those of a whole finding over the
findings of its family (the findings about one question), those of its parts over the parts that are counted together.

The words of this module: the source is the collection of scores by which findings are judged. A statement as
it is written is a node; as the source judges it, with its p's, it is a branch
(`analysis.claims.verdicts.Branch`), and a whole finding is a tree of branches. The units of a branch are the
parts that "holds in k of n" counts. A comparison is known if the source has its scores, and a branch is known
if any of its comparisons is. The answer is the statement that answers the paper's question; it is judged as a
finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from analysis.claims.statements import Finding, Node, typical_contrast
from analysis.claims.verdicts import (
    FAILS,
    HOLDS,
    IN_PART,
    OPEN,
    Branch,
    ResultOf,
    judge_node,
    outcome_of,
)
from analysis.evidence.contrasts import Result
from analysis.statistics.inference import holm
from common.level import ALPHA


@dataclass(frozen=True, kw_only=True)
class JudgedPart:
    """A part that a statement counts; also, while findings are judged, a whole finding in its family."""

    branch: Branch
    p_for_holm: float
    """p of "it does not hold", adjusted over the parts that are counted together."""
    p_against_holm: float
    """p of "it holds", adjusted in the same way."""

    @property
    def counted(self) -> str:
        """What it counts as: `holds`, `fails`, or `open`."""
        return outcome_of(self.p_for_holm, self.p_against_holm).name


@dataclass(frozen=True, kw_only=True)
class JudgedStatement:
    """A whole statement with its parts, after adjustment."""

    branch: Branch
    """The statement with its p's before any adjustment."""
    p_for_holm: float
    """p of "it does not hold", adjusted over the whole statements that are tested together with it."""
    p_against_holm: float
    """p of "it holds", adjusted in the same way."""
    counted: tuple[JudgedPart, ...]
    """The parts that are counted: those of which the source says anything."""

    @property
    def label(self) -> str:
        """The statement in words."""
        return self.branch.node.label

    @property
    def p_for(self) -> float:
        """p of "it does not hold": small is evidence for it; 1 where the source says nothing."""
        return self.branch.p_for

    @property
    def p_against(self) -> float:
        """p of "it holds": small is evidence against it."""
        return self.branch.p_against

    @property
    def parts(self) -> int:
        """How many parts the statement has."""
        return len(self.branch.units)

    @property
    def known(self) -> int:
        """How many parts the source says anything of: a number, not yes or no as `Branch.known`."""
        return len(self.counted)

    @property
    def not_run(self) -> str:
        """` (8 not run)` where the source lacks some of the parts."""
        lacking = self.parts - self.known
        return f" ({lacking} not run)" if self.known and lacking else ""

    @property
    def of(self) -> str:
        """How many are counted: `12`, or `the 2 that this source has, of 12`."""
        if self.known in (0, self.parts):
            return str(self.parts)
        return f"the {self.known} that this source has, of {self.parts}"

    @cached_property
    def holds_in(self) -> int:
        """How many parts are shown to hold, with 95 % confidence in all of them at once; more may hold."""
        return sum(part.p_for_holm <= ALPHA for part in self.counted)

    @cached_property
    def fails_in(self) -> int:
        """How many parts are shown to fail, with the same confidence; more may fail."""
        return sum(part.p_against_holm <= ALPHA for part in self.counted)

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        outcome = outcome_of(
            self.p_for_holm, self.p_against_holm, holds_in=self.holds_in
        )
        return outcome.name

    @property
    def verdict(self) -> str:
        """The outcome in words: `holds in 6 of 12`, `holds in 1 of 2 (10 not run)`, `open, fails in 1 of 4`.

        The numbers are of the parts that the source says anything of. Failing parts are named where the whole
        is not decided.
        """
        fails = f", fails in {self.fails_in}" if self.fails_in else ""
        if self.outcome == IN_PART.name:
            remark = fails
            # Every part holds, but the whole does not after Holm's adjustment over the findings of its family.
            if self.holds_in == self.parts:
                remark = ", uncorrected"
            return f"holds in {self.holds_in} of {self.known}{remark}{self.not_run}"
        if self.outcome == OPEN.name and self.fails_in:
            return f"{self.outcome}{fails} of {self.known}{self.not_run}"
        return self.outcome


@dataclass(frozen=True, kw_only=True)
class JudgedFinding(JudgedStatement):
    """A finding and what a source says about it."""

    finding: Finding
    result_of: ResultOf = field(repr=False, compare=False)
    """What the source says about a comparison."""
    tested: int
    """Number of parts that are corrected for together: its own, and those of the statements among which it was chosen
    (`Finding.rivals`)."""
    holm_over: int
    """Number of findings of its family of which the source says anything: the adjustment of its p's is over them."""

    @property
    def id(self) -> str:
        """The finding's id, such as `F8`."""
        return self.finding.id

    @property
    def direction(self) -> str:
        """The side that the evidence leans to, `for` or `against`."""
        return "against" if self.p_against < self.p_for else "for"

    @property
    def p_raw(self) -> float:
        """The p of the side that the evidence leans to."""
        return min(self.p_for, self.p_against)

    @property
    def p_holm(self) -> float:
        """The p of the side that the evidence leans to, after Holm's adjustment over the family."""
        return self.p_against_holm if self.direction == "against" else self.p_for_holm

    @property
    def comparisons(self) -> tuple[Result, ...]:
        """The comparisons that the verdict rests on."""
        return self.branch.results

    @cached_property
    def known_comparisons(self) -> tuple[Result, ...]:
        """The comparisons that the source has scores for."""
        return tuple(result for result in self.comparisons if result.known)

    @property
    def missing(self) -> str:
        """Why the source does not decide the first of the comparisons that it lacks; empty where it lacks none."""
        for result in self.comparisons:
            if not result.known:
                return result.missing
        return ""

    @property
    def seeds(self) -> tuple[int, ...]:
        """The fewest and the most seeds behind a comparison; one number where the two are equal."""
        counts: set[int] = set()
        for result in self.known_comparisons:
            counts.update(result.seeds)
        if not counts:
            return ()
        fewest, most = min(counts), max(counts)
        return (fewest,) if fewest == most else (fewest, most)

    @property
    def alone(self) -> JudgedStatement:
        """The finding's statement as if it had not been chosen among others and were the only finding."""
        return _alone(self.branch)

    @cached_property
    def reported(self) -> tuple[JudgedStatement, ...]:
        """What is judged beside the verdict."""
        return tuple(
            judge_alone(node, self.result_of) for node in self.finding.reported
        )

    @cached_property
    def mean(self) -> Result | None:
        """The mean of the known comparisons, each in the claimed direction; None where there is one or none."""
        known = [result.comparison for result in self.known_comparisons]
        if len(known) < 2:
            return None
        mean = typical_contrast(known)
        return None if mean is None else self.result_of(mean)

    @cached_property
    def decisive(self) -> Result:
        """The most adverse comparison.

        Where the evidence is for the finding, it is the weakest comparison, on which the finding's p rests;
        where the evidence is against it, the strongest counter-example. Of a finding that needs only some of
        its parts, such as 6 of 12, the p rests on the weakest of the 6 best.
        """
        if self.outcome == HOLDS.name:
            is_against = False
        elif self.outcome == FAILS.name:
            is_against = True
        else:
            # The whole is not decided. A part that is shown to fail is evidence against it; without such a
            # part, the side with the smaller p counts.
            is_against = self.fails_in > 0 or self.direction == "against"

        # The comparison that the finding's p against it comes from, or the one that its p for it comes from.
        branch = self.branch
        decides = branch.decides_against if is_against else branch.decides_for
        # Where the source lacks too many parts, one of the lacking comparisons decides, with a p of 1. That
        # is no evidence: the weakest of the known comparisons takes its place. That is the one with the
        # largest `p_for`, on either side: the less a comparison supports the finding, the more adverse it is.
        if not decides.known and self.known:
            return max(self.known_comparisons, key=lambda result: result.p_for)
        return decides

    @cached_property
    def marks(self) -> dict[str, str]:
        """What each comparison counts as: by its label `holds`, `fails` or `open`.

        Of the comparisons in a counted part, the one that its p comes from counts as the part does; all others count
        as `open`.
        """
        marks = {result.label: OPEN.name for result in self.comparisons}
        for part in self.counted:
            deciding = part.branch.decides_for
            if part.counted == FAILS.name:
                deciding = part.branch.decides_against
            marks[deciding.label] = part.counted
        return marks


def judge(findings: Iterable[Finding], result_of: ResultOf) -> dict[str, JudgedFinding]:
    """Return the findings as judged, by id and in their order.

    A finding can be wrongly held true or wrongly held false, never both, so the p's for and against are adjusted apart.

    Args:
        findings: all findings that are tested together; Holm's adjustment is over those of a family.
        result_of: what the source says about a comparison.
    """
    # Findings, their rivals and the answer share comparisons; the cache computes each comparison once.
    result_of = cache(result_of)
    trees = [(finding, judge_node(finding.body, result_of)) for finding in findings]
    # First whole findings, adjusted over their family. Each family has its findings, by id, as trees. A
    # finding of which the source says nothing is not tested, so that the others are not corrected for it.
    families: dict[str, dict[str, Branch]] = {}
    for finding, branch in trees:
        if branch.known:
            families.setdefault(finding.family, {})[finding.id] = branch

    # By id each whole finding with its p's after adjustment: it is a part of its family here.
    whole_of: dict[str, JudgedPart] = {}
    for members in families.values():
        # In the order of `members`, whose keys are the ids.
        wholes = _adjusted(list(members.values()))
        whole_of.update(zip(members, wholes, strict=True))

    # Then the parts of each finding, adjusted over the parts that are counted together.
    judged: dict[str, JudgedFinding] = {}
    for finding, branch in trees:
        own_parts = list(branch.known_units)
        # If the statement was chosen among several, its parts are corrected for the parts of all of them.
        parts_of_rivals: list[Branch] = []
        for rival in finding.rivals:
            parts_of_rivals += judge_node(rival, result_of).known_units
        tested = _adjusted([*own_parts, *parts_of_rivals])

        # A finding of which the source says nothing keeps its p's, which are 1, and is in no family.
        p_for, p_against, holm_over = branch.p_for, branch.p_against, 0
        if branch.known:
            whole = whole_of[finding.id]
            p_for, p_against = whole.p_for_holm, whole.p_against_holm
            holm_over = len(families[finding.family])

        judged[finding.id] = JudgedFinding(
            finding=finding,
            branch=branch,
            result_of=result_of,
            p_for_holm=p_for,
            p_against_holm=p_against,
            holm_over=holm_over,
            # Only its own parts, which come first, are counted.
            counted=tested[: len(own_parts)],
            tested=len(tested),
        )

    return judged


def judge_alone(node: Node, result_of: ResultOf) -> JudgedStatement:
    """Return a statement as judged by itself: adjusted only over its own parts."""
    return _alone(judge_node(node, result_of))


def _alone(branch: Branch) -> JudgedStatement:
    """Return a statement as judged by itself.

    The p's of the whole stay as they are, since nothing is tested together with it; the p's of its parts are
    adjusted over these parts.
    """
    return JudgedStatement(
        branch=branch,
        p_for_holm=branch.p_for,
        p_against_holm=branch.p_against,
        counted=_adjusted(branch.known_units),
    )


def _adjusted(branches: Sequence[Branch]) -> tuple[JudgedPart, ...]:
    """Return the statements with their p's adjusted over all of them (Holm), in the order given."""
    ps_for = holm([branch.p_for for branch in branches])
    ps_against = holm([branch.p_against for branch in branches])
    parts = []
    for branch, p_for, p_against in zip(branches, ps_for, ps_against, strict=True):
        part = JudgedPart(branch=branch, p_for_holm=p_for, p_against_holm=p_against)
        parts.append(part)
    return tuple(parts)
