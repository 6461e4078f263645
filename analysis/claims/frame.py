"""The frame of findings: one row for each finding, for each statement and comparison in it, and for their mean.

`judge` makes it; whatever counts, words or draws a verdict reads it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, get_type_hints

import pandas as pd

from analysis.claims.statements import Finding, typical_contrast
from analysis.claims.verdicts import (
    FAILS,
    HOLDS,
    IN_PART,
    OPEN,
    Branch,
    ResultOf,
    evaluate,
    outcome_of,
)
from analysis.evidence.contrasts import AnyContrast, Contrast, Result
from analysis.statistics.inference import ALPHA, holm

ROLES = ("finding", "verdict", "reported", "mean")
"""What a row stands for: a finding; a statement or comparison that its verdict rests on; one that is judged next to it,
outside the verdict; the mean of the verdict's known comparisons, each in the claimed direction."""


class FindingRow(NamedTuple):
    """A row; the fields are the frame's columns."""

    id: str
    """The finding."""
    family: str
    """Its question."""
    role: str
    """One of `ROLES`."""
    label: str
    """The statement or comparison in words."""
    depth: int = 0
    """0 of a whole statement, 1 of its parts, and so on; rows stand depth first."""
    rule: str = ""
    """How many parts of a statement have to hold, in words; empty for a comparison."""

    claimed: str = ""
    """The region that is claimed for a comparison, in words."""
    region_low: float = math.nan
    region_high: float = math.nan
    unit: str = ""
    task: str = ""
    """The task that is compared; of several, `QA, SC`."""
    dataset: str = ""
    """The dataset of it, or `average`."""
    first: str = ""
    """The model that is claimed to be ahead; of several, and of slopes, those with positive weights."""
    second: str = ""
    """The model that it is compared with."""
    comparison: AnyContrast | None = None
    """The contrast itself: what evidence is asked again."""

    effect: float = math.nan
    low: float = math.nan
    """Lower end of the 95 % interval."""
    high: float = math.nan
    low90: float = math.nan
    """Lower end of the 90 % interval, which goes with two one-sided tests."""
    high90: float = math.nan
    standard_error: float = math.nan
    df: float = math.nan
    p_zero: float = math.nan
    """Two-sided p of "no difference"."""
    seeds: tuple[int, ...] = ()
    """Seeds: how many, once when all scores have the same; of a finding the fewest and the most."""
    test: str = ""
    interval: str = ""
    """Kind of the interval; empty for what has a kind of its own."""
    instance_share: float = 0.0
    """Share of the squared error that comes from the test instances."""
    inputs: tuple[str, ...] = ()
    """The numbers that enter, one line a score."""
    missing: str = ""
    """Why the source does not decide a comparison; of a finding the first such reason."""

    p_for: float = 1.0
    """p of "it does not hold": small is evidence for it; 1 where the source says nothing."""
    p_against: float = 1.0
    """p of "it holds": small is evidence against it."""
    p_for_holm: float = math.nan
    """After Holm: of a finding over those of its family, of a part over the parts counted with it; else none."""
    p_against_holm: float = math.nan
    holm_over: int = 0
    """Over how many Holm's adjustment is; findings of which the source says nothing do not count."""
    parts: int = 1
    """Parts that are counted."""
    known: int = 0
    """Parts of which the source says anything."""
    holds_in: int = 0
    """Parts that hold at least, with 95 % confidence in all at once."""
    fails_in: int = 0
    """Parts that fail at least."""
    counted: str = ""
    """As what a part of the finding is counted: `holds`, `fails`, or `open` where it is neither; else empty."""
    mark: str = ""
    """Of a comparison that its part hangs on, as what the part is counted (`counted`); of the part's others `open`, so
    that as many comparisons are marked as parts are counted."""
    decisive: bool = False
    """Whether it is the most adverse comparison: the weakest link of what is supported, else the strongest
    counter-example."""
    outcome: str = ""
    """One of `OUTCOMES`; of a part or comparison what it is on its own."""
    verdict: str = ""
    """The same in words: `holds in 6 of 12`."""

    @property
    def direction(self) -> str:
        """The side that the evidence leans to, `for` or `against`."""
        return "against" if self.p_against < self.p_for else "for"

    @property
    def p_raw(self) -> float:
        """The p of that side."""
        return min(self.p_for, self.p_against)

    @property
    def p_holm(self) -> float:
        """The p of that side, adjusted."""
        return self.p_against_holm if self.direction == "against" else self.p_for_holm

    @property
    def is_range(self) -> bool:
        """Whether the claimed region ends on both sides."""
        return math.isfinite(self.region_low) and math.isfinite(self.region_high)

    def claims(self, effect: float) -> bool:
        """Return whether `effect` is in the claimed region."""
        return self.region_low < effect < self.region_high


_NUMBERS = {
    name: kind
    for name, kind in get_type_hints(FindingRow).items()
    if kind in (int, float, bool)
}


def frame_of(made: Iterable[FindingRow]) -> pd.DataFrame:
    """Return rows as a frame."""
    # Texts stay objects, and alike columns one block: to filter a frame of text columns takes four times as long.
    return (
        pd.DataFrame(made, columns=FindingRow._fields, dtype=object)
        .astype(_NUMBERS)
        .copy()
    )


def rows(frame: pd.DataFrame) -> list[FindingRow]:
    """Return the rows of a frame of findings, typed; further columns follow those of `FindingRow`."""
    # As one array of objects: a list of each of the columns takes ten times as long.
    return list(
        map(
            FindingRow._make, frame.to_numpy(dtype=object)[:, : len(FindingRow._fields)]
        )
    )


def by_finding(frame: pd.DataFrame) -> dict[str, FindingRow]:
    """Return each finding's row of a frame that has one for each, such as `frame[frame["role"] == "mean"]`."""
    return {row.id: row for row in rows(frame)}


def of_finding(frame: pd.DataFrame, finding: str) -> pd.DataFrame:
    """Return a finding's rows."""
    return frame[frame["id"] == finding]


def main_of(found: pd.DataFrame) -> FindingRow:
    """Return the row of the finding itself."""
    return rows(found[found["role"] == "finding"])[0]


def mean_of(found: pd.DataFrame) -> FindingRow | None:
    """Return the mean of a finding's comparisons; None where they have none."""
    return next(iter(rows(found[found["role"] == "mean"])), None)


def comparisons_of(found: pd.DataFrame, role: str = "verdict") -> pd.DataFrame:
    """Return the comparisons of a role, without the statements that they make."""
    return found[(found["role"] == role) & (found["rule"] == "")]


def known_of(found: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of the verdict that the source decides."""
    return found[
        (found["role"] == "verdict") & (found["rule"] == "") & (found["missing"] == "")
    ]


def decisive_of(found: pd.DataFrame) -> FindingRow:
    """Return the most adverse comparison of a finding."""
    return rows(found[found["decisive"]][:1])[0]


def judge(findings: Iterable[Finding], result_of: ResultOf) -> pd.DataFrame:
    """Return the frame of findings, in their order; `result_of` says what the source says about a comparison."""
    return frame_of(judged_rows(findings, result_of))


def judged_rows(
    findings: Iterable[Finding],
    result_of: ResultOf,
    *,
    roles: Container[str] = ROLES,
) -> list[FindingRow]:
    """Return the rows of the frame, for those who judge hundreds of times.

    A finding can be wrongly held true or wrongly held false, never both, so the p's for and against are adjusted apart.

    Args:
        findings: in the order of the rows.
        result_of: what the source says about a comparison.
        roles: the rows that are wanted.
    """
    result_of = cache(result_of)
    trees = [(finding, evaluate(finding.body, result_of)) for finding in findings]
    families: dict[str, list[tuple[Finding, Branch]]] = {}
    for finding, tree in trees:
        if tree.known:
            families.setdefault(finding.family, []).append((finding, tree))
    adjusted = {
        finding.id: ps
        for members in families.values()
        for (finding, _), ps in zip(
            members, _holm_of([tree for _, tree in members]), strict=True
        )
    }
    all_rows: list[FindingRow] = []
    for finding, tree in trees:
        members = families[finding.family] if tree.known else []
        # Parts of a statement that was chosen among several are counted with the parts of all of them.
        rivals = [
            rival
            for node in finding.rivals
            if (rival := evaluate(node, result_of)).known
        ]
        parts = _holm_of(
            [unit for statement in (tree, *rivals) for unit in statement.units]
        )
        p_for, p_against = adjusted.get(finding.id, (tree.p_for, tree.p_against))
        main = FindingRow(
            id=finding.id,
            family=finding.family,
            role="finding",
            label=finding.statement,
            p_for=tree.p_for,
            p_against=tree.p_against,
            p_for_holm=p_for,
            p_against_holm=p_against,
            holm_over=len(members),
            missing=next(
                (result.missing for result in tree.results if not result.known), ""
            ),
            seeds=_seeds(tree),
        )
        main = _with_outcome(main, tree, p_for, p_against, parts[: len(tree.units)])
        all_rows.append(main)
        if "verdict" in roles:
            all_rows += _verdict_rows(main, tree, parts)
        if "reported" in roles:
            for node in finding.reported:
                all_rows += (
                    row
                    for _, row in _branch_rows(
                        main, evaluate(node, result_of), "reported"
                    )
                )
        if "mean" in roles and (mean := _mean(tree)) is not None:
            all_rows.append(result_row(result_of(mean), main.id, main.family, "mean"))
    return [row for row in all_rows if row.role in roles]


def result_row(result: Result, finding: str, family: str, role: str) -> FindingRow:
    """Return the row of a comparison."""
    asked = result.comparison
    if isinstance(asked, Contrast):
        ahead = dict.fromkeys(term.model for term in asked.terms if term.weight > 0)
        behind = dict.fromkeys(term.model for term in asked.terms if term.weight < 0)
    else:
        ahead, behind = dict.fromkeys(asked.narrow), dict.fromkeys(asked.wide)
    outcome = _alone(result.p_for, result.p_against)
    return FindingRow(
        id=finding,
        family=family,
        role=role,
        label=asked.label,
        claimed=asked.region,
        region_low=asked.low,
        region_high=asked.high,
        unit=asked.unit,
        task=", ".join(asked.tasks),
        dataset=", ".join(dict.fromkeys(dataset for _, dataset in asked.places)),
        first=", ".join(ahead),
        second=", ".join(behind),
        comparison=asked,
        effect=result.effect,
        low=result.low,
        high=result.high,
        low90=result.inner_low,
        high90=result.inner_high,
        standard_error=result.error,
        df=result.df,
        p_zero=result.p_zero,
        seeds=result.seeds,
        test=result.test,
        interval=result.interval,
        instance_share=result.instance_share,
        inputs=result.inputs,
        missing=result.missing,
        p_for=result.p_for,
        p_against=result.p_against,
        known=int(result.known),
        holds_in=int(outcome == HOLDS.name),
        fails_in=int(outcome == FAILS.name),
        outcome=outcome,
        verdict=outcome,
    )


def _holm_of(branches: Sequence[Branch]) -> list[tuple[float, float]]:
    """Return the p's for and against each statement, adjusted over all of them."""
    p_for, p_against = (
        holm([one.p_for for one in branches]),
        holm([one.p_against for one in branches]),
    )
    return list(zip(p_for, p_against, strict=True))


def _alone(p_for: float, p_against: float) -> str:
    """Return what a part or a comparison is: `holds`, `fails`, or `open`."""
    return outcome_of(p_for, p_against, holds_in=0).name


def _with_outcome(
    row: FindingRow,
    branch: Branch,
    p_for: float,
    p_against: float,
    parts: Sequence[tuple[float, float]],
) -> FindingRow:
    """Return the row of a whole statement with what it is, from its adjusted p's and those of its parts."""
    holds_in, fails_in = (
        sum(p <= ALPHA for p in side) for side in zip(*parts, strict=True)
    )
    outcome = outcome_of(p_for, p_against, holds_in=holds_in)
    row = row._replace(
        parts=len(parts),
        known=sum(unit.known for unit in branch.units),
        holds_in=holds_in,
        fails_in=fails_in,
        outcome=outcome.name,
    )
    return row._replace(verdict=short_verdict(row, len(parts)))


def short_verdict(row: FindingRow, of: int) -> str:
    """Return a whole statement's outcome with the counts that it does not say; `of`: the parts to name."""
    fails = f", fails in {row.fails_in}" if row.fails_in else ""
    if row.outcome == IN_PART.name:
        every = ", uncorrected" if row.holds_in == row.parts else fails
        return f"holds in {row.holds_in} of {of}{every}"
    return (
        f"{row.outcome}{fails} of {of}"
        if row.outcome == OPEN.name and fails
        else row.outcome
    )


def _branch_rows(
    main: FindingRow, branch: Branch, role: str, depth: int = 0
) -> Iterator[tuple[Branch, FindingRow]]:
    """Yield the rows of a statement and of all below it, each with what it stands for."""
    if branch.result is not None:
        row = result_row(branch.result, main.id, main.family, role)._replace(
            depth=depth
        )
    else:
        outcome = _alone(branch.p_for, branch.p_against)
        row = FindingRow(
            id=main.id,
            family=main.family,
            role=role,
            label=branch.node.label,
            depth=depth,
            rule=branch.rule,
            p_for=branch.p_for,
            p_against=branch.p_against,
            known=int(branch.known),
            holds_in=int(outcome == HOLDS.name),
            fails_in=int(outcome == FAILS.name),
            outcome=outcome,
            verdict=outcome,
        )
        if not depth:
            row = _with_outcome(
                row, branch, branch.p_for, branch.p_against, _holm_of(branch.units)
            )
    yield branch, row
    for part in branch.parts:
        yield from _branch_rows(main, part, role, depth + 1)


def _verdict_rows(
    main: FindingRow, tree: Branch, adjusted: Sequence[tuple[float, float]]
) -> Iterator[FindingRow]:
    """Yield the rows that a finding's verdict rests on; `adjusted`: of its parts, then of those counted with them."""
    decisive = _decisive(main, tree)
    # Both by identity: equal comparisons may stand in several parts.
    p_of_part = dict(zip(map(id, tree.units), adjusted, strict=False))
    mark_of_comparison: dict[
        int, str
    ] = {}  # of those that decide a part: how it counts
    for unit in tree.units:
        outcome = _alone(*p_of_part[id(unit)])
        deciding = unit.decides_against if outcome == FAILS.name else unit.decides_for
        mark_of_comparison[id(deciding)] = outcome
    for branch, row in _branch_rows(main, tree, "verdict"):
        is_part = id(branch) in p_of_part
        p_for, p_against = p_of_part.get(id(branch), (math.nan, math.nan))
        yield row._replace(
            decisive=branch.result is decisive,
            p_for_holm=p_for,
            p_against_holm=p_against,
            counted=_alone(p_for, p_against) if is_part else "",
            mark=""
            if branch.result is None
            else mark_of_comparison.get(id(branch.result), OPEN.name),
            holm_over=len(adjusted) if is_part else 0,
        )


def _decisive(main: FindingRow, tree: Branch) -> Result:
    """Return the most adverse comparison: the weakest link of what is supported, else the strongest counter-example."""
    against = main.outcome == FAILS.name or (
        main.outcome != HOLDS.name
        and (main.fails_in > 0 or main.direction == "against")
    )
    decides = tree.decides_against if against else tree.decides_for
    # What the source lacks has a p of 1, the largest
    if not decides.known and main.known:
        return max(
            (one for one in tree.results if one.known), key=lambda result: result.p_for
        )
    return decides


def _mean(tree: Branch) -> Contrast | None:
    """Return the mean of the known comparisons, each in the claimed direction; None where there is one or none."""
    known = [result.comparison for result in tree.results if result.known]
    return typical_contrast(known) if len(known) > 1 else None


def _seeds(tree: Branch) -> tuple[int, ...]:
    """Return the fewest and the most seeds behind a comparison, once where all have the same."""
    counts = [
        count for result in tree.results if result.known for count in result.seeds
    ]
    return tuple(dict.fromkeys((min(counts), max(counts)))) if counts else ()
