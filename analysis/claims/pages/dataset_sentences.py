"""Findings by dataset in sentences, and as data: what holds, where one dataset makes a result, which show nothing."""

from __future__ import annotations

import pandas as pd

from analysis.claims.assessment import Assessment
from analysis.claims.frame import main_of, of_finding, rows
from analysis.claims.wording import format_effect, readout
from analysis.statistics.inference import ALPHA
from benchmarks.protocol import AVERAGE, title_of

_MOST_NAMED = 3


def dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return what the finding says by dataset, where one dataset makes a result, and which show nothing."""
    finding_rows = of_finding(assessment.frame_by_dataset, finding)
    main = main_of(finding_rows)
    if not main.known:
        return []
    computed = (
        f" {main.known} of {main.parts} parts can be computed."
        if main.known < main.parts
        else ""
    )
    lines = [f"By dataset: {readout(finding_rows)}.{computed}"]
    effects = assessment.effects_by_dataset(finding)
    makers = _makers(effects)
    needed = effects[
        effects["label"].isin([label for labels in makers.values() for label in labels])
    ]
    effect_of = {
        (row.role, row.label, row.dataset): format_effect(row) for row in rows(needed)
    }
    for name, labels in makers.items():
        listed = "; ".join(
            f"{label} ({effect_of['average', label, AVERAGE]} with it, "
            f"{effect_of['without', label, name]} without)"
            for label in labels[:_MOST_NAMED]
        )
        more = (
            f"; and {len(labels) - _MOST_NAMED} more"
            if len(labels) > _MOST_NAMED
            else ""
        )
        lines.append(f"Results that depend on {title_of(name)}: {listed}{more}.")
    silent = [
        f"{title_of(name)} (0 of {count})" for name, count in _silent(effects).items()
    ]
    if silent:
        lines.append(f"No comparison holds on: {', '.join(silent)}.")
    return lines


def short_dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return which datasets make a result, and which show nothing, by name alone."""
    effects = assessment.effects_by_dataset(finding)
    datasets = {
        "Depends on": list(_makers(effects)),
        "No support from": list(_silent(effects)),
    }
    return [
        f"{words}: {', '.join(map(title_of, names))}."
        for words, names in datasets.items()
        if names
    ]


def _makers(effects: pd.DataFrame) -> dict[str, list[str]]:
    """Return by dataset the comparisons whose average holds with it alone."""
    made = effects[effects["makes_the_result"]]
    return {
        str(name): list(group["label"])
        for name, group in made.groupby("dataset", sort=False)
    }


def _silent(effects: pd.DataFrame) -> dict[str, int]:
    """Return by dataset that shows it in none of its comparisons their number, if there are two or more."""
    single = effects[effects["role"] == "dataset"]
    by_dataset = single.groupby("dataset", sort=False)["p_for"]
    return {
        str(name): len(ps)
        for name, ps in by_dataset
        if len(ps) > 1 and ps.min() > ALPHA
    }


def dataset_record(assessment: Assessment, finding: str) -> dict[str, object]:
    """Return a finding by dataset in plain types: its verdict and readout, and the sentences."""
    main = main_of(of_finding(assessment.frame_by_dataset, finding))
    return {
        **{
            name: getattr(main, name)
            for name in ("verdict", "parts", "known", "holds_in", "fails_in")
        },
        "sentences": dataset_sentences(assessment, finding),
        "made_by": sorted(_makers(assessment.effects_by_dataset(finding))),
    }
