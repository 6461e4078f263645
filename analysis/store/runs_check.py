"""What the rows of a runs table must be (`analysis.store.runs_table`), and their order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.published_cells import TEST_INSTANCES
from analysis.store.foreign_models import model_error
from benchmarks.protocol import DATASETS, EXTRA_DATASETS, LEARNING_RATES, PAPER_DATASETS, TASKS, format_lr
from common.errors import UserError, nearest
from common.plain_text import name_fault, visible
from pretraining.model_names import MODELS

__all__ = [
    "ALIASES", "COLUMNS", "KEYS", "NUMBERS", "OPTIONAL", "check_header", "check_rows", "sort_runs",
    "warn_of_other_sizes",
]  # fmt: skip

logger = logging.getLogger(__name__)

KEYS = ("model", "dataset", "lr", "seed")
"""The columns that name a run."""

COLUMNS = (
    "model", "task", "dataset", "lr", "seed", "validation_score", "test_score", "n_validation", "n_test",
)  # fmt: skip
"""The table's columns, in order."""

OPTIONAL = ("n_validation", "n_test")
"""Those that may be absent."""
NUMBERS = ("lr", "seed", "validation_score", "test_score", *OPTIONAL)
"""Those that hold numbers."""
ALIASES = {"val_score": "validation_score"}
"""Other names of columns that are read."""
_MODEL_ORDER = {name: i for i, name in enumerate(MODELS)}
_DATASET_ORDER = {name: i for i, name in enumerate(PAPER_DATASETS)}
"""Those of one's own follow by name: the order of their registration differs by process."""


def check_header(header: Sequence[str], path: Path) -> None:
    """Refuse a header that has a column twice or lacks one; raises a `UserError`."""
    if len(set(header)) < len(header):
        twice = next(name for name in header if list(header).count(name) > 1)
        raise UserError(
            f"{path}: the header has {visible(repr(twice))[:60]} twice; keep one of these columns"
        )
    missing = [name for name in COLUMNS if name not in header and name not in OPTIONAL]
    if missing:
        spare = [name for name in header if name not in COLUMNS]
        named = "; ".join(f"{name!r}{nearest(name, spare)}".rstrip("?") for name in missing)
        raise UserError(
            f"{path}: the header lacks {named}; a runs table has "
            f"{','.join(name for name in COLUMNS if name not in OPTIONAL)} "
            "(val_score is read as validation_score; n_validation and n_test may be absent)"
        )


def check_rows(frame: pd.DataFrame, path: Path, *, first_row: int, added: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a table, checked and sorted.

    Args:
        frame: the columns as they were read.
        path: the file, for messages.
        first_row: the number of its first row: 2 in a text, whose rows are lines, 1 elsewhere.
        added: names or shell patterns of models outside the released scheme.

    Raises:
        UserError: a value is not possible, or a run is there twice; the message names the row.
    """
    place = "line" if first_row == 2 else "row"

    def at(mask: npt.NDArray[np.bool_]) -> str:
        return f"{path}: {place} {int(np.flatnonzero(mask)[0]) + first_row}"

    runs = pd.DataFrame(index=frame.index)
    for name in ("model", "task", "dataset"):
        runs[name] = frame[name].astype(str)
    for model in runs["model"].unique():
        if (fault := name_fault(model)) is not None:
            where = at((runs["model"] == model).to_numpy())
            raise UserError(f"{where}: the model {visible(repr(model))[:60]} {fault}")
        if (error := model_error(model, added)) is not None:
            raise UserError(f"{at((runs['model'] == model).to_numpy())}: {error}")
    for dataset in runs["dataset"].unique():
        if dataset not in DATASETS:
            where = at((runs["dataset"] == dataset).to_numpy())
            extra = " is outside the paper's twelve" if dataset in EXTRA_DATASETS else " is unknown"
            raise UserError(
                f"{where}: dataset {dataset!r}{extra}{nearest(dataset, DATASETS)}; "
                f"the datasets are {', '.join(DATASETS)}; one of your own is known from its run store, or from the "
                "Parquet table that ingest makes of that"
            )
    expected = runs["dataset"].map({name: dataset.task for name, dataset in DATASETS.items()})
    if (wrong := (runs["task"] != expected).to_numpy()).any():
        row = int(np.flatnonzero(wrong)[0])
        raise UserError(
            f"{at(wrong)} gives {runs['dataset'].iloc[row]} the task {runs['task'].iloc[row]!r}, "
            f"it belongs to {expected.iloc[row]} ({TASKS[expected.iloc[row]].title.lower()})"
        )
    for name in ("lr", "seed", "validation_score", "test_score"):
        runs[name] = _floats(frame[name], name, path)
    lrs = runs["lr"].to_numpy()
    if (wrong := ~(np.isfinite(lrs) & (lrs > 0) & (lrs < 1))).any():
        raise UserError(f"{at(wrong)} has a learning rate that is no positive number below 1")
    for known in LEARNING_RATES:  # a detour through float32 or text must not make a seventh rate
        lrs = np.where(np.abs(lrs - known) < 1e-6 * known, known, lrs)
    runs["lr"] = lrs
    seeds = runs["seed"].to_numpy()
    if (wrong := ~(np.isfinite(seeds) & (seeds >= 0) & (seeds < 1 << 31) & (seeds == np.floor(seeds)))).any():
        raise UserError(f"{at(wrong)} has a seed that is no whole number from 0 on")
    runs["seed"] = seeds.astype(np.int64)
    for name in ("validation_score", "test_score"):
        scores = runs[name].to_numpy()
        if (wrong := ~((scores >= 0) & (scores <= 1))).any():
            value = float(scores[np.flatnonzero(wrong)[0]])
            hint = "; percent are divided by 100 first" if 1 < value <= 100 else ""
            raise UserError(f"{at(wrong)} has {name} {value:g}, which is outside [0, 1]{hint}")
    for name in OPTIONAL:
        counts = _floats(frame[name], name, path) if name in frame else np.full(len(runs), np.nan)
        if (
            wrong := ~np.isnan(counts) & ~((counts >= 1) & (counts < 1e12) & (counts == np.floor(counts)))
        ).any():
            raise UserError(
                f"{at(wrong)} has {name} {counts[np.flatnonzero(wrong)[0]]:g}, no count from 1 on"
            )
        runs[name] = pd.array(counts, dtype="Float64").astype("Int64")
    if (again := runs.duplicated(list(KEYS)).to_numpy()).any():
        row = int(np.flatnonzero(again)[0])
        same = (runs[list(KEYS)] == runs[list(KEYS)].iloc[row]).all(axis=1).to_numpy()
        model, dataset, lr, seed = runs[list(KEYS)].iloc[row]
        raise UserError(
            f"{path}: {place}s {int(np.flatnonzero(same)[0]) + first_row} and {row + first_row} hold the same run, "
            f"{model} on {dataset} with lr {format_lr(lr)}, seed {seed}; keep one of them"
        )
    return sort_runs(runs.loc[:, list(COLUMNS)])


def warn_of_other_sizes(source: str, runs: pd.DataFrame) -> None:
    """Say which datasets are not the paper's: their scores look the same next to the published ones."""
    runs = runs.dropna(subset="n_test")
    runs = runs[runs["n_test"] != runs["dataset"].map(TEST_INSTANCES)]
    found = runs.drop_duplicates("dataset")[["dataset", "n_test"]]
    other = [
        f"{visible(dataset)} ({count:,} test examples, the paper's has {TEST_INSTANCES[dataset]:,})"
        for dataset, count in zip(found["dataset"], found["n_test"], strict=True)
        if dataset in TEST_INSTANCES
    ]
    if other:
        logger.warning(
            "%s: not the paper's test sets, so do not hold these scores against its numbers: %s",
            source, ", ".join(other),
        )  # fmt: skip


def sort_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in the table's order with a fresh index; the argument is left as it is."""
    last = len(_MODEL_ORDER)
    order = pd.DataFrame(
        {
            "model_rank": runs["model"].map(lambda name: _MODEL_ORDER.get(name, last)),
            "model": runs["model"],
            "dataset_rank": runs["dataset"].map(lambda name: _DATASET_ORDER.get(name, len(_DATASET_ORDER))),
            "dataset": runs["dataset"],
            "lr": runs["lr"],
            "seed": runs["seed"],
        }
    )
    ranked = order.reset_index(drop=True).sort_values(list(order.columns), kind="stable")
    return runs.iloc[ranked.index].reset_index(drop=True)


def _floats(column: pd.Series, name: str, path: Path) -> npt.NDArray[np.float64]:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise UserError(f"{path}: the column {name} holds something that is no number") from None
