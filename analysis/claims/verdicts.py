"""From contrasts to verdicts: the tree of a claim, the families, the sentence. The rules: docs/claims.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from analysis.claims.evidence import Finding
from analysis.claims.inference import holm, partial_conjunction
from analysis.claims.statements import AtLeast, Claim, Comparison, Node

__all__ = ["ALPHA", "VERDICTS", "Branch", "Verdict", "judge", "judge_claim", "unsupported"]

ALPHA = 0.05
"""Level of every test; families are held to it by Holm's adjustment."""

SUPPORTED, CONTRADICTED, INCONCLUSIVE = "supported", "contradicted", "inconclusive"
UNDECIDABLE = "not decidable from this source"
VERDICTS = (SUPPORTED, CONTRADICTED, INCONCLUSIVE, UNDECIDABLE)


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A statement and what the source says about it."""

    node: Node
    p_for: float
    """p of "the statement does not hold": small is evidence for it."""
    p_against: float
    """p of "the statement holds": small is evidence against it."""
    decides_for: Finding
    """The contrast that `p_for` comes from."""
    decides_against: Finding
    """The contrast that `p_against` comes from."""
    finding: Finding | None = None
    """The finding, when the statement is a single contrast."""
    parts: tuple[Branch, ...] = ()

    @property
    def verdict(self) -> str:
        """Verdict of the statement taken alone, without adjustment for its family."""
        return _decide(self.p_for, self.p_against, [finding.known for finding in self.findings])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings below, in order."""
        if self.finding is not None:
            return (self.finding,)
        return tuple(finding for part in self.parts for finding in part.findings)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what a source says about it."""

    claim: Claim
    verdict: str
    """One of `VERDICTS`."""
    tree: Branch
    """The claim's body, evaluated."""
    reported: tuple[Branch, ...]
    """What is judged next to the claim, each statement alone."""
    p_for: float
    """Raw p for the claim."""
    p_for_adjusted: float
    """The same after Holm over the claims of the family."""
    p_against: float
    p_against_adjusted: float
    family_size: int
    """Claims of the family that the source says anything about."""

    @property
    def decisive(self) -> Finding:
        """The contrast that the verdict hangs on: the weakest link, or the strongest counter-example."""
        against = self.verdict == CONTRADICTED or (self.verdict != SUPPORTED and self.leans_against)
        decides = self.tree.decides_against if against else self.tree.decides_for
        if not decides.known and self.known:
            return max(self.known, key=lambda finding: finding.p_for)
        return decides

    @property
    def leans_against(self) -> bool:
        """Whether the evidence against the claim is stronger than the evidence for it."""
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
    def known(self) -> tuple[Finding, ...]:
        """The contrasts of the claim that the source knows."""
        return tuple(finding for finding in self.tree.findings if finding.known)

    @property
    def counts(self) -> dict[str, int]:
        """How many contrasts there are, are known, point the claim's way, and hold or fail on their own."""
        known = self.known
        return {
            "contrasts": len(self.tree.findings),
            "known": len(known),
            "point_that_way": sum(finding.comparison.holds(finding.effect) for finding in known),
            "hold": sum(finding.p_for <= ALPHA for finding in known),
            "fail": sum(finding.p_against <= ALPHA for finding in known),
        }

    @property
    def seeds(self) -> str:
        """Seeds behind the contrasts: `5`, `3-5`, or empty."""
        counts = [count for finding in self.known for count in finding.seeds]
        if not counts:
            return ""
        return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}-{max(counts)}"


def judge_claim(claim: Claim, finding_of: Callable[[Comparison], Finding]) -> Verdict:
    """Return the verdict on one claim as a family of its own."""
    tree = _evaluate(claim.body, finding_of)
    decided = any(finding.known for finding in tree.findings)
    return Verdict(
        claim=claim, verdict=tree.verdict, tree=tree,
        reported=tuple(_evaluate(node, finding_of) for node in claim.reported),
        p_for=tree.p_for, p_for_adjusted=tree.p_for, p_against=tree.p_against,
        p_against_adjusted=tree.p_against, family_size=int(decided),
    )  # fmt: skip


def judge(claims: Mapping[str, Claim], finding_of: Callable[[Comparison], Finding]) -> list[Verdict]:
    """Return the verdict on every claim, p's adjusted by Holm within each family.

    A claim can be wrongly supported or wrongly contradicted, never both, so the p's for and against are adjusted
    apart; claims that the source says nothing about do not count.
    """
    finding_of = cache(finding_of)
    verdicts = {name: judge_claim(claim, finding_of) for name, claim in claims.items()}
    for family in dict.fromkeys(claim.family for claim in claims.values()):
        members = [name for name, v in verdicts.items() if v.claim.family == family and v.known]
        adjusted_for = holm([verdicts[name].p_for for name in members])
        adjusted_against = holm([verdicts[name].p_against for name in members])
        for name, p_for, p_against in zip(members, adjusted_for, adjusted_against, strict=True):
            verdict = verdicts[name]
            verdicts[name] = replace(
                verdict,
                p_for_adjusted=p_for,
                p_against_adjusted=p_against,
                family_size=len(members),
                verdict=_decide(p_for, p_against, [finding.known for finding in verdict.tree.findings]),
            )
    return list(verdicts.values())


def _evaluate(node: Node, finding_of: Callable[[Comparison], Finding]) -> Branch:
    if not isinstance(node, AtLeast):
        finding = finding_of(node)
        return Branch(
            node=node, p_for=finding.p_for, p_against=finding.p_against, decides_for=finding,
            decides_against=finding, finding=finding,
        )  # fmt: skip
    parts = tuple(_evaluate(part, finding_of) for part in node.parts)
    p_for, place_for = partial_conjunction([part.p_for for part in parts], node.count)
    # "At least k of n hold" fails when at least n - k + 1 of them do not.
    p_against, place_against = partial_conjunction(
        [part.p_against for part in parts], len(parts) - node.count + 1
    )
    return Branch(
        node=node, p_for=p_for, p_against=p_against, decides_for=parts[place_for].decides_for,
        decides_against=parts[place_against].decides_against, parts=parts,
    )  # fmt: skip


def unsupported(branch: Branch) -> list[Branch]:
    """Return the smallest parts that a statement needs and that do not hold on their own, in order."""
    if branch.p_for <= ALPHA:
        return []
    if isinstance(branch.node, AtLeast) and branch.node.count == len(branch.parts):
        return [one for part in branch.parts for one in unsupported(part)]
    return [branch]


def _decide(p_for: float, p_against: float, known: Iterable[bool]) -> str:
    if p_for <= ALPHA:
        return SUPPORTED
    if p_against <= ALPHA:
        return CONTRADICTED
    return INCONCLUSIVE if all(known) else UNDECIDABLE
