"""All that a source allows: scores, tables, audit, letter, findings, figures, and a page that shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.claims.pages.explain import verdicts_document
from analysis.evidence.evidence import Settings
from analysis.letter import LETTER_FORMATS, letter_document, write_letter
from analysis.sources import Source
from analysis.tables.audit import AUDIT_FORMATS, audit, audit_document
from analysis.tables.build import build_table
from analysis.tables.render import TABLE_FORMATS, scores_document, table_document
from common.errors import NotApplicableError, UserError
from common.files import sha256_file, write_text
from common.manifest import write_manifest
from common.plain_text import counted, redacted
from common.progress import progress
from common.provenance import PROVENANCE, provenance
from common.tables import FORMATS, TableDocument, fill_template, write
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import draw_figures
from pretraining.models import TABLES

__all__ = ["Reproduction", "reproduce"]

INDEX = "index.html"
"""The page that shows what was made."""
RECORD = "reproduce.json"
"""The same as data."""
REPORT = "report/index.html"
"""Where `make report` writes."""
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "statsmodels", "matplotlib")


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
        """Note that something was not made."""
        where = self.not_applicable if isinstance(problem, NotApplicableError) else self.missing
        where.append((what, str(problem)))

    def text(self, out: Path) -> str:
        """Return the closing lines."""
        lines = [f"{out / INDEX} ({counted(len(self.made), 'file')})"]
        for title, left_out in (("not applicable", self.not_applicable), ("missing", self.missing)):
            lines += [f"{title}:", *(f"  {what}: {why}" for what, why in left_out)] if left_out else []
        return "\n".join(lines) + "\n"

    def index(self, out: Path, source: str) -> str:
        """Return the page that shows everything that was made."""
        figures: dict[str, list[str]] = {}
        documents: dict[str, list[str]] = {}
        for path in self.made:
            folder, _, name = path.rpartition("/")
            known = figures if folder == "figures" else documents
            known.setdefault(f"{folder}/{name}".lstrip("/").partition(".")[0], []).append(path)
        shown = [
            {
                "stem": stem.rpartition("/")[2],
                "formats": _endings(stem, paths),
                "png": f"{stem}.png" if f"{stem}.png" in paths else "",
                "title": json.loads((out / f"{stem}.json").read_text("utf-8"))["title"],
                "alt": (out / f"{stem}.txt").read_text("utf-8") if f"{stem}.txt" in paths else stem,
            }
            for stem, paths in figures.items()
        ]
        return fill_template(
            Path(__file__).parent / "templates" / "made.html",
            source=source,
            files=len(self.made),
            documents=[(stem, _endings(stem, paths)) for stem, paths in documents.items()],
            figures=shown,
            report=REPORT if (out / REPORT).is_file() else "",
            not_applicable=self.not_applicable,
            missing=self.missing,
        )


def _endings(stem: str, paths: Iterable[str]) -> list[tuple[str, str]]:
    """Return the paths with their endings."""
    return [(path, path.removeprefix(f"{stem}.")) for path in paths]


def reproduce(
    source: Source,
    out: Path,
    *,
    selection: str = "seed",
    logs: Path | None = None,
) -> Reproduction:
    """Write scores, tables, audit, letter, findings and figures of a source under `out`, with their record.

    Args:
        source: where the scores come from.
        out: folder for everything.
        selection: learning-rate rule.
        logs: folder of training logs, for Figure 12.

    Raises:
        UserError: a selection rule that the source cannot give.
    """
    inputs = FigureInputs(source=source, settings=Settings(selection=selection), logs=logs)
    outcome = Reproduction()
    for what, documents in progress(_DOCUMENTS.items(), "reproduce", unit="step"):
        try:
            for stem, document, forms in documents(inputs):
                for form in forms:
                    name = f"{stem}.{FORMATS[form].ending}"
                    write(document, form, out / name)
                    outcome.made.append(name)
        except UserError as error:
            outcome.leave_out(what, error)
    files, problems = draw_figures([figure.load() for figure in FIGURES.values()], inputs, out / "figures")
    outcome.made += [path.relative_to(out).as_posix() for path in files]
    for problem in problems:
        outcome.leave_out("a figure", problem)
    record = {
        "source": source.name,
        "made": outcome.made,
        "not_applicable": outcome.not_applicable,
        "missing": outcome.missing,
    }
    write_text(out / RECORD, json.dumps(record, indent=1) + "\n")
    outcome.made += [RECORD, PROVENANCE]
    write_text(out / INDEX, outcome.index(out, source.words))
    around = {"source": redacted(source.long_label), **provenance("analysis", PACKAGES)}
    hashes = {name: sha256_file(out / name) for name in (*outcome.made[:-1], INDEX)}
    write_manifest(out / PROVENANCE, around, hashes)
    return outcome


Documents = Iterator[tuple[str, TableDocument, Sequence[str]]]
"""Path without its ending, what is written there, and in which formats."""


def _scores(inputs: FigureInputs) -> Documents:
    yield "scores", scores_document(inputs.source.scores(inputs.settings), inputs.source), ("csv",)


def _tables(inputs: FigureInputs) -> Documents:
    source = inputs.source
    scores = None if source.is_published else source.scores(inputs.settings)
    for number in TABLES:
        table = build_table(number, scores, source=source)
        yield f"tables/table{number:02d}", table_document(table), TABLE_FORMATS[1:]


def _audit(inputs: FigureInputs) -> Documents:
    yield "audit", audit_document(audit(inputs.source, selection=inputs.settings.selection)), AUDIT_FORMATS


def _letter(inputs: FigureInputs) -> Documents:
    letter = write_letter(inputs.source, inputs.settings, inputs.assessment)
    yield "letter", letter_document(letter), LETTER_FORMATS


def _findings(inputs: FigureInputs) -> Documents:
    assessment = inputs.assessment
    yield "claims", verdicts_document(assessment, assessment.rows), ("markdown", "json", "csv")


_DOCUMENTS: dict[str, Callable[[FigureInputs], Documents]] = {
    "scores": _scores, "tables": _tables, "audit": _audit, "letter": _letter, "claims": _findings,
}  # fmt: skip
"""The documents of a source, besides figures."""
