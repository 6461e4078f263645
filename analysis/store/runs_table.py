"""The runs table: one row a run, the contract between a run store and every statistic made of it.

    model, task, dataset     the run's model, and what it was fine-tuned and evaluated on
    lr, seed                 its learning rate (float64) and seed (int64)
    validation_score         in [0, 1] (float64); the learning rate is selected by it
    test_score               in [0, 1] (float64)
    n_validation, n_test     number of instances behind each score (Int64, missing when not known)

Rows are unique in (model, dataset, lr, seed) and sorted: models and datasets in the study's order (others
after them by name), then learning rate, then seed. The file is Parquet, or text (`analysis.store.text_table`) with
these columns or with the header `model,task,dataset,lr,seed,val_score,test_score`; `runs.parquet.manifest.json` next to
it has its hash. A Parquet file records what its names mean besides the paper's: added models, and the definitions of
datasets of one's own. A run is sealed if it has a manifest, `run.json`, so that a change of its scores is noticed.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis.published_cells import TEST_INSTANCES
from analysis.records import records
from analysis.store.text_table import ENDINGS, TextTable, read_text_table
from benchmarks.protocol import (
    DATASETS,
    EXTRA_DATASETS,
    LEARNING_RATES,
    PAPER,
    Dataset,
    format_lr,
)
from common.errors import UserError, first_line, nearest
from common.files import sha256_bytes, write_together
from common.manifest import (
    FILES,
    DamagedError,
    another_shape,
    check_outputs,
    manifest_text,
    read_manifest,
)
from common.plain_text import counted, first_of, name_fault
from common.reading import (
    MOST_LARGE,
    PARQUET,
    BadJsonError,
    read_bounded,
    refuse_binary,
    strict_json,
)
from common.settings import FileSettings, read_settings
from pretraining.paper_models import MODELS, parse

logger = logging.getLogger(__name__)

RUN_COLUMNS = (
    ("model", pa.string()),
    ("task", pa.string()),
    ("dataset", pa.string()),
    ("lr", pa.float64()),
    ("seed", pa.int64()),
)
"""The columns that name a run, in every table of runs."""
_SCHEMA = pa.schema(
    [
        *RUN_COLUMNS,
        ("validation_score", pa.float64()),
        ("test_score", pa.float64()),
        ("n_validation", pa.int64()),
        ("n_test", pa.int64()),
    ]
)
COLUMNS = tuple(_SCHEMA.names)
"""The table's columns, in order."""
KEYS = ("model", "dataset", "lr", "seed")
"""The columns by which runs differ: those of `RUN_COLUMNS` without the task, which follows from the dataset."""

_OPTIONAL = ("n_validation", "n_test")
"""Columns that may be absent."""
_ALIASES = {"val_score": "validation_score"}
"""Other names of columns that are read."""
_TYPES = {
    name: pa.string() if name in ("model", "task", "dataset") else pa.float64()
    for name in COLUMNS
}
"""The type as which each column is read, whatever type it has in the file."""
_RANKS = {
    "model": {name: i for i, name in enumerate(MODELS)},
    "dataset": {name: i for i, name in enumerate(DATASETS)},
}
"""The order of known names in the table."""
_METADATA = b"clm_or_mlm"
"""The key of `_Record` in a Parquet file."""
_UNSEALED, _DIFFERENCES = "unsealed", "differences"
"""Keys of a table's manifest, of the fields of `RunsTable` with these names."""
_AGAIN = "make it again with ingest"
_SOURCES = "a source is published, released, miniature, curves, a run store (folder) or a runs table (Parquet, .csv)"
_MOST_SEED = 2**53
"""The largest of the whole numbers that a table's numbers hold exactly."""
_SHOWN = 3
"""Models of a dataset that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class RunsTable:
    """A runs table that was read, and what it records."""

    runs: pd.DataFrame
    """The rows, checked and sorted."""
    protocol: str | None
    """Whose scores they are, as a Parquet file records it; None of a CSV."""
    datasets: Mapping[str, Dataset]
    """Known datasets by name: the paper's, and after them those that the table defines."""
    unsealed: int
    """How many runs could be changed without anyone noticing: those without a run.json, or all where the table itself
    has no manifest."""
    differences: str = ""
    """A sentence on what differs between the settings or data of runs that stand side by side; empty for nothing."""


@dataclass(frozen=True, kw_only=True)
class _Record(FileSettings):
    """The record in a Parquet file that says what the names in it mean."""

    datasets: dict[str, Any] = field(default_factory=dict)
    added_models: tuple[str, ...] = ()
    protocol: str | None = PAPER


def manifest_path(table: Path) -> Path:
    """Return where the manifest of a runs table is."""
    return table.with_name(f"{table.name}.manifest.json")


def read_runs(path: Path, *, add_models: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows of the runs table in `path`, as `read_table` reads them."""
    return read_table(path, add_models=add_models).runs


def read_table(path: Path, *, add_models: Sequence[str] = ()) -> RunsTable:
    """Return the runs table in `path` (Parquet, or text by its ending), checked and sorted.

    Args:
        path: the file.
        add_models: names or shell patterns of models outside the released scheme that are accepted besides
            those that a Parquet file itself records.

    Raises:
        UserError: the file is absent or no table, was changed since it was written, its header lacks a column, or a
            row has an unknown model or dataset, a task that is not the dataset's, a score outside [0, 1], or repeats
            an earlier row; a seed chooses a rate without a test score (rows at other rates may lack it); or a recorded
            definition is damaged.
    """
    if path.is_dir() or not path.exists():
        fault = "does not exist; make it"
        if path.is_dir():
            fault = "is a folder; a run store becomes a runs table"
        raise UserError(
            f"{path}: {fault} with clm-or-mlm ingest STORE --out runs.parquet"
        )
    # What the file holds, and its manifest.
    content = read_bounded(path, MOST_LARGE)
    manifest = _manifest_of(path, content)
    # The content counts as well: a Parquet table whose name ends in .csv is read as Parquet.
    is_text = path.suffix.lower() in ENDINGS and not content.startswith(PARQUET)
    read = _read_text if is_text else _read_parquet
    # `places` says where each row is, such as "line 2", for messages.
    columns, places, record = read(path, content)
    if not places:
        remedy = "a line is a run" if is_text else _AGAIN
        raise UserError(f"{path} has a header but no runs; {remedy}")
    # In one form, whoever wrote them: columns that may be absent (`_OPTIONAL`) are then there, with missing values.
    # Blanks at the ends of a name, or several within it, make no other name.
    runs = columns.reindex(columns=list(COLUMNS))
    runs["model"] = [re.sub(" +", " ", name).strip() for name in runs["model"]]
    datasets: Mapping[str, Dataset] = DATASETS
    if record.datasets:
        from benchmarks.own_datasets.definitions import (
            known_datasets,
            recorded_definitions,
        )

        datasets = known_datasets(recorded_definitions(record.datasets, path))
    # A rate that differs from one of the paper's grid only by rounding, as after float32 or text, is replaced by it, so
    # that no seventh rate stands beside the grid's six.
    for rate in LEARNING_RATES:
        runs.loc[(runs["lr"] - rate).abs() < 1e-6 * rate, "lr"] = rate
    # Checked, and only then sorted: messages name rows by their places in the file.
    _check_rows(runs, path, places, (*add_models, *record.added_models), datasets)
    _check_repeats(runs, path, places)
    rates = _unequal_rates(runs)
    if rates:
        logger.warning("%s: %s", path, rates)
    runs = _with_test_scores(runs, str(path))
    kinds = {"seed": "int64", "n_validation": "Int64", "n_test": "Int64"}
    # A table that somebody else wrote has no manifest, so that none of its runs is sealed.
    unsealed, differences = len(runs), ""
    if manifest is not None:
        unsealed = manifest[_UNSEALED]
        differences = str(manifest.get(_DIFFERENCES, ""))
    return RunsTable(
        runs=sort_runs(runs.astype(kinds)),
        protocol=None if is_text else record.protocol,
        datasets=datasets,
        unsealed=unsealed,
        differences=differences,
    )


def write_runs(
    path: Path,
    runs: pd.DataFrame,
    *,
    protocol: str = PAPER,
    datasets: Mapping[str, Dataset] = DATASETS,
    unsealed: int = 0,
    differences: str = "",
) -> None:
    """Write a runs table and its manifest atomically, as Parquet or, by its ending, CSV; equal tables give equal bytes.

    A file that holds these bytes already is left untouched, so that what depends on it stays up to date.

    Args:
        path: the file, replaced when it exists.
        runs: the columns of `COLUMNS`, in any row order.
        protocol: the protocol of the scores. A Parquet file records it, and models outside the released scheme.
        datasets: the known datasets, by name. A Parquet file records the definitions of one's own that the rows have.
        unsealed: number of runs without a manifest. The table's manifest records it.
        differences: what the runs differ in (`RunsTable.differences`). The table's manifest records it.

    Raises:
        UserError: the file is a CSV, which could not record what the names in it mean.
    """
    from benchmarks.own_datasets.definitions import definitions_record

    # What the names of its rows need besides the paper's definitions.
    frame = sort_runs(runs)
    models = sorted(frame["model"].unique())
    added = [name for name in models if model_error(name) is not None]
    names = sorted(frame["dataset"].unique())
    definitions = definitions_record(datasets[name] for name in names)
    if path.suffix.lower() == ".csv":
        # By its name, what a CSV cannot hold; empty or False where there is nothing to record.
        unrecorded = {
            "names of your own models": added,
            "protocol": protocol != PAPER,
            f"definitions of datasets of your own ({', '.join(definitions)})": definitions,
        }
        for what, would_be_lost in unrecorded.items():
            if would_be_lost:
                raise UserError(
                    f"{path}: a CSV cannot record the {what}; give --out a name that ends in .parquet"
                )
        content = frame.loc[:, list(COLUMNS)].to_csv(index=False).encode()
    else:
        columns = []
        for item in _SCHEMA:
            column = pa.array(frame[item.name], type=item.type, from_pandas=True)
            columns.append(column)
        record = {"added_models": added, "datasets": definitions, "protocol": protocol}
        schema = _SCHEMA.with_metadata({_METADATA: json.dumps(record).encode()})
        table = pa.Table.from_arrays(columns, schema=schema)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
    contents = {path: content}
    # A table with the same content is not written, so that `make` still sees its old time of change.
    if path.is_file() and path.read_bytes() == content:
        contents = {}
    # A device or a pipe has no manifest beside it.
    if path.is_file() or not path.exists():
        sealed: dict[str, Any] = {}
        if unsealed:
            sealed[_UNSEALED] = unsealed
        if differences:
            sealed[_DIFFERENCES] = differences
        sealed[FILES] = {path.name: sha256_bytes(content)}
        # A process that is killed between the two files leaves a table that is refused, never one without a
        # seal: `write_together` puts the last of its files in place first, which is the manifest.
        # Another's file in the manifest's place is refused. The hash of the manifest is not in itself: "".
        manifest = manifest_path(path)
        check_outputs(path.parent, {manifest.name: ""}, manifest)
        contents[manifest] = manifest_text(sealed).encode()
    write_together(contents)


def sort_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in the table's order with a fresh index; `runs` itself is not changed."""
    ranked = {}
    for column, ranks in _RANKS.items():
        # A text such as "007mldr_en", rank first. Names without a rank come last, alphabetically.
        keys_of_rows = [f"{ranks.get(name, 999):03}{name}" for name in runs[column]]
        ranked[f"{column} rank"] = keys_of_rows
    # Models and datasets are sorted by these columns, learning rates and seeds by their own.
    keys = [f"{column} rank" if column in _RANKS else column for column in KEYS]
    in_order = runs.assign(**ranked).sort_values(keys, kind="stable", ignore_index=True)
    return in_order.drop(columns=list(ranked))


def _manifest_of(path: Path, content: bytes) -> dict[str, Any] | None:
    """Return the manifest of a table with this content; None where it has none.

    Raises:
        DamagedError: the table or its manifest was changed since it was written.
    """
    manifest = manifest_path(path)
    remedy = f"make both again with ingest, or delete {manifest} to have it read as a table of your own"
    try:
        record = read_manifest(manifest, remedy)
    except FileNotFoundError:
        return None
    with another_shape(manifest, remedy):  # refuses what is not a number
        record[_UNSEALED] = int(record.get(_UNSEALED, 0))
    # Only the hash is compared: table and manifest may have been renamed.
    if list(record.get(FILES, {}).values()) != [sha256_bytes(content)]:
        raise DamagedError(f"{path} has changed since it was written; {remedy}")
    return record


_Read = tuple[pd.DataFrame, Sequence[str], _Record]
"""The columns that a file has, what to call each row, and what it records."""


def _read_text(path: Path, content: bytes) -> _Read:
    """Return the content of a table of text, which records nothing."""
    text = read_text_table(path, content)
    columns = {}
    for name, title in _titles(text.header, path).items():
        columns[name] = _text_column(text, title)
    return pd.DataFrame(columns), text.places, _Record()


def _read_parquet(path: Path, content: bytes) -> _Read:
    """Return the content of a Parquet table.

    Raises:
        UserError: it is damaged, or is no Parquet table.
    """
    # For damaged files, Arrow raises errors of many kinds.
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read()
        table.validate(full=True)
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        KeyError,
        MemoryError,
        OverflowError,
    ) as error:
        is_parquet = content.startswith(PARQUET)
        if not is_parquet:
            refuse_binary(path, content)
        remedy = _AGAIN if is_parquet else _SOURCES
        raise UserError(
            f"{path} cannot be read as Parquet ({first_line(error)}); {remedy}"
        ) from None
    record = _record_of(table, path)
    columns = {}
    for name, title in _titles(table.column_names, path).items():
        columns[name] = _column(table, path, title)
    places = [f"row {row + 1}" for row in range(table.num_rows)]
    return pd.DataFrame(columns), places, record


def _titles(header: Sequence[str], path: Path) -> dict[str, str]:
    """Return the columns of a runs table that a header has: by name, the title in the header, which may be an alias.

    Raises:
        UserError: the header has a column twice, or lacks one that is needed.
    """
    names = [_ALIASES.get(title, title) for title in header]
    for name in COLUMNS:
        if names.count(name) > 1:
            raise UserError(
                f"{path}: the header has {name!r} twice; keep one of these columns"
            )
    needed = [name for name in COLUMNS if name not in _OPTIONAL]
    missing = [name for name in needed if name not in names]
    if missing:
        # A missing column may be one whose title is misspelt: the nearest title that is not of the table is named.
        unread = {*names} - {*COLUMNS}
        lacking = []
        for name in missing:
            # A hint ends in a question mark, after which the list of columns would not go on.
            hint = nearest(name, unread).rstrip("?")
            lacking.append(f"{name!r}{hint}")
        by_seed = ""
        if "score" in names:
            by_seed = (
                "; scores by seed are for `clm-or-mlm compare` and cm.compare_scores"
            )
        raise UserError(
            f"{path}: the header lacks {'; '.join(lacking)}; a runs table has {','.join(needed)} "
            f"(val_score is read as validation_score; n_validation and n_test may be absent){by_seed}"
        )
    return {name: header[names.index(name)] for name in COLUMNS if name in names}


def _check_repeats(runs: pd.DataFrame, path: Path, places: Sequence[str]) -> None:
    """Raise a `UserError` where two rows are of the same run; `places` says where each row is."""
    keys = runs[list(KEYS)]
    is_repeat = keys.duplicated()
    if not is_repeat.any():
        return
    run = keys[is_repeat].iloc[0]
    is_same = (keys == run).all(axis=1)
    first, second = np.flatnonzero(is_same)[:2]
    cell = f"{run['model']} on {run['dataset']}"
    name = f"{cell} with lr {format_lr(run['lr'])}, seed {run['seed']:.0f}"
    raise UserError(
        f"{path}: {places[first]} and {places[second]} are the same run, {name}; keep one of them"
    )


def _record_of(table: pa.Table, path: Path) -> _Record:
    """Return what a Parquet file records about its runs; a file of another writer records nothing."""
    content = (table.schema.metadata or {}).get(_METADATA, b"{}")
    try:
        return read_settings(
            _Record,
            strict_json(content),
            f"{path}: its record is damaged",
            remedy=_AGAIN,
        )
    except BadJsonError as error:
        raise UserError(f"{path}: its record is damaged: {error}; {_AGAIN}") from None


def _column(table: pa.Table, path: Path, name: str) -> pd.Series:
    """Return a column of a Parquet file as text or numbers; `name` is its title there, which may be an alias."""
    column, kind = table[name], _TYPES[_ALIASES.get(name, name)]
    try:
        column = column.cast(kind)
    except pa.ArrowException:
        what = "text" if kind == pa.string() else "numbers"
        raise UserError(
            f"{path}: the column {name} contains {column.type}, not {what}"
        ) from None
    if kind == pa.string():
        column = column.fill_null("")
    return pd.Series(column.to_pandas())


def _text_column(text: TextTable, name: str) -> pd.Series:
    """Return a column of a table of text as text or numbers; a score of 91 % is 0.91. `name` is as in `_column`."""
    if _TYPES[_ALIASES.get(name, name)] == pa.string():
        return pd.Series(text.texts(name))
    return pd.Series(text.numbers(name, whole=1.0))


def _with_test_scores(runs: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the rows with a test score; those without one are left out, with a warning, if no seed chooses their rate.

    Args:
        runs: the columns of a runs table.
        where: what to call it.

    Raises:
        UserError: by its validation score a seed chooses a learning rate whose run has no test score.
    """
    blank = runs["test_score"].isna()
    if not blank.any():
        return runs
    # The order of the paper's rule: the best validation score, of equal scores the smallest rate.
    ordered = runs.sort_values(
        ["validation_score", "lr"], ascending=[False, True], kind="stable"
    )
    chosen = ordered.drop_duplicates(["model", "dataset", "seed"])
    # In the order of `runs`, so that the first such row is named.
    unscored = chosen[chosen["test_score"].isna()].sort_index()
    if len(unscored):
        run = unscored.iloc[0]
        rate, seed = format_lr(run["lr"]), run["seed"]
        name = f"{run['model']} on {run['dataset']}, lr {rate}, seed {seed:.0f}"
        raise UserError(
            f"{where}: {name} has no test_score but needs one: its validation_score {run['validation_score']:g} is "
            "this seed's best; fill in the test_score, or delete the row"
        )
    logger.warning(
        "%s: left out %s without a test_score, at learning rates that are not chosen for any seed",
        where,
        counted(int(blank.sum()), "run"),
    )
    return runs[~blank]


def _unequal_rates(runs: pd.DataFrame) -> str:
    """Return a sentence about models that were tried at different learning rates on a dataset, empty where none were.

    A model with more rates has the best of more runs, and that is part of its difference to another model.
    """
    # By dataset and model, the rates in ascending order.
    tried: dict[str, dict[str, list[float]]] = {}
    for dataset, model, lr in records(runs.sort_values("lr"), "dataset", "model", "lr"):
        rates = tried.setdefault(dataset, {}).setdefault(model, [])
        if lr not in rates:
            rates.append(lr)
    # By dataset with several grids of rates, each grid with the first model that has it.
    unequal = {}
    for dataset, rates_of in tried.items():
        grids: dict[tuple[float, ...], str] = {}
        # In reverse, so that the first model of a grid replaces the others.
        for model, rates in reversed(rates_of.items()):
            grids[tuple(rates)] = model
        if len(grids) > 1:
            unequal[dataset] = grids
    if not unequal:
        return ""
    example = next(iter(unequal))
    words = []
    for grid, model in unequal[example].items():
        words.append(f"{model} has {', '.join(map(format_lr, grid))}")
    others = ""
    if len(unequal) > 1:
        others = f", and on {len(unequal) - 1} more datasets"
    return (
        f"models were tried at different learning rates, which contributes to their differences (on {example} "
        f"{first_of(words, _SHOWN, '; ')}{others})"
    )


def _check_rows(
    runs: pd.DataFrame,
    path: Path,
    places: Sequence[str],
    added: Sequence[str],
    datasets: Mapping[str, Dataset],
) -> None:
    """Raise a `UserError` if rows break a rule: about the first rule that is broken, and the first row that breaks it.

    Args:
        runs: the columns of a runs table. A test score may be missing (`_with_test_scores`).
        path: the table's file.
        places: where each row is, such as `line 2`.
        added: names or shell patterns of models outside the released scheme that are accepted.
        datasets: the known datasets, by name.
    """

    def refuse_first(wrong: pd.Series, fault_of: Callable[[pd.Series], str]) -> None:
        # `fault_of` returns what follows a row's place: ` has a seed ...`, or `: ` and a clause of its own.
        if wrong.any():
            row = int(wrong.to_numpy().argmax())
            raise UserError(f"{path}: {places[row]}{fault_of(runs.iloc[row])}")

    error_of = {name: model_error(name, added) for name in runs["model"].unique()}
    wrong_models = [name for name, error in error_of.items() if error is not None]
    is_wrong = runs["model"].isin(wrong_models)
    refuse_first(is_wrong, lambda row: f": {error_of[row['model']]}")
    is_unknown = ~runs["dataset"].isin(list(datasets))
    refuse_first(is_unknown, lambda row: _unknown_dataset(row["dataset"], datasets))
    tasks = {name: dataset.task for name, dataset in datasets.items()}

    def wrong_task(row: pd.Series) -> str:
        name = row["dataset"]
        return (
            f" gives {name} the task {row['task']!r}, but it belongs to {tasks[name]}"
        )

    refuse_first(runs["task"] != runs["dataset"].map(tasks), wrong_task)
    is_rate = runs["lr"].between(0, 1, inclusive="neither")
    fault = " has a learning rate that is not a positive number below 1"
    refuse_first(~is_rate, lambda _: fault)
    is_seed = _are_whole(runs["seed"], 0, _MOST_SEED)
    wrong_seed = f" has a seed that is not a whole number from 0 to {_MOST_SEED}"
    refuse_first(~is_seed, lambda _: wrong_seed)
    for name in ("validation_score", "test_score"):
        is_score = runs[name].between(0, 1)
        if name == "test_score":
            is_score |= runs[name].isna()
        refuse_first(~is_score, partial(_not_a_score, name))
    for name in ("n_validation", "n_test"):
        # More than 1e12 is taken for a mistake.
        is_count = _are_whole(runs[name], 1, 1e12) | runs[name].isna()
        refuse_first(~is_count, partial(_not_a_count, name))


def _are_whole(numbers: pd.Series, least: float, most: float) -> pd.Series:
    """Return which numbers are whole and between two others."""
    return numbers.between(least, most) & (numbers % 1 == 0)


def _not_a_count(name: str, row: pd.Series) -> str:
    """Return the fault of a row in whose column `name` there is no possible number of instances."""
    return f" has {name} {row[name]:g}, which is not a whole number from 1 on"


def model_error(name: str, added: Sequence[str] = ()) -> str | None:
    """Return why `name` cannot be a model of a store or table, or None when it can.

    A name in the released scheme can be one, whether or not the study trained it; any other only if it is in `added` or
    matches one of the shell patterns there (`bert-*`).
    """
    fault = name_fault(name)
    if fault is not None:
        return f"{name!r:.60} {fault}, so it cannot name a model"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in added):
        return None
    try:
        parse(name)
    except UserError as error:
        return f"{error}; add your own model with --add-model {name}"
    return None


def _unknown_dataset(name: str, datasets: Mapping[str, Dataset]) -> str:
    """Return the fault of a row whose dataset is not known, as it follows the row's place in a message."""
    extra = (
        " is outside the paper's twelve" if name in EXTRA_DATASETS else " is unknown"
    )
    return (
        f": dataset {name!r}{extra}; the datasets are {', '.join(datasets)}; your own are known only from "
        f"their run store, or from the Parquet table that ingest makes from it{nearest(name, datasets)}"
    )


def _not_a_score(name: str, row: pd.Series) -> str:
    """Return the fault of a row whose score in the column `name` is missing or outside [0, 1]."""
    value = row[name]
    if math.isnan(value):
        return f" has no {name}; a run that diverged scores 0 (its rate is then not chosen), or delete the line"
    hint = "; divide percentages by 100" if 1 < value <= 100 else ""
    return f" has {name} {value:g}, which is outside [0, 1]{hint}"


def other_sizes(runs: pd.DataFrame) -> list[str]:
    """Return the datasets whose test sets are not the paper's, with their numbers of examples."""
    sizes = runs.dropna(subset="n_test").drop_duplicates(["dataset", "n_test"])
    # Of a dataset with several sizes, the last counts.
    size_of = dict(records(sizes, "dataset", "n_test"))
    others = []
    for name, count in size_of.items():
        # A dataset that the paper does not have cannot differ from it.
        papers_count = TEST_INSTANCES.get(name, count)
        if papers_count != count:
            others.append(
                f"{name} ({count:,} test examples, the paper's has {papers_count:,})"
            )
    return others


def warn_of_other_sizes(source: str, runs: pd.DataFrame) -> None:
    """Warn of test sets that are not the paper's: scores on them look as if the published ones were comparable."""
    other = other_sizes(runs)
    if other:
        logger.warning(
            "%s: some test sets are not the paper's, so scores on them are not comparable with the paper's numbers: %s",
            source,
            ", ".join(other),
        )


def unsealed_words(unsealed: int, runs: int) -> str:
    """Return in words how many of the runs could be changed without anyone noticing; empty for none."""
    if not unsealed:
        return ""
    if unsealed == runs:
        return "unsealed, like the authors' files: a changed score would go unnoticed"
    return f"{unsealed:,} of {runs:,} runs unsealed: changes in their scores would go unnoticed"


def log_doubts(source: str, runs: int, unsealed: int, differences: str) -> None:
    """Log how many of a source's runs are unsealed, and what its runs differ in (`RunsTable`); nothing for neither."""
    words = unsealed_words(unsealed, runs)
    if words:
        unknown = "what runs without a run.json were made from is unknown, and was not compared"
        logger.info("%s: %s; %s", source, words, unknown)
    if differences:
        logger.warning("%s: %s", source, differences)


def fingerprint(runs: pd.DataFrame) -> str:
    """Return a name of the runs that depends only on their content, not on their order, file or machine."""
    columns = ["model", "dataset", "lr", "seed", "validation_score", "test_score"]
    # One hash for each row; sorted, so that the order of rows does not matter.
    hashes = pd.util.hash_pandas_object(runs[columns], index=False).to_numpy()
    in_order = np.sort(hashes).astype("<u8")  # with the same bytes on every machine
    digest = hashlib.sha256(in_order.tobytes()).hexdigest()
    return f"runs-{digest[:12]}"
