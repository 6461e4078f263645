"""Verdicts as text, Markdown, JSON and CSV, with the reasoning where it is asked for."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS
from analysis.claims.evidence import Finding
from analysis.claims.statements import AtLeast
from analysis.claims.verdicts import (
    ALPHA,
    CONTRADICTED,
    INCONCLUSIVE,
    SUPPORTED,
    UNDECIDABLE,
    Branch,
    Verdict,
    unsupported,
)
from analysis.grid import grid

__all__ = ["FORMATS", "as_record", "format_p", "render_claims", "sentence", "shortfall"]


def format_p(p: float) -> str:
    """Return a p with two significant digits, `< 0.0001` below that, and `-` for none."""
    if math.isnan(p):
        return "-"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}"


def format_effect(finding: Finding) -> str:
    """Return `+2.09 [+1.67, +2.51]`, a ratio without signs, or `-`."""
    if not finding.known:
        return "-"
    sign = "" if finding.leaf.unit.startswith("ratio") else "+"
    return f"{finding.effect:{sign}.2f} [{finding.low:{sign}.2f}, {finding.high:{sign}.2f}]"


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
    leaf = decisive.leaf
    hangs = f"{leaf.label}, is {format_effect(decisive)} {leaf.unit} (claimed: {leaf.region})"
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
            lead = f"{part.node.label}: {finding.leaf.label}"
        else:
            lead = finding.leaf.label
        if not finding.known:
            lines.append(f"{lead}: {finding.missing}")
            continue
        remains = finding.leaf.is_range and finding.leaf.holds(0.0) and finding.p_zero <= ALPHA
        left = ", a difference that remains" if remains else ""
        lines.append(f"{lead} is {format_effect(finding)}, claimed {finding.leaf.region}{left}")
    return lines


def as_record(verdict: Verdict, mixed: Verdict | None = None) -> dict[str, object]:
    """Return everything about a verdict in plain types, for JSON."""
    claim, decisive = verdict.claim, verdict.decisive
    record: dict[str, object] = {
        "id": claim.id,
        "short": claim.short,
        "statement": claim.statement,
        "where": claim.where,
        "family": claim.family,
        "needs": claim.needs,
        "verdict": verdict.verdict,
        "sentence": sentence(verdict),
        "remark": claim.remark,
        "shortfall": shortfall(verdict.tree) if verdict.verdict in (INCONCLUSIVE, CONTRADICTED) else [],
        "effect": _number(decisive.effect),
        "low": _number(decisive.low),
        "high": _number(decisive.high),
        "unit": decisive.leaf.unit,
        "contrast": decisive.leaf.label,
        "region": decisive.leaf.region,
        "p_raw": _number(verdict.p) if verdict.known else None,
        "p_holm": _number(verdict.p_adjusted) if verdict.known else None,
        "direction": "against" if verdict.leans_against else "for",
        "p_for": _number(verdict.p_for) if verdict.known else None,
        "p_for_holm": _number(verdict.p_for_adjusted) if verdict.known else None,
        "p_against": _number(verdict.p_against) if verdict.known else None,
        "p_against_holm": _number(verdict.p_against_adjusted) if verdict.known else None,
        "family_size": verdict.family_size,
        "counts": verdict.counts,
        "seeds": verdict.seeds,
        "contrasts": [_contrast(finding) for finding in verdict.tree.findings],
        "reported": [
            {"label": branch.node.label, "verdict": branch.verdict, "p_for": _number(branch.p_for),
             "p_against": _number(branch.p_against), "contrasts": [_contrast(f) for f in branch.findings]}
            for branch in verdict.reported
        ],
    }  # fmt: skip
    if mixed is not None:
        record["mixed"] = {
            "verdict": mixed.verdict,
            "p_for": _number(mixed.p_for),
            "p_against": _number(mixed.p_against),
            "sentence": sentence(mixed),
            "notes": _mixed_notes(mixed),
            "contrasts": [_contrast(finding) for finding in mixed.tree.findings],
        }
    return record


def _contrast(finding: Finding) -> dict[str, object]:
    leaf = finding.leaf
    return {
        "label": leaf.label,
        "claimed": leaf.region,
        "unit": leaf.unit,
        "effect": _number(finding.effect),
        "low": _number(finding.low),
        "high": _number(finding.high),
        "low90": _number(finding.inner_low),
        "high90": _number(finding.inner_high),
        "standard_error": _number(finding.error),
        "df": _number(finding.df),
        "p_for": _number(finding.p_for) if finding.known else None,
        "p_against": _number(finding.p_against) if finding.known else None,
        "p_zero": _number(finding.p_zero),
        "seeds": list(finding.seeds),
        "test": finding.test,
        "instance_share": _number(finding.instance_share),
        "inputs": list(finding.inputs),
        "missing": finding.missing,
    }


def _number(value: float) -> float | None:
    """Return a number that JSON can hold, rounded to ten significant digits."""
    return None if not math.isfinite(value) else float(f"{value:.10g}")


def _mixed_notes(mixed: Verdict) -> list[str]:
    return sorted({note for finding in mixed.tree.findings for note in finding.inputs})


def _text(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    head = ("id", "verdict", "effect [95 %]", "p", "Holm", "hold", "seeds", "claim")
    rows = [head]
    for verdict in shown:
        counts = verdict.counts
        word = "not decidable" if verdict.verdict == UNDECIDABLE else verdict.verdict
        known = bool(verdict.known)
        rows.append(
            (
                verdict.claim.id, word, format_effect(verdict.decisive),
                format_p(verdict.p) if known else "-", format_p(verdict.p_adjusted) if known else "-",
                f"{counts['hold']}/{counts['contrasts']}", verdict.seeds or "-", verdict.claim.short,
            )
        )  # fmt: skip
    lines = grid(rows, markdown=False)
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join([*lines, "", *_legend(assessment)]) + "\n"


def _legend(assessment: Assessment) -> list[str]:
    settings = assessment.settings
    how = f"interval {settings.interval}, learning rates selected by {settings.selection}"
    if settings.interval in ("bootstrap", "bca", "hierarchical"):
        how += f", {settings.resamples} resamples, seed {settings.seed}"
    return [
        *([assessment.own_words] if assessment.own_words else []),
        f"Source: {assessment.source}; {how}.",
        "Effect: the comparison that the verdict hangs on. p: of the direction the evidence leans to; Holm: after "
        "adjustment",
        "over the claims of a family. hold: comparisons that hold on their own at 5 %. Rules: docs/claims.md.",
    ]


def _explain(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    blocks = [_explain_one(verdict, assessment.mixed.get(verdict.claim.id)) for verdict in shown]
    return "\n\n".join([*blocks, "\n".join(_legend(assessment)[: 2 if assessment.own_words else 1])]) + "\n"


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
        lines += [f"    {note}" for note in _mixed_notes(mixed)]
    return "\n".join(lines)


_LONGEST = 12


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
    leaf = finding.leaf
    if not finding.known:
        return [f"{indent}{leaf.label} {leaf.region}: unknown, {finding.missing}"]
    details = [f"{leaf.unit}", f"p for {format_p(finding.p_for)}", f"against {format_p(finding.p_against)}"]
    if leaf.is_range:
        details.append(f"90 % [{finding.inner_low:+.2f}, {finding.inner_high:+.2f}]")
        if leaf.holds(0.0):
            enough = max(abs(finding.inner_low), abs(finding.inner_high))
            details.append(f"a margin of {enough:.2f} would do; no difference: p {format_p(finding.p_zero)}")
    if math.isfinite(finding.df):
        details.append(f"df {finding.df:.1f}")
    if finding.instance_share:
        details.append(f"{finding.instance_share:.0%} of the squared error from the test instances")
    seeds = "-".join(str(count) for count in finding.seeds)
    details.append(f"{finding.test}{f', {seeds} seeds' if seeds else ''}")
    lines = [f"{indent}{leaf.label} {leaf.region}: {format_effect(finding)} ({'; '.join(details)})"]
    return lines + [f"{indent}    {line}" for line in finding.inputs]


def _json(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    settings = assessment.settings
    content = {
        "source": assessment.source,
        **({"note": assessment.own_words} if assessment.own_words else {}),
        "selection": settings.selection,
        "interval": settings.interval,
        "resamples": settings.resamples,
        "seed": settings.seed,
        "alpha": ALPHA,
        "margins": MARGINS,
        "families": FAMILIES,
        "claims": [as_record(verdict, assessment.mixed.get(verdict.claim.id)) for verdict in shown],
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


_CSV_CLAIM = (
    "id", "verdict", "effect", "low", "high", "unit", "contrast", "region", "p_raw", "p_holm", "direction", "p_for",
    "p_for_holm", "p_against", "p_against_holm", "family", "seeds", "short", "statement", "where", "sentence",
)  # fmt: skip
_CSV_CONTRAST = (
    "label", "claimed", "unit", "effect", "low", "high", "low90", "high90", "standard_error", "df", "p_for",
    "p_against", "p_zero", "test", "instance_share", "missing",
)  # fmt: skip


def _csv(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_CSV_CLAIM, "source", "selection", "interval"])
    tail = [assessment.source, assessment.settings.selection, assessment.settings.interval]
    for verdict in shown:
        record = as_record(verdict)
        writer.writerow([*(_field(record[name]) for name in _CSV_CLAIM), *tail])
    return out.getvalue()


def _csv_contrasts(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "part", *_CSV_CONTRAST, "seeds", "source", "selection", "interval"])
    tail = [assessment.source, assessment.settings.selection, assessment.settings.interval]
    for verdict in shown:
        parts = [("verdict", verdict.tree), *(("reported", branch) for branch in verdict.reported)]
        for part, branch in parts:
            for finding in branch.findings:
                record = _contrast(finding)
                seeds = "-".join(str(count) for count in finding.seeds)
                values = [_field(record[name]) for name in _CSV_CONTRAST]
                writer.writerow([verdict.claim.id, part, *values, seeds, *tail])
    return out.getvalue()


def _field(value: object) -> object:
    return "" if value is None else value


def _markdown(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    from analysis.claims.page import findings_page

    return findings_page(assessment, shown)


Renderer = Callable[[Assessment, Sequence[Verdict]], str]

FORMATS: dict[str, tuple[Renderer, Renderer]] = {
    "text": (_text, _explain),
    "markdown": (_markdown, _markdown),
    "json": (_json, _json),
    "csv": (_csv, _csv_contrasts),
}
"""By name: how verdicts are printed, and how they are printed with their reasoning."""


def render_claims(
    assessment: Assessment, shown: Sequence[Verdict], form: str, *, explain: bool = False
) -> str:
    """Return the verdicts in one of `FORMATS`; the text ends in a line break."""
    return FORMATS[form][int(explain)](assessment, shown)
