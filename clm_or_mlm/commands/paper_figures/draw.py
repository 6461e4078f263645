"""`python -m paper_figures 3`: the paper's figures as PDF, PNG and SVG, each with its numbers and its alt text."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from analysis.sources import (
    add_score_options,
    add_source_options,
    open_source,
    score_settings,
    source_from,
)
from common.errors import UserError, nearest
from common.old_parser import Parser
from common.progress import progress
from paper_figures.figure_data import Inputs
from paper_figures.registry import FORMATS, NUMBERS, get_figure
from paper_figures.supplementary.registry import EXTRAS, write_extra
from pretraining.study import FIGURES

_EPILOG = """\
Figures 5 and 7 need single runs (--source released or PATH), Figure 12 needs training logs (--logs).
Each figure is written as figureN.pdf, .png, .svg, .csv (what is drawn), .txt (alt text) and .json (provenance).

examples:
  python -m paper_figures 3
  python -m paper_figures all --source runs.parquet --interval bca
  python -m paper_figures 12 --logs build/pretraining
  python -m paper_figures claims multiverse coverage      (not in the paper: docs/claims.md, docs/intervals.md)
"""


_OF_LOGS = 12
"""The figure that needs no scores, so that its source need not be there."""


def numbers(words: Sequence[str]) -> tuple[int, ...]:
    """Return the figures that are asked for, each once, in order; `UserError` for what is no figure."""
    if "all" in words:
        return NUMBERS
    wanted = []
    for word in words:
        text = word.lower().removeprefix("figure")
        if not text.isdecimal() or int(text) not in NUMBERS:
            raise UserError(
                f"there is no Figure {word}{nearest(text, EXTRAS)}; give numbers from 1 to {NUMBERS[-1]}, or all, "
                f"or {', '.join(EXTRAS)}"
            )
        wanted.append(int(text))
    return tuple(dict.fromkeys(wanted))


def _prepare_matplotlib() -> None:
    """Keep a backend that is not there from stopping the import, and font lists out of the log."""
    os.environ.pop("MPLBACKEND", None)
    for name in ("matplotlib", "fontTools"):
        logging.getLogger(name).setLevel(logging.ERROR)


def main(argv: Sequence[str]) -> int | None:
    """Run the command line; the exit status is 2 when something asked for by number was not drawn."""
    parser = Parser(prog="python -m paper_figures", description=__doc__, epilog=_EPILOG)
    what = "numbers of figures, 1 to 12, or all; or claims, multiverse, coverage"
    parser.add_argument("figures", nargs="+", metavar="N", help=what)
    add_source_options(parser)
    add_score_options(parser)
    group = parser.add_argument_group("what is written")
    group.add_argument(
        "--logs", type=Path, metavar="DIR", help="folder with the training logs, for Figure 12"
    )
    group.add_argument("--out", type=Path, default=Path("build/figures"), metavar="DIR",
                       help="where the files go (default: build/figures)")  # fmt: skip
    group.add_argument("--format", default=",".join(FORMATS), metavar=",".join(FORMATS),
                       help="formats of the picture (default: all three)")  # fmt: skip
    parser.set_defaults(interval=None)  # the claims are not tested with the interval the figures default to
    args = parser.parse_args(argv)
    asked, args.interval = args.interval, args.interval or "paper"
    extras = [word for word in dict.fromkeys(args.figures) if word in EXTRAS]
    wanted = numbers([word for word in args.figures if word not in EXTRAS])
    every = "all" in args.figures
    _prepare_matplotlib()
    from paper_figures.output.save import check_formats, write_figure

    formats = check_formats([name for name in args.format.lower().split(",") if name])
    settings = score_settings(args)
    scored = [number for number in wanted if number != _OF_LOGS or args.logs is None]
    names = list(dict.fromkeys(name for number in scored for name in FIGURES[number]))
    source = (
        source_from(args, None if every or extras else names, need_instances=bool(extras) and asked is None)
        if scored or extras
        else open_source("published")
    )
    inputs = Inputs(source=source, settings=settings, logs=args.logs)
    made, refused = [], []
    figures: list[int | str] = [*wanted, *extras]
    for figure in progress(figures, "figures", total=len(figures), unit="figure"):
        try:
            if isinstance(figure, str):
                made += write_extra(figure, inputs, args.out, formats, interval=asked)
            else:
                made += write_figure(get_figure(figure), inputs, args.out, formats)[0]
        except UserError as error:
            if len(figures) == 1:
                raise
            refused.append(str(error))
    for path in made:
        print(path)
    for sentence in refused:
        print(f"not drawn: {sentence}")
    return 0 if made and (every or not refused) else 2
