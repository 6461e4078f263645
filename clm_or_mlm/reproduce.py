"""All that a source allows: scores, tables, audit, findings, figures, and the page that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.claims.catalogue import SHOWN
from analysis.claims.pages.explain import verdicts_document
from analysis.evidence.settings import Settings
from analysis.sources import Source
from analysis.tables import TABLE_FORMATS
from analysis.tables.audit import AUDIT_FORMATS, audit, audit_document
from analysis.tables.build import build_table, models_of_tables
from analysis.tables.render import scores_document, table_document
from clm_or_mlm.report.content import gather
from clm_or_mlm.report.html_page import render_page
from common.errors import NotApplicableError, UserError
from common.files import sha256_file, write_text
from common.manifest import outputs_folder, write_manifest
from common.plain_text import counted, redacted
from common.progress import progress
from common.provenance import PROVENANCE, provenance
from common.tables import FORMATS, TableDocument, write
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import DrawnFigure, draw_figures

PAGE = "index.html"
"""The page that shows everything and links to the files."""
_RECORD = "reproduce.json"
"""What was made and what was not, as data."""
_PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "statsmodels", "matplotlib")


@dataclass(kw_only=True)
class Reproduction:
    """The files that a reproduction made, and the reasons for those it could not make."""

    made: list[str] = field(default_factory=list)
    """Paths below the output folder."""
    not_applicable: list[tuple[str, str]] = field(default_factory=list)
    """Each thing that needs another kind of source, with the reason."""
    missing: list[tuple[str, str]] = field(default_factory=list)
    """Each thing that this source should have and lacks, with the reason."""

    def leave_out(self, what: str, problem: UserError) -> None:
        """Note that something was not made, by the kind of the error that says why."""
        reasons = self.missing
        if isinstance(problem, NotApplicableError):
            reasons = self.not_applicable
        reasons.append((what, str(problem)))

    def text(self, out: Path) -> str:
        """Return what the command prints at its end: the page, and what was not made, with the reasons."""
        lines = [f"{out / PAGE} ({counted(len(self.made), 'file')})"]
        titles = {"not applicable": self.not_applicable, "missing": self.missing}
        for title, left_out in titles.items():
            if left_out:
                lines.append(f"{title}:")
            lines += [f"  {what}: {why}" for what, why in left_out]
        return "\n".join(lines) + "\n"


def reproduce(
    source: Source,
    out: Path,
    *,
    selection: str = "seed",
    logs: Path | None = None,
) -> Reproduction:
    """Write scores, tables, audit, findings and figures of a source under `out`, with their page and record.

    Args:
        source: where the scores come from.
        out: folder for everything.
        selection: learning-rate rule.
        logs: folder of training logs, for Figure 12.

    Raises:
        UserError: a selection rule that the source cannot give, or others' files in the place of these.
    """
    inputs = FigureInputs(
        source=source, settings=Settings(selection=selection), logs=logs
    )
    # Everything is made in a new folder first, so that a failed call leaves the old one; files of others are refused.
    with outputs_folder(out, PROVENANCE) as making:
        return _make(inputs, making)


def _make(inputs: FigureInputs, out: Path) -> Reproduction:
    """Write everything into a new folder; return what was made, and why the rest was not."""
    outcome = Reproduction()
    # Documents: each function of `_DOCUMENTS` yields stem (path without the ending), content and formats.
    for what, documents in progress(_DOCUMENTS.items(), "reproduce", unit="step"):
        # A document that the source cannot give is named at the end; all others are made.
        try:
            for stem, document, forms in documents(inputs):
                for form in forms:
                    name = f"{stem}.{FORMATS[form].ending}"
                    write(document, form, out / name)
                    outcome.made.append(name)
        except UserError as error:
            outcome.leave_out(what, error)

    # Figures, and with them everything that the page shows.
    problems = list[UserError]()

    def saved_figures() -> Iterator[DrawnFigure]:
        """Yield each figure once its files are written; add why others cannot be drawn to `problems`."""
        specs = [figure.load() for figure in FIGURES.values()]
        # Each figure is drawn once, for its files and for the page, so the files come before the page changes it: the
        # page hides headings and captions.
        for figure in draw_figures(specs, inputs, problems):
            paths = figure.save(out / "figures")
            outcome.made += [path.relative_to(out).as_posix() for path in paths]
            yield figure

    content = gather(inputs, saved_figures())
    # `gather` has read all figures, so that all problems are known.
    for problem in problems:
        outcome.leave_out("a figure", problem)

    # What was made and what was not, as data; from here on nothing more is left out.
    record = {
        "source": inputs.source.name,
        "made": outcome.made,
        "not_applicable": outcome.not_applicable,
        "missing": outcome.missing,
    }
    write_text(out / _RECORD, json.dumps(record, indent=1) + "\n")

    # The page. The page links to provenance.json, which is written after the page because it has the page's
    # hash.
    outcome.made += [_RECORD, PROVENANCE]
    origin = {
        "source": redacted(inputs.source.long_label),
        **provenance("analysis", _PACKAGES),
    }
    page = render_page(
        content,
        origin,
        files=outcome.made,
        missing=outcome.missing,
        not_applicable=outcome.not_applicable,
    )
    write_text(out / PAGE, page)

    # The provenance, with the hash of every other file. The page is not in `made`, which are the files that
    # it links to.
    hashes = {}
    for name in (*outcome.made, PAGE):
        if name != PROVENANCE:
            hashes[name] = sha256_file(out / name)

    write_manifest(out / PROVENANCE, origin, hashes)
    return outcome


Documents = Iterator[tuple[str, TableDocument, Sequence[str]]]
"""For each document its path without the ending, its content, and the formats in which it is written."""


def _scores(inputs: FigureInputs) -> Documents:
    scores = inputs.source.scores(inputs.settings)
    yield "scores", scores_document(scores, inputs.source), ("csv",)


def _tables(inputs: FigureInputs) -> Documents:
    source = inputs.source
    scores = None if source.is_published else source.scores(inputs.settings)
    for number in models_of_tables():
        table = build_table(number, scores, source=source)
        # Files have all formats but text, which is for the terminal.
        yield f"tables/table{number:02d}", table_document(table), TABLE_FORMATS[1:]


def _audit(inputs: FigureInputs) -> Documents:
    audited = audit(inputs.source, selection=inputs.settings.selection)
    yield "audit", audit_document(audited), AUDIT_FORMATS


def _findings(inputs: FigureInputs) -> Documents:
    assessment = inputs.assessment
    yield "claims", verdicts_document(assessment, SHOWN), ("markdown", "json", "csv")


_DOCUMENTS: dict[str, Callable[[FigureInputs], Documents]] = {
    "scores": _scores,
    "tables": _tables,
    "audit": _audit,
    "claims": _findings,
}
"""The documents of a source, besides figures."""
