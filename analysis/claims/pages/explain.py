"""Verdicts for people: a table for a terminal, the reasoning behind each, and the page of findings in Markdown."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from importlib import resources

import jinja2

from analysis.claims.answer import QUESTION, answer, verdicts_counted
from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import ANSWERS, FAMILIES, FINDINGS
from analysis.claims.pages.dataset_tables import dataset_sentences, short_dataset_sentences
from analysis.claims.pages.finding_records import contrasts_frame, verdicts_data, verdicts_frame
from analysis.claims.statements import AtLeast
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import OPEN, OUTCOMES, Branch, Verdict
from analysis.claims.wording import (
    format_effect,
    format_p,
    format_typical,
    levels_in_words,
    p_texts,
    seeds_in_words,
    sentence,
    three_lines,
)
from analysis.evidence.contrasts import Result
from analysis.palette import VERDICT
from common.tables import Grid, TableDocument, show

__all__ = ["comparison_lines", "explanations", "findings_page", "verdicts_document"]

_LONGEST = 12
_COLOURS = {name.removesuffix(" k of n"): colour for name, colour in VERDICT.items()}
"""By how a verdict begins."""


def verdicts_document(
    assessment: Assessment, shown: Sequence[Verdict], *, explain: bool = False
) -> TableDocument:
    """Return verdicts: one row a finding, of a single one three lines; with `explain` the reasoning behind them.

    As data one row a finding, with `explain` one row a contrast.
    """
    frame = contrasts_frame if explain else verdicts_frame
    own = {"text": lambda: explanations(assessment, shown)} if explain else {}
    lines = [*three_lines(shown[0]), "", *_source(assessment)] if len(shown) == 1 else []
    return TableDocument(
        body=[] if explain else lines or _table(assessment, shown),
        pages={
            **own,
            "markdown": lambda: findings_page(assessment, shown),
            "csv": lambda: show(TableDocument(records=frame(assessment, shown)), "csv"),
            "json": lambda: show(TableDocument(data=verdicts_data(assessment, shown), indent=2), "json"),
        },
    )


def _table(assessment: Assessment, shown: Sequence[Verdict]) -> list[str | Grid]:
    """Return how many findings have each verdict, one row a finding, and what the columns mean."""
    head = ("id", "finding", "verdict", "typical [95 %]", "p (Holm)")
    rows = [
        (
            verdict.finding.id,
            verdict.finding.short,
            verdict.verdict,
            format_typical(verdict),
            p_texts(verdict)[1],
        )
        for verdict in shown
    ]
    by_name = {verdict.finding.id: verdict for verdict in shown}
    lead = [verdicts_counted(verdict for name, verdict in by_name.items() if name in FINDINGS)]
    main, alone = by_name.get(ANSWER), by_name.get("F8")
    if main is not None and alone is not None and main.known:
        lead.append(
            f"CLM then MLM beats MLM alone in {main.hold} of {len(main.tree.units)} comparisons after allowing for the "
            f"{len(ANSWERS)} shares of CLM that were tried (answer), in {alone.hold} without that (F8)."
        )
    return [
        *lead,
        "",
        Grid([head, *rows], colours=_COLOURS),
        "",
        *_source(assessment),
        " ".join(assessment.tests[:2]),
        "typical: mean of the finding's comparisons; above 0 supports the finding. p: of the whole finding, after "
        "Holm's adjustment over the findings about one question.",
        "`clm-or-mlm claims F8` answers for one finding, with --explain it shows every number (docs/claims.md).",
    ]


def _source(assessment: Assessment) -> list[str]:
    settings = assessment.settings
    how = f"interval {settings.interval}"
    if not assessment.source.is_published:
        how += f", {settings.rule.words}"
    if settings.method.is_resampled:
        how += f", {settings.resamples} resamples, seed {settings.seed}"
    return [
        *([assessment.source.own_words] if assessment.source.own_words else []),
        f"Source: {assessment.source.label}; {how}.",
    ]


def explanations(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return each verdict with its reasoning."""
    blocks = [_explain_one(assessment, verdict) for verdict in shown]
    tests = textwrap.wrap(f"{' '.join(assessment.tests)} {levels_in_words()}", 118)
    return "\n\n".join([*blocks, "\n".join([*_source(assessment), *tests])]) + "\n"


def _explain_one(assessment: Assessment, verdict: Verdict) -> str:
    finding = verdict.finding
    lines = [
        f"{finding.id}: {finding.statement}",
        f"  where    {finding.where}",
        f"  verdict  {verdict.verdict}",
        f"  because  {sentence(verdict)}",
    ]
    if finding.remark:
        lines.append(f"  note     {finding.remark}")
    if verdict.known:
        lines.append(
            f"  p        for: {format_p(verdict.p_for)} (Holm {format_p(verdict.p_for_adjusted)}), against: "
            f"{format_p(verdict.p_against)} (Holm {format_p(verdict.p_against_adjusted)}), over "
            f"{verdict.family_size} findings about {FAMILIES[finding.family]}"
        )
    lines += [f"  datasets {line}" for line in dataset_sentences(assessment.datasets[verdict.finding.id])]
    return "\n".join([*lines, *comparison_lines(verdict)])


def comparison_lines(verdict: Verdict) -> list[str]:
    """Return every comparison behind a verdict, each with the scores that enter it."""
    lines = _explain_branch(verdict.tree, "  ")
    for branch in verdict.reported:
        lines += ["  not part of the verdict:", *_explain_branch(branch, "    ")]
    return lines


def _explain_branch(branch: Branch, indent: str) -> list[str]:
    if branch.result is not None:
        return _explain_result(branch.result, indent)
    assert isinstance(branch.node, AtLeast)
    lines = [
        f"{indent}{branch.node.label}: {branch.node.rule} must hold; p for {format_p(branch.p_for)}, "
        f"against {format_p(branch.p_against)}"
    ]
    parts = branch.parts
    if branch.node.count == 1 and len(parts) > _LONGEST:
        lines.append(f"{indent}  the three strongest of {len(parts)}:")
        parts = tuple(sorted(parts, key=lambda part: part.p_for)[:3])
    return lines + [line for part in parts for line in _explain_branch(part, indent + "  ")]


def _explain_result(result: Result, indent: str) -> list[str]:
    comparison = result.comparison
    if not result.known:
        return [f"{indent}{comparison.label} {comparison.region}: unknown, {result.missing}"]
    details = [comparison.unit, f"p for {format_p(result.p_for)}", f"against {format_p(result.p_against)}"]
    if comparison.is_range:
        details.append(f"90 % [{result.inner_low:+.2f}, {result.inner_high:+.2f}]")
        if comparison.holds(0.0):
            enough = max(abs(result.inner_low), abs(result.inner_high))
            details.append(f"a margin of {enough:.2f} would do; no difference: p {format_p(result.p_zero)}")
    if math.isfinite(result.df):
        details.append(f"df {result.df:.1f}")
    if result.instance_share:
        details.append(f"{result.instance_share:.0%} of the squared error from the test instances")
    seeds = "-".join(str(count) for count in result.seeds)
    details.append(f"{result.test}{f', {seeds} seeds' if seeds else ''}")
    lines = [
        f"{indent}{comparison.label} {comparison.region}: {format_effect(result)} ({'; '.join(details)})"
    ]
    return lines + [f"{indent}    {line}" for line in result.inputs]


def findings_page(assessment: Assessment, shown: Sequence[Verdict]) -> str:
    """Return the page, `templates/findings.md.jinja` filled in; the text ends in a line break."""
    settings = assessment.settings
    counted = Counter(verdict.outcome.name for verdict in shown)
    options = shlex.join(
        (*assessment.source.options, "--selection", settings.selection, "--interval", settings.interval)
    )
    if settings.method.is_resampled:
        options += f" --resamples {settings.resamples} --seed {settings.seed}"
    members = {
        title: [verdict for verdict in shown if verdict.finding.family == family]
        for family, title in FAMILIES.items()
    }
    environment = jinja2.Environment(
        autoescape=False, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    template = resources.files("analysis.claims") / "templates" / "findings.md.jinja"
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        assessment=assessment,
        question=QUESTION,
        answer=answer(assessment) if len(shown) == len(assessment.rows) else None,
        shown=shown,
        summary=", ".join(f"{counted[name]} {name}" for name in OUTCOMES if counted[name]),
        outcomes=[
            (name, [one for one in shown if one.outcome.name == name]) for name in OUTCOMES if counted[name]
        ],
        options=options,
        tests=assessment.tests,
        families=[(title, verdicts) for title, verdicts in members.items() if verdicts],
        points=lambda verdict: _points(assessment, verdict),
    )


def _points(assessment: Assessment, verdict: Verdict) -> str:
    """Return the numbers of a finding, and the datasets behind it."""
    if not verdict.known:
        missing = next(result.missing for result in verdict.tree.results)
        return f"Open, since it cannot be tested: {missing}. {verdict.finding.remark}".rstrip()
    decisive = verdict.decisive
    said = [] if verdict.typical is None else [f"Typical: {format_typical(verdict)}."]
    said += [
        f"Most adverse: {decisive.comparison.label}, {format_effect(decisive)}.",
        f"p: {p_texts(verdict)[1]}.",
    ]
    if verdict.outcome is OPEN and (words := seeds_in_words(decisive, "this comparison")):
        said.append(f"{words}.")
    said += short_dataset_sentences(assessment.datasets[verdict.finding.id])
    said += [verdict.finding.remark] if verdict.finding.remark else []
    return " ".join(said)
