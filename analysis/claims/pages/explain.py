"""Verdicts for people: a table for a terminal, the reasoning behind each, and the page of findings in Markdown."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Callable, Sequence
from importlib import resources

import jinja2

from analysis.claims.answer import QUESTION, answer, shown_higher, splits_tried
from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FAMILIES, SHOWN, STATEMENTS
from analysis.claims.judged import JudgedFinding
from analysis.claims.pages.dataset_sentences import (
    dataset_sentences,
    short_dataset_sentences,
)
from analysis.claims.pages.finding_records import (
    contrasts_frame,
    verdicts_data,
    verdicts_frame,
)
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import OPEN, OUTCOMES, Branch
from analysis.claims.wording import (
    count_outcomes,
    format_effect,
    format_p,
    levels_in_words,
    outside_in_words,
    p_texts,
    scope_in_words,
    seeds_in_words,
    sentence,
    three_lines,
    verdict_in_words,
)
from analysis.evidence.contrasts import Result
from analysis.palette import VERDICT
from common.level import INNER_LEVEL, LEVEL_IN_WORDS, in_percent
from common.tables import Grid, TableDocument, show

_LONGEST = 12
"""How many alternatives of a statement are listed; of more, only the strongest."""
_WIDTH = 118
"""Characters in a line of the sentences on the tests, below the reasoning; other lines are not wrapped."""
_COLOURS = {name.removesuffix(" k of n"): colour for name, colour in VERDICT.items()}
"""The colour of a cell, by the words that it begins with: `holds in` for `holds in 6 of 12`."""


def verdicts_document(
    assessment: Assessment, shown: Sequence[str], *, explain: bool = False
) -> TableDocument:
    """Return verdicts as a document: a row for each of several findings, three lines for a single one.

    Args:
        assessment: the judged findings of a source.
        shown: ids of the findings to show.
        explain: whether to give the reasoning behind each verdict instead; CSV then has a row for each contrast, not
            for each finding.
    """
    csv_frame = contrasts_frame if explain else verdicts_frame

    def csv() -> str:
        return show(TableDocument(records=csv_frame(assessment, shown)), "csv")

    def json() -> str:
        data = verdicts_data(assessment, shown)
        return show(TableDocument(data=data, indent=2), "json")

    # The formats that are written by a function of their own; all others are made of the document's body.
    # They are functions, so that a format is made only if it is printed: the Markdown page takes long, since
    # it judges every finding by dataset.
    pages: dict[str, Callable[[], str]] = {
        "markdown": lambda: findings_page(assessment, shown),
        "csv": csv,
        "json": json,
    }
    if explain:
        # The reasoning is text without tables: it has a function as well, and the body stays empty.
        pages["text"] = lambda: explanations(assessment, shown)
        return TableDocument(body=[], pages=pages)

    if len(shown) != 1:
        return TableDocument(body=_table(assessment, shown), pages=pages)
    [only] = shown
    lines = three_lines(assessment.judged[only], scope_in_words(assessment.source))
    return TableDocument(body=[*lines, "", *_source(assessment)], pages=pages)


def _table(assessment: Assessment, shown: Sequence[str]) -> list[str | Grid]:
    """Return how many findings have each verdict, a table with one row a finding, and what its columns mean."""
    grid = [["id", "finding", "verdict", f"mean [{LEVEL_IN_WORDS}]", "p (Holm)"]]
    judged = [assessment.judged[name] for name in shown]
    for finding in judged:
        mean = format_effect(finding.mean)
        _, p_holm = p_texts(finding)
        row = [finding.id, finding.finding.short, finding.verdict, mean, p_holm]
        grid.append(row)

    # The answer is a statement of ours, not one of the paper's findings.
    head = [count_outcomes(finding for finding in judged if finding.id != ANSWER)]
    main = assessment.judged[ANSWER]
    if ANSWER in shown and main.known:
        # `not_run` is a piece of text, such as " (8 not run)"; it is empty where the source has all parts.
        compared = f"{main.holds_in} of {main.known} comparisons{main.not_run}"
        tried = len(splits_tried(assessment.judged))
        if tried > 1:
            compared += (
                f", after allowing for the {tried} shares of CLM that were tried"
            )

        higher = shown_higher(main) or "none"
        head.append(f"CLM then MLM beats MLM alone in {compared}: {higher}.")

    return [
        *head,
        "",
        Grid(grid, colours=_COLOURS),
        "",
        *_source(assessment),
        # The test, and to what the results extend. The third sentence, on Holm's adjustment, is said with the
        # p below.
        " ".join(assessment.tests[:2]),
        "mean: of the comparisons that claim a direction; above 0 supports the finding. p: of the whole finding, "
        "after Holm's adjustment over the findings about one question.",
        "`clm-or-mlm claims F8` answers for one finding, with --explain it shows every number (docs/claims.md).",
    ]


def _source(assessment: Assessment) -> list[str]:
    """Return lines on whose scores these are, and by which interval and selection rule they are judged."""
    settings = assessment.settings
    how = f"interval {settings.interval}"
    if not assessment.source.is_published:
        how += f", {settings.rule.words}"
    if settings.method.is_resampled:
        how += f", {settings.resamples} resamples, seed {settings.seed}"
    lines = [f"Source: {assessment.source.label}; {how}."]
    # That scores are of stand-ins or of another metric is said before the source is named.
    note = assessment.source.kind.words
    return [note, *lines] if note else lines


def explanations(assessment: Assessment, shown: Sequence[str]) -> str:
    """Return each verdict with its reasoning."""
    blocks = [_explanation(assessment, finding) for finding in shown]
    tests = f"{' '.join(assessment.tests)} {levels_in_words()}"
    footer = [*_source(assessment), *textwrap.wrap(tests, _WIDTH)]
    text = "\n\n".join([*blocks, "\n".join(footer)])
    return f"{text}\n"


def _explanation(assessment: Assessment, name: str) -> str:
    """Return the verdict of one finding, the reasons for it, its p, and every comparison behind it."""
    main = assessment.judged[name]
    finding = main.finding
    lines = [
        f"{finding.id}: {finding.statement}",
        f"  where    {finding.where}",
        f"  verdict  {verdict_in_words(main)}",
        f"  because  {sentence(main)}",
    ]
    if finding.remark:
        lines.append(f"  note     {finding.remark}")

    # The finding was chosen among others: this is its verdict without the correction for that choice.
    if finding.rivals and main.known:
        lines.append(f"  alone    {main.alone.verdict}, had nothing else been tried")
    if main.known:
        p_for = f"{format_p(main.p_for)} (Holm {format_p(main.p_for_holm)})"
        p_against = f"{format_p(main.p_against)} (Holm {format_p(main.p_against_holm)})"
        family = f"{main.holm_over} findings about {FAMILIES[finding.family]}"
        lines.append(f"  p        for: {p_for}, against: {p_against}, over {family}")

    lines += [f"  datasets {line}" for line in dataset_sentences(assessment, name)]
    return "\n".join([*lines, *comparison_lines(main)])


def comparison_lines(judged: JudgedFinding) -> list[str]:
    """Return every comparison behind a verdict, each with the scores that enter it."""
    lines = _statement_lines(judged.branch, "  ")
    for statement in judged.reported:
        lines.append("  not part of the verdict:")
        lines += _statement_lines(statement.branch, "    ")
    return lines


def _statement_lines(branch: Branch, indent: str) -> list[str]:
    """Return the lines of a statement and of all its parts; of a long list of alternatives only the strongest three."""
    # Only a single comparison has a result of its own; other statements have parts.
    if branch.result is not None:
        return _one_comparison_lines(branch.result, indent)
    lines = [
        f"{indent}{branch.node.label}: {branch.rule} must hold; p for {format_p(branch.p_for)}, "
        f"against {format_p(branch.p_against)}"
    ]
    parts = list(branch.parts)

    # Alternatives are parts of which one is enough: the rule is then in words `one of 36 parts`
    # (`AtLeast.rule`).
    if branch.rule.startswith("one of") and len(parts) > _LONGEST:
        lines.append(f"{indent}  the three strongest of {len(parts)}:")
        parts = sorted(parts, key=lambda part: part.p_for)[:3]

    for part in parts:
        lines += _statement_lines(part, indent + "  ")
    return lines


def _one_comparison_lines(result: Result, indent: str) -> list[str]:
    """Return a line with the effect of a comparison and how it was tested, then a line for each score that enters it.

    Of a comparison that the source lacks it is one line with the reason.
    """
    if not result.known:
        return [f"{indent}{result.label} {result.claimed}: unknown, {result.missing}"]
    details = [
        result.unit,
        f"p for {format_p(result.p_for)}",
        f"against {format_p(result.p_against)}",
    ]

    # "On par" and "comparable" claim a region with a margin. Their one-sided tests go with the 90 % interval.
    if not result.comparison.has_direction:
        low90, high90 = result.inner_low, result.inner_high
        details.append(f"{in_percent(INNER_LEVEL)} [{low90:+.2f}, {high90:+.2f}]")
        # The margins are our choice, so the smallest one with which the comparison would hold is printed: the 90 %
        # interval has to lie above -margin ("on par") or between -margin and margin ("comparable"). A region without
        # 0, such as (1, 3) points, has no margin.
        if result.comparison.holds(0.0):
            least_margin = max(-low90, 0.0)
            if result.comparison.is_range:
                least_margin = max(abs(low90), abs(high90))
            details.append(
                f"a margin of {least_margin:.2f} would do; no difference: p {format_p(result.p_zero)}"
            )

    if math.isfinite(result.df):
        details.append(f"df {result.df:.1f}")
    if result.instance_share:
        details.append(
            f"{result.instance_share:.0%} of the squared error from the test instances"
        )

    details.append(result.test)
    # The seeds are those of the test, and so in the same part as its words.
    if result.seeds:
        seeds = "-".join(map(str, result.seeds))
        details[-1] += f", {seeds} seeds"

    claim = f"{result.label} {result.claimed}"
    numbers = f"{format_effect(result)} ({'; '.join(details)})"
    inputs = [f"{indent}    {line}" for line in result.inputs]
    return [f"{indent}{claim}: {numbers}", *inputs]


def findings_page(assessment: Assessment, shown: Sequence[str]) -> str:
    """Return the page of findings, `templates/findings.md.jinja` filled in; the text ends in a line break."""
    settings = assessment.settings
    # The options of the command that prints the page again.
    how = ["--selection", settings.selection, "--interval", settings.interval]
    if settings.method.is_resampled:
        how += ["--resamples", str(settings.resamples), "--seed", str(settings.seed)]
    options = shlex.join([*assessment.source.options, *how])
    judged = [assessment.judged[name] for name in shown]

    # The findings in two orders: a list of ids for each outcome, and a section for each question.
    ids_by_outcome: dict[str, list[str]] = {}
    for outcome in OUTCOMES:
        ids = [finding.id for finding in judged if finding.outcome == outcome]
        if ids:
            ids_by_outcome[outcome] = ids

    findings_by_question: dict[str, list[JudgedFinding]] = {}
    for family, question in FAMILIES.items():
        members = [finding for finding in judged if finding.finding.family == family]
        if members:
            findings_by_question[question] = members

    # The answer speaks of all findings, so that it stands only on a page that shows all of them.
    answered = answer(assessment) if set(SHOWN) <= set(shown) else None
    summary = [f"{len(ids)} {outcome}" for outcome, ids in ids_by_outcome.items()]
    environment = jinja2.Environment(
        autoescape=False,  # the page is Markdown, not HTML
        # A line that has only a tag of the template leaves no line in the page.
        trim_blocks=True,
        lstrip_blocks=True,
        # A name that the template uses and `render` lacks is an error, not an empty text.
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    path = resources.files("analysis.claims") / "templates" / "findings.md.jinja"
    template = environment.from_string(path.read_text(encoding="utf-8"))
    return template.render(
        assessment=assessment,
        question=QUESTION,
        answer=answered,
        statements=STATEMENTS,
        shown=shown,
        summary=", ".join(summary),
        outcomes=ids_by_outcome,
        options=options,
        tests=assessment.tests,
        verdict_in_words=verdict_in_words,
        families=findings_by_question,
        points=lambda finding: _points(assessment, finding),
    )


def mean_words(mean: Result) -> str:
    """Return in a few words what a mean is over: `Mean of the 2 that claim a direction`."""
    words = mean.label.removesuffix(", in the claimed direction")
    # A mean of one comparison has that comparison's label (`analysis.claims.statements.typical_contrast`).
    if not words.startswith("mean"):
        return "The one that claims a direction"
    return f"{words[0].upper()}{words[1:]}"


def _points(assessment: Assessment, finding: str) -> str:
    """Return sentences with the numbers of a finding, and with the datasets that it depends on."""
    main = assessment.judged[finding]
    remark = main.finding.remark
    if not main.known:
        sentences = [f"It cannot be tested: {main.missing}.", remark]
        # The source may still have what is reported beside the verdict: printed cells give the spread over seeds (F7).
        reported = _reported_effects(main)
        if reported:
            sentences.append(f"Outside the verdict: {'; '.join(reported)}.")
        return " ".join(filter(None, sentences))

    sentences = []
    if main.mean is not None:
        sentences.append(f"{mean_words(main.mean)}: {format_effect(main.mean)}.")
    decisive = main.decisive
    sentences.append(f"Most adverse: {decisive.label}, {format_effect(decisive)}.")
    _, p_holm = p_texts(main)
    sentences.append(f"p: {p_holm}.")
    sentences.append(outside_in_words(main))
    if main.outcome == OPEN.name:
        seeds = seeds_in_words(decisive, "this comparison")
        sentences.append(f"{seeds}." if seeds else "")

    sentences += short_dataset_sentences(assessment, finding)
    return " ".join(filter(None, [*sentences, remark]))


def _reported_effects(judged: JudgedFinding) -> list[str]:
    """Return the effects of the comparisons that are reported beside a verdict, as far as the source has them."""
    effects = []
    for statement in judged.reported:
        for result in statement.branch.results:
            if result.known:
                effects.append(f"{result.label} {format_effect(result)}")
    return effects
