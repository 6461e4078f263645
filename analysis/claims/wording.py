"""A verdict in words: p, effect with its interval, the sentence that says why, and what a claim lacks."""

from __future__ import annotations

import math

from analysis.claims.evidence import Finding
from analysis.claims.statements import AtLeast
from analysis.claims.verdicts import (
    ALPHA,
    CONTRADICTED,
    SUPPORTED,
    UNDECIDABLE,
    Branch,
    Verdict,
    unsupported,
)
from analysis.published_cells import N_SEEDS
from analysis.statistics.intervals import INTERVALS
from analysis.statistics.measured_coverage import coverage_words

__all__ = ["format_effect", "format_p", "how_tested", "mixed_notes", "p_texts", "sentence", "shortfall"]


def format_p(p: float) -> str:
    """Return a p with two significant digits, `< 0.0001` below that, and `-` for none."""
    if math.isnan(p):
        return "-"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def p_texts(verdict: Verdict) -> tuple[str, str]:
    """Return p and Holm's p of the direction the evidence leans to; `-` when the source knows nothing."""
    if not verdict.known:
        return "-", "-"
    return format_p(verdict.p), format_p(verdict.p_adjusted)


def format_effect(finding: Finding) -> str:
    """Return `+2.09 [+1.67, +2.51]`, a ratio without signs, or `-`."""
    if not finding.known:
        return "-"
    sign = "" if finding.comparison.unit.startswith("ratio") else "+"
    return f"{finding.effect:{sign}.2f} [{finding.low:{sign}.2f}, {finding.high:{sign}.2f}]"


def how_tested(interval: str, *, published: bool, n_seeds: int = N_SEEDS) -> tuple[str, str, str]:
    """Return a sentence each on the test behind p's and intervals, on what they are about, and on multiplicity.

    `n_seeds`: the fewest seeds behind a comparison, 2 or more, for the measured coverage of the interval.
    """
    method = INTERVALS[interval]
    over = "fine-tuning seeds, on the same test instances"
    if published:
        test = (
            f"{method.need_independent().words} from each model's mean and printed interval "
            f"({N_SEEDS} seeds, models taken as independent)"
        )
    else:
        test = f"{method.need_paired().words} (Welch's t where models share no seeds)"
        over = "fine-tuning seeds and test instances" if method.needs_instances else over
    used = method.of(n_seeds).name
    return (
        f"Tests and 95 % intervals ({used}): {test}{coverage_words(used, n_seeds)}.",
        f"They are about other {over}; each model was pretrained once, so nothing here speaks of another pretraining.",
        "Holm's adjustment is over the claims about one question, not over all of them.",
    )


def sentence(verdict: Verdict) -> str:
    """Return the verdict in a sentence or two, with the contrast it hangs on."""
    counts, decisive = verdict.counts, verdict.decisive
    if verdict.verdict == UNDECIDABLE:
        missing = next(finding for finding in verdict.tree.findings if not finding.known)
        if not counts["known"]:
            return f"Not decidable from this source: {missing.missing}."
        return (
            f"Not decidable from this source: {counts['known']} of {counts['contrasts']} contrasts can be computed "
            f"({counts['point_that_way']} point that way, {counts['hold']} hold on their own); {missing.missing}."
        )
    comparison = decisive.comparison
    hangs = (
        f"{comparison.label}, is {format_effect(decisive)} {comparison.unit} (claimed: {comparison.region})"
    )
    if verdict.verdict == SUPPORTED:
        if isinstance(verdict.tree.node, AtLeast) and len(verdict.tree.findings) == len(verdict.tree.parts):
            return f"Supported: {verdict.tree.node.rule} hold; the weakest, {hangs}."
        return f"Supported; the weakest comparison it needs, {hangs}."
    if verdict.verdict == CONTRADICTED:
        return f"Contradicted: a comparison it needs, {hangs}."
    ways = (
        f"{counts['point_that_way']} of {counts['contrasts']} comparisons point that way, {counts['hold']} hold on "
        "their own"
    )
    if verdict.p_for <= ALPHA < verdict.p_for_adjusted:
        return (
            f"Inconclusive: it holds on its own (p {format_p(verdict.p_for)}) but not after Holm's adjustment over "
            f"the {verdict.family_size} claims of its family ({format_p(verdict.p_for_adjusted)}); the weakest "
            f"comparison, {hangs}."
        )
    if verdict.p_against <= ALPHA < verdict.p_against_adjusted:
        return (
            f"Inconclusive: on its own it would be contradicted (p {format_p(verdict.p_against)}), not after Holm's "
            f"adjustment ({format_p(verdict.p_against_adjusted)}); the comparison that speaks against it, {hangs}; "
            f"{ways}."
        )
    return f"Inconclusive: {ways}; the one that decides, {hangs}."


def shortfall(branch: Branch) -> list[str]:
    """Return, for each needed part that does not hold on its own, what the numbers are instead."""
    lines = []
    for part in unsupported(branch):
        if isinstance(part.node, AtLeast) and part.node.count > 1:
            lines += [line for one in part.parts for line in shortfall(one)]
            continue
        finding = part.finding
        if finding is None:
            finding = part.decides_for
            lead = f"{part.node.label}: {finding.comparison.label}"
        else:
            lead = finding.comparison.label
        if not finding.known:
            lines.append(f"{lead}: {finding.missing}")
            continue
        remains = finding.comparison.is_range and finding.comparison.holds(0.0) and finding.p_zero <= ALPHA
        left = ", a difference that remains" if remains else ""
        lines.append(f"{lead} is {format_effect(finding)}, claimed {finding.comparison.region}{left}")
    return lines


def mixed_notes(mixed: Verdict) -> list[str]:
    """Return what the fits of the mixed-effects model say of themselves."""
    return sorted({note for finding in mixed.tree.findings for note in finding.inputs})
