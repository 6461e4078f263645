"""What would overturn each verdict: a spread between pretraining seeds, a correlation of fine-tuning seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from analysis.claims.catalogue import CLAIMS
from analysis.claims.verdicts import ALPHA, Verdict, judge
from analysis.sensitivity.evidence import FindingOf, correlated, with_pretraining_spread

__all__ = ["CONTRADICTED", "RHOS", "SUPPORTED", "UNDECIDED", "UNKNOWN", "Overturned", "overturn", "state_of"]

SUPPORTED, CONTRADICTED, UNDECIDED, UNKNOWN = "supported", "contradicted", "undecided", "not decidable"

SPREADS = tuple(float(f"{0.01 * 1.05**step:.3g}") for step in range(165))
"""Standard deviations between pretraining seeds that are tried, in points: 0.01 to about 30."""

RHOS = tuple(round(-0.8 + 0.1 * step, 1) for step in range(18))
"""Correlations of two models' seeds that are tried: -0.8 to 0.9."""


@dataclass(frozen=True, kw_only=True)
class Overturned:
    """What overturns a verdict."""

    id: str
    state: str
    """The verdict after Holm's adjustment within its family."""
    p: float
    """The adjusted p that it hangs on."""
    spread: float | None
    """The smallest standard deviation between pretraining seeds with which the verdict is gone; None: none tried does,
    or there is no verdict to overturn."""
    state_alone: str
    """The verdict of the claim alone, before adjustment."""
    spread_alone: float | None
    """What overturns it."""
    states_by_rho: Mapping[float, str]
    """The verdict for each correlation of seeds; empty from runs, which show it themselves."""
    p_by_rho: Mapping[float, float]


def state_of(verdict: Verdict, *, alone: bool = False) -> str:
    """Return the verdict as one of four words, by its adjusted p's, or by the raw ones where it is taken alone."""
    if (verdict.p_for if alone else verdict.p_for_adjusted) <= ALPHA:
        return SUPPORTED
    if (verdict.p_against if alone else verdict.p_against_adjusted) <= ALPHA:
        return CONTRADICTED
    return UNDECIDED if all(finding.known for finding in verdict.tree.findings) else UNKNOWN


def overturn(finding_of: FindingOf, *, published: bool) -> list[Overturned]:
    """Return, for every claim, what overturns its verdict.

    Args:
        finding_of: what the source says about a comparison.
        published: whether these are printed cells, so that the correlation of seeds is not known.
    """
    finding_of = cache(finding_of)

    @cache
    def moved(place: int) -> dict[str, Verdict]:
        findings = with_pretraining_spread(finding_of, SPREADS[place])
        return {one.claim.id: one for one in judge(CLAIMS, findings)}

    def gone_at(verdict: Verdict, *, alone: bool) -> float | None:
        name, state = verdict.claim.id, state_of(verdict, alone=alone)

        def gone(place: int) -> bool:
            return state_of(moved(place)[name], alone=alone) != state

        if state not in (SUPPORTED, CONTRADICTED) or not gone(len(SPREADS) - 1):
            return None
        return SPREADS[_first(gone)]

    by_rho: dict[float, dict[str, Verdict]] = {}
    if published:
        for rho in RHOS:
            by_rho[rho] = {one.claim.id: one for one in judge(CLAIMS, correlated(finding_of, rho))}
    found = []
    for verdict in judge(CLAIMS, finding_of):
        name = verdict.claim.id
        found.append(
            Overturned(
                id=name, state=state_of(verdict), p=_p(verdict),
                spread=gone_at(verdict, alone=False), state_alone=state_of(verdict, alone=True),
                spread_alone=gone_at(verdict, alone=True),
                states_by_rho={rho: state_of(held[name]) for rho, held in by_rho.items()},
                p_by_rho={rho: _p(held[name]) for rho, held in by_rho.items()},
            )
        )  # fmt: skip
    return found


def _p(verdict: Verdict) -> float:
    return verdict.p_adjusted if verdict.known else math.nan


def _first(gone: Callable[[int], bool]) -> int:
    """Return the first place of `SPREADS` where `gone` holds, which it does from there on."""
    low, high = 0, len(SPREADS) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if gone(middle) else (middle + 1, high)
    return high
