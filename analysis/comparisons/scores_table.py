"""Anybody's scores by seed, as a tidy table or with a column a seed: a runs table of any names, in any unit.

model, dataset           any names; without a dataset there is one, or `task` names it
seed, score              any labels; a number in any unit, more is better
task, metric             if there
lr, validation_score     if there: of several rates, the validation score chooses
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.statistics.learning_rate_selection import CELL, select_runs
from analysis.store.text_table import ENDINGS, TextTable, read_text_table, text_table_of
from benchmarks.protocol import DATASETS
from common.errors import UserError, nearest
from common.plain_text import name_fault
from common.reading import MOST_LARGE, PARQUET, read_bounded

_TITLES = {
    "model": ("model", "model_name"),
    "task": ("task",),
    "dataset": ("dataset", "task"),
    "metric": ("metric",),
    "lr": ("lr", "rate", "learning_rate"),
    "seed": ("seed",),
    "validation_score": ("validation_score", "val_score"),
    "score": ("score", "test_score"),
}
"""By column, what a header may call it."""
_OF_RUNS = {"lr", "test_score"}
"""Columns of a runs table that no other has."""
_NUMBERS = ("lr", "validation_score", "score")
_ABSENT: dict[str, str | float] = {
    "dataset": "scores",
    "lr": 0.0,
    "validation_score": np.nan,
}
_SEED = re.compile(r"(seed|run|score|sd|s|r)?_?\d+")
"""How a table with a column a seed calls them."""
_FORM = "model, dataset, seed and score, or model, dataset and a column for each seed (seed0, seed1)"


def scores_table_in(path: Path) -> TextTable | None:
    """Return the table in a file; None of what is no table, or is one of runs (`analysis.store.runs_table`).

    Raises:
        UserError: the file cannot be read.
    """
    if not path.is_file():
        return None
    content = read_bounded(path, MOST_LARGE)
    if content.startswith(PARQUET):
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            is_runs = {*file.schema_arrow.names} >= _OF_RUNS
            return (
                None if is_runs else text_table_of(file.read().to_pandas(), str(path))
            )
        except (pa.ArrowException, OSError, ValueError, MemoryError):
            return None
    is_text = path.suffix.lower() in ENDINGS
    is_scores = (
        is_text
        and not {*read_text_table(path, content, header_alone=True).header} >= _OF_RUNS
    )
    return read_text_table(path, content) if is_scores else None


def scores_by_seed(
    table: TextTable, *, selection: str = "seed", metric: str = ""
) -> pd.DataFrame:
    """Return the scores that count, a row for each model, dataset and seed.

    Args:
        table: as it was read.
        selection: what a learning rate is chosen for, where a model has several on a dataset.
        metric: the one of the column `metric`, where a dataset has several.

    Returns:
        Columns `model, task, dataset, metric, lr, seed, validation_score, test_score`, the scores as they are in the
        table; a dataset of the paper has its task there.

    Raises:
        UserError: it is no such table, a seed is there twice or has no score, or there is a choice to make.
    """
    if not any(name in table.header for name in _TITLES["score"]):
        table = _long(table)
    titles = {
        name: next((spelling for spelling in spellings if spelling in table.header), "")
        for name, spellings in _TITLES.items()
    }
    if lacking := [name for name in ("model", "seed", "score") if not titles[name]]:
        header = ", ".join(filter(None, table.header))
        raise UserError(
            f"{table.where}: there is no column {lacking[0]} among {header:.200}; give {_FORM}"
        )
    if twice := [
        name for name in titles.values() if name and table.header.count(name) > 1
    ]:
        raise UserError(
            f"{table.where}: the header has {twice[0]!r} twice; keep one of these columns"
        )
    if not table.rows:
        raise UserError(f"{table.where} has a header but no scores")
    columns = {
        name: _ABSENT.get(name, "")
        if not title
        else table.numbers(title)
        if name in _NUMBERS
        else table.texts(title)
        for name, title in titles.items()
    }
    rows = pd.DataFrame(columns).rename(columns={"score": "test_score"})
    rows = rows.assign(
        **{
            name: rows[name].str.replace(" +", " ", regex=True)
            for name in ("model", "dataset")
        }
    )
    if metric and metric not in set(rows["metric"]):
        raise UserError(
            f"{table.where} has no metric {metric!r}{nearest(metric, set(rows['metric']))}"
        )
    rows = rows[rows["metric"] == metric] if metric else rows
    cells = rows.groupby(CELL)
    tuned = cells["lr"].transform("nunique") > 1
    faults = {
        "has no printable model, or one that begins like a formula": ~rows["model"].map(
            _is_name
        ),
        "has no printable dataset, or one that begins like a formula": ~rows[
            "dataset"
        ].map(_is_name),
        "has no finite score; of a run that diverged give the score of its last checkpoint, or delete it and say so "
        "where you report the others": ~np.isfinite(rows["test_score"]),
        "has no learning rate; give one, or leave the column out": ~np.isfinite(
            rows["lr"]
        ),
        "has another metric than the dataset's first row; choose one with --metric, or keep its rows alone": rows[
            "metric"
        ]
        != cells["metric"].transform("first"),
        "is the same seed as an earlier row; keep one of them": rows.duplicated(
            ["model", "task", "dataset", "lr", "seed"]
        ),
        "has no validation_score to choose among several learning rates; keep one rate, or give one (a run that "
        "diverged: any that is lower than all others)": tuned
        & ~np.isfinite(rows["validation_score"]),
    }
    for fault, wrong in faults.items():
        if wrong.any():
            row = rows[wrong].iloc[0]
            what = ", ".join(filter(None, row[["model", "dataset", "metric", "seed"]]))
            raise UserError(f"{table.at(rows.index[wrong][0])} ({what:.200}) {fault}")
    if (
        rows.groupby("dataset")["task"].nunique() > 1
    ).any():  # one name in two tasks is two datasets
        rows = rows.assign(dataset=rows["task"] + " " + rows["dataset"])
    of_paper = rows["dataset"].isin(list(DATASETS))
    tasks = [DATASETS[name].task for name in rows["dataset"][of_paper]]
    rows.loc[of_paper, "task"] = tasks
    return select_runs(rows, selection) if tuned.any() else rows


def _is_name(text: str) -> bool:
    """Return whether a text can name a model or a dataset; a spreadsheet would run what begins like a formula."""
    return name_fault(text) is None


def _long(table: TextTable) -> TextTable:
    """Return a table with a column a seed as one with a row a seed; empty cells are no seeds."""
    seeds = {
        column: name
        for column, name in enumerate(table.header)
        if _SEED.fullmatch(name)
    }
    scored = [
        ((*row, name, row[column]), place)
        for row, place in zip(table.rows, table.places, strict=True)
        for column, name in seeds.items()
        if row[column]
    ]
    header = (*table.header, "seed", "score") if seeds else table.header
    return replace(
        table,
        header=header,
        rows=[row for row, _ in scored],
        places=[place for _, place in scored],
    )
