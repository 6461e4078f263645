"""`python -m analysis coverage`: the true coverage of each nominal 95 % interval."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.precision import coverage
from analysis.sources import add_source_options, source_from
from analysis.statistics import intervals
from analysis.statistics.scores import Settings
from analysis.statistics.selection import SELECTIONS
from benchmarks.protocol import AVERAGE, DATASETS
from common.errors import UserError
from common.files import write_text
from common.text_tables import grid

__all__ = ["FORMATS", "add_parser", "coverage_text"]

DESCRIPTION = """\
Simulate five-seed cells with the variances observed in runs (or in the published cells), and count how often each
nominal 95 % interval holds the truth: the mean over seeds on these test instances, and on any. What the intervals
are and which to use: docs/intervals.md. The figure: python -m paper_figures coverage.
"""

FORMATS = ("text", "markdown", "csv", "json")


def add_parser(subparsers: Any) -> None:
    """Add `coverage`."""
    parser = subparsers.add_parser(
        "coverage", help="true coverage of each nominal 95 % interval, by simulation".replace("%", "%%"),
        description=DESCRIPTION,
    )  # fmt: skip
    add_source_options(parser)
    parser.add_argument("--selection", default="seed", choices=SELECTIONS, help="rule for the learning rate")
    parser.add_argument(
        "--trials",
        type=int,
        default=coverage.COVERAGE_TRIALS,
        help="simulated cells a dataset (default: 4000)",
    )
    parser.add_argument(
        "--resamples", type=int, default=coverage.COVERAGE_RESAMPLES, help="of each bootstrap (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=intervals.DEFAULT_SEED, help="of the simulation")
    parser.add_argument("--format", default="text", choices=FORMATS, help="default: text")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there instead of to standard output")
    parser.set_defaults(function=_run)


def _run(args: argparse.Namespace) -> int:
    if args.trials < 100 or args.resamples < 100:
        raise UserError(
            "a coverage needs 100 trials of 100 resamples or more; leave --trials and --resamples out"
        )
    settings = Settings(selection=args.selection, resamples=args.resamples, seed=args.seed)
    source = source_from(args, need_instances=True)
    frame = coverage.simulate(
        source,
        trials=args.trials,
        resamples=settings.resamples,
        seed=settings.seed,
        selection=settings.selection,
    )
    if args.format == "csv":
        text = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    elif args.format == "json":
        text = frame.round(6).to_json(orient="records", indent=2) + "\n"
    else:
        text = coverage_text(frame, source.label, args.trials, markdown=args.format == "markdown")
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_text(args.out, text)
    return 0


def coverage_text(frame: pd.DataFrame, source: str, trials: int, *, markdown: bool) -> str:
    """Return the coverages as two tables, one a target, in percent."""
    error = (intervals.LEVEL * (1 - intervals.LEVEL) / trials) ** 0.5
    lines = [
        f"Coverage in % of nominal 95 % intervals of five-seed cells, variances from {source}; {trials} trials a "
        f"dataset (standard error {100 * error:.1f}).",
    ]
    titles = {
        "seeds": "The mean over seeds on these test instances:",
        "seeds and instances": "The mean over seeds and test instances:",
    }
    for target in coverage.TARGETS:
        part = frame[frame["target"] == target]
        rows = [["dataset", "test set", "sd seeds", "sd test set", *coverage.KINDS]]
        for row in part.to_dict("records"):
            single = row["dataset"] != AVERAGE
            rows.append(
                [
                    DATASETS[row["dataset"]].title if single else "mean",
                    f"{int(row['n_test'])}" if single else "",
                    f"{row['seed_sd']:.2f}" if single else "",
                    f"{row['instance_sd']:.2f}" if single else "",
                    *(f"{100 * row[kind]:.1f}" for kind in coverage.KINDS),
                ]
            )
        lines += ["", titles[target], "", *grid(rows, markdown)]
    return "\n".join(lines) + "\n"
