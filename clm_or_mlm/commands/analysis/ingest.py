"""`python -m analysis ingest STORE --out runs.parquet [--instances instances.parquet]`."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from analysis.store.ingest import RefusedStoreError
from analysis.store.ingest import ingest as read_store
from analysis.store.model_names import model_error
from analysis.store.problems import Problem, problem_records, summary
from analysis.store.runs_table import protocol_of, read_runs, write_runs
from benchmarks.protocol import PAPER
from clm_or_mlm.output import OutFile
from common.cli import MANY
from common.errors import UserError
from common.files import write_text

__all__ = ["ingest", "log_problems"]

logger = logging.getLogger(__name__)

_MOST_LOGGED = {"missing": 3}
"""How many problems of a kind are logged one by one (else 20); --problems-out holds all."""


def ingest(
    store: Path,
    /,
    *,
    out: Annotated[Path, Parameter(metavar="FILE")],
    instances: Annotated[Path | None, Parameter(metavar="FOLDER")] = None,
    add_model: Annotated[tuple[str, ...], MANY, Parameter(metavar="NAME")] = (),
    protocol: Literal["paper", "standard"] = "paper",
    strict: bool = False,
    jobs: Annotated[int | None, Parameter(metavar="N")] = None,
    problems_out: OutFile = None,
) -> int:
    """Read a run store, in the layout of the authors' release, into a runs table (docs/run-store.md).

    Exit status: 0; 1 when problems were found and the good runs written; 2 when nothing was written.

    Args:
        store: the store, its results folder, or a runs table to check and convert
        out: the runs table, .parquet or .csv
        instances: write the per-instance scores here too
        add_model: take a model outside the released naming scheme; repeatable, * and ? match
        protocol: whose scores: the paper's, of results.json, or the field's usual metrics, of run.json
        strict: write nothing unless all is right and complete
        jobs: processes (default: one a core, at most 4)
        problems_out: write all problems as JSON
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"--jobs {jobs}: at least one process is needed")
    if store.is_file():
        if instances is not None:
            raise UserError(f"{store}: a runs table holds no per-instance scores; leave --instances away")
        _convert(store, out, add_model, protocol)
        _write_problems(problems_out, ())
        return 0
    try:
        ingested = read_store(
            store,
            out,
            instances=instances,
            add_models=add_model,
            strict=strict,
            jobs=jobs,
            protocol=protocol,
        )
    except RefusedStoreError as refused:
        log_problems(refused.problems)
        _write_problems(problems_out, refused.problems)
        raise
    log_problems(ingested.problems)
    _write_problems(problems_out, ingested.problems)
    runs = ingested.runs
    logger.info(
        "%s: %s runs of %s; %s complete, %s without all 30 runs; %s",
        out,
        f"{len(runs):,}",
        _count(runs["model"].nunique(), "model"),
        _count(ingested.complete, "cell"),
        f"{ingested.incomplete:,}",
        summary(ingested.problems),
    )
    return ingested.status


def log_problems(problems: Sequence[Problem]) -> None:
    """Log the problems, the harmless ones first, and only some of many."""
    kinds = Counter(problem.kind for problem in problems)
    logged: Counter[str] = Counter()
    for problem in sorted(problems, key=lambda problem: (not problem.harmless, problem)):
        kind = problem.kind
        logged[kind] += 1
        limit = _MOST_LOGGED.get(kind, 20)
        if logged[kind] <= limit:
            level = logging.INFO if problem.harmless else logging.WARNING
            logger.log(level, "%s", problem)
        elif logged[kind] == limit + 1:
            logger.info(
                "... and %s more like that; --problems-out FILE lists all", f"{kinds[kind] - limit:,}"
            )


def _convert(table: Path, out: Path, add_models: Sequence[str], protocol: str) -> None:
    """Check a runs table and write it again."""
    if (recorded := protocol_of(table)) == PAPER != protocol:
        raise UserError(
            f"{table}: a table of the paper's protocol; the standard metrics are in the run store it was made of"
        )
    runs = read_runs(table, add_models=add_models)
    added = [name for name in runs["model"].unique() if model_error(name) is not None]
    if (added or recorded != PAPER) and out.suffix.lower() == ".csv":
        what = "models taken with --add-model" if added else "protocol"
        raise UserError(f"{out}: a CSV cannot record the {what}; let --out end in .parquet")
    write_runs(out, runs, add_models=added, protocol=recorded)
    logger.info("%s: %s runs of %s", out, f"{len(runs):,}", _count(runs["model"].nunique(), "model"))


def _write_problems(path: Path | None, problems: Sequence[Problem]) -> None:
    if path is not None:
        write_text(path, json.dumps(problem_records(problems), indent=2) + "\n")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
