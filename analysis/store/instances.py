"""Per-instance scores: a folder of Parquet files, one a cell, `<folder>/<model>/<dataset>.parquet`.

One row a run, sorted by learning rate and seed:

    model, task, dataset     the cell (string)
    lr, seed                 the run (float64, int64)
    validation, test         its score on every instance, in dataset order (list<double>); on a dataset of one's own
                             by the metric that it names, if that is a mean over instances, else by the paper's
    validation_clusters,     which cluster each of them is in, numbered from 0 (list<int32>); null where the run does
    test_clusters            not say

Any Parquet reader opens the folder as one data set; `_manifest.json` in it has the hash of each file. All cells may
also be in one such file, a row group each, with the manifest next to it, as in the packaged example. A file can hold
runs that the runs table leaves out because most runs of their dataset have another number of instances; rows of the
runs table say which to read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.store.runs_table import RUN_COLUMNS, manifest_path
from analysis.store.stand_ins import RECORDED_AS
from benchmarks.protocol import DATASETS, Dataset
from benchmarks.runs import SCORED_SPLITS
from common.errors import UserError, first_line
from common.files import atomic_folder, sha256_bytes
from common.manifest import (
    FILES,
    DamagedError,
    check_file,
    check_files,
    read_manifest,
    strangers,
    write_manifest,
    written_by,
)
from common.plain_text import first_of
from common.processes import cores

if TYPE_CHECKING:
    import pandas as pd

_MANIFEST = "_manifest.json"
"""The hashes of the files in the folder (`common.manifest`); readers of Parquet skip names with an underscore."""
_CLUSTERS = {split: f"{split}_clusters" for split in SCORED_SPLITS}
"""By split, the column with its clusters."""
_SCHEMA = pa.schema(
    [
        *RUN_COLUMNS,
        *((split, pa.list_(pa.float64())) for split in SCORED_SPLITS),
        *((name, pa.list_(pa.int32())) for name in _CLUSTERS.values()),
    ]
)
_NAMES = ["model", "task", "dataset"]
"""The columns that are equal in all rows of a cell."""
_AGAIN = "read the store again with clm-or-mlm ingest STORE --instances {}"
"""What to do about files that are missing or damaged; {} is their folder."""
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
    clusters: Mapping[str, npt.NDArray[np.int32]] = field(default_factory=dict)
    """By split the cluster of each instance; empty where the run does not say."""


def read_instances(
    path: Path, dataset: str, runs: pd.DataFrame, split: str = "test"
) -> npt.NDArray[np.float64]:
    """Return the scores of some runs of one dataset on every instance.

    Args:
        path: the instances folder that `ingest --instances` wrote, or one file of all cells.
        dataset: its name.
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
    scores = np.empty((0, 0))
    # The column of the scores is called as its split.
    for _, positions, rows in _by_model(path, dataset, runs, split, column=split):
        if not scores.size:  # at the first model
            scores = np.empty((len(runs), len(rows[0])))
        _, n_instances = scores.shape
        lengths = {n_instances, *map(len, rows)}
        if len(lengths) > 1:
            raise UserError(
                f"{path}: runs on {dataset} have between {min(lengths)} and {max(lengths)} {split} instances, but all "
                "must have the same number"
            )

        scores[positions] = rows

    column = f"{split}_score"
    if len(scores) and column in runs:
        distance = np.abs(scores.mean(axis=1) - runs[column].to_numpy(dtype=np.float64))
        # With `not`, since a distance may be nan, for which every comparison is false.
        if not distance.max() <= _AGREEMENT:
            model = runs["model"].iloc[int(distance.argmax())]
            if dataset not in DATASETS:
                raise UserError(
                    f"{dataset}: its metric is no mean of scores by instance, which crossed needs (F1 over all "
                    "entities and correlations are none), or they were read by an earlier version; choose another "
                    "--interval, such as pooled, or ingest the store again"
                )

            raise UserError(
                f"{path / instances_name(model, dataset)}: not from the same ingest as the runs table (the scores "
                f"differ by {distance.max():.4f}); run clm-or-mlm ingest STORE with both --out and --instances"
            )

    return scores


def read_clusters(
    path: Path, dataset: str, runs: pd.DataFrame, split: str = "test"
) -> npt.NDArray[np.int64] | None:
    """Return the cluster of each instance, (n_instances,), or None where no run names clusters.

    One run that names them speaks for all, since instance i is the same in every run. The arguments are those of
    `read_instances`.

    Raises:
        UserError: as `read_instances`, or runs that name different clusters, which were not evaluated on the same data.
    """
    clusters: npt.NDArray[np.int32] | None = None
    first_model = ""
    # An unknown split has no such column; `_by_model` refuses it.
    column = _CLUSTERS.get(split, "")
    for model, _, rows in _by_model(path, dataset, runs, split, column):
        for row in rows:  # an array, or None where the run names no clusters
            if clusters is None:
                clusters, first_model = row, model
            elif row is not None and not np.array_equal(clusters, row):
                raise UserError(
                    f"{path}: runs of {first_model} and {model} put the {split} instances of {dataset} into different "
                    "clusters, so they were not evaluated on the same data; evaluate one of them again"
                )

    return None if clusters is None else clusters.astype(np.int64)


def instances_name(model: str, dataset: str) -> str:
    """Return the name of a cell's file in the folder."""
    return f"{model}/{dataset}.parquet"


def write_cell(
    folder: Path, model: str, dataset: Dataset, runs: Sequence[RunScores]
) -> str:
    """Write a cell's runs and return the file's SHA-256; equal runs in any order give equal bytes."""
    rows = []
    for run in sorted(runs, key=lambda run: (run.lr, run.seed)):
        row = {
            "model": model,
            "task": dataset.task,
            "dataset": dataset.name,
            "lr": run.lr,
            "seed": run.seed,
            "validation": run.validation,
            "test": run.test,
        }
        for split in SCORED_SPLITS:
            # None where the run does not say: a null in the file.
            row[_CLUSTERS[split]] = run.clusters.get(split)
        rows.append(row)

    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_pylist(rows, schema=_SCHEMA),
        sink,
        use_dictionary=_NAMES,
        compression="lz4",  # a third of the time of zstd, which packs zeros and ones tighter
        write_statistics=False,
    )
    content = sink.getvalue().to_pybytes()
    path = folder / instances_name(model, dataset.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return sha256_bytes(content)


class _UnchangedError(Exception):
    """The same content is there already: raised inside `atomic_folder`, so that it gives up the new folder."""


@contextlib.contextmanager
def instances_folder(path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield a new folder for `write_cell`, and a dict which the caller fills with the hash of each file by its name.

    When the caller's block ends, a manifest with the hashes is written, and the new folder takes the place of `path`. A
    folder that holds the same already stays untouched, for those who are reading it.

    Raises:
        UserError: `path` is a file, or a folder with files that no ingest wrote.
    """
    if path.exists() and not path.is_dir():
        raise UserError(
            f"{path} is a file; --instances must be a new folder, or one from an earlier ingest"
        )

    # With an empty hash: files of an earlier ingest may be replaced even if they were changed since.
    ours = dict.fromkeys(written_by(path / _MANIFEST), "")
    others = strangers(path, ours)
    if others:
        raise UserError(
            f"{path} has files, but not from an earlier ingest ({first_of(others)}); give --instances a new folder"
        )

    hashes: dict[str, str] = {}
    with contextlib.suppress(_UnchangedError), atomic_folder(path) as folder:
        yield folder, hashes
        # The number of the form of these files. A folder of another form has another manifest: it is replaced.
        write_manifest(folder / _MANIFEST, {"format": 3}, hashes)
        # An old folder is replaced if its manifest is another one or missing, or one of its files is damaged.
        # Both errors end the comparison, and nobody sees their sentences, so that the remedy is left empty.
        with contextlib.suppress(FileNotFoundError, DamagedError):
            if (path / _MANIFEST).read_bytes() == (folder / _MANIFEST).read_bytes():
                check_files(path, hashes, "")
                raise _UnchangedError


def _by_model(
    path: Path, dataset: str, runs: pd.DataFrame, split: str, column: str
) -> Iterator[tuple[str, npt.NDArray[np.intp], list[Any]]]:
    """Yield each model with the positions of its runs in `runs`, and what a column holds for each of them.

    That is an array with a value for every instance, or None where the file says nothing for a run.

    Raises:
        UserError: an unknown split, or as `read_instances`.
        ValueError: a run of another dataset.
    """
    if split not in SCORED_SPLITS:
        raise UserError(
            f"unknown split {split!r}; the splits are {', '.join(SCORED_SPLITS)}"
        )

    if "dataset" in runs and (runs["dataset"] != dataset).any():
        raise ValueError(f"some of the runs are of a dataset other than {dataset}")
    # What is wanted: of each model, the rates and seeds of its runs.
    keys = list(zip(runs["lr"].astype(float), runs["seed"].astype(int), strict=True))

    # Files have the name that a model was trained by; runs of stand-ins have others in the column `model`.
    name_column = RECORDED_AS if RECORDED_AS in runs else "model"
    # With a fresh index, the members of a group are positions.
    groups = runs.reset_index(drop=True).groupby(name_column, sort=False).groups.items()

    # Where it is: in a file of the model, or in one file of all cells. Without a manifest there are no
    # hashes, and a file without a hash counts as missing (`_chosen_rows`).
    hashes: Mapping[str, str] = {}
    is_joined = path.is_file()  # all cells are in one file
    again = _AGAIN.format(path)
    with contextlib.suppress(FileNotFoundError):
        manifest = manifest_path(path) if is_joined else path / _MANIFEST
        hashes = read_manifest(manifest, again).get(FILES, {})

    def rows_of(group: tuple[Any, Iterable[int]]) -> list[Any]:
        """Return what the column holds for one model's runs; `group`: its name and the runs' positions."""
        model, positions = str(group[0]), group[1]
        name = instances_name(model, dataset)
        file, wanted = path / name, None
        if is_joined:
            # The manifest then lists this one file, by its own name; filters take the cell's rows out of it.
            name, file = path.name, path
            wanted = [("model", "==", model), ("dataset", "==", dataset)]

        return _chosen_rows(
            file,
            hashes.get(name),
            column,
            [keys[position] for position in positions],
            again,
            wanted,
        )

    # Reading, decompressing and hashing leave Python's lock, so threads are enough.
    with ThreadPoolExecutor(cores()) as pool:
        chosen = pool.map(rows_of, groups)
        for (model, positions), rows in zip(groups, chosen, strict=True):
            yield str(model), np.asarray(positions), rows


def _chosen_rows(
    path: Path,
    sha256: str | None,
    column: str,
    keys: Sequence[tuple[float, int]],
    again: str,
    wanted: list[tuple[str, str, str]] | None,
) -> list[Any]:
    """Return what a column holds for some runs of a cell, in the order of `keys`: an array, or None for a null.

    The arrays are copies, so that the rest of the cell need not stay in memory.

    Args:
        path: the file of the cell, or of all cells.
        sha256: the hash of its content; None where the manifest does not name the file.
        column: name of the column.
        keys: learning rate and seed of each run.
        again: what to do about a missing or damaged file, for the message.
        wanted: filters that leave only the rows of the cell, for a file of all cells.
    """
    try:
        if sha256 is None:  # a file that no ingest wrote counts as missing
            raise FileNotFoundError
        check_file(path, sha256)
        columns = ["lr", "seed", column]

        # Without threads, since `_by_model` reads several files at once.
        # Without partitioning: Arrow would take a folder `a=b` in the path for a column.
        table = pq.read_table(
            path, columns=columns, filters=wanted, use_threads=False, partitioning=None
        )
    except FileNotFoundError:
        raise UserError(
            f"{path}: this file of per-instance scores is missing; {again}"
        ) from None
    except (DamagedError, pa.ArrowException, OSError) as error:
        raise DamagedError(f"{path}: {first_line(error)}; {again}") from None

    keys_of_rows = zip(table["lr"].to_pylist(), table["seed"].to_pylist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys_of_rows)}
    for lr, seed in keys:
        if (lr, seed) not in row_of:
            raise UserError(
                f"{path} has no run with lr {lr:g} and seed {seed}; {again}"
            )

    # Arrow keeps the lists of a column in one array of values; the list of row i is from offset i to offset i + 1.
    lists = table[column].combine_chunks()
    is_given = lists.is_valid()
    offsets = lists.offsets.to_numpy()
    values = lists.values.to_numpy()
    chosen: list[Any] = []
    for key in keys:
        row = row_of[key]
        values_of_run = None
        if is_given[row].as_py():
            values_of_run = values[offsets[row] : offsets[row + 1]].copy()
        chosen.append(values_of_run)

    return chosen
