"""`clm-or-mlm scores`, `table` and `audit`: what a source of scores gives."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from analysis.evidence.settings import Settings
from analysis.options import OutFile, SelectionRule, SourceOptions
from analysis.tables import TABLE_FORMATS
from benchmarks.commands import DatasetName
from benchmarks.protocol import AVERAGE, TASKS
from common.cli import MANY, offered
from common.errors import UserError, nearest
from common.files import sha256_bytes, write_bytes
from common.manifest import check_outputs, write_manifest
from common.provenance import provenance, provenance_path
from common.tables import FORMATS, default_format, document_bytes, write
from pretraining.names import ModelNames
from pretraining.paper_models import TABLES

if TYPE_CHECKING:
    TableNumber = str
else:
    TableNumber = offered([*TABLES, "all"])
_PACKAGES = ("numpy", "scipy", "pandas", "statsmodels")


def scores(
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    model: Annotated[ModelNames, Parameter(metavar="NAME")] = (),
    dataset: Annotated[
        tuple[DatasetName, ...], MANY, Parameter(metavar="NAME", show_choices=False)
    ] = (),
    format: Annotated[
        str,
        Parameter(choices=("text", "csv", "markdown", "parquet"), show_default=False),
    ] = "",
    out: OutFile = None,
) -> None:
    """Print a source's scores: mean and 95 % interval for every model and dataset, in percent.

    example: clm-or-mlm scores --model 610m-mlm40-42k --interval bootstrap --source results/

    Args:
        model: print only these models
        dataset: print only these datasets, tasks (SC, TC, QA, IR) or averages (average)
        format: output format (default: csv; on a terminal, text)
    """
    format = format or default_format("csv", out)
    if out is None and not FORMATS[format].is_text:
        raise UserError(
            f"--format {format} is binary: write it to a file with --out scores.{format}"
        )

    from analysis.tables.render import scores_document

    opened = source.open(need_instances=score.method.needs_instances)
    for name in dataset:
        if name not in (AVERAGE, *TASKS):
            # The datasets are a registry, in which looking up an unknown name raises a `UserError`.
            _ = opened.datasets[name]

    frame = opened.scores(opened.with_interval(score))
    models_with_scores = list(dict.fromkeys(frame["model"]))
    for name in model:
        if name not in models_with_scores:
            hint = nearest(name, models_with_scores)
            # Without a near name, the hint is how to see them all.
            hint = hint or "; leave --model out to see all models"
            raise UserError(f"{source.source} has no scores of {name!r}{hint}")

    if model:
        frame = frame[frame["model"].isin(model)]
    if dataset:
        # The option also takes tasks and `average`.
        frame = frame[frame["dataset"].isin(dataset) | frame["task"].isin(dataset)]

    write(scores_document(frame, opened), format, out)


def table(
    number: Annotated[tuple[TableNumber, ...], MANY, Parameter(show_choices=False)],
    /,
    *,
    source: SourceOptions = SourceOptions(),
    score: Settings = Settings(),
    format: Annotated[str, Parameter(choices=TABLE_FORMATS, show_default=False)] = "",
    out: Annotated[Path | None, Parameter(metavar="DIR")] = None,
) -> None:
    """Print the paper's tables.

    Each cell shows the published value as the paper prints it. If the source has runs, the cell also shows the
    recomputed value with its interval (docs/claims.md).

    examples:
      clm-or-mlm table 10 11 --source released --format latex
      clm-or-mlm table all --out build/tables

    Args:
        number: one or more of 1 to 17, or all
        format: output format (default: markdown; on a terminal, text)
        out: write table01.md, ... to this folder instead of printing
    """
    from analysis.sources import PUBLISHED
    from analysis.tables.build import build_table, models_of_tables
    from analysis.tables.render import table_document

    format = format or default_format("markdown", out)
    # Which tables, and the models that they need.
    models_by_table = models_of_tables()
    if number == ("all",):
        numbers = list(models_by_table)
    else:
        for word in number:
            if not word.isdecimal():
                raise UserError(
                    f"there is no table {word!r}; give numbers from 1 to {max(models_by_table)}, or all"
                )
        numbers = [int(word) for word in number]

    models: list[str] = []
    for table_number in numbers:
        # `build_table` refuses a number of no table.
        models += models_by_table.get(table_number, ())

    # The scores of these models.
    opened = PUBLISHED
    scores = None  # recomputed ones, which printed cells do not have

    # Table 1 has settings but no models: it needs no source.
    if models:
        opened = source.open(models, need_instances=score.method.needs_instances)
        # For printed cells it refuses another rule than the paper's, although nothing is recomputed.
        settings = opened.with_interval(score)
        if not opened.is_published:
            scores = opened.scores(settings)

    for table_number in numbers:
        document = table_document(build_table(table_number, scores, source=opened))
        if out is None:
            write(document, format, None)
            # An empty line between tables.
            sys.stdout.write("\n" if table_number != numbers[-1] else "")
        else:
            path = out / f"table{table_number:02d}.{FORMATS[format].ending}"
            record = provenance_path(path)
            content = document_bytes(document, format)
            hashes = {path.name: sha256_bytes(content)}

            # Refused, before anything is written: another's file under one of the two names, and a table that
            # was changed since an earlier call wrote it. The record of provenance itself is written as well,
            # but its hash is not in it, so that here it has an empty one.
            check_outputs(out, {**hashes, record.name: ""}, record)
            write_bytes(path, content)
            write_manifest(record, provenance("analysis", _PACKAGES), hashes)
            sys.stdout.write(f"{path}\n")


def audit(
    *,
    source: SourceOptions = SourceOptions(),
    selection: SelectionRule = "seed",
    format: Literal["markdown", "json"] = "markdown",
    out: OutFile = None,
) -> int:
    """Compare all 800 published cells with scores recomputed from a source's runs, and redo the paper's own arithmetic.

    Of a run store, the audit also compares the code, versions, data and settings that its runs were made with, and
    lists failed runs with the last lines of their logs (docs/run-store.md).

    Exit code: 0 if no cell and no run's making differs, 1 if any does, 2 for an error.

    example: clm-or-mlm audit --source released --out audit.md
    """
    from analysis.tables.audit import audit as audited
    from analysis.tables.audit import audit_document, runs_of_stand_ins, verdict
    from analysis.tables.run_provenance import audit_provenance, provenance_lines

    # Any model is accepted: of those that the paper does not print, it is audited how their runs were made. That is
    # `made`, which only a run store says.
    opened = replace(source, add_model=("*",)).open()
    made = None if opened.store is None else audit_provenance(opened.store)

    # Whether the runs were made in different ways.
    mixed = made is not None and bool(made.mismatches)
    if opened.stand_ins is not None:
        if format != "markdown":
            raise UserError(
                f"{source.source}: the runs of a small study are listed as text, not compared with the paper's; "
                "leave --format out"
            )
        write(runs_of_stand_ins(opened, made), format, out)
        return int(mixed)

    result = audited(opened, selection=selection)
    write(audit_document(result, made), format, out)
    if out is not None:
        sys.stdout.write(f"{out}: {verdict(result)}\n")
        if made is not None:
            # The last line is the sum: how many mismatches and failed runs there are.
            sys.stdout.write(f"{provenance_lines(made)[-1]}\n")

    return int(result.differs or mixed)
