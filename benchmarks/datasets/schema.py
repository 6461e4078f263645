"""The one local form of every dataset: which tables a family has, their columns, and the manifest.

    data/<dataset>/manifest.json
    data/<dataset>/{train,validation,test}.parquet             SC, TC, QA
    data/<dataset>/{queries,corpus,qrels}.parquet              IR, and pairs.parquet where it is trained on

Tables hold raw fields; prompts and special tokens are added when a model reads them. No torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.protocol import Dataset
from benchmarks.runs import SCORED_SPLITS
from common.errors import UserError
from common.manifest import another_shape, manifest_text, read_manifest
from common.registry import Registry

Row = dict[str, Any]
"""A row of a table or of an original file: values by column."""

SCHEMA_VERSION = 1
"""Raised when a column's name, type or meaning changes: older folders are then refused, not misread."""

DOCUMENT = "document"
"""The column with the name of the document that a row comes from: only in tables of files that name any."""
NEGATIVES = "negatives"
"""The column with texts that do not answer a pair's query: only in tables of a dataset of one's own that has any."""
_OPTIONAL = (DOCUMENT, NEGATIVES)
SPLIT_TABLES = ("train", *SCORED_SPLITS)


def _columns(**kinds: pa.DataType | tuple[pa.DataType]) -> pa.Schema:
    """Return a schema with a column for each argument; a type in a tuple, `(type,)`, means that a row may lack it."""
    return pa.schema(
        [
            pa.field(name, kind[0])
            if isinstance(kind, tuple)
            else pa.field(name, kind, nullable=False)
            for name, kind in kinds.items()
        ]
    )


@dataclass(frozen=True, kw_only=True)
class LocalForm:
    """The tables of a family's datasets."""

    name: str
    """As `benchmarks.protocol.Dataset.form` names it: a task, or a form that only datasets of one's own have."""
    columns: Mapping[str, pa.Schema]
    """Columns by table."""
    train: str = "train"
    """The table that a model is trained on; it is absent where the model is trained on another dataset."""
    label: str | None = None
    """The column with the ids of the dataset's labels, one per row or one a word."""
    called: str
    """The plural noun for the inputs of examples, for a sentence about those that two splits share."""


_TEXT, _NUMBER = pa.string(), pa.int32()
_ANSWER = pa.struct(
    [
        pa.field("text", _TEXT, nullable=False),
        pa.field("start", _NUMBER, nullable=False),
    ]
)


def _splits(**kinds: pa.DataType | tuple[pa.DataType]) -> dict[str, pa.Schema]:
    """Return the same columns, an id first, for each of the three splits."""
    return dict.fromkeys(SPLIT_TABLES, _columns(id=_TEXT, **kinds))


_DOCUMENT = {DOCUMENT: (_TEXT,)}
_pair = partial(LocalForm, called="texts")

FORMS: Registry[LocalForm] = Registry(
    "task",
    [
        _pair(
            name="SC",
            columns=_splits(first=_TEXT, second=(_TEXT,), label=_NUMBER, **_DOCUMENT),
            label="label",
        ),
        _pair(
            name="SC-labels",
            columns=_splits(
                first=_TEXT, second=(_TEXT,), labels=pa.list_(_NUMBER), **_DOCUMENT
            ),
            label="labels",
        ),
        _pair(
            name="SC-value",
            columns=_splits(
                first=_TEXT, second=(_TEXT,), value=pa.float64(), **_DOCUMENT
            ),
        ),
        LocalForm(
            name="TC",
            columns=_splits(words=pa.list_(_TEXT), tags=pa.list_(_NUMBER), **_DOCUMENT),
            label="tags",
            called="sentences",
        ),
        LocalForm(
            name="QA",
            columns=_splits(question=_TEXT, context=_TEXT, answers=pa.list_(_ANSWER)),
            called="questions with their contexts",
        ),
        LocalForm(
            name="IR",
            columns={
                "pairs": _columns(
                    query=_TEXT, positive=_TEXT, negatives=pa.list_(_TEXT)
                ),
                "queries": _columns(split=_TEXT, id=_TEXT, text=_TEXT),
                "corpus": _columns(id=_TEXT, title=(_TEXT,), text=_TEXT),
                "qrels": _columns(
                    split=_TEXT, query_id=_TEXT, doc_id=_TEXT, relevance=_NUMBER
                ),
            },
            train="pairs",
            called="queries",
        ),
    ],
)
"""The tables of each family: raw strings, label ids, character offsets.

SC: `label` indexes the manifest's labels; `second` is null for single texts.
SC-labels, SC-value: several labels, or a number, in place of one.
TC: one tag a word, indexing the manifest's labels.
QA: `start` is a character offset into `context`; no answers means unanswerable.
IR: `relevance` is as judged (0 is judged irrelevant); `split` is `validation` or `test`.
`document` and `negatives` are absent where no row has one.
"""


TABLE_NAMES = tuple(
    dict.fromkeys(name for form in FORMS.values() for name in form.columns)
)
"""The names of all tables, in the order of a manifest."""


def table_names(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of the tables that `dataset` consists of; a retrieval set may lack the one to train on."""
    form = FORMS[dataset.form]
    trains_on_itself = dataset.trained_on == dataset.name
    return tuple(
        name for name in form.columns if trains_on_itself or name != form.train
    )


def schema_of(task: str, table: str, there: Callable[[str], bool] = bool) -> pa.Schema:
    """Return the columns of a family's table, see `FORMS`.

    Args:
        task: the local form.
        table: the name of one of its tables.
        there: whether an optional column is in the table, by its name. By default all are: `bool` of a name
            is true.
    """
    columns: pa.Schema = FORMS[task].columns[table]
    return pa.schema(
        [
            column
            for column in columns
            if column.name not in _OPTIONAL or there(column.name)
        ]
    )


@dataclass(frozen=True, kw_only=True)
class TableInfo:
    """What the manifest knows about one table."""

    rows: int
    """Number of rows."""
    bytes: int
    """Size of the Parquet file."""
    sha256: str
    """Hash of the Parquet file, which depends on the version of the writer."""
    content: str
    """Hash of the rows themselves, the same whatever wrote the file."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What `manifest.json` says about a dataset's folder."""

    dataset: str
    """Its name: in `benchmarks.protocol.DATASETS`, or as a definition of one's own gives it."""
    task: str
    """Its family."""
    content: str
    """Hash of labels and all rows: two folders with the same hash give the same scores."""
    tables: Mapping[str, TableInfo]
    """Rows and hashes by table."""
    counts: Mapping[str, int]
    """Examples of each split: rows; for retrieval, queries, and in `train` pairs."""
    labels: tuple[str, ...]
    """Names of the classes or tags by id; empty for QA and IR."""
    splits: str
    """How the splits were made, in one sentence."""
    source: Mapping[str, Any]
    """`kind` (`hub`, `import` or `synthetic`) and the files read, with role, size, hash and, for a hub, revision."""
    licence: str
    """The data's licence, as far as it is stated."""
    citation: str
    """Whom to cite."""
    notes: tuple[str, ...] = ()
    """What was dropped, repaired or assumed."""
    schema: int = SCHEMA_VERSION
    """Version of the local form."""

    def to_json(self) -> str:
        """Return the text of `manifest.json`, sealed: the same bytes for the same content."""
        return manifest_text(dataclasses.asdict(self))

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a `manifest.json`; `UserError` for a damaged one or another version of the local form."""
        remedy = "fetch or import the dataset again with --replace"
        content = read_manifest(path, remedy)
        version = content.get("schema")
        if version != SCHEMA_VERSION:
            raise UserError(
                f"{path} is in version {version!r:.40} of the local format, but this package reads version "
                f"{SCHEMA_VERSION}; {remedy}"
            )

        # A file of another shape raises KeyError or TypeError in the block, which becomes a sentence.
        with another_shape(path, remedy):
            tables, counts = content["tables"], content["counts"]
            # The keys of the file are sorted by name. Tables and splits get their own order back: train first.
            names = [name for name in TABLE_NAMES if name in tables]
            content["tables"] = {name: TableInfo(**tables[name]) for name in names}
            splits = [split for split in SPLIT_TABLES if split in counts]
            content["counts"] = {split: counts[split] for split in splits}

            # JSON has lists where the class has tuples.
            for name in ("labels", "notes"):
                content[name] = tuple(content[name])
            return cls(**content)
