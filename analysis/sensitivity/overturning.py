"""What would overturn each verdict: a spread between pretrainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from analysis.claims.catalogue import FINDINGS
from analysis.claims.pretraining_spread import SHARED_LUCK, with_pretraining_spread
from analysis.claims.statements import comparisons
from analysis.claims.verdicts import Outcome, ResultOf, Verdict, judge
from analysis.evidence.contrasts import Contrast, Result
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import T
from analysis.sources import Source

__all__ = ["MOVED", "SPREADS", "Moved", "Overturned", "evidence_of", "overturn", "with_errors"]

SPREADS = tuple(float(f"{0.01 * 1.05**step:.3g}") for step in range(165))
"""Standard deviations between pretrainings that are tried, in points: 0.01 to about 30."""

MOVED = (0.0, 0.1, 0.2, 0.5, 1.0)
"""Those at which parts are counted and the mean is given."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A finding at one spread between pretrainings."""

    hold: int
    """Parts that hold at least."""
    parts: int
    mean: Result | None
    """The mean of its comparisons; None where they have none."""


@dataclass(frozen=True, kw_only=True)
class Overturned:
    """What overturns a verdict."""

    id: str
    outcome: Outcome
    """The verdict's kind."""
    p: float
    """The adjusted p that it hangs on."""
    spread: Mapping[str, float | None]
    """By sharing, the smallest standard deviation between pretrainings with which the verdict is gone; None: none tried
    does, or there is no verdict to overturn."""
    moved: Mapping[tuple[str, float], Moved]
    """By sharing and spread of `MOVED`."""

    @property
    def decided(self) -> bool:
        """Whether there is a verdict to overturn."""
        return bool(self.outcome.sided)


def evidence_of(source: Source, settings: Settings) -> ResultOf:
    """Return what the source says about a comparison."""
    return cache(source.evidence(settings).result)


def with_errors(source: Source, settings: Settings) -> tuple[ResultOf, str]:
    """Return the evidence by the interval of `settings`, or by Student's t where that has no standard errors, said so.

    A spread between pretrainings is added to a standard error.
    """
    found = evidence_of(source, settings)
    contrasts = [
        one for finding in FINDINGS.values() for one in comparisons(finding.body) if isinstance(one, Contrast)
    ]
    if all(math.isfinite(one.error) for one in map(found, contrasts) if one.known):
        return found, ""
    words = f"{settings.interval} gives no standard errors, so overturning starts from Student's t."
    return evidence_of(source, replace(settings, interval=T.name)), words


def overturn(result_of: ResultOf) -> list[Overturned]:
    """Return, for every finding, what overturns its verdict; `result_of` says what a source says about a comparison."""

    @cache
    def family(name: str, sharing: str, sd: float) -> dict[str, Verdict]:
        results = with_pretraining_spread(result_of, sd, SHARED_LUCK[sharing])
        members = {key: finding for key, finding in FINDINGS.items() if finding.family == name}
        return {one.finding.id: one for one in judge(members, results)}

    def gone_at(verdict: Verdict, sharing: str) -> float | None:
        finding = verdict.finding

        def gone(place: int) -> bool:
            return family(finding.family, sharing, SPREADS[place])[finding.id].outcome is not verdict.outcome

        if not verdict.outcome.sided or not gone(len(SPREADS) - 1):
            return None
        return SPREADS[_first(gone)]

    found = []
    for verdict in judge(FINDINGS, result_of):
        name = verdict.finding.id
        moved = {}
        for sharing in SHARED_LUCK:
            for sd in MOVED:
                one = family(verdict.finding.family, sharing, sd)[name]
                moved[sharing, sd] = Moved(hold=one.tree.hold, parts=len(one.tree.units), mean=one.typical)
        found.append(
            Overturned(
                id=name, outcome=verdict.outcome, p=verdict.p_adjusted if verdict.known else math.nan,
                spread={sharing: gone_at(verdict, sharing) for sharing in SHARED_LUCK}, moved=moved,
            )
        )  # fmt: skip
    return found


def _first(gone: Callable[[int], bool]) -> int:
    """Return the first place of `SPREADS` where `gone` holds, which it does from there on."""
    low, high = 0, len(SPREADS) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if gone(middle) else (middle + 1, high)
    return high
