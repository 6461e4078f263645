"""Per-instance scores: a folder of Parquet files, one a cell, `<folder>/<model>/<dataset>.parquet`.

One row a run, sorted by learning rate and seed:

    model, task, dataset     the cell (string)
    lr, seed                 the run (float64, int64)
    validation, test         its score on every instance, in dataset order (list<double>)

Any Parquet reader opens the folder as one data set. It can hold runs that the runs table leaves out because the
rest of their dataset has another number of instances; rows of the runs table say which to read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.protocol import get_dataset
from benchmarks.runs import SPLITS
from common.errors import UserError, first_line
from common.files import atomic_path, write_text
from common.plain_text import visible
from common.processes import cores
from common.reading import strict_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "RUN_FIELDS",
    "RunScores",
    "cell_path",
    "check_folder",
    "open_folder",
    "prune",
    "read_instances",
    "write_cell",
]

_MARKER = "_clm_or_mlm_instances.json"
"""Names this package's folders; readers of Parquet skip names with an underscore."""
_METADATA = b"clm_or_mlm"
"""The key of a file's metadata with the hash of each split."""
RUN_FIELDS = (
    ("model", pa.string()),
    ("task", pa.string()),
    ("dataset", pa.string()),
    ("lr", pa.float64()),
    ("seed", pa.int64()),
)
"""The columns that name a run, in every table of runs."""
_SCHEMA = pa.schema([*RUN_FIELDS, ("validation", pa.list_(pa.float64())), ("test", pa.list_(pa.float64()))])
_AGREEMENT = 1e-6
"""Largest distance between a run's score and the mean of its instances (cf. `results_json.MEAN_TOLERANCE`)."""


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """One run's scores on every instance."""

    lr: float
    """Learning rate."""
    seed: int
    """Seed."""
    validation: npt.NDArray[np.float64]
    """(n_validation,)"""
    test: npt.NDArray[np.float64]
    """(n_test,)"""


def read_instances(
    path: Path, dataset: str, runs: pd.DataFrame, split: str = "test"
) -> npt.NDArray[np.float64]:
    """Return the scores of some runs of one dataset on every instance.

    Args:
        path: the instances folder that `ingest --instances` wrote.
        dataset: one of the twelve.
        runs: rows of the runs table, with `model`, `lr`, `seed`; rows of other datasets are refused. Where the
            split's score column is there too, it must be the mean of the instances.
        split: `test` or `validation`.

    Returns:
        (n_runs, n_instances), rows in the order of `runs`. Column i is the same instance in every run, except for
        NQ (`benchmarks.protocol.Dataset.paired`).

    Raises:
        UserError: the folder, a model's file or a run is absent, belongs to another ingest, or the runs differ in
            their number of instances.
    """
    get_dataset(dataset)
    if split not in SPLITS:
        raise UserError(f"unknown split {split!r}; the splits are {', '.join(SPLITS)}")
    if "dataset" in runs and (runs["dataset"] != dataset).any():
        raise ValueError(f"runs of other datasets than {dataset} among those to read")
    wanted = list(zip(runs["lr"].astype(float), runs["seed"].astype(int), strict=True))
    groups = runs.reset_index(drop=True).groupby("model", sort=False).groups.items()
    scores = np.empty((0, 0))
    # Reading, decompressing and hashing leave Python's lock, so threads are enough.
    with ThreadPoolExecutor(cores()) as pool:
        chosen = pool.map(
            lambda group: _chosen_rows(path, str(group[0]), dataset, split, [wanted[at] for at in group[1]]),
            groups,
        )
        for (_, places), rows in zip(groups, chosen, strict=True):
            if not scores.size:
                scores = np.empty((len(runs), len(rows[0])))
            if (lengths := {scores.shape[1], *map(len, rows)}) != {scores.shape[1]}:
                raise UserError(
                    f"{path}: runs of {dataset} have {min(lengths)} to {max(lengths)} {split} instances"
                )
            scores[places] = rows
    column = f"{split}_score"
    if len(scores) and column in runs:
        distance = np.abs(scores.mean(axis=1) - runs[column].to_numpy(dtype=np.float64))
        if not distance.max() <= _AGREEMENT:
            model = runs["model"].iloc[int(distance.argmax())]
            raise UserError(
                f"{cell_path(path, model, dataset)}: not from the same ingest as the runs table (the scores differ "
                f"by {distance.max():.4f}); run python -m analysis ingest STORE with both --out and --instances"
            )
    return scores


def cell_path(folder: Path, model: str, dataset: str) -> Path:
    """Return the path of a cell's instances."""
    return folder / model / f"{dataset}.parquet"


def write_cell(folder: Path, model: str, dataset: str, runs: Sequence[RunScores]) -> Path:
    """Write a cell's runs atomically and return the file; equal runs in any order give equal bytes."""
    ordered = sorted(runs, key=lambda run: (run.lr, run.seed))
    task = get_dataset(dataset).task
    columns = [
        *(pa.array([text] * len(ordered), pa.string()) for text in (model, task, dataset)),
        pa.array([run.lr for run in ordered], pa.float64()),
        pa.array([run.seed for run in ordered], pa.int64()),
        *(_lists([getattr(run, split) for run in ordered]) for split in SPLITS),
    ]
    path = cell_path(folder, model, dataset)
    keys = [(run.lr, run.seed) for run in ordered]
    seals = {
        split: _seal(model, dataset, split, keys, [getattr(run, split) for run in ordered])
        for split in SPLITS
    }
    schema = _SCHEMA.with_metadata({_METADATA: json.dumps(seals).encode()})
    with atomic_path(path) as temporary:
        pq.write_table(
            pa.Table.from_arrays(columns, schema=schema),
            temporary,
            use_dictionary=["model", "task", "dataset"],
            compression="zstd",
            compression_level=1,
            write_statistics=False,
        )
    return path


def check_folder(folder: Path) -> None:
    """Refuse a place that cannot become an instances folder.

    Raises:
        UserError: it is a file, or a folder that holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(
            f"{folder}: is a file; --instances names a folder that does not exist yet, or an earlier one"
        )
    if folder.is_dir() and not (folder / _MARKER).is_file() and any(folder.iterdir()):
        raise UserError(f"{folder}: holds something else than instances; give --instances a new folder")


def open_folder(folder: Path) -> None:
    """Make `folder` an instances folder, unless it is one; raises as `check_folder`."""
    check_folder(folder)
    if not (folder / _MARKER).is_file():
        write_text(folder / _MARKER, json.dumps({"format": 1}) + "\n")


def prune(folder: Path, keep: set[Path]) -> None:
    """Remove cells that are not in `keep`, what a write left that was killed an hour ago, and empty folders."""
    for model in sorted(path for path in folder.iterdir() if path.is_dir()):
        for file in model.glob("*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                unfinished = file.name.startswith(".")
                if time.time() - file.stat().st_mtime > 3600 if unfinished else file not in keep:
                    file.unlink()
        if not any(model.iterdir()):
            model.rmdir()


def _lists(arrays: Sequence[npt.NDArray[np.float64]]) -> pa.ListArray:
    offsets = np.zeros(len(arrays) + 1, dtype=np.int32)
    np.cumsum([len(values) for values in arrays], out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, np.concatenate(arrays))


def _chosen_rows(
    path: Path, model: str, dataset: str, split: str, keys: Sequence[tuple[float, int]]
) -> list[npt.NDArray[np.float64]]:
    """Return copies of some runs' scores, so that the rest of the cell need not stay in memory."""
    cell = _read_cell(path, model, dataset, split)
    for key in keys:
        if key not in cell:
            raise UserError(
                f"{cell_path(path, model, dataset)}: holds no run with lr {key[0]:g}, seed {key[1]}; "
                f"read the store again with python -m analysis ingest STORE --instances {path}"
            )
    return [cell[key].copy() for key in keys]


def _read_cell(
    folder: Path, model: str, dataset: str, split: str
) -> dict[tuple[float, int], npt.NDArray[np.float64]]:
    path = cell_path(folder, model, dataset)
    try:
        table = pq.read_table(path, columns=["lr", "seed", split], use_threads=False, partitioning=None)
        lists = table[split].combine_chunks()
        offsets, values = lists.offsets.to_numpy(), lists.values.to_numpy()
        keys = list(zip(table["lr"].to_pylist(), table["seed"].to_pylist(), strict=True))
        rows = [values[offsets[i] : offsets[i + 1]] for i in range(len(keys))]
        seals = strict_json((table.schema.metadata or {}).get(_METADATA, b"{}"))
        if split in seals and seals[split] != _seal(model, dataset, split, keys, rows):
            raise ValueError("it was changed since it was written: its seal does not fit")
    except FileNotFoundError:
        raise UserError(
            f"{path}: no instances of {model} on {dataset}; read the store again with "
            f"python -m analysis ingest STORE --instances {folder}"
        ) from None
    except (
        pa.ArrowException,
        OSError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        MemoryError,
    ) as error:
        raise UserError(
            f"{path}: cannot be read ({visible(first_line(error))}); ingest the store again"
        ) from None
    return dict(zip(keys, rows, strict=True))


def _seal(
    model: str,
    dataset: str,
    split: str,
    keys: Sequence[tuple[float, int]],
    rows: Sequence[npt.NDArray[np.float64]],
) -> str:
    """Return the hash of one split of a cell."""
    digest = hashlib.sha256(repr((model, dataset, split, keys, [len(row) for row in rows])).encode())
    for row in rows:
        digest.update(np.ascontiguousarray(row, dtype="<f8").data)
    return digest.hexdigest()
