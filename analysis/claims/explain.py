"""Verdicts as text for a terminal: a table of all, or for each the contrasts, numbers and reasoning behind it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES
from analysis.claims.evidence import Finding
from analysis.claims.statements import AtLeast
from analysis.claims.verdicts import UNDECIDABLE, Branch, Verdict
from analysis.claims.wording import format_effect, format_p, how_tested, mixed_notes, p_texts, sentence
from common.text_tables import grid

__all__ = ["explanations", "verdicts_text"]

_LONGEST = 12


def verdicts_text(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return one line a claim, and what the columns mean."""
    head = ("id", "verdict", "effect [95 %]", "p", "Holm", "hold", "seeds", "claim")
    rows = [head]
    for verdict in shown:
        counts = verdict.counts
        word = "not decidable" if verdict.verdict == UNDECIDABLE else verdict.verdict
        rows.append(
            (
                verdict.claim.id, word, format_effect(verdict.decisive),
                *p_texts(verdict), f"{counts['hold']}/{counts['contrasts']}", verdict.seeds or "-", verdict.claim.short,
            )
        )  # fmt: skip
    lines = grid(rows, markdown=False)
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, "", *_legend(assessment)]) + "\n"


def _legend(assessment: Assessment) -> list[str]:
    settings = assessment.settings
    how = f"interval {settings.interval}"
    if not assessment.published:
        how += f", {settings.rule.words}"
    if settings.method.is_resampled:
        how += f", {settings.resamples} resamples, seed {settings.seed}"
    return [
        *([assessment.own_words] if assessment.own_words else []),
        f"Source: {assessment.source}; {how}.",
        *textwrap.wrap(" ".join(how_tested(settings.interval, published=assessment.published)), 118),
        "Effect: the comparison that the verdict hangs on. p: of the direction the evidence leans to. hold: how many",
        "comparisons hold on their own at 5 %. Rules: docs/claims.md.",
    ]


def explanations(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return each verdict with its reasoning."""
    blocks = [_explain_one(verdict, assessment.mixed.get(verdict.claim.id)) for verdict in shown]
    return "\n\n".join([*blocks, "\n".join(_legend(assessment)[:-2])]) + "\n"


def _explain_one(verdict: Verdict, mixed: Verdict | None) -> str:
    claim = verdict.claim
    lines = [
        f"{claim.id}: {claim.statement}",
        f"  where    {claim.where}",
        f"  verdict  {verdict.verdict}",
        f"  because  {sentence(verdict)}",
    ]
    if claim.remark:
        lines.append(f"  note     {claim.remark}")
    if verdict.known:
        lines.append(
            f"  p        for: {format_p(verdict.p_for)} (Holm {format_p(verdict.p_for_adjusted)}), against: "
            f"{format_p(verdict.p_against)} (Holm {format_p(verdict.p_against_adjusted)}), over "
            f"{verdict.family_size} claims about {FAMILIES[claim.family]}"
        )
    lines += _explain_branch(verdict.tree, "  ")
    for branch in verdict.reported:
        lines.append("  beside it, not part of the verdict:")
        lines += _explain_branch(branch, "    ")
    if mixed is not None:
        lines.append(f"  mixed model (objective x size fixed; dataset and seed random): {sentence(mixed)}")
        lines += [f"    {note}" for note in mixed_notes(mixed)]
    return "\n".join(lines)


def _explain_branch(branch: Branch, indent: str) -> list[str]:
    if branch.finding is not None:
        return _explain_finding(branch.finding, indent)
    assert isinstance(branch.node, AtLeast)
    lines = [
        f"{indent}{branch.node.label}: {branch.node.rule} must hold; for p {format_p(branch.p_for)}, "
        f"against p {format_p(branch.p_against)}"
    ]
    if branch.node.count == 1 and len(branch.parts) > _LONGEST:
        best = sorted(branch.parts, key=lambda part: part.p_for)[:3]
        lines.append(f"{indent}  the three strongest of {len(branch.parts)}:")
        for part in best:
            lines += _explain_branch(part, indent + "  ")
        return lines
    for part in branch.parts:
        lines += _explain_branch(part, indent + "  ")
    return lines


def _explain_finding(finding: Finding, indent: str) -> list[str]:
    comparison = finding.comparison
    if not finding.known:
        return [f"{indent}{comparison.label} {comparison.region}: unknown, {finding.missing}"]
    details = [
        f"{comparison.unit}",
        f"p for {format_p(finding.p_for)}",
        f"against {format_p(finding.p_against)}",
    ]
    if comparison.is_range:
        details.append(f"90 % [{finding.inner_low:+.2f}, {finding.inner_high:+.2f}]")
        if comparison.holds(0.0):
            enough = max(abs(finding.inner_low), abs(finding.inner_high))
            details.append(f"a margin of {enough:.2f} would do; no difference: p {format_p(finding.p_zero)}")
    if math.isfinite(finding.df):
        details.append(f"df {finding.df:.1f}")
    if finding.instance_share:
        details.append(f"{finding.instance_share:.0%} of the squared error from the test instances")
    seeds = "-".join(str(count) for count in finding.seeds)
    details.append(f"{finding.test}{f', {seeds} seeds' if seeds else ''}")
    lines = [
        f"{indent}{comparison.label} {comparison.region}: {format_effect(finding)} ({'; '.join(details)})"
    ]
    return lines + [f"{indent}    {line}" for line in finding.inputs]
