"""Tables as Markdown, LaTeX (booktabs), CSV and HTML.

A cell prints as the paper does, `91.42 (+-0.62)`; where runs exist the recomputed value stands below it, with
its interval in brackets and the number of seeds when it is not five.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from analysis.csv_text import csv_text
from analysis.published_cells import N_SEEDS
from analysis.statistics.interval_kinds import PAPER
from analysis.tables.build import Cell, Table
from analysis.tables.latex import latex_environment, tex
from common.registry import Registry
from common.text_tables import Format, fill_template, markdown_table

__all__ = ["FORMATS", "recomputed_text", "render_csv", "render_html", "render_latex", "render_markdown"]

_TEMPLATE = Path(__file__).parent / "templates" / "table.html"


def render_markdown(table: Table) -> str:
    """Return a GitHub-flavoured Markdown table under its caption."""
    rows = [[*label, *entries] for label, entries in _rows(table, lambda cell: _lines(cell, "±"), str)]
    rules = ["---"] * len(table.stubs) + ["---:"] * len(table.columns)
    caption = f"**{_title(table)}** {table.caption} {_note(table)}".rstrip()
    return "\n".join([caption, "", *markdown_table([[*table.stubs, *table.columns], *rows], rules)]) + "\n"


def render_latex(table: Table) -> str:
    """Return a LaTeX `table` environment that needs the booktabs and graphicx packages."""
    stubs, columns = len(table.stubs), len(table.columns)
    head = " & ".join(tex(name) for name in [*table.stubs, *table.columns])
    body = [f"{head} \\\\", "\\midrule"]
    previous = ""
    for label, entries in _rows(table, lambda cell: _lines(cell, "$\\pm$"), tex):
        if previous and stubs > 1 and label[0] != previous:
            body.append("\\midrule")
        shown = label if stubs == 1 or label[0] != previous else ("", *label[1:])
        previous = label[0]
        stacked = [entry.split("\n") for entry in entries]
        depth = max(len(entry) for entry in stacked)
        for level in range(depth):
            names = [tex(name) for name in shown] if level == 0 else [""] * stubs
            values = [entry[level] if level < len(entry) else "" for entry in stacked]
            body.append(f"{' & '.join([*names, *values])} \\\\")
    caption = tex(f"{table.caption} {_note(table)}".rstrip())
    columns_text = "l" * stubs + "r" * columns
    return "\n".join(latex_environment(columns_text, body, caption=caption, label=str(table.number))) + "\n"


def render_csv(table: Table) -> str:
    """Return a CSV with one row a model and, for each column, published and recomputed numbers apart."""
    if not table.cells:
        head = [*table.stubs, *table.columns]
        rows = [[*label, *texts] for label, texts in zip(table.labels, table.texts, strict=True)]
    else:
        parts = ("published_mean", "published_ci95", "mean", "low", "high", "n_seeds")
        names = [f"{cell.dataset}_{part}" for cell in table.cells[0] for part in parts]
        head = ["model", *table.stubs, *names, "interval", "source"]
        rows = [
            [
                model,
                *label,
                *(value for cell in cells for value in _csv_cell(cell)),
                table.interval,
                table.source,
            ]
            for model, label, cells in zip(table.models, table.labels, table.cells, strict=True)
        ]
    return csv_text(pd.DataFrame(rows, columns=head))


def render_html(table: Table) -> str:
    """Return a `<table>` element with caption, header cells and scopes; no styles of its own."""
    return fill_template(
        _TEMPLATE,
        table=table,
        title=_title(table),
        note=_note(table),
        rows=_rows(table, _html_cell, html.escape, "<br>"),
    )


FORMATS: Registry[Format[Table]] = Registry(
    "format",
    [
        Format(name="markdown", ending="md", show=render_markdown),
        Format(name="latex", ending="tex", show=render_latex),
        Format(name="csv", ending="csv", show=render_csv),
        Format(name="html", ending="html", show=render_html),
    ],
)
"""How a table is printed; each text ends in a line break."""


def _rows(
    table: Table, show: Callable[[Cell], list[str]], escape: Callable[[str], str], between: str = "\n"
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield each row's labels and its entries as text: the lines of its cells, or the escaped texts of Table 1."""
    for label, texts in zip(table.labels, table.texts, strict=False):
        yield label, [escape(text) for text in texts]
    for label, cells in zip(table.labels, table.cells, strict=False):
        yield label, [between.join(show(cell)) for cell in cells]


def _title(table: Table) -> str:
    return f"Table {table.number}."


def _note(table: Table) -> str:
    if not table.cells:
        return ""
    if table.alone:
        return f"Mean, from {table.source}; in brackets {table.interval_words}."
    printed = f"mean over five seeds with the {PAPER.caption(N_SEEDS)}"
    if table.source == "published":
        return f"As published: {printed}."
    recomputed = f", in brackets {table.interval_words}" if table.interval_words else ""
    return (
        f"First line, as published: {printed}. Second line, recomputed from {table.source}: mean{recomputed}."
    )


def _published(cell: Cell, sign: str) -> str:
    return f"{cell.published[0]:.2f} ({sign}{cell.published[1]:.2f})" if cell.published else "-"


def recomputed_text(cell: Cell, unusual_seeds: str = " n={}") -> str:
    """Return `91.42 [90.80, 92.04]`, with the number of seeds where it is not the paper's; empty without runs."""
    if cell.recomputed is None:
        return ""
    mean, low, high = cell.recomputed
    seeds = "" if cell.n_seeds == N_SEEDS else unusual_seeds.format(cell.n_seeds)
    bounds = f" [{low:.2f}, {high:.2f}]" if low == low else ""
    return f"{mean:.2f}{bounds}{seeds}"


def _lines(cell: Cell, sign: str) -> list[str]:
    if cell.alone:
        return [recomputed_text(cell) or "-"]
    return [_published(cell, sign), *([recomputed_text(cell)] if cell.recomputed else [])]


def _html_cell(cell: Cell) -> list[str]:
    published, *recomputed = _lines(cell, "&plusmn;")
    if cell.alone:
        return [f'<span class="recomputed">{published}</span>']
    return [
        f'<span class="published">{published}</span>',
        *(f'<span class="recomputed">{text}</span>' for text in recomputed),
    ]


def _csv_cell(cell: Cell) -> list[str]:
    published = [f"{value:.2f}" for value in cell.published or ()]
    recomputed = [f"{value:.6f}" if value == value else "" for value in cell.recomputed or ()]
    seeds = str(cell.n_seeds) if recomputed else ""
    return [*(published or [""] * 2), *(recomputed or [""] * 3), seeds]
