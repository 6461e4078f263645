"""What can be wrong with the rows of a runs table, a sentence each."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from analysis.records import records
from analysis.store.scan import model_error
from benchmarks.protocol import EXTRA_DATASETS, Dataset, format_lr
from common.errors import UserError, nearest

__all__ = ["row_faults", "unequal_rates", "with_test_scores"]

logger = logging.getLogger(__name__)

_MOST_SEED = 2**53
"""The largest of the whole numbers that a table's numbers hold exactly."""
_SHOWN = 3
"""Models of a dataset that a sentence names."""


def with_test_scores(runs: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the rows with a test score; those without it are left out, with a note, where no seed chooses them.

    Args:
        runs: the columns of a runs table.
        where: what to call it.

    Raises:
        UserError: by its validation score a seed chooses a learning rate whose run has no test score.
    """
    blank = runs["test_score"].isna()
    if not blank.any():
        return runs
    ordered = runs.sort_values(["validation_score", "lr"], ascending=[False, True], kind="stable")
    chosen = ordered.drop_duplicates(["model", "dataset", "seed"])
    if len(lost := chosen[chosen["test_score"].isna()].sort_index()):
        run = lost.iloc[0]
        raise UserError(
            f"{where}: {run['model']} on {run['dataset']}, lr {format_lr(run['lr'])}, seed {run['seed']:.0f} has no "
            f"test_score but needs one: its validation_score {run['validation_score']:g} is this seed's best; fill in "
            "the test_score, or delete the row"
        )
    count = int(blank.sum())
    logger.warning(
        "%s: left out %s without a test_score, at learning rates that are not chosen for any seed",
        where, f"{count:,} run{'s' if count > 1 else ''}",
    )  # fmt: skip
    return runs[~blank]


def unequal_rates(runs: pd.DataFrame) -> str:
    """Return a sentence about models that were tried at different learning rates on a dataset, empty where none were.

    The model with more rates has the best of more runs, which is part of a difference between the two.
    """
    tried: dict[str, dict[str, list[float]]] = {}
    for dataset, model, lr in records(runs.sort_values("lr"), "dataset", "model", "lr"):
        rates = tried.setdefault(dataset, {}).setdefault(model, [])
        rates += [] if lr in rates else [lr]
    # A model for each grid: the first that has it.
    grids = {
        dataset: {tuple(rates): model for model, rates in reversed(of.items())}
        for dataset, of in tried.items()
    }
    unequal = [dataset for dataset, of in grids.items() if len(of) > 1]
    if not unequal:
        return ""
    words = [f"{model} has {', '.join(map(format_lr, rates))}" for rates, model in grids[unequal[0]].items()]
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    others = f", and on {len(unequal) - 1} more datasets" if len(unequal) > 1 else ""
    return (
        f"models were tried at different learning rates, which contributes to their differences (on {unequal[0]} "
        f"{'; '.join(words[:_SHOWN])}{more}{others})"
    )


def row_faults(
    runs: pd.DataFrame, added: Sequence[str], datasets: Mapping[str, Dataset]
) -> Iterator[tuple[pd.Series, Callable[[pd.Series], str]]]:
    """Yield which rows of a runs table break a rule, and what is wrong with such a row, to come after its number.

    A test score may be missing (`with_test_scores`).
    """
    for model in runs["model"].unique():
        if (error := model_error(model, added)) is not None:
            yield runs["model"] == model, lambda _, error=error: f": {error}"  # type: ignore[misc]
    yield ~runs["dataset"].isin(list(datasets)), lambda row: _unknown(row["dataset"], datasets)
    tasks = {name: dataset.task for name, dataset in datasets.items()}
    yield (
        runs["task"] != runs["dataset"].map(tasks),
        lambda row: (
            f" gives {row['dataset']} the task {row['task']!r}, but it belongs to {tasks[row['dataset']]}"
        ),
    )
    yield (
        ~runs["lr"].between(0, 1, inclusive="neither"),
        lambda _: " has a learning rate that is not a positive number below 1",
    )
    yield (
        ~(runs["seed"].between(0, _MOST_SEED) & (runs["seed"] % 1 == 0)),
        lambda _: f" has a seed that is not a whole number from 0 to {_MOST_SEED}",
    )
    for name in ("validation_score", "test_score"):
        right = runs[name].between(0, 1) | (runs[name].isna() & (name == "test_score"))
        yield ~right, lambda row, name=name: _outside(name, row[name])  # type: ignore[misc]
    for name in ("n_validation", "n_test"):
        counts = runs[name]
        yield (
            counts.notna() & ~(counts.between(1, 1e12) & (counts % 1 == 0)),
            lambda row, name=name: f" has {name} {row[name]:g}, which is not a whole number from 1 on",  # type: ignore[misc]
        )


def _unknown(name: str, datasets: Mapping[str, Dataset]) -> str:
    extra = " is outside the paper's twelve" if name in EXTRA_DATASETS else " is unknown"
    return (
        f": dataset {name!r}{extra}; the datasets are {', '.join(datasets)}; your own are known only from "
        f"their run store, or from the Parquet table that ingest makes from it{nearest(name, datasets)}"
    )


def _outside(name: str, value: float) -> str:
    if math.isnan(value):
        return f" has no {name}"
    hint = "; divide percentages by 100" if 1 < value <= 100 else ""
    return f" has {name} {value:g}, which is outside [0, 1]{hint}"
