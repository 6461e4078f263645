"""Tables as Markdown, LaTeX (booktabs), CSV and HTML.

A cell prints as the paper does, `91.42 (+-0.62)`; where runs exist the recomputed value stands below it, with
its interval in brackets and the number of seeds when it is not five.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from analysis.published_cells import N_SEEDS
from analysis.tables.build import Cell, Table
from common.registry import Registry
from common.text_tables import Format, fill_template, markdown_table

__all__ = ["FORMATS", "recomputed_text", "render_csv", "render_html", "render_latex", "render_markdown"]

_TEMPLATE = Path(__file__).parent / "templates" / "table.html"


def render_markdown(table: Table) -> str:
    """Return a GitHub-flavoured Markdown table under its caption."""
    rows = [[*label, *entries] for label, entries in _rows(table, _plain_cell, "<br>")]
    rules = ["---"] * len(table.stubs) + ["---:"] * len(table.columns)
    caption = f"**{_title(table)}** {table.caption} {_note(table)}".rstrip()
    return "\n".join([caption, "", *markdown_table([[*table.stubs, *table.columns], *rows], rules)]) + "\n"


def render_latex(table: Table) -> str:
    """Return a LaTeX `table` environment that needs the booktabs package."""
    stubs, columns = len(table.stubs), len(table.columns)
    head = " & ".join(_tex(name) for name in [*table.stubs, *table.columns])
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}[t]",
        "\\centering",
        f"\\caption{{{_tex(f'{table.caption} {_note(table)}'.rstrip())}}}",
        f"\\label{{tab:{table.number}}}",
        f"\\begin{{tabular}}{{{'l' * stubs}{'r' * columns}}}",
        "\\toprule",
        f"{head} \\\\",
        "\\midrule",
    ]
    previous = ""
    for label, entries in _rows(table, _tex_cell, "\n"):
        if previous and stubs > 1 and label[0] != previous:
            lines.append("\\midrule")
        shown = label if stubs == 1 or label[0] != previous else ("", *label[1:])
        previous = label[0]
        stacked = [entry.split("\n") for entry in entries]
        depth = max(len(entry) for entry in stacked)
        for level in range(depth):
            names = [_tex(name) for name in shown] if level == 0 else [""] * stubs
            values = [entry[level] if level < len(entry) else "" for entry in stacked]
            lines.append(f"{' & '.join([*names, *values])} \\\\")
    lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
    return "\n".join(lines) + "\n"


def render_csv(table: Table) -> str:
    """Return a CSV with one row a model and, for each column, published and recomputed numbers apart."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if not table.cells:
        writer.writerow([*table.stubs, *table.columns])
        writer.writerows([*label, *texts] for label, texts in zip(table.labels, table.texts, strict=True))
        return out.getvalue()
    parts = ("published_mean", "published_ci95", "mean", "low", "high", "n_seeds")
    names = [cell.dataset for cell in table.cells[0]]
    writer.writerow(
        ["model", *table.stubs, *(f"{name}_{part}" for name in names for part in parts), "interval", "source"]
    )
    for model, label, cells in zip(table.models, table.labels, table.cells, strict=True):
        values = [value for cell in cells for value in _csv_cell(cell)]
        writer.writerow([model, *label, *values, table.interval, table.source])
    return out.getvalue()


def render_html(table: Table) -> str:
    """Return a `<table>` element with caption, header cells and scopes; no styles of its own."""
    return fill_template(
        _TEMPLATE,
        table=table,
        title=_title(table),
        note=_note(table),
        rows=_rows(table, _html_cell, "<br>"),
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
    table: Table, show: Callable[[Cell], Sequence[str]], between: str
) -> list[tuple[tuple[str, ...], list[str]]]:
    if not table.cells:
        escape = _tex if show is _tex_cell else html.escape if show is _html_cell else str
        return [
            (label, [escape(text) for text in texts])
            for label, texts in zip(table.labels, table.texts, strict=True)
        ]
    return [
        (label, [between.join(show(cell)) for cell in cells])
        for label, cells in zip(table.labels, table.cells, strict=True)
    ]


def _title(table: Table) -> str:
    return f"Table {table.number}."


def _note(table: Table) -> str:
    if not table.cells:
        return ""
    if table.alone:
        return f"Mean and 95 % interval ({table.interval}), from {table.source}."
    if table.source == "published":
        return "Mean over five seeds and the paper's interval, as published."
    return (
        f"First line: as published; second line: recomputed from {table.source}, "
        f"mean and 95 % interval ({table.interval})."
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


def _plain_cell(cell: Cell) -> Sequence[str]:
    return _lines(cell, "±")


def _tex_cell(cell: Cell) -> Sequence[str]:
    return _lines(cell, "$\\pm$")


def _html_cell(cell: Cell) -> Sequence[str]:
    published, *recomputed = _lines(cell, "&plusmn;")
    if cell.alone:
        return [f'<span class="recomputed">{published}</span>']
    return [
        f'<span class="published">{published}</span>',
        *(f'<span class="recomputed">{text}</span>' for text in recomputed),
    ]


def _csv_cell(cell: Cell) -> list[str]:
    published = [f"{value:.2f}" for value in cell.published] if cell.published else ["", ""]
    if cell.recomputed is None:
        return [*published, "", "", "", ""]
    return [
        *published,
        *(f"{value:.6f}" if value == value else "" for value in cell.recomputed),
        str(cell.n_seeds),
    ]


_TEX = {"\\": "\\textbackslash{}", "%": "\\%", "_": "\\_", "&": "\\&", "#": "\\#", "$": "\\$",
        "{": "\\{", "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)
