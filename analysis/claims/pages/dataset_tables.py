"""Findings by dataset as text, Markdown, JSON and CSV: each contrast, and the sentences about single datasets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.by_dataset import DatasetReading, Heterogeneity
from analysis.claims.verdicts import Verdict
from analysis.claims.wording import format_effect, format_p, readout, says
from benchmarks.protocol import DATASETS
from common.tables import Grid, Heading, TableDocument

__all__ = ["dataset_record", "dataset_sentences", "datasets_document", "short_dataset_sentences"]

_MOST_NAMED = 3
_COLUMNS = [
    "id", "contrast", "claimed", "unit", "dataset", "effect", "low", "high", "p_for", "p_against", "says", "q", "q_p",
    "i_squared", "mean_over_datasets", "low_over_datasets", "high_over_datasets", "makes_the_result",
]  # fmt: skip


def dataset_sentences(reading: DatasetReading) -> list[str]:
    """Return what the finding says by dataset, where one dataset makes a result, and which show nothing."""
    tree = reading.verdict.tree
    if not tree.known_units:
        return []
    total = len(tree.units)
    some = f" {tree.known_units} of {total} parts can be computed." if tree.known_units < total else ""
    lines = [f"By dataset: {readout(reading.verdict)}.{some}"]
    for name, contrasts in reading.makers.items():
        named = "; ".join(_without(one, name) for one in contrasts[:_MOST_NAMED])
        more = f"; and {len(contrasts) - _MOST_NAMED} more" if len(contrasts) > _MOST_NAMED else ""
        lines.append(f"Results that depend on {DATASETS[name].title}: {named}{more}.")
    silent = [f"{DATASETS[name].title} (0 of {count})" for name, count in reading.silent.items()]
    if silent:
        lines.append(f"No comparison holds on: {', '.join(silent)}.")
    return lines


def short_dataset_sentences(reading: DatasetReading) -> list[str]:
    """Return which datasets make a result, and which show nothing, by name alone."""
    lines = []
    if reading.makers:
        lines.append(f"Depends on: {_named(reading.makers)}.")
    if reading.silent:
        lines.append(f"No support from: {_named(reading.silent)}.")
    return lines


def _named(names: Iterable[str]) -> str:
    return ", ".join(DATASETS[name].title for name in names)


def _without(contrast: Heterogeneity, name: str) -> str:
    average = contrast.average
    alone, rest = format_effect(average), format_effect(contrast.without[name])
    return f"{average.comparison.label} ({alone} with it, {rest} without)"


def datasets_document(assessment: Assessment, shown: Sequence[Verdict]) -> TableDocument:
    """Return each finding: one row per contrast and dataset, with how much the datasets differ."""
    records = _table(assessment, shown)
    return TableDocument(
        body=_body(assessment, shown),
        records=records,
        digits="%.10g",
        data={
            "source": assessment.source.label,
            "interval": assessment.settings.interval,
            "findings": {
                verdict.finding.id: dataset_record(assessment.datasets[verdict.finding.id])
                for verdict in shown
            },
            "contrasts": json.loads(records.to_json(orient="records", double_precision=10)),
        },
        indent=2,
    )


def _body(assessment: Assessment, shown: Sequence[Verdict]) -> list[str | Grid | Heading]:
    lines: list[str | Grid | Heading] = [f"Findings by dataset; source {assessment.source.label}."]
    for verdict in shown:
        reading = assessment.datasets[verdict.finding.id]
        title = Heading(f"{verdict.finding.id}: {verdict.finding.statement}")
        lines += ["", title, "", *dataset_sentences(reading)]
        if not reading.contrasts:
            lines += [] if reading.verdict.tree.known_units else ["Open: this source has no scores for it."]
            continue
        rows = [["contrast", "on", "effect [95 %]", "alone"]]
        for contrast in reading.contrasts:
            rows += _rows(contrast)
        lines += ["", Grid(rows)]
    legend = (
        "alone: whether the row, tested on its own at 5 %, holds, fails or is open. Q, I2: how much datasets differ",
        "beyond sampling error; over similar datasets: the mean if these datasets are treated as a random sample",
        "(random effects, Hartung and Knapp's interval).",
    )
    return [*lines, "", *legend, *assessment.tests]


def _rows(contrast: Heterogeneity) -> Iterator[list[str]]:
    average = contrast.average
    between, differ = contrast.between, ""
    if math.isfinite(between.q):
        over = f"over similar datasets {between.mean:+.2f} [{between.low:+.2f}, {between.high:+.2f}]"
        differ = f"Q {between.q:.1f} (p {format_p(between.p)}), I2 {between.i_squared:.0%}; {over}"
    label = f"{average.comparison.label} {average.comparison.region}"
    for name, result in contrast.single.items():
        yield [label, DATASETS[name].title, format_effect(result), says(result)]
        label = ""
    if average.known:
        yield [differ, "average", format_effect(average), says(average)]


def _table(assessment: Assessment, shown: Sequence[Verdict]) -> pd.DataFrame:
    rows = [
        {
            "id": verdict.finding.id, "contrast": contrast.average.comparison.label,
            "claimed": contrast.average.comparison.region, "unit": contrast.average.comparison.unit,
            "dataset": name, "effect": result.effect, "low": result.low, "high": result.high,
            "p_for": result.p_for, "p_against": result.p_against, "says": says(result),
            "q": contrast.between.q, "q_p": contrast.between.p, "i_squared": contrast.between.i_squared,
            "mean_over_datasets": contrast.between.mean, "low_over_datasets": contrast.between.low,
            "high_over_datasets": contrast.between.high,
            "makes_the_result": name in contrast.made_by,
        }
        for verdict in shown
        for contrast in assessment.datasets[verdict.finding.id].contrasts
        for name, result in (*contrast.single.items(), ("average", contrast.average))
        if result.known
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    return frame.assign(source=assessment.source.label, interval=assessment.settings.interval)


def dataset_record(reading: DatasetReading) -> dict[str, object]:
    """Return a finding by dataset in plain types: its verdict and readout, and the sentences."""
    tree = reading.verdict.tree
    return {
        "verdict": reading.verdict.verdict,
        "parts": len(tree.units),
        "known": tree.known_units,
        "holds_in": reading.verdict.hold,
        "fails_in": reading.verdict.fail,
        "sentences": dataset_sentences(reading),
        "made_by": sorted(reading.makers),
    }
