"""`python -m analysis ingest STORE --out runs.parquet [--instances instances.parquet]`."""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from analysis.store.model_names import model_error
from analysis.store.problems import Problem, problem_records, summary
from benchmarks.protocol import PAPER, PROTOCOLS
from common.errors import UserError
from common.files import write_text
from common.old_parser import Parser

__all__ = ["add_parser", "tell"]

logger = logging.getLogger(__name__)

_MAX_TOLD = {"missing": 3}
"""How many problems of a kind are told one by one (else 20); --problems-out holds all."""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    """Add `ingest` to the commands of `python -m analysis`."""
    parser = subparsers.add_parser(
        "ingest",
        help="read a run store into a runs table",
        description="Read a run store, in the layout of the authors' release, into a runs table (docs/run-store.md).",
        epilog="Exit status: 0; 1 when problems were found and the good runs written; 2 when nothing was written.",
    )
    parser.add_argument(
        "store", type=Path, help="the store, its results folder, or a runs table to check and convert"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the runs table, .parquet or .csv"
    )
    parser.add_argument(
        "--instances", type=Path, metavar="FOLDER", help="write the per-instance scores here too"
    )
    parser.add_argument(
        "--add-model", action="append", default=[], metavar="NAME",
        help="take a model outside the released naming scheme; repeatable, * and ? match",
    )  # fmt: skip
    parser.add_argument(
        "--protocol", default=PAPER, choices=PROTOCOLS,
        help="whose scores: the paper's, of results.json (default), or the field's usual metrics, of run.json",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true", help="write nothing unless all is right and complete"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: one a core, at most 4)")
    parser.add_argument("--problems-out", type=Path, metavar="FILE", help="write all problems as JSON")
    parser.set_defaults(function=_main)


def tell(problems: Sequence[Problem]) -> None:
    """Log the problems, the harmless ones first, and only some of many."""
    kinds = Counter(problem.kind for problem in problems)
    told: Counter[str] = Counter()
    for problem in sorted(problems, key=lambda problem: (not problem.harmless, problem)):
        kind = problem.kind
        told[kind] += 1
        limit = _MAX_TOLD.get(kind, 20)
        if told[kind] <= limit:
            level = logging.INFO if problem.harmless else logging.WARNING
            logger.log(level, "%s", problem)
        elif told[kind] == limit + 1:
            logger.info(
                "... and %s more like that; --problems-out FILE lists all", f"{kinds[kind] - limit:,}"
            )


def _main(args: argparse.Namespace) -> int:
    from analysis.store.ingest import RefusedStoreError, ingest

    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: at least one process is needed")
    if args.store.is_file():
        return _convert(args)
    try:
        ingested = ingest(
            args.store,
            args.out,
            instances=args.instances,
            add_models=args.add_model,
            strict=args.strict,
            jobs=args.jobs,
            protocol=args.protocol,
        )
    except RefusedStoreError as refused:
        tell(refused.problems)
        _write_problems(args.problems_out, refused.problems)
        raise
    tell(ingested.problems)
    _write_problems(args.problems_out, ingested.problems)
    runs = ingested.runs
    logger.info(
        "%s: %s runs of %s; %s complete, %s without all 30 runs; %s",
        args.out,
        f"{len(runs):,}",
        _count(runs["model"].nunique(), "model"),
        _count(ingested.complete, "cell"),
        f"{ingested.incomplete:,}",
        summary(ingested.problems),
    )
    return ingested.status


def _convert(args: argparse.Namespace) -> int:
    from analysis.store.runs_table import protocol_of, read_runs, write_runs

    if args.instances is not None:
        raise UserError(f"{args.store}: a runs table holds no per-instance scores; leave --instances away")
    if (recorded := protocol_of(args.store)) == PAPER != args.protocol:
        raise UserError(
            f"{args.store}: a table of the paper's protocol; the standard metrics are in the run store it was made of"
        )
    runs = read_runs(args.store, add_models=args.add_model)
    added = [name for name in runs["model"].unique() if model_error(name) is not None]
    if (added or recorded != PAPER) and args.out.suffix.lower() == ".csv":
        what = "models taken with --add-model" if added else "protocol"
        raise UserError(f"{args.out}: a CSV cannot record the {what}; let --out end in .parquet")
    write_runs(args.out, runs, add_models=added, protocol=recorded)
    _write_problems(args.problems_out, ())
    logger.info("%s: %s runs of %s", args.out, f"{len(runs):,}", _count(runs["model"].nunique(), "model"))
    return 0


def _write_problems(path: Path | None, problems: Sequence[Problem]) -> None:
    if path is not None:
        write_text(path, json.dumps(problem_records(problems), indent=2) + "\n")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
