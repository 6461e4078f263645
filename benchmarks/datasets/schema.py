"""The one local form of every dataset: which tables a family has, their columns, and the manifest.

    data/<dataset>/manifest.json
    data/<dataset>/{train,validation,test}.parquet             SC, TC, QA
    data/<dataset>/{queries,corpus,qrels}.parquet              IR, and pairs.parquet where it is trained on

Tables hold raw fields; prompts and special tokens are added when a model reads them. No torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from benchmarks.protocol import Dataset
from common.errors import UserError
from common.manifest import DamagedError, manifest_text, parse_manifest
from common.plain_text import visible
from common.reading import strict_json
from common.registry import Registry

__all__ = [
    "FORMS", "MANIFEST", "SCHEMA_VERSION", "SPLIT_TABLES", "LocalForm", "Manifest", "TableInfo", "schema_of",
    "table_names",
]  # fmt: skip

SCHEMA_VERSION = 1
"""Raised when a column's name, type or meaning changes: older folders are then refused, not misread."""

MANIFEST = "manifest.json"
SPLIT_TABLES = ("train", "validation", "test")

_text = pa.field("text", pa.string(), nullable=False)


def _columns(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields))


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


@dataclass(frozen=True, kw_only=True)
class LocalForm:
    """The tables of a family's datasets."""

    name: str
    """As `benchmarks.protocol.Dataset.form` names it: its task, or one of those of your own datasets."""
    columns: Mapping[str, pa.Schema]
    """Columns by table."""
    train: str = "train"
    """The table that is trained on; a dataset that is trained on another one lacks it."""
    label: str | None = None
    """The column with the ids of the dataset's labels, one a row or one a word."""


def _splits(*fields: pa.Field) -> dict[str, pa.Schema]:
    """Return the same columns, an id first, for each of the three splits."""
    return dict.fromkeys(SPLIT_TABLES, _columns(_required("id", pa.string()), *fields))


FORMS: Registry[LocalForm] = Registry(
    "task",
    [
        LocalForm(
            name="SC",
            columns=_splits(
                _required("first", pa.string()),
                pa.field("second", pa.string()),
                _required("label", pa.int32()),
            ),
            label="label",
        ),
        LocalForm(
            name="SC-labels",
            columns=_splits(
                _required("first", pa.string()),
                pa.field("second", pa.string()),
                _required("labels", pa.list_(pa.int32())),
            ),
            label="labels",
        ),
        LocalForm(
            name="SC-value",
            columns=_splits(
                _required("first", pa.string()),
                pa.field("second", pa.string()),
                _required("value", pa.float64()),
            ),
        ),
        LocalForm(
            name="TC",
            columns=_splits(
                _required("words", pa.list_(pa.string())), _required("tags", pa.list_(pa.int32()))
            ),
            label="tags",
        ),
        LocalForm(
            name="QA",
            columns=_splits(
                _required("question", pa.string()),
                _required("context", pa.string()),
                _required("answers", pa.list_(pa.struct([_text, _required("start", pa.int32())]))),
            ),
        ),
        LocalForm(
            name="IR",
            columns={
                "pairs": _columns(_required("query", pa.string()), _required("positive", pa.string())),
                "queries": _columns(_required("split", pa.string()), _required("id", pa.string()), _text),
                "corpus": _columns(_required("id", pa.string()), pa.field("title", pa.string()), _text),
                "qrels": _columns(
                    _required("split", pa.string()),
                    _required("query_id", pa.string()),
                    _required("doc_id", pa.string()),
                    _required("relevance", pa.int32()),
                ),
            },
            train="pairs",
        ),
    ],
)
"""The tables of each family: raw strings, label ids, character offsets.

SC: `label` indexes the manifest's labels; `second` is null for single texts.
SC-labels, SC-value: several labels, or a number, in place of one.
TC: one tag a word, indexing the manifest's labels.
QA: `start` is a character offset into `context`; no answers means unanswerable.
IR: `relevance` is as judged (0 is judged irrelevant); `split` is `validation` or `test`.
"""


_ORDER = tuple(dict.fromkeys(name for form in FORMS.values() for name in form.columns))


def table_names(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of the tables that `dataset` consists of."""
    form, own = FORMS[dataset.form], dataset.trained_on == dataset.name
    return tuple(name for name in form.columns if own or name != form.train)


def schema_of(task: str, table: str) -> pa.Schema:
    """Return the columns of a family's table, see `FORMS`."""
    columns: pa.Schema = FORMS[task].columns[table]
    return columns


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
    """Name in `benchmarks.protocol.DATASETS`."""
    task: str
    """Its family."""
    content: str
    """Hash of labels and all rows: two folders with the same one give the same scores."""
    tables: Mapping[str, TableInfo]
    """Rows and hashes by table."""
    counts: Mapping[str, int]
    """Examples a split: rows, or queries for retrieval; `train` counts the pairs there."""
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
    def from_json(cls, text: bytes, where: object) -> Manifest:
        """Read `manifest.json`; `UserError` names `where` for a broken file or another schema version."""
        try:
            content = strict_json(text)
            found = content["schema"]
            if found == SCHEMA_VERSION:
                content = parse_manifest(text)
                tables, counts = content["tables"], content["counts"]
                content["tables"] = {name: TableInfo(**tables[name]) for name in _ORDER if name in tables}
                content["counts"] = {split: counts[split] for split in SPLIT_TABLES if split in counts}
                content["labels"], content["notes"] = tuple(content["labels"]), tuple(content["notes"])
                return cls(**content)
        except DamagedError as error:
            raise UserError(
                f"{where} is damaged ({error}); fetch or import the dataset again with --replace"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{where} is not a dataset's manifest ({visible(str(error))[:200]}); fetch or import the dataset again"
            ) from None
        raise UserError(
            f"{where} has version {visible(repr(found))[:40]} of the local form, this package reads version "
            f"{SCHEMA_VERSION}; fetch or import the dataset again"
        )
