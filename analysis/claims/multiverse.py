"""Does the answer depend on the analyst? Every verdict under every selection rule, interval and protocol."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pandas as pd

from analysis.claims.assessment import Assessment, assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import SUPPORTED, UNDECIDABLE
from analysis.claims.verdicts import Verdict
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.sources import Source
from analysis.statistics.bounds import standard_error
from analysis.statistics.interval_kinds import INTERVALS, T
from analysis.statistics.learning_rate_selection import SEED, SELECTIONS
from analysis.statistics.scores_table import Settings, seed_scores
from benchmarks.protocol import AVERAGE, DATASETS, TASKS
from common.progress import progress
from pretraining.paper_settings import SHAPES

__all__ = ["Forks", "Multiverse", "explore", "gap_by_selection"]

MIXED = "mixed"
"""Name of the mixed-effects model among the intervals; F1-F4 only."""


@dataclass(frozen=True, kw_only=True)
class Forks:
    """Every verdict under other margins, adjustments, readings, datasets and correlations too."""

    analyses: pd.DataFrame
    """One row a claim and analysis (`analysis.sensitivity.forks.explore_forks`)."""
    shares: pd.DataFrame
    """By claim: how many analyses are valid and invalid, and which shares of each support and contradict it."""
    flips: Mapping[str, Sequence[tuple[str, str, str, bool]]]
    """By claim the single changes to the package's analysis that change its verdict: fork, option, state, valid."""


@dataclass(frozen=True, kw_only=True)
class Multiverse:
    """The verdicts of all analyses."""

    source: str
    verdicts: pd.DataFrame
    """One row a claim and analysis: id, protocol, selection, interval, verdict, effect, low, high, p, p_holm."""
    gaps: pd.DataFrame
    """MLM - CLM by dataset and selection rule (`gap_by_selection`); empty without runs of MLM or CLM."""
    forks: Forks | None = None
    """The other forks, where they were explored."""

    def shares(self) -> pd.DataFrame:
        """Return, for each claim, the number of analyses by verdict and the share that support it.

        The share is of the analyses that the source can decide; nan when there are none.
        """
        counts = self.verdicts.groupby(["id", "verdict"], sort=False).size().unstack(fill_value=0)
        counts = counts.reindex([name for name in CLAIMS if name in counts.index])
        decided = counts.drop(columns=UNDECIDABLE.name, errors="ignore").sum(axis=1)
        supported = counts[SUPPORTED.name] if SUPPORTED.name in counts else pd.Series(0, index=counts.index)
        counts["analyses"] = counts.sum(axis=1)
        counts["decided"] = decided
        counts["share_supporting"] = (supported / decided.where(decided > 0)).astype(float)
        return counts


def explore(source: Source, settings: Settings, *, standard: Source | None = None) -> Multiverse:
    """Judge every claim in every way the source allows.

    Args:
        source: published cells (the intervals they can give) or runs (every selection rule x every interval, those
            that need instances with instances only, and the mixed-effects model for F1-F4).
        settings: resamples and seed; its selection and interval are replaced by all others in turn.
        standard: the same runs scored by the standard protocol, when there are such.
    """
    rows: list[dict[str, object]] = []
    sources = [(source.protocol, source), *([("standard", standard)] if standard is not None else [])]
    plan = [(protocol, given, how) for protocol, given in sources for how in _analyses(given, settings)]
    for protocol, given, how in progress(plan, "analyses", unit="analysis"):
        assessment = assess(given, how, second_opinion=how.method is T)
        rows += _rows(assessment, protocol)
    gaps = (
        gap_by_selection(source.runs, fill=source.comparable)
        if source.runs is not None
        else pd.DataFrame(columns=_GAP_COLUMNS)
    )
    return Multiverse(source=source.label, verdicts=pd.DataFrame(rows), gaps=gaps)


def _analyses(source: Source, settings: Settings) -> Iterator[Settings]:
    """Yield every selection rule with every interval that the source can give and that a test goes with."""
    if source.runs is None:
        rules = [SEED.name]
        kinds = [name for name, one in INTERVALS.items() if one.printed_factor and one.independent]
    else:
        rules = list(SELECTIONS)
        known = source.instances is not None
        kinds = [name for name, one in INTERVALS.items() if one.paired and (known or not one.needs_instances)]
    for rule in rules:
        for kind in kinds:
            yield replace(settings, selection=rule, interval=kind)


def _rows(assessment: Assessment, protocol: str) -> Iterator[dict[str, object]]:
    settings = assessment.settings
    named: list[tuple[str, Verdict]] = [(settings.interval, verdict) for verdict in assessment.verdicts]
    named += [(MIXED, verdict) for verdict in assessment.mixed.values()]
    for interval, verdict in named:
        decisive = verdict.decisive
        yield {
            "id": verdict.claim.id,
            "protocol": protocol,
            "selection": settings.selection,
            "interval": interval,
            "verdict": verdict.verdict,
            **{name: getattr(decisive, name) for name in ("effect", "low", "high")},
            "p": verdict.p if verdict.known else math.nan,
            "p_holm": verdict.p_adjusted if verdict.known else math.nan,
        }


_GAP_COLUMNS = [
    "size", "task", "dataset", "selection", "mlm", "mlm_ci95", "mlm_from", "clm", "clm_ci95", "clm_from", "gap",
]  # fmt: skip


def gap_by_selection(runs: pd.DataFrame, *, fill: bool = True) -> pd.DataFrame:
    """Return the MLM-CLM gap of every size and dataset of the paper under each selection rule.

    Where only one of the two models has runs, the other's published cell stands in, and `mlm_from` or `clm_from`
    says so: that cell does not change with the rule. Pairs without any runs are left out; without `fill`, for runs
    that the paper's numbers do not compare with, also those without runs of both.
    """
    printed = {
        (model, dataset): (mean, half)
        for model, dataset, mean, half in records(published_values(), "model", "dataset", "mean", "ci95")
        if dataset != AVERAGE
    }
    rows: list[dict[str, Any]] = []
    values = {rule: seed_scores(runs, rule).T for rule in SELECTIONS}
    for size, dataset, rule in product(SHAPES, DATASETS.values(), SELECTIONS):
        row: dict[str, Any] = {
            "size": size, "task": dataset.task, "dataset": dataset.name, "selection": rule,
        }  # fmt: skip
        for side, objective in (("mlm", "mlm40"), ("clm", "clm")):
            model = f"{size}-{objective}-42k"
            key = (model, dataset.task, dataset.name)
            if key in values[rule]:
                seeds = values[rule][key].dropna().to_numpy()
                row[side], half = float(seeds.mean()), NORMAL_QUANTILE * float(standard_error(seeds))
                row[f"{side}_from"] = f"runs, n = {len(seeds)}"
            else:
                row[side], half = printed[model, dataset.name]
                row[f"{side}_from"] = f"published, n = {N_SEEDS}"
            row[f"{side}_ci95"] = half
        row["gap"] = row["mlm"] - row["clm"]
        if (any if fill else all)(row[side].startswith("runs") for side in ("mlm_from", "clm_from")):
            rows.append(row)
    frame = pd.DataFrame(rows, columns=_GAP_COLUMNS)
    order = {name: rank for rank, name in enumerate(TASKS)}
    return frame.sort_values("task", key=lambda tasks: tasks.map(order), kind="stable", ignore_index=True)
