"""Findings by dataset in sentences, and as data: what holds, where one dataset makes a result, which show nothing."""

from __future__ import annotations

from analysis.claims.assessment import Assessment
from analysis.claims.by_dataset import DatasetEffects
from analysis.claims.wording import format_effect, readout
from benchmarks.protocol import title_of
from common.level import ALPHA

_MOST_NAMED = 3


def dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return what the finding says by dataset, where one dataset makes a result, and which show nothing."""
    main = assessment.judged_by_dataset[finding]
    if not main.known:
        return []
    lines = [f"By dataset: {readout(main)}."]
    effects = assessment.effects_by_dataset(finding)
    for name, made in _makers(effects).items():
        listed = []
        for one in made[:_MOST_NAMED]:
            with_it = format_effect(one.average)
            without = format_effect(one.without[name])
            listed.append(f"{one.label} ({with_it} with it, {without} without)")
        if len(made) > _MOST_NAMED:
            listed.append(f"and {len(made) - _MOST_NAMED} more")
        results = "; ".join(listed)
        lines.append(f"Results that depend on {title_of(name)}: {results}.")
    silent = [
        f"{title_of(name)} (0 of {count})" for name, count in _silent(effects).items()
    ]
    if silent:
        lines.append(f"No comparison holds on: {', '.join(silent)}.")
    return lines


def short_dataset_sentences(assessment: Assessment, finding: str) -> list[str]:
    """Return which datasets make a result, and which show nothing, by name alone."""
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
    """Return by dataset the comparisons whose average holds with it alone."""
    made: dict[str, list[DatasetEffects]] = {}
    for one in effects:
        for name in one.makers:
            made.setdefault(name, []).append(one)
    return made


def _silent(effects: list[DatasetEffects]) -> dict[str, int]:
    """Return the datasets that have two or more comparisons and show the finding in none, each with their number."""
    ps_of: dict[str, list[float]] = {}
    for one in effects:
        for name, result in one.single.items():
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
