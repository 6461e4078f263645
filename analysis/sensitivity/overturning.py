"""What would overturn each verdict: a spread between pretrainings, or other margins."""

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
"""By what the margins of "on par" and "comparable" are multiplied."""

MOVED = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Those at which parts are counted and the mean is given."""


@dataclass(frozen=True, kw_only=True)
class Overturned:
    """What overturns a verdict."""

    main: JudgedFinding
    """The finding as it is judged."""
    spread: Mapping[str, float | None]
    """By sharing, the smallest standard deviation between pretrainings with which the verdict is gone; None: none tried
    does, or there is no verdict to overturn."""
    moved: Mapping[tuple[str, float], JudgedFinding]
    """By sharing and spread of `MOVED` the finding as it then is."""

    @property
    def decided(self) -> bool:
        """Whether there is a verdict to overturn."""
        return bool(OUTCOMES[self.main.outcome].sided)


def with_errors(source: Source, settings: Settings) -> tuple[ResultOf, str]:
    """Return how to get results by the interval of `settings`, or by Student's t if that interval has no errors.

    The text beside it says that Student's t was taken; else it is empty.
    A spread between pretrainings is added to a standard error.
    """
    result_of = assess(source, settings).result_of
    words = f"{settings.interval} gives no standard errors, so overturning starts from Student's t."
    by_t = replace(settings, interval=T.name)
    for finding in STATEMENTS.values():
        for comparison in comparisons(finding.body):
            if not isinstance(comparison, Contrast):
                continue
            result = result_of(comparison)
            if result.known and not math.isfinite(result.error):
                return assess(source, by_t).result_of, words
    return result_of, ""


def overturn(result_of: ResultOf) -> list[Overturned]:
    """Return what overturns the verdict on the answer and on every finding; `result_of`: what a source says."""

    @cache
    def moved(family: str, sharing: str, sd: float) -> dict[str, JudgedFinding]:
        """Return a family's findings by id, with this spread added."""
        results = with_pretraining_spread(result_of, sd, SHARED_LUCK[sharing])
        findings = STATEMENTS.values()
        # Holm's adjustment is over a family, so that no finding of another one is needed.
        members = [finding for finding in findings if finding.family == family]
        return judge(members, results)

    def smallest_spread(main: JudgedFinding, sharing: str) -> float | None:
        """Return the smallest of `SPREADS` at which the verdict is lost; it is lost at all larger ones as well."""

        def is_gone(number: int) -> bool:
            findings = moved(main.finding.family, sharing, SPREADS[number])
            return findings[main.id].outcome != main.outcome

        numbers = range(len(SPREADS))
        if not OUTCOMES[main.outcome].sided or not is_gone(numbers[-1]):
            return None
        first = bisect_left(numbers, True, key=is_gone)
        return SPREADS[first]

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
                moved_by[sharing, sd] = moved(family, sharing, sd)[main.id]
        overturned.append(Overturned(main=main, spread=spread, moved=moved_by))
    return overturned


def other_margins(result_of: ResultOf) -> dict[float, dict[str, str]]:
    """Return by factor of the margins the verdicts that change with it, by finding."""
    judged = judge(STATEMENTS.values(), result_of)
    changed: dict[float, dict[str, str]] = {}
    for factor in MARGIN_FACTORS:
        findings = []
        for finding in STATEMENTS.values():
            body = _with_margins(finding.body, factor)
            findings.append(replace(finding, body=body))
        changed[factor] = {}
        for name, moved in judge(findings, result_of).items():
            if moved.verdict != judged[name].verdict:
                changed[factor][name] = moved.verdict
    return changed


def _with_margins(node: Node, factor: float) -> Node:
    """Return the statement with its margins multiplied."""
    if isinstance(node, AtLeast):
        parts = tuple(_with_margins(part, factor) for part in node.parts)
        return replace(node, parts=parts)
    # A range that does not contain 0 (F14's 1 to 3 points) is the paper's claim, not a margin of ours.
    if not isinstance(node, Contrast) or node.has_direction or not node.holds(0.0):
        return node
    low = node.low * factor
    high = node.high * factor
    return replace(node, low=low, high=high)
