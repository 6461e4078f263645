"""The letter: the answer, the paper against itself, its code and its release, verdicts, and what cannot be known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.claims.answer import QUESTION, answer
from analysis.claims.assessment import Assessment, assess
from analysis.claims.verdicts import IN_PART, OUTCOMES
from analysis.evidence.evidence import Settings
from analysis.sources import Source
from analysis.tables.audit import Audit, audit
from analysis.tables.paper_arithmetic import ArithmeticCheck, Reference
from benchmarks.protocol import AVERAGE
from common.tables import Heading, TableDocument, fill_template, signed

__all__ = [
    "LETTER_FORMATS", "UNKNOWABLE", "Letter", "Section", "letter_document", "write_letter",
]  # fmt: skip

LETTER_FORMATS = ("markdown", "html")
"""How the letter is written."""
_TEMPLATE = Path(__file__).parent / "tables" / "templates" / "letter.html"

UNKNOWABLE = (
    "the spread between pretraining seeds: every model was pretrained once, so the tests here cover only fine-tuning "
    "seeds of these checkpoints",
    "the training losses of Figure 12 and the scores of Figure 11's 1B two-stage model, which are plotted but not "
    "given as numbers",
    "which queries each NQ score covers, and which revisions of the datasets were used",
    "why runs are missing from the release, and what they would have scored",
    "which library versions fine-tuning used, and how bfloat16 on MI250X affected the scores",
)
"""What cannot be known from what is released."""

_MOST_CELLS = 6


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what is below it: a paragraph, then points."""

    title: str
    lead: str
    points: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A letter."""

    title: str
    sections: tuple[Section, ...]
    differs: bool
    """Whether any cell's runs contradict what is printed."""


def write_letter(source: Source, settings: Settings, assessment: Assessment | None = None) -> Letter:
    """Return the letter about a source.

    Args:
        source: the published cells, or runs.
        settings: selection rule and the interval of the verdicts.
        assessment: of the source with these settings, where there is one already.

    Raises:
        UserError: the source's networks or metrics are not the paper's.
    """
    result = audit(source, selection=settings.selection)
    if assessment is None:
        assessment = assess(source, settings)
    given = answer(assessment)
    sections = (
        Section(
            title=QUESTION,
            lead=f"{given.headline} {given.pretraining}".rstrip(),
            points=(*given.splits, *given.cautions),
        ),
        _against_itself(result),
        _against_its_code(result),
        _against_its_release(result),
        _verdicts(assessment, given.findings),
        Section(title="What the release cannot answer", lead="", points=UNKNOWABLE),
    )
    return Letter(
        title=f"Audit of arXiv 2507.00994v4 (source: {source.long_label})",
        sections=sections,
        differs=result.differs,
    )


def letter_document(letter: Letter) -> TableDocument:
    """Return the letter; its points are numbered section by section."""
    body: list[str | Heading] = [f"# {letter.title}"]
    for section in letter.sections:
        body += ["", Heading(section.title)]
        if section.lead:
            body += ["", section.lead]
        if section.points:
            body += ["", *(f"{place}. {point}" for place, point in enumerate(section.points, 1))]
    return TableDocument(body=body, pages={"html": partial(fill_template, _TEMPLATE, letter=letter)})


def _against_itself(result: Audit) -> Section:
    checks = result.checks(Reference.ITSELF)
    differing = _differing(checks)
    return Section(
        title=Reference.ITSELF.heading,
        lead=f"Of {len(checks)} statements that the paper's own numbers can check, {len(differing)} disagree with "
        f"them; the most consequential come first. {result.scores_in_words}",
        points=differing,
    )


def _against_its_code(result: Audit) -> Section:
    return Section(
        title=Reference.CODE.heading,
        lead="Here the released code contradicts the paper. Choices of the code that the paper does not mention, such "
        "as its metrics, and what they change are listed in docs/deviations.md.",
        points=_differing(result.checks(Reference.CODE)),
    )


def _against_its_release(result: Audit) -> Section:
    differing = _differing(result.checks(Reference.RELEASE))
    cells = result.distinct
    if not result.has_runs:
        lead = f"This source has only printed numbers, so none of the paper's {len(cells)} scores was recomputed."
        return Section(title=Reference.RELEASE.heading, lead=lead, points=differing)
    status = Counter(cell.status.split(":")[0] for cell in cells)
    agreement = Counter(cell.agreement for cell in cells if cell.agreement is not None)
    runs = sum(cell.n_runs for cell in cells if cell.dataset != AVERAGE)
    wrong = [cell for cell in cells if cell.agreement == "differs"]
    shown = sorted(wrong, key=lambda cell: -abs(cell.difference or 0.0))[:_MOST_CELLS]
    more = f"; the largest {len(shown)} are listed" if len(wrong) > len(shown) else ""
    lead = (
        f"From {runs:,} runs of {result.source}, {agreement.total()} of the paper's {len(cells)} scores were "
        f"recomputed: {agreement['exact']} agree to the printed digits, {agreement['within interval']} more within the "
        f"printed interval, {len(wrong)} are outside it{more}. {status['incomplete']} lack some of their runs, "
        f"{status['no runs']} all of them."
    )
    cells_listed = (
        f"Table {cell.table}, {cell.model}, {cell.dataset}: printed {cell.published_mean:.2f}, recomputed "
        f"{cell.mean:.2f} ({signed(cell.difference or 0.0)})"
        for cell in shown
    )
    return Section(title=Reference.RELEASE.heading, lead=lead, points=(*cells_listed, *differing))


def _differing(checks: list[ArithmeticCheck]) -> tuple[str, ...]:
    return tuple(
        f"{check.statement}: {check.against.words[0]} {check.stated}; {check.against.words[1]} {check.recomputed}."
        for check in checks
        if check.status == "differs"
    )


def _verdicts(assessment: Assessment, counted: str) -> Section:
    groups: dict[str, list[str]] = {name: [] for name in OUTCOMES}
    for verdict in assessment.verdicts:
        parts = verdict.verdict.removeprefix("holds in ") if verdict.outcome is IN_PART else ""
        said = f"{verdict.finding.short}{parts and f': {parts}'}"
        groups[verdict.outcome.name].append(f"{verdict.finding.id} ({said})")
    return Section(
        title="The findings, tested",
        lead=f"{counted} Source: {assessment.source.label}. p-values are adjusted within families of related "
        f"findings. {assessment.tests[0]}",
        points=tuple(f"{word} ({len(names)}): {', '.join(names)}" for word, names in groups.items() if names),
    )
