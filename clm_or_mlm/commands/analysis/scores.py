"""`python -m analysis scores`: the scores of a source as CSV, Markdown or Parquet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from analysis.sources import add_score_options, add_source_options, score_settings, source_from
from benchmarks.protocol import AVERAGE, get_dataset
from common.errors import UserError, nearest
from common.files import atomic_path, write_text

__all__ = ["add_parser", "scores_csv", "scores_markdown"]

FORMATS = ("csv", "markdown", "parquet")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `scores`."""
    parser = subparsers.add_parser(
        "scores",
        help="mean and interval of every model and dataset, in percent",
        description="Print the scores of a source: mean and 95 % interval of every model and dataset, in percent.",
    )
    add_source_options(parser)
    add_score_options(parser)
    parser.add_argument("--model", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument("--dataset", nargs="+", metavar="NAME", help="only these datasets (or average)")
    parser.add_argument("--format", default="csv", choices=FORMATS, help="default: csv")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there (parquet needs it)")
    parser.set_defaults(function=_run)


def scores_csv(scores: pd.DataFrame) -> str:
    """Return the frame as CSV, numbers in percent with six decimals."""
    return scores.to_csv(index=False, float_format="%.6f", lineterminator="\n")


def scores_markdown(scores: pd.DataFrame) -> str:
    """Return the frame as a Markdown table, numbers with two decimals as the paper prints them."""
    head = " | ".join(scores.columns)
    lines = [f"| {head} |", f"|{'---|' * len(scores.columns)}"]
    for row in scores.itertuples(index=False):
        texts = [
            "" if value != value else f"{value:.2f}" if isinstance(value, float) else str(value)
            for value in row
        ]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def _run(args: argparse.Namespace) -> int:
    if args.format == "parquet" and args.out is None:
        raise UserError("--format parquet is no text: name a file with --out scores.parquet")
    for name in args.dataset or ():
        if name != AVERAGE:
            get_dataset(name)
    scores = source_from(args).scores(score_settings(args))
    held = list(dict.fromkeys(scores["model"]))
    for name in args.model or ():
        if name not in held:
            raise UserError(f"{args.source} has no scores of {name!r}{nearest(name, held)}")
    if args.model:
        scores = scores[scores["model"].isin(args.model)]
    if args.dataset:
        scores = scores[scores["dataset"].isin(args.dataset)]
    if args.format == "parquet":
        with atomic_path(args.out) as temporary:
            scores.reset_index(drop=True).to_parquet(temporary, index=False)
        return 0
    text = scores_csv(scores) if args.format == "csv" else scores_markdown(scores)
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_text(args.out, text)
    return 0
