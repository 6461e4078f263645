"""What would overturn each verdict: a spread between pretrainings, or other margins.

Pretraining again would move scores, and those of one trunk (models that branch from one pretraining) perhaps
together. A sharing is an assumption on which scores move together
(`analysis.claims.pretraining_spread.SHARED_LUCK`). Every verdict is judged under each of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from analysis.claims.assessment import assess
from analysis.claims.catalogue import SHOWN, STATEMENTS
from analysis.claims.judged import JudgedFinding, judge
from analysis.claims.pretraining_spread import SHARED_LUCK, with_pretraining_spread
from analysis.claims.statements import AtLeast, Node, comparisons
from analysis.claims.verdicts import OUTCOMES, ResultOf
from analysis.evidence.contrasts import Contrast
from analysis.evidence.intervals import T
from analysis.evidence.settings import Settings
from analysis.sources import Source

SPREADS = tuple(float(f"{0.01 * 1.05**step:.3g}") for step in range(165))
"""Standard deviations between pretrainings that are tried, in points: 0.01 to about 30."""

MARGIN_FACTORS = (0.5, 0.8, 1.2, 1.5, 2.0)
"""Factors by which the margins of "on par" and "comparable" are multiplied."""

MOVED = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Standard deviations between pretrainings, in points, for which the page gives the parts that hold and the mean."""


@dataclass(frozen=True, kw_only=True)
class Overturned:
    """What overturns a verdict."""

    main: JudgedFinding
    """The finding as it is judged."""
    spread: Mapping[str, float | None]
    """By sharing (a key of `SHARED_LUCK`), the smallest of `SPREADS` with which the verdict is lost; None where it is
    lost with none of them, or there is no verdict to overturn."""
    moved: Mapping[tuple[str, float], JudgedFinding]
    """By sharing and spread, for each spread of `MOVED`, the finding as it is judged with that spread."""

    @property
    def decided(self) -> bool:
        """Whether there is a verdict to overturn."""
        return bool(OUTCOMES[self.main.outcome].sided)


def with_errors(source: Source, settings: Settings) -> tuple[ResultOf, str]:
    """Return a function that gives the result of a comparison with a standard error, and a note on its interval.

    Results are by the interval of `settings`, and the note is empty. If that interval has no standard errors, to which
    a spread between pretrainings could be added, they are by Student's t, as the note says.
    """
    result_of = assess(source, settings).result_of
    note = f"{settings.interval} gives no standard errors, so overturning starts from Student's t."
    by_t = replace(settings, interval=T.name)
    for finding in STATEMENTS.values():
        for comparison in comparisons(finding.body):
            if not isinstance(comparison, Contrast):
                continue
            result = result_of(comparison)
            if result.known and not math.isfinite(result.error):
                return assess(source, by_t).result_of, note
    return result_of, ""


def overturn(result_of: ResultOf) -> list[Overturned]:
    """Return what overturns the verdict on the answer and on every finding.

    Args:
        result_of: gives a source's result of a comparison.
    """

    @cache
    def judged_with(family: str, sharing: str, sd: float) -> dict[str, JudgedFinding]:
        """Return a family's findings by id, judged with a standard deviation of `sd` between pretrainings."""
        results = with_pretraining_spread(result_of, sd, SHARED_LUCK[sharing])
        findings = STATEMENTS.values()
        # Holm's adjustment is over a family, so that no finding of another one is needed.
        members = [finding for finding in findings if finding.family == family]
        return judge(members, results)

    def smallest_spread(main: JudgedFinding, sharing: str) -> float | None:
        """Return the smallest of `SPREADS` at which the verdict is lost; None where no spread overturns it."""

        def is_lost(position: int) -> bool:
            sd = SPREADS[position]
            findings = judged_with(main.finding.family, sharing, sd)
            return findings[main.id].outcome != main.outcome

        positions = range(len(SPREADS))
        # `sided` is 1 for "holds", -1 for "fails" and 0 for the other outcomes, which take no side.
        has_verdict = bool(OUTCOMES[main.outcome].sided)
        # The last position is that of the largest spread.
        if not has_verdict or not is_lost(positions[-1]):
            return None

        # By bisection: a verdict that is lost at a spread is lost at all larger ones. No spread makes a p
        # smaller or an interval narrower than in the source itself (`with_pretraining_spread`).
        first = bisect_left(positions, True, key=is_lost)
        return SPREADS[first]

    # All statements are judged, since Holm's adjustment is over all of a family. Those of `SHOWN` have a row
    # of their own: of the statements that answer the question it has only one.
    judged = judge(STATEMENTS.values(), result_of)
    overturned: list[Overturned] = []
    for name in SHOWN:
        main = judged[name]
        family = main.finding.family
        spread: dict[str, float | None] = {}
        moved_by: dict[tuple[str, float], JudgedFinding] = {}
        for sharing in SHARED_LUCK:
            spread[sharing] = smallest_spread(main, sharing)
            for sd in MOVED:
                moved_by[sharing, sd] = judged_with(family, sharing, sd)[main.id]

        overturned.append(Overturned(main=main, spread=spread, moved=moved_by))

    return overturned


def other_margins(result_of: ResultOf) -> dict[float, dict[str, str]]:
    """Return the verdicts that other margins change: by factor of the margins, then by finding, the new verdict."""
    judged = judge(STATEMENTS.values(), result_of)
    changed: dict[float, dict[str, str]] = {}
    for factor in MARGIN_FACTORS:
        findings = []
        for finding in STATEMENTS.values():
            body = _with_margins(finding.body, factor)
            findings.append(replace(finding, body=body))

        changed[factor] = {}
        for name, moved in judge(findings, result_of).items():
            # A verdict is the outcome with its numbers, such as `holds in 6 of 12`: a change of a number
            # counts too.
            if moved.verdict != judged[name].verdict:
                changed[factor][name] = moved.verdict

    return changed


def _with_margins(node: Node, factor: float) -> Node:
    """Return a finding's statement with the margins of its contrasts multiplied by `factor`."""
    if isinstance(node, AtLeast):
        parts = tuple(_with_margins(part, factor) for part in node.parts)
        return replace(node, parts=parts)
    if not isinstance(node, Contrast) or node.has_direction:
        return node  # has no margin
    # A range that does not contain 0 (F14's 1 to 3 points) is the paper's claim, not a margin of ours.
    if not node.holds(0.0):
        return node
    low = node.low * factor
    high = node.high * factor
    return replace(node, low=low, high=high)
