"""Scores and the paper's tables as documents.

A cell prints as the paper does, `91.42 (±0.62)`; where runs exist the recomputed value stands below it, with
its interval in brackets and the number of seeds when it is not five.
"""

from __future__ import annotations

import pandas as pd

from analysis.evidence.intervals import PAPER_INTERVAL, caption_of
from analysis.published_cells import N_SEEDS
from analysis.records import records
from analysis.sources import Source
from analysis.tables.build import Table, TableEntry
from benchmarks.protocol import AVERAGE
from common.tables import Grid, TableDocument


def table_document(table: Table) -> TableDocument:
    """Return a table under its caption; as data one row a model, published and recomputed numbers apart.

    One without rows is its caption.
    """
    stubs, head = len(table.stubs), [*table.stubs, *table.columns]
    texts = table.texts or tuple(
        tuple("\n".join(_lines(cell)) for cell in cells) for cells in table.cells
    )
    rows = [
        [*label, *entries] for label, entries in zip(table.labels, texts, strict=True)
    ]
    note = _note(table)
    grid = Grid(
        [head, *rows],
        numbers=range(stubs, len(head)),
        caption=f"{table.caption} {note}".rstrip(),
        label=str(table.number),
        stubs=stubs,
        grouped=stubs > 1,
    )
    line = f"**Table {table.number}.** {table.caption} {note}".rstrip()
    return TableDocument(
        body=[line, "", grid] if rows else [line],
        pages={
            **({} if rows else {"latex": lambda: f"% {line}\n".replace("**", "")}),
            "csv": lambda: (
                _data_frame(table) if table.cells else pd.DataFrame(rows, columns=head)
            ).to_csv(index=False),
        },
    )


def scores_document(scores: pd.DataFrame, source: Source) -> TableDocument:
    """Return scores in percent (`analysis.evidence.evidence.COLUMNS`), with the metric of each, and as data."""
    head = ["model", "dataset", "metric", "mean", "95 % interval", "seeds"]
    rows = [
        [
            model,
            f"{task} average" if dataset == AVERAGE else dataset,
            source.metric_of(task, dataset),
            f"{mean:.2f}",
            f"[{low:.2f}, {high:.2f}]" if low == low else "",
            str(seeds),
        ]
        for model, task, dataset, mean, low, high, seeds in records(
            scores, "model", "task", "dataset", "mean", "low", "high", "n_seeds"
        )
    ]
    words = caption_of(records(scores, "n_seeds", "interval"))
    body: list[str | Grid] = [
        Grid([head, *rows], numbers={3, 5}),
        "",
        f"In percent. Source: {source.words}. {words}.",
    ]
    return TableDocument(body=body, records=scores, digits="%.6f")


def recomputed_text(cell: TableEntry, unusual_seeds: str = " n={}") -> str:
    """Return `91.42 [90.80, 92.04]`, with the number of seeds where it is not the paper's; empty without runs."""
    if cell.recomputed is None:
        return ""
    mean, low, high = cell.recomputed
    seeds = "" if cell.n_seeds == N_SEEDS else unusual_seeds.format(cell.n_seeds)
    bounds = f" [{low:.2f}, {high:.2f}]" if low == low else ""  # nan: no interval
    return f"{mean:.2f}{bounds}{seeds}"


def _data_frame(table: Table) -> pd.DataFrame:
    """Return one row a model, published and recomputed numbers apart."""
    parts = ("published_mean", "published_ci95", "mean", "low", "high", "n_seeds")
    names = [f"{cell.dataset}_{part}" for cell in table.cells[0] for part in parts]
    rows = [
        [
            model,
            *label,
            *(value for cell in cells for value in _numbers(cell)),
            table.interval,
            table.source,
        ]
        for model, label, cells in zip(
            table.models, table.labels, table.cells, strict=True
        )
    ]
    return pd.DataFrame(
        rows, columns=["model", *table.stubs, *names, "interval", "source"]
    )


def _numbers(cell: TableEntry) -> list[str]:
    """Return a cell's numbers as CSV has them, empty where there are none: two published, three recomputed, seeds."""
    published = [f"{value:.2f}" for value in cell.published or ()]
    recomputed = [
        f"{value:.6f}" if value == value else "" for value in cell.recomputed or ()
    ]
    seeds = str(cell.n_seeds) if recomputed else ""
    return [*(published or [""] * 2), *(recomputed or [""] * 3), seeds]


def _note(table: Table) -> str:
    """Return what the caption says of a table's numbers; nothing of one that has texts alone."""
    if not table.cells:
        return ""
    if table.alone:
        return f"Mean, from {table.source}; in brackets {table.interval_words}."
    printed = f"mean over five seeds with the {PAPER_INTERVAL.caption(N_SEEDS)}"
    if table.source == "published":
        return f"As published: {printed}."
    recomputed = f", in brackets {table.interval_words}" if table.interval_words else ""
    return f"Cells with ± as published: {printed}. Cells without, recomputed from {table.source}: mean{recomputed}."


def _lines(cell: TableEntry) -> list[str]:
    """Return the published text and below it the recomputed one; of a source of its own the recomputed one alone."""
    if cell.alone:
        return [recomputed_text(cell) or "-"]
    published = (
        f"{cell.published[0]:.2f} (±{cell.published[1]:.2f})" if cell.published else "-"
    )
    return [published, *([recomputed_text(cell)] if cell.recomputed else [])]
