"""Does the answer depend on the analyst? Every verdict under every selection rule, interval and protocol."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.claims.assessment import Assessment, assess
from analysis.claims.catalogue import CLAIMS
from analysis.claims.verdicts import SUPPORTED, UNDECIDABLE, Verdict
from analysis.frames import records
from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.sources import Source
from analysis.statistics.bounds import standard_error
from analysis.statistics.intervals import INTERVALS, T
from analysis.statistics.scores import Settings, seed_scores
from analysis.statistics.selection import SEED, SELECTIONS
from benchmarks.protocol import AVERAGE, DATASETS, TASKS
from common.progress import progress
from common.text_tables import grid
from pretraining.paper_settings import SHAPES

__all__ = ["Multiverse", "explore", "gap_by_selection", "render_multiverse"]

MIXED = "mixed"
"""Name of the mixed-effects model among the intervals; F1-F4 only."""


@dataclass(frozen=True, kw_only=True)
class Multiverse:
    """The verdicts of all analyses."""

    source: str
    verdicts: pd.DataFrame
    """One row a claim and analysis: id, protocol, selection, interval, verdict, effect, low, high, p, p_holm."""
    gaps: pd.DataFrame
    """MLM - CLM by dataset and selection rule (`gap_by_selection`); empty without runs of MLM or CLM."""

    def shares(self) -> pd.DataFrame:
        """Return, for each claim, the number of analyses by verdict and the share that support it.

        The share is of the analyses that the source can decide; nan when there are none.
        """
        counts = self.verdicts.groupby(["id", "verdict"], sort=False).size().unstack(fill_value=0)
        counts = counts.reindex([name for name in CLAIMS if name in counts.index])
        decided = counts.drop(columns=UNDECIDABLE, errors="ignore").sum(axis=1)
        supported = counts[SUPPORTED] if SUPPORTED in counts else pd.Series(0, index=counts.index)
        counts["analyses"] = counts.sum(axis=1)
        counts["decided"] = decided
        counts["share_supporting"] = (supported / decided.where(decided > 0)).astype(float)
        return counts


def explore(source: Source, settings: Settings, *, standard: Source | None = None) -> Multiverse:
    """Judge every claim in every way the source allows.

    Args:
        source: published cells (two intervals) or runs (three rules x four intervals, five with instances, and
            the mixed-effects model for F1-F4).
        settings: resamples and seed; its selection and interval are gone through.
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
        decisive, known = verdict.decisive, bool(verdict.known)
        yield {
            "id": verdict.claim.id,
            "protocol": protocol,
            "selection": settings.selection,
            "interval": interval,
            "verdict": verdict.verdict,
            "effect": decisive.effect,
            "low": decisive.low,
            "high": decisive.high,
            "p": verdict.p if known else math.nan,
            "p_holm": verdict.p_adjusted if known else math.nan,
        }


_GAP_COLUMNS = [
    "size", "task", "dataset", "selection", "mlm", "mlm_ci95", "mlm_from", "clm", "clm_ci95", "clm_from", "gap",
]  # fmt: skip


def gap_by_selection(runs: pd.DataFrame, *, fill: bool = True) -> pd.DataFrame:
    """Return the MLM-CLM gap of every size and dataset under each selection rule.

    Where only one of the two models has runs, the other's published cell stands in, and `mlm_from` or `clm_from`
    says so: that cell does not change with the rule. Pairs without any runs are left out; without `fill`, for runs
    that the paper's numbers do not compare with, also those without runs of both.
    """
    printed = {
        (model, dataset): (mean, half)
        for model, dataset, mean, half in records(published_values(), "model", "dataset", "mean", "ci95")
        if dataset != AVERAGE
    }
    rows: list[dict[str, object]] = []
    by_rule: dict[str, dict[tuple[str, str, str], npt.NDArray[np.float64]]] = {}
    for rule in SELECTIONS:
        values = seed_scores(runs, rule)
        by_rule[rule] = {
            key: row[np.isfinite(row)] for key, row in zip(values.index, values.to_numpy(), strict=True)
        }
    for size in SHAPES:
        for dataset in DATASETS.values():
            for rule, seeds_of in by_rule.items():
                row: dict[str, object] = {
                    "size": size, "task": dataset.task, "dataset": dataset.name, "selection": rule,
                }  # fmt: skip
                means: list[float] = []
                for side in ("mlm", "clm"):
                    model = f"{size}-{'mlm40' if side == 'mlm' else 'clm'}-42k"
                    key = (model, dataset.task, dataset.name)
                    if (seeds := seeds_of.get(key)) is not None:
                        mean, half = float(seeds.mean()), NORMAL_QUANTILE * float(standard_error(seeds))
                        row[f"{side}_from"] = f"runs, n = {len(seeds)}"
                    else:
                        mean, half = printed[model, dataset.name]
                        row[f"{side}_from"] = f"published, n = {N_SEEDS}"
                    row[side], row[f"{side}_ci95"] = mean, half
                    means.append(mean)
                row["gap"] = means[0] - means[1]
                origins = (str(row["mlm_from"]), str(row["clm_from"]))
                if (any if fill else all)(origin.startswith("runs") for origin in origins):
                    rows.append(row)
    frame = pd.DataFrame(rows, columns=_GAP_COLUMNS)
    order = {name: rank for rank, name in enumerate(TASKS)}
    return frame.sort_values("task", key=lambda tasks: tasks.map(order), kind="stable", ignore_index=True)


SYMBOLS = {"supported": "+", "contradicted": "x", "inconclusive": "o", UNDECIDABLE: "."}
"""One character a verdict, for tables."""


def render_multiverse(multiverse: Multiverse, wanted: Sequence[str], form: str) -> str:
    """Return the multiverse of the claims `wanted` as text, markdown, json or csv."""
    frame = multiverse.verdicts[multiverse.verdicts["id"].isin(wanted)]
    if form == "csv":
        return frame.to_csv(index=False, lineterminator="\n", float_format="%.10g")
    shares = multiverse.shares().loc[[name for name in CLAIMS if name in wanted]]
    if form == "json":
        return json.dumps(_content(multiverse, frame, shares), indent=2, allow_nan=False) + "\n"
    return _lines(multiverse, frame, shares, markdown=form == "markdown")


def _content(multiverse: Multiverse, frame: pd.DataFrame, shares: pd.DataFrame) -> dict[str, object]:
    def clean(rows: pd.DataFrame) -> list[dict[str, object]]:
        return [
            {str(name): None if value != value else value for name, value in row.items()}
            for row in rows.to_dict("records")
        ]

    return {
        "source": multiverse.source,
        "verdicts": clean(frame),
        "shares": clean(shares.reset_index()),
        "gaps": clean(multiverse.gaps),
    }


def _lines(multiverse: Multiverse, frame: pd.DataFrame, shares: pd.DataFrame, *, markdown: bool) -> str:
    keys = list(dict.fromkeys(records(frame, "protocol", "selection", "interval")))
    with_protocol = frame["protocol"].nunique() > 1
    names = ["/".join(key if with_protocol else key[1:]) for key in keys]
    cells = {
        (name, *key): verdict
        for name, *key, verdict in records(frame, "id", "protocol", "selection", "interval", "verdict")
    }
    lines = [
        f"Verdicts against {multiverse.source} under {len(keys)} analyses (selection rule/interval).",
        "",
    ]
    head = ["id", "supporting", *(str(number) for number in range(1, len(keys) + 1)), "claim"]
    body = []
    for name, decided, share in zip(shares.index, shares["decided"], shares["share_supporting"], strict=True):
        told = "-" if not decided else f"{share:.0%} of {int(decided)}"
        body.append(
            [
                str(name),
                told,
                *(SYMBOLS.get(cells.get((name, *key), ""), " ") for key in keys),
                CLAIMS[name].short,
            ]
        )
    lines += grid([head, *body], markdown)
    lines += [
        "",
        "+ supported, x contradicted, o inconclusive, . not decidable; blank: not among that analysis.",
    ]
    lines += ["", *(f"{number:3d}  {name}" for number, name in enumerate(names, start=1))]
    if not multiverse.gaps.empty:
        lines += [
            "",
            "The MLM-CLM gap in points by dataset and selection rule (+- is the paper's interval):",
            "",
        ]
        table = [["size", "dataset", "rule", "MLM", "CLM", "gap", "from"]]
        for row in multiverse.gaps.to_dict("records"):
            origin = row["mlm_from"] if row["mlm_from"] == row["clm_from"] else (
                f"MLM {row['mlm_from']}; CLM {row['clm_from']}"
            )  # fmt: skip
            table.append(
                [
                    row["size"], row["dataset"], row["selection"], f"{row['mlm']:.2f} +- {row['mlm_ci95']:.2f}",
                    f"{row['clm']:.2f} +- {row['clm_ci95']:.2f}", f"{row['gap']:+.2f}", origin,
                ]
            )  # fmt: skip
        lines += grid(table, markdown)
        lines += [
            "",
            "A published cell was made with the seed-wise rule and does not move with the rule in its row.",
        ]
    return "\n".join(lines) + "\n"
