"""The forks of the analysis: every verdict under other margins, adjustments, readings, datasets and intervals.

A fork has options; an option is valid where it answers the claim as worded at the stated level, and invalid where it
is known not to (an interval that covers 88 %, no adjustment for 19 claims, a weaker claim). Both are shown, apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pandas as pd

from analysis.claims.catalogue import CLAIMS
from analysis.claims.inference import holm
from analysis.claims.multiverse import Forks
from analysis.claims.statements import Claim, Spread, comparisons
from analysis.claims.verdicts import ALPHA, Verdict, judge_claim
from analysis.published_cells import N_SEEDS
from analysis.sensitivity.changes import READINGS, changed, on_datasets, with_margin
from analysis.sensitivity.evidence import FindingOf, correlated, evidence_of
from analysis.sensitivity.overturning import CONTRADICTED, SUPPORTED, UNDECIDED, UNKNOWN
from analysis.sources import Source
from analysis.statistics.interval_kinds import INTERVALS
from analysis.statistics.learning_rate_selection import SELECTIONS
from analysis.statistics.measured_coverage import too_narrow
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import DATASETS, datasets_of
from common.progress import progress

__all__ = [
    "ADJUSTMENTS",
    "FORKS",
    "Option",
    "Universe",
    "base_of",
    "explore_forks",
    "flips",
    "forks_of",
    "shares",
    "universes",
]

FORKS = ("interval", "selection", "margin", "adjustment", "reading", "datasets", "rho")
"""The columns that name an analysis."""

MARGINS = (0.5, 1.0, 1.5, 2.0)
"""Factors on the margins of "comparable"."""
RHOS = (-0.5, 0.0, 0.5)
"""Correlations of two models' seeds in printed cells."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """A choice at a fork."""

    name: str
    why_not: str = ""
    """Why it is invalid; empty where it is valid."""


ADJUSTMENTS: Mapping[str, Option] = {
    "family": Option(name="family"),
    "all claims": Option(name="all claims"),
    "none": Option(name="none", why_not="19 claims at a level of 0.05 each"),
}
"""Holm within the claim's family (the package's), over all claims, or not at all."""

_READINGS = {
    name: Option(name=name, why_not="a weaker claim than the one worded" if name == "most parts" else "")
    for name in READINGS
}


@dataclass(frozen=True, kw_only=True)
class Universe:
    """An analysis but for its adjustment, which is made of its p's."""

    interval: Option
    selection: str
    margin: float = 1.0
    reading: Option = field(default_factory=lambda: _READINGS["as worded"])
    left_out: str = ""
    """The dataset that its task's average leaves out; empty: none."""
    rho: float = 0.0

    def is_of(self, claim: Claim) -> bool:
        """Whether the claim can be analysed so: a spread keeps all datasets of its task, so none is left out of it."""
        if not self.left_out:
            return True
        task = DATASETS[self.left_out].task
        return not any(isinstance(one, Spread) and one.task == task for one in comparisons(claim.body))

    def claim(self, claim: Claim) -> Claim:
        """Return the claim as this analysis reads it."""
        made = changed(READINGS[self.reading.name](claim), with_margin(self.margin))
        if not self.left_out:
            return made
        task = DATASETS[self.left_out].task
        return changed(made, on_datasets(task, [name for name in datasets_of(task) if name != self.left_out]))


def universes(source: Source, settings: Settings) -> Iterator[Universe]:
    """Yield every analysis of the source.

    Intervals, selection rules and correlations are crossed with everything; margins and readings with each other; a
    dataset is left out with margin and reading as they are, of claims that are not about its task's spread.
    """
    for interval in _intervals(source):
        for selection in SELECTIONS if source.runs is not None else (settings.selection,):
            for rho in RHOS if source.is_published else (0.0,):
                base = Universe(interval=interval, selection=selection, rho=rho)
                for margin in MARGINS:
                    for reading in _READINGS.values():
                        yield replace(base, margin=margin, reading=reading)
                for name in DATASETS if source.stand_ins is None else ():
                    yield replace(base, left_out=name)


def _intervals(source: Source) -> list[Option]:
    n_seeds = N_SEEDS
    if source.runs is None:
        names = [name for name, one in INTERVALS.items() if one.printed_factor and one.independent]
    else:
        n_seeds = int(source.runs.groupby(["model", "dataset"], observed=True)["seed"].nunique().median())
        known = source.instances is not None
        names = [name for name, one in INTERVALS.items() if one.paired and (known or not one.needs_instances)]
    return [Option(name=name, why_not=too_narrow(name, n_seeds)) for name in names]


def base_of(settings: Settings) -> dict[str, object]:
    """Return the package's own analysis: an option of each fork."""
    return {
        "interval": settings.interval, "selection": settings.selection, "margin": 1.0, "adjustment": "family",
        "reading": "as worded", "datasets": "all", "rho": 0.0,
    }  # fmt: skip


def forks_of(source: Source, settings: Settings) -> Forks:
    """Return every verdict at every fork, with the shares and the single changes that change one."""
    analyses = explore_forks(source, settings)
    return Forks(analyses=analyses, shares=shares(analyses), flips=flips(analyses, base_of(settings)))


def explore_forks(source: Source, settings: Settings) -> pd.DataFrame:
    """Judge every claim in every analysis.

    Returns:
        A row a claim and analysis of it: `id`, the columns of `FORKS`, `state` (supported, contradicted, undecided, not
        decidable), `p` (adjusted), `valid`, `why_not`.
    """
    rows: list[dict[str, object]] = []
    evidence: dict[tuple[str, str, float], FindingOf] = {}
    for one in progress(list(universes(source, settings)), "analyses", unit="analysis"):
        key = one.interval.name, one.selection, one.rho
        if key not in evidence:
            how = replace(settings, interval=one.interval.name, selection=one.selection)
            found = evidence_of(source, how)
            evidence = {key: cache(correlated(found, one.rho) if one.rho else found)}
        verdicts = [judge_claim(one.claim(claim), evidence[key]) for claim in CLAIMS.values()]
        for adjustment in ADJUSTMENTS.values():
            rows += _rows(one, adjustment, verdicts)
    return pd.DataFrame(rows)


def _rows(universe: Universe, adjustment: Option, verdicts: list[Verdict]) -> Iterator[dict[str, object]]:
    p_for, p_against = (_adjusted(verdicts, adjustment, against=against) for against in (False, True))
    why_not = "; ".join(
        option.why_not for option in (universe.interval, universe.reading, adjustment) if option.why_not
    )
    for verdict in verdicts:
        name = verdict.claim.id
        if not universe.is_of(CLAIMS[name]):
            continue
        state = UNDECIDED if all(finding.known for finding in verdict.tree.findings) else UNKNOWN
        state = CONTRADICTED if p_against[name] <= ALPHA else state
        state = SUPPORTED if p_for[name] <= ALPHA else state
        yield {
            "id": name, "interval": universe.interval.name, "selection": universe.selection,
            "margin": universe.margin, "adjustment": adjustment.name, "reading": universe.reading.name,
            "datasets": f"without {universe.left_out}" if universe.left_out else "all", "rho": universe.rho,
            "state": state, "p": min(p_for[name], p_against[name]) if verdict.known else math.nan,
            "valid": not why_not, "why_not": why_not,
        }  # fmt: skip


def _adjusted(verdicts: list[Verdict], adjustment: Option, *, against: bool) -> dict[str, float]:
    raw = {one.claim.id: one.p_against if against else one.p_for for one in verdicts}
    if adjustment is ADJUSTMENTS["none"]:
        return raw
    groups: dict[str, list[str]] = {}
    for one in verdicts:
        if one.known:
            family = one.claim.family if adjustment is ADJUSTMENTS["family"] else ""
            groups.setdefault(family, []).append(one.claim.id)
    for names in groups.values():
        raw |= dict(zip(names, holm([raw[name] for name in names]), strict=True))
    return raw


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each claim, how many valid and invalid analyses decide it and the shares by state.

    Returns:
        Index `id`; columns `valid`, `valid_supported`, `valid_contradicted`, and the same with `invalid`.
    """
    parts: dict[str, Any] = {}
    for word, held in (("valid", frame[frame["valid"]]), ("invalid", frame[~frame["valid"]])):
        parts[word] = held.groupby("id", sort=False)["state"].size()
        for state in (SUPPORTED, CONTRADICTED):
            parts[f"{word}_{state}"] = (held["state"] == state).groupby(held["id"], sort=False).mean()
    return pd.DataFrame(parts).reindex([name for name in CLAIMS if name in set(frame["id"])])


def flips(frame: pd.DataFrame, base: Mapping[str, object]) -> dict[str, list[tuple[str, str, str, bool]]]:
    """Return, for each claim, the single changes to the analysis `base` that change its verdict.

    Args:
        frame: of `explore_forks`.
        base: the option at every fork.

    Returns:
        By claim: (fork, option, state, whether the option is valid).
    """
    found: dict[str, list[tuple[str, str, str, bool]]] = {}
    for name, held in frame.groupby("id", sort=False):
        same = pd.DataFrame({fork: held[fork] == base[fork] for fork in FORKS})
        start = held.loc[same.all(axis=1), "state"].iloc[0]
        found[str(name)] = [
            (
                fork,
                f"{row[fork]:g}" if isinstance(row[fork], float) else str(row[fork]),
                row["state"],
                row["valid"],
            )
            for fork in FORKS
            for _, row in held[~same[fork] & same.drop(columns=fork).all(axis=1)].iterrows()
            if row["state"] != start
        ]
    return found
