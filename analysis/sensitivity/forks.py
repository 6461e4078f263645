"""The multiverse: every verdict at every fork of the analysis.

A fork has options; an option is valid where it answers the claim as worded at the stated level, and invalid where it
is known not to (an interval that covers 88 %, no adjustment for 19 claims, a weaker claim). Both are shown, apart. The
analyses that differ in protocol, selection rule and interval alone are the grid that `claims --multiverse` prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import SUPPORTED as SUPPORTED_GRADE
from analysis.claims.grades import UNDECIDABLE
from analysis.claims.statements import Claim, comparisons
from analysis.claims.verdicts import Verdict, judge_claim
from analysis.evidence.contrasts import Spread
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import INTERVALS, T, too_narrow
from analysis.published_cells import N_SEEDS
from analysis.sensitivity.changes import READINGS, changed, on_datasets, with_margin
from analysis.sensitivity.evidence import correlated, evidence_of
from analysis.sensitivity.gaps import gap_by_selection
from analysis.sensitivity.overturning import CONTRADICTED, SUPPORTED, state_of
from analysis.sources import Source
from analysis.statistics.inference import holm
from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import DATASETS, datasets_of
from common.errors import UserError
from common.progress import progress

__all__ = [
    "ADJUSTMENTS", "FORKS", "GRID", "MIXED", "WHY_NOT", "Multiverse", "Universe", "explore", "universes",
]  # fmt: skip

GRID = ("protocol", "selection", "interval")
"""The columns that name an analysis of the grid."""
FORKS = (*GRID, "margin", "adjustment", "reading", "datasets", "rho")
"""The columns that name an analysis."""

MARGINS = (0.5, 1.0, 1.5, 2.0)
"""Factors on the margins of "comparable"."""
RHOS = (-0.5, 0.0, 0.5)
"""Correlations of two models' seeds in printed cells."""
MIXED = "mixed-effects"
"""Name of the mixed-effects model among the intervals; F1-F4 from runs only, and in the grid only."""


ADJUSTMENTS = ("family", "all claims", "none")
"""Holm within the claim's family (the package's), over all claims, or not at all."""

WHY_NOT: Mapping[str, str] = {
    "none": "19 claims at a level of 0.05 each",
    "most parts": "a weaker claim than the one worded",
}
"""Why an adjustment or a reading is invalid; an interval is where it is known to be too narrow."""


@dataclass(frozen=True, kw_only=True)
class Universe:
    """An analysis but for its adjustment, which is made of its p's."""

    protocol: str
    selection: str
    interval: str
    too_narrow: str = ""
    """Why the interval is invalid; empty where it is valid."""
    margin: float = 1.0
    reading: str = "as worded"
    left_out: str = ""
    """The dataset that its task's average leaves out; empty: none."""
    rho: float = 0.0

    @property
    def evidence(self) -> tuple[str, str, str, float]:
        """What its findings depend on."""
        return self.protocol, self.selection, self.interval, self.rho

    def is_of(self, claim: Claim) -> bool:
        """Whether the claim can be analysed so: a spread keeps all datasets of its task, so none is left out of it."""
        if not self.left_out:
            return True
        task = DATASETS[self.left_out].task
        return not any(isinstance(one, Spread) and one.task == task for one in comparisons(claim.body))

    def claim(self, claim: Claim) -> Claim:
        """Return the claim as this analysis reads it."""
        made = changed(READINGS[self.reading](claim), with_margin(self.margin))
        if not self.left_out:
            return made
        task = DATASETS[self.left_out].task
        return changed(made, on_datasets(task, [name for name in datasets_of(task) if name != self.left_out]))


@dataclass(frozen=True, kw_only=True)
class Multiverse:
    """The verdicts of all analyses."""

    source: str
    base: Mapping[str, object]
    """The package's own analysis: the option at every fork."""
    analyses: pd.DataFrame
    """A row a claim and analysis of it: `id`, the columns of `FORKS`, `verdict` (a grade), `state` (supported,
    contradicted, undecided, not decidable), `effect`, `low`, `high` of its decisive comparison, `p`, `p_adjusted`,
    `valid`, `why_not`."""
    gaps: pd.DataFrame
    """MLM - CLM by dataset and selection rule (`gaps.gap_by_selection`); empty without runs of MLM or CLM."""

    @cached_property
    def grid(self) -> pd.DataFrame:
        """The analyses that differ from the package's in protocol, selection rule and interval alone."""
        return self.analyses[~self._apart[[fork for fork in FORKS if fork not in GRID]].any(axis=1)]

    @cached_property
    def supporting(self) -> dict[str, tuple[int, float]]:
        """By claim, how many analyses of the grid can decide it and the share of those that supports it, else nan."""
        found = {}
        for name, grades in self.grid.groupby("id", sort=False)["verdict"]:
            known = grades[grades != UNDECIDABLE.name]
            found[str(name)] = len(known), float((known == SUPPORTED_GRADE.name).mean())
        return found

    @cached_property
    def shares(self) -> dict[str, dict[str, float]]:
        """By claim, how many analyses are `valid` and `invalid` and which shares of them support and contradict it."""
        found = {}
        for name, rows in self.analyses.groupby("id", sort=False):
            held: dict[str, float] = {}
            for word, kept in (("valid", rows["valid"]), ("invalid", ~rows["valid"])):
                states = rows.loc[kept, "state"]
                held[word] = len(states)
                for state in (SUPPORTED, CONTRADICTED):
                    held[f"{word}_{state}"] = float((states == state).mean())
            found[str(name)] = held
        return found

    @cached_property
    def flips(self) -> dict[str, list[tuple[str, str, str, bool]]]:
        """By claim, the single changes to the package's analysis that change a verdict: fork, option, state, valid."""
        apart = self._apart.sum(axis=1)
        base = self.analyses[apart == 0]
        start = dict(zip(base["id"], base["state"], strict=True))
        found: dict[str, list[tuple[str, str, str, bool]]] = {name: [] for name in start}
        for fork in FORKS:
            for row in self.analyses[self._apart[fork] & (apart == 1)].to_dict("records"):
                if row["state"] != start[row["id"]]:
                    option = f"{row[fork]:g}" if isinstance(row[fork], float) else str(row[fork])
                    found[row["id"]].append((fork, option, str(row["state"]), bool(row["valid"])))
        return found

    @cached_property
    def _apart(self) -> pd.DataFrame:
        """Whether an analysis differs from the package's, by fork."""
        return pd.DataFrame({fork: self.analyses[fork] != self.base[fork] for fork in FORKS})


def explore(
    source: Source, settings: Settings, *, standard: Source | None = None, grid_only: bool = False
) -> Multiverse:
    """Judge every claim in every analysis that the source allows.

    Args:
        source: published cells or runs.
        settings: the package's analysis of it, resamples and seed.
        standard: the same runs scored by the standard protocol, when there are such.
        grid_only: leave the analyses out that are not of the grid.

    Raises:
        UserError: no runs, or an interval or selection rule that the source cannot give.
    """
    settings = source.with_interval(settings)
    sources = {source.protocol: source} | ({standard.protocol: standard} if standard is not None else {})
    rows: list[dict[str, object]] = []
    key, finding_of = None, None
    plan = [one for given in sources.values() for one in universes(given, settings, grid_only=grid_only)]
    for universe in progress(plan, "analyses", unit="analysis"):
        given = sources[universe.protocol]
        mixed = universe.interval == MIXED
        interval = T.name if mixed else universe.interval
        how = replace(settings, selection=universe.selection, interval=interval)
        if mixed:
            verdicts = list(assess(given, how).mixed.values())
        else:
            if key != universe.evidence or finding_of is None:
                key, finding_of = universe.evidence, correlated(evidence_of(given, how), universe.rho)
            claims = [claim for claim in CLAIMS.values() if universe.is_of(claim)]
            verdicts = [judge_claim(universe.claim(claim), finding_of) for claim in claims]
        for adjustment in ADJUSTMENTS[: 1 if grid_only else None]:
            rows += _rows(universe, adjustment, verdicts)
    base = dict(zip(FORKS, (source.protocol, settings.selection, settings.interval), strict=False)) | {
        "margin": 1.0, "adjustment": "family", "reading": "as worded", "datasets": "all", "rho": 0.0,
    }  # fmt: skip
    gaps = gap_by_selection(source.runs, fill=source.comparable)
    return Multiverse(source=source.label, base=base, analyses=pd.DataFrame(rows), gaps=gaps)


def universes(source: Source, settings: Settings, *, grid_only: bool = False) -> Iterator[Universe]:
    """Yield every analysis of the source.

    Intervals, selection rules and correlations are crossed with everything; margins and readings with each other; a
    dataset is left out with margin and reading as they are, of claims that are not about its task's spread.
    """
    for selection in SELECTIONS if source.runs is not None else (settings.selection,):
        for interval, narrow in _intervals(source):
            base = Universe(
                protocol=source.protocol, interval=interval, selection=selection, too_narrow=narrow
            )
            if grid_only or interval == MIXED:
                yield base
                continue
            for rho in RHOS if source.is_published else (0.0,):
                for margin in MARGINS:
                    for reading in READINGS:
                        yield replace(base, rho=rho, margin=margin, reading=reading)
                for name in DATASETS if source.stand_ins is None else ():
                    yield replace(base, rho=rho, left_out=name)


def _intervals(source: Source) -> list[tuple[str, str]]:
    """Return the intervals that the source can give, and of each why it is too narrow or nothing."""
    runs = source.runs
    if runs is None:
        names = [name for name, one in INTERVALS.items() if one.of_cells is not None]
        return [(name, too_narrow(name, N_SEEDS)) for name in names]
    if runs.empty:
        raise UserError(f"{source.label} has no runs to judge; give another --source")
    n_seeds = int(runs.groupby(["model", "dataset"], observed=True)["seed"].nunique().median())
    known = source.instances is not None
    names = [name for name, one in INTERVALS.items() if known or not one.needs_instances]
    mixed = [(MIXED, "")] if source.stand_ins is None else []
    return [*((name, too_narrow(name, n_seeds)) for name in names), *mixed]


def _rows(universe: Universe, adjustment: str, verdicts: Sequence[Verdict]) -> Iterator[dict[str, object]]:
    p_for = _adjusted(verdicts, adjustment, lambda one: one.p_for)
    p_against = _adjusted(verdicts, adjustment, lambda one: one.p_against)
    reasons = universe.too_narrow, WHY_NOT.get(universe.reading), WHY_NOT.get(adjustment)
    why_not = "; ".join(filter(None, reasons))
    for raw in verdicts:
        name = raw.claim.id
        verdict = replace(raw, p_for_adjusted=p_for[name], p_against_adjusted=p_against[name])
        decisive = verdict.decisive
        yield {
            "id": name, "protocol": universe.protocol, "selection": universe.selection,
            "interval": universe.interval, "margin": universe.margin, "adjustment": adjustment,
            "reading": universe.reading,
            "datasets": f"without {universe.left_out}" if universe.left_out else "all", "rho": universe.rho,
            "verdict": verdict.verdict, "state": state_of(verdict), "effect": decisive.effect, "low": decisive.low,
            "high": decisive.high, "p": verdict.p if verdict.known else float("nan"),
            "p_adjusted": verdict.p_adjusted if verdict.known else float("nan"), "valid": not why_not,
            "why_not": why_not,
        }  # fmt: skip


def _adjusted(
    verdicts: Sequence[Verdict], adjustment: str, p_of: Callable[[Verdict], float]
) -> dict[str, float]:
    """Return the adjusted p's by claim."""
    found = {one.claim.id: p_of(one) for one in verdicts}
    groups: dict[str, list[str]] = {}
    for one in verdicts if adjustment != "none" else ():
        if one.known:
            family = one.claim.family if adjustment == "family" else ""
            groups.setdefault(family, []).append(one.claim.id)
    for names in groups.values():
        found |= dict(zip(names, holm([found[name] for name in names]), strict=True))
    return found
