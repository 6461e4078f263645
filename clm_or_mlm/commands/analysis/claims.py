"""`python -m analysis claims`: a verdict, with effect, interval and p, for each finding of the paper."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from analysis.claims.assessment import assess, default_interval
from analysis.claims.catalogue import CLAIMS
from analysis.claims.formats import FORMATS, render_claims
from analysis.sources import (
    Source,
    add_score_options,
    add_source_options,
    open_source,
    source_from,
    standard_of,
)
from analysis.statistics.scores import Settings
from benchmarks.protocol import STANDARD
from common.errors import UserError, nearest
from common.files import write_text

__all__ = ["add_parser", "choose", "main"]

DESCRIPTION = """\
Judge the paper's findings F1-F15 against a source of scores: supported, contradicted, inconclusive, or not
decidable from this source. The published cells are enough for most of them; F7 and F10 need single runs.

    python -m analysis claims                                 every claim, from the published cells
    python -m analysis claims --id F8 --explain               contrasts, numbers and reasoning
    python -m analysis claims --source runs.parquet --multiverse
"""


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "claims",
        help="which findings of the paper survive a test",
        description=DESCRIPTION,
    )
    add_source_options(parser)
    add_score_options(parser)
    parser.set_defaults(interval=None, function=main)
    for action in parser._actions:
        if action.dest == "interval":
            action.help = (
                "test and 95 %% interval: paper (normal), t, bootstrap or bca (over seeds), hierarchical (seeds and "
                "instances); default: hierarchical where instances are known, else t"
            )
    group = parser.add_argument_group("what to show")
    group.add_argument(
        "--id", action="append", metavar="F8", help="only this claim; may be repeated, F5 is all of F5"
    )
    group.add_argument(
        "--explain", action="store_true", help="contrasts, the numbers that enter, the reasoning"
    )
    group.add_argument(
        "--multiverse", action="store_true",
        help="every verdict under every selection rule, interval and, where runs carry both, protocol",
    )  # fmt: skip
    group.add_argument(
        "--standard", metavar="PATH",
        help="with --multiverse: the same runs scored by the standard protocol (store or table; a --source that "
        "is a store with run.json files needs none)",
    )  # fmt: skip
    group.add_argument(
        "--format",
        default="text",
        choices=tuple(FORMATS),
        help="default: text; csv --explain has one row a contrast",
    )
    group.add_argument("--out", type=Path, metavar="FILE", help="write there instead of to standard output")


def main(args: argparse.Namespace) -> int:
    """Run the command."""
    wanted = choose(args.id)
    source = source_from(args, need_instances=args.interval is None)
    interval = args.interval or default_interval(source)
    settings = Settings(selection=args.selection, interval=interval, resamples=args.resamples, seed=args.seed)
    if args.multiverse and not source.comparable and source.stand_ins is None:
        raise UserError("--multiverse compares the protocols itself: leave --protocol standard out")
    if args.standard and not args.multiverse:
        raise UserError("--standard goes with --multiverse, which compares protocols")
    if args.multiverse:
        text = _multiverse(source, settings, wanted, args)
    else:
        assessment = assess(source, settings)
        shown = [verdict for verdict in assessment.verdicts if verdict.claim.id in wanted]
        text = render_claims(assessment, shown, args.format, explain=args.explain)
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_text(args.out, text)
    return 0


def choose(ids: list[str] | None) -> list[str]:
    """Return the ids of the claims to show; `F5` stands for F5a to F5e, case does not matter.

    Raises:
        UserError: no such claim.
    """
    if not ids:
        return list(CLAIMS)
    known = {name.lower(): name for name in CLAIMS}
    wanted: list[str] = []
    for given in ids:
        name = given.strip().lower()
        group = [full for low, full in known.items() if low == name or low.rstrip("abcde") == name]
        if not group:
            raise UserError(
                f"unknown claim {given!r}{nearest(given.upper(), CLAIMS)}; the claims are {', '.join(CLAIMS)}"
            )
        wanted += group
    return [name for name in CLAIMS if name in wanted]


def _multiverse(source: Source, settings: Settings, wanted: list[str], args: argparse.Namespace) -> str:
    from analysis.claims.formats import render_multiverse
    from analysis.claims.multiverse import explore

    standard = (
        open_source(args.standard, add_models=args.add_model, protocol=STANDARD)
        if args.standard
        else standard_of(source)
    )
    return render_multiverse(explore(source, settings, standard=standard), wanted, args.format)
