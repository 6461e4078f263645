"""`python -m analysis table N`: the paper's tables, published and recomputed values side by side."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.sources import add_score_options, add_source_options, open_source, score_settings, source_from
from analysis.tables.build import build_table, table_numbers
from analysis.tables.render import EXTENSIONS, FORMATS, render
from common.errors import UserError
from common.files import write_text
from pretraining.study import TABLES

__all__ = ["add_parser"]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `table`."""
    parser = subparsers.add_parser(
        "table",
        help="one of the paper's Tables 1 to 17, or all",
        description="Print the paper's tables. Each cell has the published value and, where the source holds runs, "
        "the recomputed one with its interval (a bootstrap over seeds unless --interval says otherwise).",
    )
    parser.add_argument("number", nargs="+", metavar="N", help="1 to 17, or all")
    add_source_options(parser)
    add_score_options(parser, interval="bootstrap")
    parser.add_argument("--format", default="markdown", choices=list(FORMATS), help="default: markdown")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write table01.md, ... there instead of printing"
    )
    parser.set_defaults(function=_run)


def _run(args: argparse.Namespace) -> int:
    numbers = _numbers(args.number)
    models = [name for number in numbers for name in TABLES.get(number, ())]
    source = source_from(args, models) if models else open_source("published")
    scores = None if source.is_published else source.scores(score_settings(args))
    for number in numbers:
        text = render(build_table(number, scores, source=source), args.format)
        if args.out is None:
            sys.stdout.write(text + ("\n" if number != numbers[-1] else ""))
        else:
            path = args.out / f"table{number:02d}.{EXTENSIONS[args.format]}"
            write_text(path, text)
            sys.stdout.write(f"{path}\n")
    return 0


def _numbers(words: list[str]) -> list[int]:
    if words == ["all"]:
        return list(table_numbers())
    for word in words:
        if not word.isdecimal():
            raise UserError(f"{word!r} is no table; give numbers from 1 to {max(table_numbers())}, or all")
    return [int(word) for word in words]
