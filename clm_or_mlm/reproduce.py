"""All that a source allows: scores, tables, audit, letter, findings, figures, and a list of what could not be made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.claims.assessment import assess
from analysis.claims.pages.explain import verdicts_document
from analysis.evidence.evidence import Settings
from analysis.letter import LETTER_FORMATS, letter_document, write_letter
from analysis.sources import Source
from analysis.tables.audit import AUDIT_FORMATS, audit, audit_document
from analysis.tables.build import build_table
from analysis.tables.render import TABLE_FORMATS, scores_document, table_document
from common.errors import UserError
from common.files import sha256_bytes, sha256_file, write_text
from common.manifest import write_manifest
from common.plain_text import redacted
from common.progress import progress
from common.provenance import PROVENANCE, provenance
from common.tables import FORMATS, TableDocument, write
from paper_figures.figure import FIGURES, FigureInputs
from paper_figures.save import draw_figures
from pretraining.models import TABLES

__all__ = ["Reproduction", "reproduce"]

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "statsmodels", "matplotlib")


@dataclass(kw_only=True)
class Reproduction:
    """The files that a reproduction made, and the reasons for those it could not make."""

    made: list[str] = field(default_factory=list)
    """Paths below the output folder."""
    missing: list[tuple[str, str]] = field(default_factory=list)
    """Each thing that could not be made, with the reason."""

    def text(self, out: Path) -> str:
        """Return the closing list."""
        lines = [f"made, under {out}:", *(f"  {path}" for path in self.made)]
        if self.missing:
            lines += ["could not be made:", *(f"  {what}: {why}" for what, why in self.missing)]
        return "\n".join(lines) + "\n"


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
    settings = source.with_interval(Settings(selection=selection))
    outcome = Reproduction()
    for what, documents in progress(_DOCUMENTS.items(), "reproduce", unit="step"):
        try:
            for stem, document, forms in documents(source, settings):
                for form in forms:
                    name = f"{stem}.{FORMATS[form].ending}"
                    write(document, form, out / name)
                    outcome.made.append(name)
        except UserError as error:
            outcome.missing.append((what, str(error)))
    inputs = FigureInputs(source=source, settings=settings, logs=logs)
    files, problems = draw_figures([figure.load() for figure in FIGURES.values()], inputs, out / "figures")
    outcome.made += [path.relative_to(out).as_posix() for path in files]
    outcome.missing += [("a figure", str(problem)) for problem in problems]
    record = {"source": source.name, "made": outcome.made, "missing": outcome.missing}
    text = json.dumps(record, indent=1) + "\n"
    around = {"source": redacted(source.long_label), **provenance("analysis", PACKAGES)}
    hashes = {name: sha256_file(out / name) for name in outcome.made}
    write_manifest(out / PROVENANCE, around, hashes | {"reproduce.json": sha256_bytes(text.encode())})
    write_text(out / "reproduce.json", text)
    outcome.made += [PROVENANCE, "reproduce.json"]
    return outcome


Documents = Iterator[tuple[str, TableDocument, Sequence[str]]]
"""Path without its ending, what is written there, and in which formats."""


def _scores(source: Source, settings: Settings) -> Documents:
    yield "scores", scores_document(source.scores(settings)), ("csv",)


def _tables(source: Source, settings: Settings) -> Documents:
    scores = None if source.is_published else source.scores(settings)
    for number in TABLES:
        table = build_table(number, scores, source=source)
        yield f"tables/table{number:02d}", table_document(table), TABLE_FORMATS


def _audit(source: Source, settings: Settings) -> Documents:
    yield "audit", audit_document(audit(source, selection=settings.selection)), AUDIT_FORMATS


def _letter(source: Source, settings: Settings) -> Documents:
    yield "letter", letter_document(write_letter(source, settings)), LETTER_FORMATS


def _findings(source: Source, settings: Settings) -> Documents:
    assessment = assess(source, settings)
    yield "claims", verdicts_document(assessment, assessment.rows), ("markdown", "json", "csv")


_DOCUMENTS: dict[str, Callable[[Source, Settings], Documents]] = {
    "scores": _scores, "tables": _tables, "audit": _audit, "letter": _letter, "claims": _findings,
}  # fmt: skip
"""The documents of a source, besides figures."""
