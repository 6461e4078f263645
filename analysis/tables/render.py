"""Tables as Markdown, LaTeX (booktabs), CSV and HTML.

A cell prints as the paper does, `91.42 (+-0.62)`; where runs exist the recomputed value stands below it, with
its interval in brackets and the number of seeds when it is not five.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Sequence

from analysis.published_cells import N_SEEDS
from analysis.tables.build import Cell, Table
from common.errors import UserError, nearest

__all__ = [
    "FORMATS",
    "recomputed_text",
    "render",
    "render_csv",
    "render_html",
    "render_latex",
    "render_markdown",
]


def render(table: Table, form: str) -> str:
    """Return the table in one of `FORMATS`; the text ends in a line break.

    Raises:
        UserError: unknown format.
    """
    if form not in FORMATS:
        raise UserError(f"unknown format {form!r}{nearest(form, FORMATS)}; one of {', '.join(FORMATS)}")
    return FORMATS[form](table)


def render_markdown(table: Table) -> str:
    """Return a GitHub-flavoured Markdown table under its caption."""
    head = [*table.stubs, *table.columns]
    rows = [[*label, *entries] for label, entries in _rows(table, _plain_cell, "<br>")]
    lines = [f"**{_title(table)}** {table.caption} {_note(table)}".rstrip(), ""]
    lines.append(f"| {' | '.join(head)} |")
    lines.append(f"|{'---|' * len(table.stubs)}{'---:|' * len(table.columns)}")
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


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
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in [*table.stubs, *table.columns])
    lines = [
        f'<table class="paper-table" id="table-{table.number}">',
        f"<caption><b>{_title(table)}</b> {html.escape(table.caption)} {html.escape(_note(table))}</caption>",
        f"<thead><tr>{head}</tr></thead>",
        "<tbody>",
    ]
    for label, entries in _rows(table, _html_cell, "<br>"):
        stubs = "".join(f'<th scope="row">{html.escape(name)}</th>' for name in label)
        cells = "".join(f"<td>{entry}</td>" for entry in entries)
        lines.append(f"<tr>{stubs}{cells}</tr>")
    lines += ["</tbody>", "</table>"]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "markdown": render_markdown,
    "latex": render_latex,
    "csv": render_csv,
    "html": render_html,
}
"""Printers by the name of their format."""

EXTENSIONS = {"markdown": "md", "latex": "tex", "csv": "csv", "html": "html"}
"""File ending of each format."""


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
