"""`python -m miniature run`: the whole study at toy scale, from text to claims; resumable."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from common.old_parser import Parser
from miniature.recipe import FORMS, get_form


def main(argv: Sequence[str]) -> int | None:
    parser = Parser(prog="python -m miniature", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    make = commands.add_parser("run", help="make it, or go on with it")
    make.add_argument("--workers", type=int, default=2, help="processes side by side (2)")
    show = commands.add_parser("show", help="analyse what has been made so far")
    forms = "; ".join(f"{form.name}: {form.about}" for form in FORMS.values())
    for parser_of in (make, show):
        parser_of.add_argument("--form", default="cpu", metavar="|".join(FORMS), help=forms)
        parser_of.add_argument(
            "--data",
            metavar="DIR|hub",
            help="folder of original files (docs/miniature.md), or hub, with network; made-up ones without",
        )
        parser_of.add_argument("--out", type=Path, default=Path("build/miniature"), metavar="DIR")
        parser_of.add_argument(
            "--example",
            type=Path,
            metavar="DIR",
            help="write runs table and curves there too, small enough to keep",
        )
        parser_of.add_argument(
            "--until", default="report", choices=("runs", "report"), help="runs: no tables and figures"
        )
    random = commands.add_parser("random", help="write the middle size as it is drawn, untrained")
    random.add_argument("--study", type=Path, required=True, metavar="FILE", help="study file")
    random.add_argument("--data", type=Path, required=True, metavar="DIR", help="shards, for the tokenizer")
    random.add_argument("--out", type=Path, required=True, metavar="DIR")
    sample = commands.add_parser("sample", help="take as many rows of a dataset as a form needs")
    sample.add_argument("dataset", metavar="DATASET")
    sample.add_argument("--form", required=True, metavar="|".join(FORMS))
    sample.add_argument("--data", type=Path, required=True, metavar="DIR", help="the whole dataset")
    sample.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = parser.parse_args(argv)
    if args.command == "random":
        from miniature.untrained import write_random

        write_random(args.study, args.data, args.out)
        return None
    form = get_form(args.form)
    if args.command == "sample":
        from miniature.sample import write_sample

        write_sample(form, args.dataset, args.data, args.out)
        return None
    from miniature.data_source import get_origin
    from miniature.pipeline import make_miniature, show_miniature

    origin = get_origin(args.data)
    if args.command == "show":
        told = show_miniature(
            form,
            origin,
            args.out,
            report=args.until == "report",
            example=args.example,
            start=time.monotonic(),
        )
        sys.stdout.write(told)
        return None
    if args.workers < 1:
        raise UserError(f"--workers {args.workers}: at least one process is needed")
    sys.stdout.write(
        make_miniature(
            form, origin, args.out, workers=args.workers, report=args.until == "report", example=args.example
        )
    )
    return None


if __name__ == "__main__":
    run(main)
