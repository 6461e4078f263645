"""What the rows of a runs table must be (`analysis.store.runs_table`), and their order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.published_cells import TEST_INSTANCES
from analysis.store.scan import model_error
from benchmarks.protocol import DATASETS, EXTRA_DATASETS, LEARNING_RATES, TASKS, Dataset, format_lr
from common.errors import UserError, nearest
from common.plain_text import name_fault
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
_DATASET_ORDER = {name: i for i, name in enumerate(DATASETS)}
"""Those of one's own follow by name: the order of their registration differs by process."""


def check_header(header: Sequence[str], path: Path) -> None:
    """Refuse a header that has a column twice or lacks one; raises a `UserError`."""
    if len(set(header)) < len(header):
        twice = next(name for name in header if list(header).count(name) > 1)
        raise UserError(f"{path}: the header has {twice!r:.60} twice; keep one of these columns")
    missing = [name for name in COLUMNS if name not in header and name not in OPTIONAL]
    if missing:
        spare = [name for name in header if name not in COLUMNS]
        named = "; ".join(f"{name!r}{nearest(name, spare)}".rstrip("?") for name in missing)
        raise UserError(
            f"{path}: the header lacks {named}; a runs table has "
            f"{','.join(name for name in COLUMNS if name not in OPTIONAL)} "
            "(val_score is read as validation_score; n_validation and n_test may be absent)"
        )


def check_rows(
    frame: pd.DataFrame, path: Path, *, first_row: int, added: Sequence[str], datasets: Mapping[str, Dataset]
) -> pd.DataFrame:
    """Return the rows of a table, checked and sorted.

    Args:
        frame: the columns as they were read.
        path: the file, for messages.
        first_row: the number of its first row: 2 in a text, whose rows are lines, 1 elsewhere.
        added: names or shell patterns of models outside the released scheme.
        datasets: those that are known.

    Raises:
        UserError: a value is not possible, or a run is there twice; the message names the row.
    """
    place = "line" if first_row == 2 else "row"
    runs = pd.DataFrame({name: frame[name].astype(str) for name in ("model", "task", "dataset")})

    def refuse(wrong: npt.ArrayLike, why: Callable[[int], str]) -> None:
        """Raise with the first row that is wrong."""
        if (rows := np.flatnonzero(np.asarray(wrong))).size:
            row = int(rows[0])
            raise UserError(f"{path}: {place} {row + first_row}{why(row)}")

    for model in runs["model"].unique():
        why = f"the model {model!r:.60} {fault}" if (fault := name_fault(model)) else None
        if (why := why or model_error(model, added)) is not None:
            refuse(runs["model"] == model, lambda _: f": {why}")  # noqa: B023 (called at once)
    tasks = {name: dataset.task for name, dataset in datasets.items()}
    refuse(~runs["dataset"].isin(list(datasets)), lambda row: _unknown(runs["dataset"].iloc[row], datasets))
    expected = runs["dataset"].map(tasks)
    refuse(
        runs["task"] != expected,
        lambda row: (
            f" gives {runs['dataset'].iloc[row]} the task {runs['task'].iloc[row]!r}, "
            f"it belongs to {expected.iloc[row]} ({TASKS[expected.iloc[row]].title.lower()})"
        ),
    )
    lrs, seeds = _floats(frame["lr"], path), _floats(frame["seed"], path)
    refuse(
        ~(np.isfinite(lrs) & (lrs > 0) & (lrs < 1)),
        lambda _: " has a learning rate that is no positive number below 1",
    )
    for known in LEARNING_RATES:  # a detour through float32 or text must not make a seventh rate
        lrs = np.where(np.abs(lrs - known) < 1e-6 * known, known, lrs)
    whole = np.isfinite(seeds) & (seeds >= 0) & (seeds < 1 << 31) & (seeds == np.floor(seeds))
    refuse(~whole, lambda _: " has a seed that is no whole number from 0 on")
    runs["lr"], runs["seed"] = lrs, seeds.astype(np.int64)
    for name in ("validation_score", "test_score"):
        scores = _floats(frame[name], path)
        refuse(~((scores >= 0) & (scores <= 1)), partial(_outside, name, scores))
        runs[name] = scores
    for name in OPTIONAL:
        counts = _floats(frame[name], path) if name in frame else np.full(len(runs), np.nan)
        fits = np.isnan(counts) | ((counts >= 1) & (counts < 1e12) & (counts == np.floor(counts)))
        refuse(~fits, partial(_no_count, name, counts))
        runs[name] = pd.array(counts, dtype="Float64").astype("Int64")
    again = runs.duplicated(list(KEYS)).to_numpy()
    if again.any():
        row = int(np.flatnonzero(again)[0])
        same = (runs[list(KEYS)] == runs[list(KEYS)].iloc[row]).all(axis=1).to_numpy()
        model, dataset, lr, seed = runs[list(KEYS)].iloc[row]
        raise UserError(
            f"{path}: {place}s {int(np.flatnonzero(same)[0]) + first_row} and {row + first_row} hold the same run, "
            f"{model} on {dataset} with lr {format_lr(lr)}, seed {seed}; keep one of them"
        )
    return sort_runs(runs.loc[:, list(COLUMNS)])


def _unknown(name: str, datasets: Mapping[str, Dataset]) -> str:
    extra = " is outside the paper's twelve" if name in EXTRA_DATASETS else " is unknown"
    return (
        f": dataset {name!r}{extra}{nearest(name, datasets)}; the datasets are {', '.join(datasets)}; one of your own "
        "is known from its run store, or from the Parquet table that ingest makes of that"
    )


def _outside(name: str, scores: npt.NDArray[np.float64], row: int) -> str:
    value = float(scores[row])
    hint = "; percent are divided by 100 first" if 1 < value <= 100 else ""
    return f" has {name} {value:g}, which is outside [0, 1]{hint}"


def _no_count(name: str, counts: npt.NDArray[np.float64], row: int) -> str:
    return f" has {name} {counts[row]:g}, no count from 1 on"


def warn_of_other_sizes(source: str, runs: pd.DataFrame) -> None:
    """Say which datasets are not the paper's: their scores look the same next to the published ones."""
    runs = runs.dropna(subset="n_test")
    runs = runs[runs["n_test"] != runs["dataset"].map(TEST_INSTANCES)]
    found = runs.drop_duplicates("dataset")[["dataset", "n_test"]]
    other = [
        f"{dataset} ({count:,} test examples, the paper's has {TEST_INSTANCES[dataset]:,})"
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
    order = pd.DataFrame(
        {
            "model_rank": runs["model"].map(lambda name: _MODEL_ORDER.get(name, len(_MODEL_ORDER))),
            "model": runs["model"],
            "dataset_rank": runs["dataset"].map(lambda name: _DATASET_ORDER.get(name, len(_DATASET_ORDER))),
            "dataset": runs["dataset"],
            "lr": runs["lr"],
            "seed": runs["seed"],
        }
    )
    ranked = order.reset_index(drop=True).sort_values(list(order.columns), kind="stable")
    return runs.iloc[ranked.index].reset_index(drop=True)


def _floats(column: pd.Series, path: Path) -> npt.NDArray[np.float64]:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise UserError(f"{path}: the column {column.name} holds something that is no number") from None
