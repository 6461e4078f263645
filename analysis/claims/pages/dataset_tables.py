"""Findings by dataset as text, Markdown, JSON and CSV: each contrast, and the sentences about single datasets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.by_dataset import SPREAD
from analysis.claims.catalogue import STATEMENTS
from analysis.claims.frame import main_of, of_finding, rows
from analysis.claims.wording import format_effect, format_p, readout
from analysis.records import records
from analysis.statistics.inference import ALPHA
from benchmarks.protocol import AVERAGE, title_of
from common.tables import Grid, Heading, TableDocument

_MOST_NAMED = 3
_COLUMNS = [
    "id", "contrast", "claimed", "unit", "dataset", "effect", "low", "high", "p_for", "p_against", "says", *SPREAD,
]  # fmt: skip


def dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return what the finding says by dataset, where one dataset makes a result, and which show nothing."""
    finding_rows = of_finding(assessment.frame_by_dataset, finding)
    main = main_of(finding_rows)
    if not main.known:
        return []
    computed = f" {main.known} of {main.parts} parts can be computed." if main.known < main.parts else ""
    lines = [f"By dataset: {readout(finding_rows)}.{computed}"]
    effects = assessment.effects_by_dataset(finding)
    makers = _makers(effects)
    needed = effects[effects["label"].isin([label for labels in makers.values() for label in labels])]
    effect_of = {(row.role, row.label, row.dataset): format_effect(row) for row in rows(needed)}
    for name, labels in makers.items():
        listed = "; ".join(
            f"{label} ({effect_of['average', label, AVERAGE]} with it, "
            f"{effect_of['without', label, name]} without)"
            for label in labels[:_MOST_NAMED]
        )
        more = f"; and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
        lines.append(f"Results that depend on {title_of(name)}: {listed}{more}.")
    silent = [f"{title_of(name)} (0 of {count})" for name, count in _silent(effects).items()]
    if silent:
        lines.append(f"No comparison holds on: {', '.join(silent)}.")
    return lines


def short_dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return which datasets make a result, and which show nothing, by name alone."""
    effects = assessment.effects_by_dataset(finding)
    datasets = {"Depends on": list(_makers(effects)), "No support from": list(_silent(effects))}
    return [f"{words}: {', '.join(map(title_of, names))}." for words, names in datasets.items() if names]


def _makers(effects: pd.DataFrame) -> dict[str, list[str]]:
    """Return by dataset the comparisons whose average holds with it alone."""
    made = effects[effects["makes_the_result"]]
    return {str(name): list(group["label"]) for name, group in made.groupby("dataset", sort=False)}


def _silent(effects: pd.DataFrame) -> dict[str, int]:
    """Return by dataset that shows it in none of its comparisons their number, if there are two or more."""
    single = effects[effects["role"] == "dataset"]
    by_dataset = single.groupby("dataset", sort=False)["p_for"]
    return {str(name): len(ps) for name, ps in by_dataset if len(ps) > 1 and ps.min() > ALPHA}


def datasets_document(assessment: Assessment, shown: Sequence[str]) -> TableDocument:
    """Return each finding: one row per contrast and dataset, with how much the datasets differ."""
    table = _table(assessment, shown)
    return TableDocument(
        body=_body(assessment, shown),
        records=table,
        digits="%.10g",
        data={
            "source": assessment.source.label,
            "interval": assessment.settings.interval,
            "findings": {finding: dataset_record(assessment, finding) for finding in shown},
            "contrasts": json.loads(table.to_json(orient="records", double_precision=10)),
        },
        indent=2,
    )


def _body(assessment: Assessment, shown: Sequence[str]) -> list[str | Grid | Heading]:
    """Return a heading for each finding, its sentences, and its effects that are known as a grid."""
    lines: list[str | Grid | Heading] = [f"Findings by dataset; source {assessment.source.label}."]
    for finding in shown:
        sentences, effects = dataset_sentences(assessment, finding), assessment.effects_by_dataset(finding)
        lines += ["", Heading(f"{finding}: {STATEMENTS[finding].statement}"), "", *sentences]
        if not effects.empty:
            lines += [
                "",
                Grid([["contrast", "on", "effect [95 %]", "alone"], *_effect_rows(_known(effects))]),
            ]
        elif not sentences:
            lines.append("Open: this source has no scores for it.")
    legend = (
        "alone: whether the row, tested on its own at 5 %, holds, fails or is open. Q, I2: how much datasets differ",
        "beyond sampling error; over similar datasets: the mean if these datasets are treated as a random sample",
        "(random effects, Hartung and Knapp's interval).",
    )
    return [*lines, "", *legend, *assessment.tests]


def _effect_rows(effects: pd.DataFrame) -> Iterator[list[str]]:
    """Yield a row for each effect; the first names the comparison, the average says how much the datasets differ.

    The first of a comparison is a dataset's, so that a row never has to say both.
    """
    label_above = ""
    for row, (q, p, i_squared, *over, _) in zip(rows(effects), records(effects, *SPREAD), strict=True):
        first = "" if row.label == label_above else f"{row.label} {row.claimed}"
        if row.role == "average":
            similar = "over similar datasets {:+.2f} [{:+.2f}, {:+.2f}]".format(*over)
            first = f"Q {q:.1f} (p {format_p(p)}), I2 {i_squared:.0%}; {similar}" if math.isfinite(q) else ""
        yield [first, title_of(row.dataset), format_effect(row), row.outcome]
        label_above = row.label


def _known(effects: pd.DataFrame) -> pd.DataFrame:
    """Return the effects on datasets and on their average, where it is known."""
    return effects[(effects["role"] != "without") & (effects["missing"] == "")]


def _table(assessment: Assessment, shown: Sequence[str]) -> pd.DataFrame:
    """Return the known effects of all findings, under the columns of the CSV; an empty table has them, too."""
    effects = [_known(assessment.effects_by_dataset(finding)) for finding in shown]
    with_rows = [frame for frame in effects if not frame.empty]
    frame = pd.concat(with_rows or effects[:1], ignore_index=True)
    frame = frame.rename(columns={"label": "contrast", "outcome": "says"})[_COLUMNS]
    return frame.assign(source=assessment.source.label, interval=assessment.settings.interval)


def dataset_record(assessment: Assessment, finding: str) -> dict[str, object]:
    """Return a finding by dataset in plain types: its verdict and readout, and the sentences."""
    main = main_of(of_finding(assessment.frame_by_dataset, finding))
    return {
        **{name: getattr(main, name) for name in ("verdict", "parts", "known", "holds_in", "fails_in")},
        "sentences": dataset_sentences(assessment, finding),
        "made_by": sorted(_makers(assessment.effects_by_dataset(finding))),
    }
