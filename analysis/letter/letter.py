"""The letter: what reproduces and what does not, arithmetic, traps, verdicts, and what cannot be known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.claims.answer import QUESTION, answer
from analysis.claims.assessment import Assessment, assess
from analysis.letter.traps import measured_traps
from analysis.sources import Source, standard_of
from analysis.statistics.scores_table import Settings
from analysis.tables.audit import Audit, audit
from analysis.tables.paper_arithmetic import Check
from benchmarks.protocol import AVERAGE
from common.tables import Document, Heading, fill_template, signed

__all__ = [
    "BY_CONSEQUENCE", "LETTER_FORMATS", "UNKNOWABLE", "Letter", "Section", "letter_document", "write_letter",
]  # fmt: skip

LETTER_FORMATS = ("markdown", "html")
"""How the letter is written."""
_TEMPLATE = Path(__file__).parent / "templates" / "letter.html"

BY_CONSEQUENCE = (
    "initial-weights", "two-stage-steps", "cpt-steps", "evaluation-runs", "released-files", "models", "averages",
    "average-intervals", "repeated-cells", "decay-share", "tokens-per-step-table", "tokens-per-step-text",
    "tokens-total", "gpu-hours", "table-reference",
)  # fmt: skip
"""Checks of the paper's arithmetic by what a reader who trusts the statement gets wrong: another network first, then
the cost of the study, what is missing from the release, what was counted, the last digits, a reference."""

UNKNOWABLE = (
    "the spread between pretraining seeds: every model was pretrained once, so every test here is about "
    "fine-tuning seeds of these checkpoints",
    "the training losses of Figure 12, and the scores of Figure 11's 1B two-stage model: in no table, not released",
    "which queries each NQ score is over, and which revisions of the datasets were read",
    "why released runs are missing, and what they would have scored",
    "which numerics (library versions, bfloat16 on MI250X) the fine-tunings had",
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
        source: the published cells, or runs; where they are a store with both protocols, the traps are measured.
        settings: selection rule and the interval of the verdicts.
        assessment: of the source with these settings, where there is one already.

    Raises:
        UserError: the source's networks or metrics are not the paper's.
    """
    result = audit(source, selection=settings.selection)
    if assessment is None:
        assessment = assess(source, settings, second_opinion=False)
    sections = (
        _reproduced(result),
        _not_reproduced(result),
        _traps(source),
        _arithmetic(result.arithmetic),
        *_verdicts(assessment),
        Section(title="What nobody can know from what is released", lead="", points=UNKNOWABLE),
    )
    return Letter(
        title=f"Audit of arXiv 2507.00994v4 against {source.label}", sections=sections, differs=result.differs
    )


def letter_document(letter: Letter) -> Document:
    """Return the letter; its points are numbered section by section."""
    body: list[str | Heading] = [f"# {letter.title}"]
    for section in letter.sections:
        body += ["", Heading(section.title)]
        if section.lead:
            body += ["", section.lead]
        if section.points:
            body += ["", *(f"{place}. {point}" for place, point in enumerate(section.points, 1))]
    return Document(body=body, pages={"html": partial(fill_template, _TEMPLATE, letter=letter)})


def _reproduced(result: Audit) -> Section:
    title, cells = "What reproduces, and from what", result.distinct
    agreeing = sum(check.status == "agrees" for check in result.arithmetic)
    own = f"Of {len(result.arithmetic)} statements that can be redone from the paper's other numbers, {agreeing} agree."
    if not result.has_runs:
        lead = f"This source holds the paper's printed numbers alone, so none of its {len(cells)} scores was "
        return Section(title=title, lead=f"{lead}recomputed. {own}")
    status = Counter(cell.status.split(":")[0] for cell in cells)
    agreement = Counter(cell.agreement for cell in cells if cell.agreement is not None)
    runs = sum(cell.n_runs for cell in cells if cell.dataset != AVERAGE)
    lead = (
        f"From {runs:,} runs of {result.source}, {agreement.total()} of the paper's {len(cells)} scores were "
        f"recomputed (repeats counted once): {agreement['exact']} agree to the printed digits, "
        f"{agreement['within interval']} more within the printed interval. {status['incomplete']} have some of their "
        f"runs missing; {status['no runs']} have none."
    )
    return Section(title=title, lead=f"{lead} {own}")


def _not_reproduced(result: Audit) -> Section:
    wrong = [cell for cell in result.distinct if cell.agreement == "differs"]
    shown = sorted(wrong, key=lambda cell: -abs(cell.difference or 0.0))[:_MOST_CELLS]
    compared = sum(cell.agreement is not None for cell in result.distinct)
    if not result.has_runs:
        lead = "Nothing can be said of the scores without runs."
    elif not wrong:
        lead = f"None of the {compared} recomputed scores leaves the printed interval."
    else:
        more = f" The largest {len(shown)}:" if len(wrong) > len(shown) else ""
        lead = f"{len(wrong)} of {compared} recomputed scores leave the printed interval.{more}"
    points = tuple(
        f"Table {cell.table}, {cell.model}, {cell.dataset}: printed {cell.published_mean:.2f}, recomputed "
        f"{cell.mean:.2f} ({signed(cell.difference or 0.0)})"
        for cell in shown
    )
    return Section(title="What does not", lead=lead, points=points)


def _traps(source: Source) -> Section:
    standard = standard_of(source)
    found = measured_traps(source.runs, None if standard is None else standard.runs)
    measured = sum(effect is not None for _, effect in found)
    if standard is not None:
        lead = f"Measured on this source's runs, scored by both protocols, where it says points ({measured})."
    elif measured:
        lead = f"Measured on this source's runs where it says points ({measured}); more needs runs of both protocols."
    else:
        lead = "Their sizes need runs scored by both protocols; given is what follows from the definitions."
    points = tuple(f"{trap.sentence} Effect: {trap.size(effect)}." for trap, effect in found)
    return Section(title="Traps that change the numbers", lead=lead, points=points)


def _arithmetic(checks: tuple[Check, ...]) -> Section:
    wrong = [check for check in checks if check.status == "differs"]
    wrong.sort(key=lambda check: BY_CONSEQUENCE.index(check.id))
    return Section(
        title="The paper's arithmetic",
        lead=f"{len(wrong)} of {len(checks)} statements disagree with the rest, the most consequential first.",
        points=tuple(
            f"{check.statement}: stated {check.stated}, follows {check.recomputed}." for check in wrong
        ),
    )


def _verdicts(assessment: Assessment) -> tuple[Section, Section]:
    groups: dict[str, list[str]] = {}
    for verdict in assessment.verdicts:
        groups.setdefault(verdict.verdict, []).append(f"{verdict.claim.id} ({verdict.claim.short})")
    points = tuple(f"{word} ({len(names)}): {', '.join(names)}" for word, names in groups.items())
    given = answer(assessment)
    return (
        Section(title=QUESTION, lead=given.headline, points=(*given.splits, *given.cautions)),
        Section(
            title="The findings, tested",
            lead=f"{given.findings} Adjusted within their families, against {assessment.source.label}. "
            f"{' '.join(assessment.tests[:2])}",
            points=points,
        ),
    )
