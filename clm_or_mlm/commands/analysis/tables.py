"""`clm-or-mlm scores`, `table`, `audit`, `report` and `reproduce`: what a source of scores gives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from analysis.evidence.evidence import Settings
from analysis.export import FORMATS as EXCHANGED
from analysis.options import (
    OutFile,
    SelectionRule,
    SourceOptions,
)
from analysis.sources import PUBLISHED
from analysis.tables import audit as audits
from analysis.tables.audit import AUDIT_FORMATS, audit_document, runs_of_stand_ins, verdict
from analysis.tables.build import build_table, table_numbers
from analysis.tables.render import TABLE_FORMATS, scores_document, table_document
from benchmarks.protocol import AVERAGE, TASKS
from clm_or_mlm.names import DatasetName, ModelNames, TableNumber
from common.cli import MANY
from common.errors import UserError, nearest
from common.files import sha256_bytes, write_text
from common.manifest import write_manifest
from common.plain_text import counted, redacted
from common.provenance import OF_A_CALL, provenance, provenance_path
from common.reading import inside
from common.tables import FORMATS, show, write
from pretraining.model_names import TABLES

__all__ = ["audit", "export", "report", "reproduce", "scores", "table"]

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "matplotlib", "jinja2")


def scores(
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    model: Annotated[ModelNames, Parameter(metavar="NAME")] = (),
    dataset: Annotated[tuple[DatasetName, ...], MANY, Parameter(metavar="NAME")] = (),
    format: Annotated[str, Parameter(choices=("csv", "markdown", "parquet"))] = "csv",
    out: OutFile = None,
) -> None:
    """Print a source's scores: mean and 95 % interval for every model and dataset, in percent.

    example: clm-or-mlm scores --model 610m-mlm40-42k --interval bootstrap --source results/

    Args:
        model: print only these models
        dataset: print only these datasets, those of a task (SC, TC, QA, IR) or the task averages (average)
        format: output format (parquet needs --out)
    """
    if out is None and not FORMATS[format].is_text:
        raise UserError(f"--format {format} is binary: write it to a file with --out scores.{format}")
    opened = source.open(need_instances=score.method.needs_instances)
    for name in dataset:
        if name not in (AVERAGE, *TASKS):
            _ = opened.datasets[name]  # refuses an unknown one
    frame = opened.scores(opened.with_interval(score))
    known = list(dict.fromkeys(frame["model"]))
    for name in model:
        if name not in known:
            raise UserError(f"{source.source} has no scores of {name!r}{nearest(name, known)}")
    if model:
        frame = frame[frame["model"].isin(model)]
    if dataset:
        frame = frame[frame["dataset"].isin(dataset) | frame["task"].isin(dataset)]
    write(scores_document(frame), format, out)


def export(
    format: Annotated[str, Parameter(choices=tuple(EXCHANGED))],
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    out: Annotated[Path, Parameter(metavar="DIR")],
) -> None:
    """Write scores and their runs in a common exchange format.

    `--source DIR` and `ingest` can read back every format except croissant.

    example: clm-or-mlm analysis export mteb --source results/ --out build/mteb

    Args:
        format: model-index (Hugging Face), lm-eval, mteb or croissant (a runs table with its metadata)
        out: output folder; most formats have one subfolder per model
    """
    opened = source.open(need_instances=score.method.needs_instances)
    files = EXCHANGED[format].write(opened, opened.with_interval(score))
    for name, text in files.items():
        write_text(inside(out, name), text)
    sys.stdout.write(f"{out}: {counted(len(files), 'file')} of {EXCHANGED[format].title}\n")


def table(
    number: Annotated[tuple[TableNumber, ...], MANY],
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    format: Annotated[str, Parameter(choices=TABLE_FORMATS)] = "markdown",
    out: Annotated[Path | None, Parameter(metavar="DIR")] = None,
) -> None:
    """Print the paper's tables.

    Each cell shows the published value as the paper prints it. If the source has runs, the cell also shows the
    recomputed value with its interval (docs/intervals.md).

    examples:
      clm-or-mlm table 10 11 --source released --format latex
      clm-or-mlm table all --out build/tables

    Args:
        number: one or more of 1 to 17, or all
        format: output format
        out: write table01.md, ... to this folder instead of printing
    """
    numbers = _numbers(number)
    models = [name for one in numbers for name in TABLES.get(one, ())]
    opened = source.open(models, need_instances=score.method.needs_instances) if models else PUBLISHED
    settings = opened.with_interval(score) if models else None
    scores = None if settings is None or opened.is_published else opened.scores(settings)
    for one in numbers:
        text = show(table_document(build_table(one, scores, source=opened)), format)
        if out is None:
            sys.stdout.write(text + ("\n" if one != numbers[-1] else ""))
        else:
            path = out / f"table{one:02d}.{FORMATS[format].ending}"
            write_text(path, text)
            sys.stdout.write(f"{path}\n")


def _numbers(words: tuple[str, ...]) -> list[int]:
    if words == ("all",):
        return list(table_numbers())
    for word in words:
        if not word.isdecimal():
            raise UserError(
                f"there is no table {word!r}; give numbers from 1 to {max(table_numbers())}, or all"
            )
    return [int(word) for word in words]


def audit(
    *,
    source: SourceOptions = SourceOptions(),
    selection: SelectionRule = "seed",
    letter: bool = False,
    format: Annotated[str, Parameter(choices=AUDIT_FORMATS)] = "markdown",
    out: OutFile = None,
) -> int:
    """Compare all 800 published cells with scores recomputed from a source's runs, and redo the paper's own arithmetic.

    Exit code: 0 if no cell differs, 1 if any does, 2 for an error.

    examples:
      clm-or-mlm audit --source released --format html --out audit.html
      clm-or-mlm audit --letter --source results/ --out letter.md

    Args:
        letter: write a one-page letter: the answer, contradictions between paper, code and release, and the verdicts
        format: output format; a letter is markdown or html
    """
    if letter:
        return _letter(source, selection, format, out)
    opened = source.open()
    if opened.stand_ins is not None:
        if format != "markdown":
            raise UserError(
                f"{source.source}: the runs of a small study are listed as text, not compared with the paper's; "
                "leave --format out"
            )
        write(runs_of_stand_ins(opened), format, out)
        return 0
    result = audits.audit(opened, selection=selection)
    write(audit_document(result), format, out)
    if out is not None:
        sys.stdout.write(f"{out}: {verdict(result)}\n")
    return 1 if result.differs else 0


def _letter(source: SourceOptions, selection: str, format: str, out: Path | None) -> int:
    from analysis.letter.letter import LETTER_FORMATS, letter_document, write_letter

    if format not in LETTER_FORMATS:
        raise UserError(f"a letter cannot be written as {format}; use --format {' or '.join(LETTER_FORMATS)}")
    opened = source.open()
    written = write_letter(opened, opened.with_interval(Settings(selection=selection)))
    write(letter_document(written), format, out)
    return 1 if written.differs else 0


def report(
    *,
    source: SourceOptions = SourceOptions(),
    scores: Settings = Settings(),
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    out: Annotated[Path, Parameter(metavar="FILE")] = Path("build/report/index.html"),
) -> None:
    """Write a self-contained HTML page with all results from a source.

    The page starts with the answer to the paper's question. It then shows the findings with their comparisons, figures,
    tables, the audit's letter and provenance. You can save all but the provenance from the page (figures as CSV).

    example: clm-or-mlm report --source results/ --out report.html

    Args:
        logs: training logs, for Figure 12
        out: output file
    """
    from clm_or_mlm.report.content import gather
    from clm_or_mlm.report.html_page import render_page
    from paper_figures.figure import Inputs

    opened = source.open(need_instances=True)
    content = gather(
        Inputs(source=opened, settings=opened.with_interval(scores), logs=logs, second_opinion=True)
    )
    around = {"source": redacted(opened.given_as)} | provenance("analysis", PACKAGES)
    page = render_page(content, {name: value for name, value in around.items() if name not in OF_A_CALL})
    write_text(out, page)
    if out.is_file() and not out.is_symlink():
        write_manifest(provenance_path(out), around, {out.name: sha256_bytes(page.encode())})
    sys.stdout.write(f"{out}\n")


def reproduce(
    *,
    source: SourceOptions = SourceOptions(),
    selection: SelectionRule = "seed",
    logs: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    out: Annotated[Path, Parameter(metavar="DIR")] = Path("build"),
) -> None:
    """Make the audit, its letter, and every table and figure that the source has data for.

    The command ends by listing what was made, what was not, and why not.

    example: clm-or-mlm reproduce --source results/ --out build

    Args:
        logs: training logs, for Figure 12
        out: output folder
    """
    from clm_or_mlm import reproduce as reproduction

    opened = source.open(need_instances=True)
    outcome = reproduction.reproduce(opened, out, selection=selection, logs=logs)
    sys.stdout.write(outcome.text(out))
