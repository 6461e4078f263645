"""The page of findings: a table of verdicts, and for each claim what it hangs on and what it lacks (Markdown)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, MARGINS
from analysis.claims.verdicts import SUPPORTED, UNDECIDABLE, VERDICTS, Verdict
from analysis.claims.wording import format_effect, format_p, how_tested, sentence, shortfall

__all__ = ["findings_page"]

_MOST_LINES = 12


def findings_page(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return the page; the text ends in a line break."""
    settings = assessment.settings
    counted = Counter(verdict.verdict for verdict in shown)
    summary = ", ".join(f"{counted[name]} {name}" for name in VERDICTS if counted[name])
    options = f"--source {assessment.source} --selection {settings.selection} --interval {settings.interval}"
    if settings.method.is_resampled:
        options += f" --resamples {settings.resamples} --seed {settings.seed}"
    lines = [
        "# Which findings survive a test",
        "",
        f"{len(shown)} findings against the source `{assessment.source}`: {summary}. {assessment.own_words}".rstrip(),
        "",
        "This page is generated; do not edit it. Made with",
        "",
        f"    python -m analysis claims {options} --format markdown",
        "",
        "A verdict is about the statement as it is written here. The effect is that of the comparison the verdict "
        "hangs on: the weakest one a supported claim needs, or the one that speaks most against it. p is that of the "
        "direction the evidence leans to, and Holm its adjustment over the claims about the same question. "
        f"{' '.join(how_tested(settings.interval, published=assessment.published))} "
        f"Comparable means within {', '.join(f'{margin:g} ({task})' for task, margin in MARGINS.items())} points. "
        "The rules are in [claims.md](claims.md), the choice of interval in [intervals.md](intervals.md); "
        "`python -m analysis claims --id F8 --explain` prints every number behind a verdict.",
        "",
        "| id | finding | verdict | effect, 95 % interval | p | Holm | comparisons that hold |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for verdict in shown:
        counts, known = verdict.counts, bool(verdict.known)
        anchor = verdict.claim.id.lower()
        lines.append(
            f"| [{verdict.claim.id}](#{anchor}) | {verdict.claim.short} | {verdict.verdict} | "
            f"{format_effect(verdict.decisive)} | {format_p(verdict.p) if known else '-'} | "
            f"{format_p(verdict.p_adjusted) if known else '-'} | {counts['hold']} of {counts['contrasts']} |"
        )
    for family, title in FAMILIES.items():
        members = [verdict for verdict in shown if verdict.claim.family == family]
        if not members:
            continue
        lines += ["", f"## {title[0].upper()}{title[1:]}"]
        for verdict in members:
            lines += _section(verdict)
            if (mixed := assessment.mixed.get(verdict.claim.id)) is not None:
                lines += ["", f"Mixed-effects model, as a second opinion: {sentence(mixed)}"]
    return "\n".join(lines) + "\n"


def _section(verdict: Verdict) -> list[str]:
    claim = verdict.claim
    lines = ["", f"### {claim.id}", "", f"> {claim.statement} ({claim.where})", "", sentence(verdict)]
    if claim.remark:
        lines[-1] += f" {claim.remark}"
    if verdict.verdict not in (SUPPORTED, UNDECIDABLE) and (gaps := shortfall(verdict.tree)):
        lines += ["", "The wording is stronger than the evidence. What it needs and does not have:", ""]
        lines += _bullets(gaps)
    beside = [branch.finding for branch in verdict.reported if branch.finding is not None]
    if beside:
        lines += ["", "Beside it, outside the verdict:", ""]
        lines += [
            f"- {finding.leaf.label}: {format_effect(finding) if finding.known else finding.missing}"
            for finding in beside
        ]
    for branch in verdict.reported:
        if branch.finding is None:
            gaps = shortfall(branch)
            ending = "." if not gaps else ". What does not hold:"
            lines += ["", f"Beside it, outside the verdict: {branch.node.label}, {branch.verdict}{ending}"]
            lines += ["", *_bullets(gaps)] if gaps else []
    return lines


def _bullets(items: Sequence[str]) -> list[str]:
    more = len(items) - _MOST_LINES
    lines = [f"- {item}" for item in items[:_MOST_LINES]]
    return lines if more <= 0 else [*lines, f"- and {more} more"]
