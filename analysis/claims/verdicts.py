"""From contrasts to verdicts: the tree of a claim, its parts, the families, the grades. The rules: docs/claims.md.

The grades are in the order in which they are tried: the first that fits is the finding's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

from analysis.claims.statements import AtLeast, Finding, Node, typical_contrast
from analysis.evidence.contrasts import AnyContrast, Result
from analysis.statistics.inference import holm, partial_conjunction
from common.registry import Registry

__all__ = [
    "ALPHA",
    "CONTRADICTED",
    "GRADES",
    "SUPPORTED",
    "UNDECIDED",
    "Branch",
    "Grade",
    "ResultOf",
    "Tally",
    "Verdict",
    "grade_of",
    "judge",
    "judge_finding",
    "shown_to_hold",
    "units_that_hold_among",
    "unsupported",
]  # fmt: skip

ResultOf = Callable[[AnyContrast], Result]
"""What a source says about a comparison."""

ALPHA = 0.05
"""Level of every test; families are held to it by Holm's adjustment."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the evidence says about a statement, in the numbers that a grade follows from."""

    p_for: float
    """p of the whole statement."""
    p_for_adjusted: float
    """The same after Holm over the family."""
    p_against: float
    p_against_adjusted: float
    hold: int
    """Parts that hold at least (simultaneous 95 %)."""
    fail: int
    """Parts that fail at least (simultaneous 95 %)."""
    outside: bool
    """Whether the interval of the comparison that speaks most against it is wholly outside its claimed region."""
    known: bool
    """Whether every comparison could be computed."""


@dataclass(frozen=True, kw_only=True)
class Grade:
    """What a finding is worth."""

    name: str
    short: str
    """One or two words for narrow columns."""
    symbol: str
    """One character for grids."""
    meaning: str
    """When it is given."""
    counted: tuple[str, str]
    """What one finding of this grade does, and what several do."""
    fits: Callable[[Tally], bool]
    sided: int = 0
    """1 when it speaks for the finding, -1 when against, 0 when neither."""


GRADES: Registry[Grade] = Registry(
    "grade",
    (
        Grade(
            name="supported", short="supported", symbol="+", sided=1,
            meaning="the whole statement holds after Holm's adjustment over its family",
            counted=("holds as stated", "hold as stated"),
            fits=lambda found: found.p_for_adjusted <= ALPHA,
        ),
        Grade(
            name="supported before adjustment", short="supported unadj.", symbol="p", sided=1,
            meaning="the whole statement holds on its own but not after the adjustment over its family",
            counted=("holds only without correction for multiple tests",
                     "hold only without correction for multiple tests"),
            fits=lambda found: found.p_for <= ALPHA,
        ),
        Grade(
            name="mixed", short="mixed", symbol="m",
            meaning="at least one part holds and at least one fails",
            counted=("is mixed", "are mixed"),
            fits=lambda found: found.hold > 0 and found.fail > 0,
        ),
        Grade(
            name="contradicted", short="contradicted", symbol="x", sided=-1,
            meaning="the statement fails after Holm's adjustment over its family, and no part is shown to hold",
            counted=("is contradicted", "are contradicted"),
            fits=lambda found: found.p_against_adjusted <= ALPHA,
        ),
        Grade(
            name="contradicted before adjustment", short="contradicted unadj.", symbol="c", sided=-1,
            meaning="the statement fails on its own, or the interval of a comparison that it needs is wholly outside "
            "the claimed region, and no part is shown to hold",
            counted=("is contradicted only without correction", "are contradicted only without correction"),
            fits=lambda found: found.p_against <= ALPHA or (found.outside and not found.hold),
        ),
        Grade(
            name="partly supported", short="partly", symbol="/",
            meaning="some parts hold and none is shown to fail",
            counted=("holds in part", "hold in part"),
            fits=lambda found: found.hold > 0,
        ),
        Grade(
            name="undecided", short="undecided", symbol="o",
            meaning="no part is shown to hold or to fail, although every comparison could be computed",
            counted=("stays open", "stay open"),
            fits=lambda found: found.known,
        ),
        Grade(
            name="not decidable from this source", short="not decidable", symbol=".",
            meaning="no part is shown to hold or to fail, and some comparisons could not be computed",
            counted=("cannot be decided without individual runs",) * 2,
            fits=lambda found: True,
        ),
    ),
)  # fmt: skip
"""The grades; the first that fits is given."""

SUPPORTED = GRADES["supported"]
CONTRADICTED = GRADES["contradicted"]
UNDECIDED = GRADES["undecided"]


def grade_of(found: Tally) -> Grade:
    """Return the first of `GRADES` that fits."""
    return next(grade for grade in GRADES.values() if grade.fits(found))


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
        """Grade of the statement taken alone, without adjustment for its family."""
        return grade_of(self.tally(self.p_for, self.p_against)).name

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

    def tally(self, p_for_adjusted: float, p_against_adjusted: float) -> Tally:
        """Return what a grade follows from."""
        return Tally(
            p_for=self.p_for, p_for_adjusted=p_for_adjusted, p_against=self.p_against,
            p_against_adjusted=p_against_adjusted, hold=self.hold, fail=self.fail,
            outside=self.decides_against.outside, known=all(result.known for result in self.results),
        )  # fmt: skip


def flattened(branch: Branch) -> tuple[Branch, ...]:
    """Return the parts that "all of" joins, through nested "all of"s."""
    if (
        branch.result is not None
        or not branch.needs_all
        or (isinstance(branch.node, AtLeast) and branch.node.whole)
    ):
        return (branch,)
    return tuple(unit for part in branch.parts for unit in flattened(part))


def shown_to_hold(p_values: list[float]) -> int:
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

    @cached_property
    def grade(self) -> Grade:
        """What the finding is worth."""
        return grade_of(self.tree.tally(self.p_for_adjusted, self.p_against_adjusted))

    @property
    def verdict(self) -> str:
        """The grade's name."""
        return self.grade.name

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
        against = self.grade.sided < 0 or (
            self.grade.sided == 0 and (self.tree.fail > 0 or self.leans_against)
        )
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

    A finding can be wrongly supported or wrongly contradicted, never both, so the p's for and against are adjusted
    apart; findings that the source says nothing about do not count.
    """
    result_of = cache(result_of)
    verdicts = {name: judge_finding(finding, result_of) for name, finding in findings.items()}
    for family in dict.fromkeys(finding.family for finding in findings.values()):
        members = [name for name, v in verdicts.items() if v.finding.family == family and v.known]
        adjusted_for = holm([verdicts[name].p_for for name in members])
        adjusted_against = holm([verdicts[name].p_against for name in members])
        for name, p_for, p_against in zip(members, adjusted_for, adjusted_against, strict=True):
            known = verdicts[name].known
            typical = typical_contrast(known) if len(known) > 1 else None
            verdicts[name] = replace(
                verdicts[name],
                p_for_adjusted=p_for,
                p_against_adjusted=p_against,
                family_size=len(members),
                typical=None if typical is None else result_of(typical),
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


def units_that_hold_among(verdict: Verdict, others: Iterable[Verdict]) -> int:
    """Return how many parts of a verdict hold at least when those of others are tested at the same time.

    Verdicts on findings that the source says nothing about do not count.
    """
    more = [unit.p_for for other in others if other.known for unit in other.tree.units]
    adjusted = holm([*(unit.p_for for unit in verdict.tree.units), *more])
    return sum(p <= ALPHA for p in adjusted[: len(verdict.tree.units)])


def unsupported(branch: Branch) -> list[Branch]:
    """Return the smallest parts that a statement needs and that do not hold on their own, in order."""
    if branch.p_for <= ALPHA:
        return []
    if branch.needs_all:
        return [one for part in branch.parts for one in unsupported(part)]
    return [branch]
