"""All that a source allows: scores, tables, audit, letter, claims and figures, and a list of what could not be made."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.claims.assessment import assess
from analysis.claims.pages.documents import verdicts_document
from analysis.letter.letter import LETTER_FORMATS, letter_document, write_letter
from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from analysis.tables.audit import AUDIT_FORMATS, audit, audit_document
from analysis.tables.build import build_table, table_numbers
from analysis.tables.render import TABLE_FORMATS, scores_document, table_document
from common.errors import UserError
from common.files import sha256_bytes, sha256_file, write_text
from common.manifest import write_manifest
from common.plain_text import redacted
from common.progress import progress
from common.provenance import PROVENANCE, provenance
from common.tables import FORMATS, Document, write
from paper_figures.figure import FIGURES, Inputs, LazyFigure
from paper_figures.save import draw_figures

__all__ = ["Outcome", "reproduce"]

PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "statsmodels", "matplotlib")


@dataclass(kw_only=True)
class Outcome:
    """What a reproduction made, and what it could not make."""

    made: list[str] = field(default_factory=list)
    """Paths below the output folder."""
    missing: list[tuple[str, str]] = field(default_factory=list)
    """What could not be made, and why."""

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
    figures: Sequence[LazyFigure] | None = None,
) -> Outcome:
    """Write scores, tables, audit, letter, claims and figures of a source under `out`, with their record.

    Args:
        source: where the scores come from.
        out: folder for everything.
        selection: learning-rate rule.
        logs: folder of training logs, for Figure 12.
        figures: those to draw; None: all.

    Raises:
        UserError: a selection rule that the source cannot give.
    """
    settings = _settings(source, selection)
    outcome = Outcome()
    steps: list[tuple[str, Callable[[Source, Path, str], list[Path]]]] = [
        ("scores", _scores),
        ("tables", _tables),
        ("audit", _audit),
        ("letter", _letter),
        ("claims", _claims),
    ]
    for what, step in progress(steps, "reproduce", unit="step"):
        try:
            outcome.made += [path.relative_to(out).as_posix() for path in step(source, out, selection)]
        except UserError as error:
            outcome.missing.append((what, str(error)))
    inputs = Inputs(source=source, settings=settings, logs=logs)
    chosen = [figure.load() for figure in (FIGURES.values() if figures is None else figures)]
    for result in draw_figures(chosen, inputs, out / "figures"):
        outcome.made += [path.relative_to(out).as_posix() for path in result.files]
        if result.problem is not None:
            outcome.missing.append(("a figure", str(result.problem)))
    record = {"source": source.name, "made": outcome.made, "missing": outcome.missing}
    text = json.dumps(record, indent=1) + "\n"
    around = {"source_given_as": redacted(source.given_as), **provenance("analysis", PACKAGES)}
    hashes = {name: sha256_file(out / name) for name in outcome.made}
    write_manifest(out / PROVENANCE, around, hashes | {"reproduce.json": sha256_bytes(text.encode())})
    write_text(out / "reproduce.json", text)
    outcome.made += [PROVENANCE, "reproduce.json"]
    return outcome


def _settings(source: Source, selection: str) -> Settings:
    return source.settled(Settings(selection=selection))


def _write(document: Document, folder: Path, stem: str, forms: Sequence[str]) -> list[Path]:
    paths = {form: folder / f"{stem}.{FORMATS[form].ending}" for form in forms}
    for form, path in paths.items():
        write(document, form, path)
    return list(paths.values())


def _scores(source: Source, out: Path, selection: str) -> list[Path]:
    return _write(scores_document(source.scores(_settings(source, selection))), out, "scores", ["csv"])


def _tables(source: Source, out: Path, selection: str) -> list[Path]:
    scores = None if source.is_published else source.scores(_settings(source, selection))
    return [
        path
        for number in table_numbers()
        for path in _write(
            table_document(build_table(number, scores, source=source)),
            out / "tables",
            f"table{number:02d}",
            TABLE_FORMATS,
        )
    ]


def _audit(source: Source, out: Path, selection: str) -> list[Path]:
    return _write(audit_document(audit(source, selection=selection)), out, "audit", AUDIT_FORMATS)


def _letter(source: Source, out: Path, selection: str) -> list[Path]:
    letter = write_letter(source, _settings(source, selection))
    return _write(letter_document(letter), out, "letter", LETTER_FORMATS)


def _claims(source: Source, out: Path, selection: str) -> list[Path]:
    assessment = assess(source, _settings(source, selection))
    document = verdicts_document(assessment, assessment.verdicts)
    return _write(document, out, "claims", ["markdown", "json", "csv"])
