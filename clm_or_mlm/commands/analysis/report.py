"""`python -m analysis report`: write the page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.sources import add_score_options, add_source_options, score_settings, source_from
from clm_or_mlm.report.content import gather
from clm_or_mlm.report.html_page import render_page
from common.files import write_text
from common.provenance import provenance

__all__ = ["add_parser"]

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "matplotlib", "jinja2")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `report`."""
    parser = subparsers.add_parser(
        "report",
        help="one self-contained page: figures, tables, findings, audit, coverage, provenance",
        description="Write one self-contained HTML page with the figures of a folder and everything that the "
        "source says: tables, findings with verdicts, the audit, the coverage of the intervals, provenance.",
    )
    add_source_options(parser)
    add_score_options(parser, interval="bootstrap")
    parser.add_argument(
        "--figures", type=Path, default=Path("build/figures"), metavar="DIR",
        help="what `python -m paper_figures all` wrote from the same source (default: build/figures)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("build/report/index.html"), metavar="FILE",
                        help="default: build/report/index.html")  # fmt: skip
    parser.set_defaults(function=_run)


def _run(args: argparse.Namespace) -> int:
    content = gather(source_from(args, need_instances=True), args.figures, score_settings(args))
    record = {"source": args.source} | provenance("analysis", PACKAGES)
    write_text(args.out, render_page(content, record))
    sys.stdout.write(f"{args.out}\n")
    return 0
