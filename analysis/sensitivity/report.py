"""What overturns the verdicts, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from analysis.claims.assessment import Opinion
from analysis.claims.catalogue import CLAIMS
from analysis.claims.multiverse import Forks
from analysis.claims.pages.multiverse import forks_lines
from analysis.claims.wording import format_p, how_tested
from analysis.sensitivity.evidence import known_contrasts, with_errors
from analysis.sensitivity.forks import base_of, forks_of
from analysis.sensitivity.overturning import CONTRADICTED, SPREADS, SUPPORTED, Overturned, overturn
from analysis.sensitivity.second_opinion import second_opinions
from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from common.tables import Document, Grid

__all__ = [
    "Sensitivity",
    "sensitivity_document",
    "sensitivity_of",
]


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What overturns each verdict."""

    source: str
    overturned: tuple[Overturned, ...]
    forks: Forks
    base: dict[str, object]
    """The package's own analysis."""
    opinions: tuple[Opinion, ...]
    """The Bayesian second opinion on every claim."""
    tests: tuple[str, ...]
    """How the verdicts that it starts from are tested."""


_OPINION = "Second opinion, Bayesian: the chance that all that a claim asks for holds (flat prior, independent parts):"


def sensitivity_of(source: Source, settings: Settings) -> Sensitivity:
    """Return everything about a source, from the analysis of `settings` on."""
    found, instead = with_errors(source, settings)
    seeds = {count for finding in known_contrasts(found) for count in finding.seeds}
    tests = how_tested(settings.interval, published=source.is_published, seeds=seeds)
    overturned = overturn(found, published=source.is_published)
    return Sensitivity(
        source=source.words, overturned=tuple(overturned), forks=forks_of(source, settings), base=base_of(settings),
        opinions=tuple(second_opinions(found)), tests=tuple(filter(None, (*tests, instead))),
    )  # fmt: skip


def sensitivity_document(result: Sensitivity) -> Document:
    """Return three tables: pretraining seeds, correlated seeds, forks; and what changes a verdict by itself."""
    body: list[str | Grid] = [
        f"What overturns the verdicts from {result.source}.",
        "",
        "Spread between pretraining seeds (standard deviation of a task score, in points) that overturns a verdict:",
        "",
        Grid(_spread_rows(result)),
    ]
    if any(one.states_by_rho for one in result.overturned):
        body += [
            "",
            "Correlation of two models' seeds, which printed cells do not show:",
            "",
            Grid(_rho_rows(result)),
        ]
    body += ["", *forks_lines(result.forks, list(CLAIMS))]
    body += ["", _OPINION, "", Grid(_opinion_rows(result)), "", *result.tests]
    return Document(body=body, records=result.forks.analyses, digits="%.6g", data=_data(result))


def _data(result: Sensitivity) -> dict[str, object]:
    """Return what overturns each verdict, the shares, and the single changes."""
    held, changes = result.forks.shares, result.forks.flips
    return {
        "source": result.source,
        "analysis": result.base,
        "tests": list(result.tests),
        "claims": [
            {
                "id": one.id,
                "verdict": one.state,
                "p": one.p,
                "pretraining_sd": one.spread,
                "verdict_alone": one.state_alone,
                "pretraining_sd_alone": one.spread_alone,
                "by_rho": {f"{rho:g}": state for rho, state in one.states_by_rho.items()},
                "analyses": _shares_of(held, one.id),
                "probability": opinion.here,
                "probability_over_datasets": opinion.over_datasets,
                "flipped_by": [list(change) for change in changes[one.id]],
            }
            for one, opinion in zip(result.overturned, result.opinions, strict=True)
        ],
    }


def _shares_of(held: pd.DataFrame, name: str) -> dict[str, float]:
    place = [str(one) for one in held.index].index(name)
    return {str(column): float(held[column].tolist()[place]) for column in held}


def _points(spread: float | None, state: str) -> str:
    if state not in (SUPPORTED, CONTRADICTED):
        return "-"
    return f"> {SPREADS[-1]:.0f}" if spread is None else f"{spread:.2g}"


def _spread_rows(result: Sensitivity) -> list[list[str]]:
    rows = [["id", "verdict", "Holm p", "overturned by", "alone", "overturned by", "claim"]]
    for one in result.overturned:
        rows.append(
            [
                one.id, one.state, format_p(one.p), _points(one.spread, one.state), one.state_alone,
                _points(one.spread_alone, one.state_alone), CLAIMS[one.id].short,
            ]
        )  # fmt: skip
    return rows


def _rho_rows(result: Sensitivity) -> list[list[str]]:
    shown = (-0.8, -0.5, -0.2, 0.0, 0.2, 0.5, 0.8)
    rows = [["id", *(f"{rho:+g}" if rho else "0" for rho in shown), "verdict"]]
    for one in result.overturned:
        if not one.states_by_rho or all(math.isnan(p) for p in one.p_by_rho.values()):
            continue
        changes = [f"{state} at {rho:+g}" for rho, state in one.states_by_rho.items() if state != one.state]
        first = f"{one.state}; {changes[0]}" if changes else f"{one.state} throughout"
        rows.append([one.id, *(format_p(one.p_by_rho[rho]) for rho in shown), first])
    return rows


def _opinion_rows(result: Sensitivity) -> list[list[str]]:
    rows = [["id", "on these datasets", "over datasets", "claim"]]
    for one in result.opinions:
        shown = ["-" if math.isnan(chance) else f"{chance:.2f}" for chance in (one.here, one.over_datasets)]
        rows.append([one.id, *shown, CLAIMS[one.id].short])
    return rows
