"""Scores and the paper's tables as documents.

A cell prints as the paper does, `91.42 (±0.62)`; where runs exist the recomputed value stands below it, with
its interval in brackets and the number of seeds when it is not five.
"""

from __future__ import annotations

import math

import pandas as pd

from analysis.evidence.intervals import PAPER_INTERVAL, caption_of
from analysis.published_cells import N_SEEDS
from analysis.records import records
from analysis.sources import Source
from analysis.tables.build import Table, TableEntry
from benchmarks.protocol import AVERAGE
from common.level import LEVEL_IN_WORDS
from common.tables import Grid, TableDocument


def table_document(table: Table) -> TableDocument:
    """Return a table under its caption; its CSV has one row a model, with columns for published and recomputed numbers.

    A table without rows is only its caption.
    """
    # The first columns name a row.
    n_stubs = len(table.stubs)
    head = [*table.stubs, *table.columns]
    texts = table.texts
    if table.cells:
        texts = tuple(tuple(map(_text, cells)) for cells in table.cells)
    rows = []
    for label, entries in zip(table.labels, texts, strict=True):
        rows.append([*label, *entries])
    caption = f"{table.caption} {_note(table)}".rstrip()
    line = f"**Table {table.number}.** {caption}"

    def csv() -> str:
        frame = pd.DataFrame(rows, columns=head)
        if table.cells:
            frame = _data_frame(table)
        return frame.to_csv(index=False)

    # A table without rows has no grid. In LaTeX, its caption is then a comment.
    if not rows:
        comment = f"% {line}\n".replace("**", "")
        return TableDocument(body=[line], pages={"latex": lambda: comment, "csv": csv})

    grid = Grid(
        [head, *rows],
        numbers=range(n_stubs, len(head)),
        caption=caption,
        label=str(table.number),
        stubs=n_stubs,
        # In LaTeX, rows with the same first stub are a group; with a single stub each row has its own.
        grouped=n_stubs > 1,
    )
    return TableDocument(body=[line, "", grid], pages={"csv": csv})


def scores_document(scores: pd.DataFrame, source: Source) -> TableDocument:
    """Return a table of scores in percent with the metric of each; in data formats it is `scores` itself.

    Args:
        scores: a frame with the columns `analysis.evidence.evidence.SCORE_COLUMNS`.
        source: where they come from.
    """
    rows = [
        ["model", "dataset", "metric", "mean", f"{LEVEL_IN_WORDS} interval", "seeds"]
    ]
    columns = ("model", "task", "dataset", "mean", "low", "high", "n_seeds")
    for model, task, dataset, mean, low, high, seeds in records(scores, *columns):
        name = f"{task} average" if dataset == AVERAGE else dataset
        metric = source.metric_of(task, dataset)
        # A single seed has no interval.
        interval = "" if math.isnan(low) else f"[{low:.2f}, {high:.2f}]"
        rows.append([model, name, metric, f"{mean:.2f}", interval, str(seeds)])

    intervals = caption_of(records(scores, "n_seeds", "interval"))
    note = f"In percent. Source: {source.words}. {intervals}."
    grid = Grid(rows, numbers={3, 5})  # the columns "mean" and "seeds"
    return TableDocument(body=[grid, "", note], records=scores, digits="%.6f")


def recomputed_text(cell: TableEntry, unusual_seeds: str = " n={}") -> str:
    """Return `91.42 [90.80, 92.04]`, with the number of seeds where it is not the paper's; empty without runs.

    `unusual_seeds` is the text for another number of seeds, which takes the place of {} in it.
    """
    if cell.recomputed is None:
        return ""
    mean, low, high = cell.recomputed
    seeds = "" if cell.n_seeds == N_SEEDS else unusual_seeds.format(cell.n_seeds)
    bounds = "" if math.isnan(low) else f" [{low:.2f}, {high:.2f}]"
    return f"{mean:.2f}{bounds}{seeds}"


def _data_frame(table: Table) -> pd.DataFrame:
    """Return a frame with one row a model, and for each dataset columns for published and recomputed numbers."""
    parts = ("published_mean", "published_ci95", "mean", "low", "high", "n_seeds")
    columns = ["model", *table.stubs]
    for cell in table.cells[0]:  # all rows have the same datasets
        columns += [f"{cell.dataset}_{part}" for part in parts]
    columns += ["interval", "source"]
    rows = []
    for model, label, cells in zip(
        table.models, table.labels, table.cells, strict=True
    ):
        numbers: list[str] = []
        for cell in cells:
            numbers += _numbers(cell)
        rows.append([model, *label, *numbers, table.interval, table.source])

    return pd.DataFrame(rows, columns=columns)


def _numbers(cell: TableEntry) -> list[str]:
    """Return the six numbers of a cell in a CSV; empty texts where they are missing.

    They are the published mean and half-width, the recomputed mean, low and high, and the number of seeds.
    """
    numbers = [""] * 6
    if cell.published:
        numbers[:2] = [f"{value:.2f}" for value in cell.published]
    if cell.recomputed:
        numbers[5] = str(cell.n_seeds)
        for place, value in enumerate(cell.recomputed, start=2):
            if not math.isnan(value):
                numbers[place] = f"{value:.6f}"
    return numbers


def _note(table: Table) -> str:
    """Return the caption's sentences on where a table's numbers come from; empty for a table that has only texts."""
    if not table.cells:
        return ""
    # `alone`: the paper's numbers are left out.
    if table.alone:
        return f"Mean, from {table.source}; in brackets {table.interval_words}."
    printed = f"mean over five seeds with the {PAPER_INTERVAL.caption(N_SEEDS)}"
    if table.source == "published":
        return f"As published: {printed}."
    recomputed = f"recomputed from {table.source}: mean"
    if table.interval_words:
        recomputed = f"{recomputed}, in brackets {table.interval_words}"
    return f"Cells with ± as published: {printed}. Cells without, {recomputed}."


def _text(cell: TableEntry) -> str:
    """Return the text of a cell: the published numbers with the recomputed ones below, or only the recomputed ones."""
    recomputed = recomputed_text(cell)
    if cell.alone:
        return recomputed or "-"
    published = "-"
    if cell.published:
        mean, half = cell.published
        published = f"{mean:.2f} (±{half:.2f})"
    return f"{published}\n{recomputed}" if recomputed else published
