"""Findings by dataset in sentences, and as data: what holds, where one dataset makes a result, which show nothing.

A dataset makes a result if the task's average holds with it, but not without it
(`analysis.claims.by_dataset.makes_the_result`).
"""

from __future__ import annotations

from analysis.claims.assessment import Assessment
from analysis.claims.by_dataset import DatasetEffects
from analysis.claims.wording import format_effect, readout
from benchmarks.protocol import title_of
from common.level import ALPHA

_MOST_NAMED = 3
"""How many results that one dataset makes are listed."""


def dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return sentences on a finding by dataset: how many parts hold, which datasets make results, which show nothing.

    `finding` is its id. The list is empty where the source says nothing of it.
    """
    main = assessment.judged_by_dataset[finding]
    if not main.known:
        return []
    lines = [f"By dataset: {readout(main)}."]
    effects = assessment.effects_by_dataset(finding)
    for name, comparisons in _makers(effects).items():
        listed = []
        for comparison in comparisons[:_MOST_NAMED]:
            with_it = format_effect(comparison.average)
            without = format_effect(comparison.without[name])
            listed.append(f"{comparison.label} ({with_it} with it, {without} without)")

        if len(comparisons) > _MOST_NAMED:
            listed.append(f"and {len(comparisons) - _MOST_NAMED} more")
        results = "; ".join(listed)
        lines.append(f"Results that depend on {title_of(name)}: {results}.")

    silent = [
        f"{title_of(name)} (0 of {count})" for name, count in _silent(effects).items()
    ]
    if silent:
        lines.append(f"No comparison holds on: {', '.join(silent)}.")
    return lines


def short_dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return the titles of the datasets that make a result, and of those that show nothing, a sentence each."""
    effects = assessment.effects_by_dataset(finding)
    sentences = []
    makers = list(map(title_of, _makers(effects)))
    if makers:
        sentences.append(f"Depends on: {', '.join(makers)}.")
    silent = list(map(title_of, _silent(effects)))
    if silent:
        sentences.append(f"No support from: {', '.join(silent)}.")
    return sentences


def _makers(effects: list[DatasetEffects]) -> dict[str, list[DatasetEffects]]:
    """Return the datasets that make a result, each with the comparisons that would not hold without it."""
    made_by: dict[str, list[DatasetEffects]] = {}
    for comparison in effects:
        for name in comparison.makers:
            made_by.setdefault(name, []).append(comparison)
    return made_by


def _silent(effects: list[DatasetEffects]) -> dict[str, int]:
    """Return the datasets that have two or more comparisons and show the finding in none, each with their number."""
    ps_of: dict[str, list[float]] = {}  # by dataset, of each comparison on it
    for comparison in effects:
        for name, result in comparison.single.items():
            ps_of.setdefault(name, []).append(result.p_for)
    silent = {}
    for name, ps in ps_of.items():
        # A single comparison that is open says little about a dataset.
        if len(ps) > 1 and min(ps) > ALPHA:
            silent[name] = len(ps)
    return silent


def dataset_record(assessment: Assessment, finding: str) -> dict[str, object]:
    """Return a finding by dataset in plain types: its verdict and readout, and the sentences."""
    main = assessment.judged_by_dataset[finding]
    return {
        "verdict": main.verdict,
        "parts": main.parts,
        "known": main.known,
        "holds_in": main.holds_in,
        "fails_in": main.fails_in,
        "sentences": dataset_sentences(assessment, finding),
        "made_by": sorted(_makers(assessment.effects_by_dataset(finding))),
    }
