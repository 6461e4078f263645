"""Other analyses of the same scores: every selection rule, interval and adjustment, and which of them alter a verdict.

An analysis is valid where it answers the finding at the stated level, and invalid where it is known not to: an interval
that covers 84 %, or no adjustment for 21 findings. Both are shown, marked as what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis.claims.assessment import assess
from analysis.claims.catalogue import FINDINGS
from analysis.claims.frame import judged_rows
from analysis.claims.statements import Finding
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import INTERVALS, too_narrow
from analysis.published_cells import N_SEEDS
from analysis.sources import Source
from analysis.statistics.learning_rate_selection import SELECTIONS
from common.errors import UserError
from common.progress import progress

FORKS = ("protocol", "selection", "interval", "adjustment")
"""The columns that name an analysis."""

ADJUSTMENTS: dict[str, Callable[[Finding], str]] = {
    "family": lambda finding: finding.family,
    "all findings": lambda _: "",
    "none": lambda finding: finding.id,
}
"""Holm within the finding's family (the package's), over all findings, or not at all: what is adjusted together."""

_UNADJUSTED = f"{len(FINDINGS)} findings at a level of 0.05 each"
"""Why an analysis without adjustment is invalid."""


@dataclass(frozen=True, kw_only=True)
class Multiverse:
    """The verdicts of all analyses."""

    base: Mapping[str, str]
    """The package's own analysis: the option at every fork."""
    analyses: pd.DataFrame
    """A row a finding and analysis of it: `id`, the columns of `FORKS`, `verdict`, `state` (which of the four it is),
    `effect`, `low`, `high` of its decisive comparison, `p`, `p_adjusted`,
    `valid`, `why_not`."""

    @property
    def grid(self) -> pd.DataFrame:
        """The analyses with the package's adjustment."""
        return self.analyses[self.analyses["adjustment"] == self.base["adjustment"]]

    @cached_property
    def flips(self) -> dict[str, list[tuple[str, str, str, bool]]]:
        """By finding, the single choices that alter a verdict: fork, option, state, valid."""
        differs = pd.DataFrame({fork: self.analyses[fork] != self.base[fork] for fork in FORKS})
        changed = differs.sum(axis=1)
        base = self.analyses[changed == 0]
        start = dict(zip(base["id"], base["state"], strict=True))
        flips: dict[str, list[tuple[str, str, str, bool]]] = {name: [] for name in start}
        for fork in FORKS:
            for row in self.analyses[differs[fork] & (changed == 1)].to_dict("records"):
                if row["state"] != start[row["id"]]:
                    flips[row["id"]].append((fork, row[fork], row["state"], bool(row["valid"])))
        return flips


def explore(source: Source, settings: Settings, *, standard: Source | None = None) -> Multiverse:
    """Judge every finding under every analysis.

    Args:
        source: published cells or runs.
        settings: the package's analysis of it, resamples and seed.
        standard: the same runs scored by the standard protocol, when there are such.

    Raises:
        UserError: no runs, or an interval or selection rule that the source cannot give.
    """
    settings = source.with_interval(settings)
    analyses: list[dict[str, object]] = []
    plan = [
        (scored, replace(settings, selection=rule, interval=interval), narrow)
        for scored in (source, *([] if standard is None else [standard]))
        for rule in (SELECTIONS if scored.runs is not None else [settings.selection])
        for interval, narrow in _intervals(scored).items()
    ]
    for scored, how, narrow in progress(plan, "analyses", unit="analysis"):
        result_of = assess(scored, how).result_of
        head = {"protocol": scored.protocol, "selection": how.selection, "interval": how.interval}
        for adjustment, family_of in ADJUSTMENTS.items():
            why_not = "; ".join(filter(None, (narrow, _UNADJUSTED if adjustment == "none" else "")))
            judged = judged_rows(
                FINDINGS.values(), result_of, family_of=family_of, roles=("finding", "verdict")
            )
            decisive = {row.id: row for row in judged if row.decisive}
            analyses += (
                {
                    "id": row.id, **head, "adjustment": adjustment, "verdict": row.verdict, "state": row.outcome,
                    **{name: getattr(decisive[row.id], name) for name in ("effect", "low", "high")},
                    "p": row.p_raw if row.known else math.nan, "p_adjusted": row.p_holm if row.known else math.nan,
                    "valid": not why_not, "why_not": why_not,
                }
                for row in judged if row.role == "finding"
            )  # fmt: skip
    options = source.protocol, settings.selection, settings.interval, "family"
    base = dict(zip(FORKS, options, strict=True))
    return Multiverse(base=base, analyses=pd.DataFrame(analyses))


def _intervals(source: Source) -> dict[str, str]:
    """Return the intervals that the source can give, and of each why it is too narrow or nothing."""
    runs = source.runs
    if runs is None:
        names = [name for name, one in INTERVALS.items() if one.of_cells is not None]
        return {name: too_narrow(name, N_SEEDS) for name in names}
    if runs.empty:
        raise UserError(f"{source.label} has no runs to judge; give another --source")
    n_seeds = int(runs.groupby(["model", "dataset"], observed=True)["seed"].nunique().median())
    has_instances = source.instances is not None
    names = [name for name, one in INTERVALS.items() if has_instances or not one.needs_instances]
    return {name: too_narrow(name, n_seeds) for name in names}
