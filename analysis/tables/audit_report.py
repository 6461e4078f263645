"""The audit as text: Markdown, HTML and JSON, and the command that prints it."""

from __future__ import annotations

import argparse
import html
import json
import sys
from collections.abc import Callable
from pathlib import Path

from analysis.sources import Source, add_source_options, source_from
from analysis.statistics.selection import SELECTIONS
from analysis.tables.audit import STATUSES, Audit, AuditedCell, audit
from benchmarks.protocol import AVERAGE, DATASETS
from common.files import write_text

__all__ = ["FORMATS", "add_parser", "audit_html", "audit_json", "audit_markdown"]

_SUMMARY = ("table", "cells", *STATUSES)
_CELLS = ("table", "model", "task", "dataset", "published", "recomputed", "difference", "runs", "status")


def audit_json(found: Audit) -> str:
    """Return `{"cells": [...], "arithmetic": [...], "summary": {"2": {...}, ..., "all": {...}}}`, and
    where the runs come from."""
    return json.dumps(found.as_dict(), indent=1) + "\n"


def audit_markdown(found: Audit) -> str:
    """Return the audit as a Markdown page: summary, arithmetic, cells; without runs, no list of cells."""
    lines = [
        f"# Audit of arXiv 2507.00994v4 against {found.source}",
        "",
        _verdict(found),
        "",
        "## Cells by table",
        "",
    ]
    lines += _markdown_table(_SUMMARY, _summary_rows(found))
    lines += ["", "## The paper's own arithmetic", ""]
    lines += _markdown_table(("stated", "value", "recomputed", "status", "note"), _arithmetic_rows(found))
    rows = _cell_rows(found)
    if rows:
        lines += ["", "## Cells with runs", "", *_markdown_table(_CELLS, rows)]
    return "\n".join(lines) + "\n"


def audit_html(found: Audit) -> str:
    """Return the audit as a self-contained HTML page."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Audit against {html.escape(found.source)}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>Audit of arXiv 2507.00994v4 against {html.escape(found.source)}</h1>",
        f"<p>{html.escape(_verdict(found))}</p>",
        "<h2>Cells by table</h2>",
        _html_table(_SUMMARY, _summary_rows(found)),
        "<h2>The paper's own arithmetic</h2>",
        _html_table(("stated", "value", "recomputed", "status", "note"), _arithmetic_rows(found)),
    ]
    rows = _cell_rows(found)
    if rows:
        parts += ["<h2>Cells with runs</h2>", _html_table(_CELLS, rows)]
    return "\n".join([*parts, "</body></html>"]) + "\n"


FORMATS: dict[str, Callable[[Audit], str]] = {
    "markdown": audit_markdown,
    "html": audit_html,
    "json": audit_json,
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `audit`."""
    parser = subparsers.add_parser(
        "audit",
        help="every published cell against its runs, and the paper's own arithmetic",
        description="Compare all 800 published cells with what a source's runs give, and redo the paper's own "
        "arithmetic. Exit status: 0 when no cell differs, 1 when one does, 2 for a mistake in the call.",
    )
    add_source_options(parser)
    parser.add_argument(
        "--selection", default="seed", choices=SELECTIONS, help="learning-rate rule (default: seed)"
    )
    parser.add_argument("--format", default="markdown", choices=list(FORMATS), help="default: markdown")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write there instead of standard output")
    parser.set_defaults(function=_run)


def _run(args: argparse.Namespace) -> int:
    source = source_from(args)
    if source.stand_ins is not None:
        sys.stdout.write(_runs_of_stand_ins(source))
        return 0
    found = audit(source, selection=args.selection)
    text = FORMATS[args.format](found)
    if args.out is None:
        sys.stdout.write(text)
    else:
        write_text(args.out, text)
        sys.stdout.write(f"{args.out}: {_verdict(found)}\n")
    return 1 if found.differs else 0


def _runs_of_stand_ins(source: Source) -> str:
    """Return what a small study holds: its numbers are of other networks, so that none is set beside the paper's."""
    assert source.stand_ins is not None
    runs = source.need_runs("the audit")
    own = {paper: name for name, paper in source.stand_ins.models.items()}
    counts = runs.groupby(["model", "dataset"], sort=False, observed=True).size()
    rows = [
        f"{own.get(model, model):32}{model if model in own else '-':32}{dataset:16}{number:>6}\n"
        for (model, dataset), number in zip(counts.index, counts, strict=True)
    ]
    head = (
        f"{source.own_words}\nIts numbers are not compared with the paper's. It holds {len(runs)} runs:\n\n"
    )
    return head + f"{'model':32}{'stands for':32}{'dataset':16}{'runs':>6}\n" + "".join(rows) + "\n"


def _verdict(found: Audit) -> str:
    counts = found.summary()[-1]
    disagreements = sum(check.status == "differs" for check in found.arithmetic)
    checked = len(found.arithmetic)
    arithmetic = f"{disagreements} of {checked} arithmetic statements disagree with the rest of the paper."
    if counts["no runs"] == counts["cells"]:
        return f"This source holds no runs, so no cell can be recomputed. {arithmetic}"
    listed = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    return f"Of {counts['cells']} published cells: {listed}. {arithmetic}"


def _summary_rows(found: Audit) -> list[list[str]]:
    return [[str(row[name]) for name in _SUMMARY] for row in found.summary()]


def _arithmetic_rows(found: Audit) -> list[list[str]]:
    return [[c.statement, c.stated, c.recomputed, c.status, c.note] for c in found.arithmetic]


def _cell_rows(found: Audit) -> list[list[str]]:
    return [
        [
            str(cell.table),
            cell.model,
            cell.task,
            "Average" if cell.dataset == AVERAGE else DATASETS[cell.dataset].title,
            f"{cell.published_mean:.2f} ± {cell.published_ci95:.2f}",
            _recomputed(cell),
            "" if cell.difference is None else f"{cell.difference:+.2f}",
            str(cell.n_runs),
            cell.status if cell.agreement in (None, cell.status) else f"{cell.status} ({cell.agreement})",
        ]
        for cell in found.cells
        if cell.n_runs
    ]


def _recomputed(cell: AuditedCell) -> str:
    if cell.mean is None:
        return "-"
    return f"{cell.mean:.2f}" + ("" if cell.ci95 is None else f" ± {cell.ci95:.2f}")


def _markdown_table(head: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    escaped = [[text.replace("|", "\\|") for text in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [list(head), ["---"] * len(head), *escaped]]


def _html_table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    top = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "\n".join(
        f'<tr class="{html.escape(row[-1].split(":")[0].replace(" ", "-")[:20])}">'
        + "".join(f"<td>{html.escape(text)}</td>" for text in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}"
    "th,td{padding:.25rem .6rem;border-bottom:1px solid #8886;text-align:left;vertical-align:top}"
    "tr.differs td:last-child{font-weight:bold}"
)
