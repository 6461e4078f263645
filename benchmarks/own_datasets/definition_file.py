"""The file of datasets of one's own: what they are, where their files are, and what their columns are called.

A definition file is TOML with one table a dataset; some files are ready in the folder `ready`. Nothing heavy is
imported here, because the analysis reads definitions as well. The page is docs/add-a-dataset.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from benchmarks.datasets.column_names import FIELD_NAMES
from benchmarks.protocol import OUTPUTS, Dataset, DatasetFiles, Pin
from benchmarks.tag_schemes import tag_parts
from common.errors import UserError, nearest
from common.reading import read_toml
from common.registry import Registry
from common.settings import FileSettings, read_settings

READY = {
    path.stem: path
    for path in sorted((Path(__file__).resolve().parent / "ready").glob("*.toml"))
}
"""The paths of the ready-made definition files, by the name that a command line gives: the file's without `.toml`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
"""A dataset's name: lowercase letters, digits and underscores."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
"""A full commit hash."""
_AT_FETCH = "at fetch"
"""Stands in place of a commit: the first fetch finds the newest one and records it in the manifest."""
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
"""A placeholder of a prompt, such as `{text}`."""


@dataclass(frozen=True, kw_only=True)
class DatasetKind:
    """What a dataset of one's own can be."""

    name: str
    """As `kind` names it in the file."""
    form: str
    """Its local form: a name in `benchmarks.datasets.schema.FORMS`."""
    metrics: tuple[str, ...]
    """The standard metrics to choose from, the default first."""
    roles: tuple[str, ...] = ("train", "validation", "test")
    """What a file can be to such a dataset: the keys that `files` and `hub` may have."""
    labelled: bool = False
    """Whether it has named classes, labels or tags."""
    optional: tuple[str, ...] = ("document",)
    """Fields that are read only if the file names their columns."""
    synonyms: Mapping[str, str] = field(default_factory=dict)
    """The field that is meant, by another name for it that `columns` may have."""

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """By field, the names of columns that need no entry in the file."""
        return FIELD_NAMES[self.name]

    @property
    def task(self) -> str:
        """The paper's task whose learning rates, steps and folders it shares."""
        return self.form.partition("-")[0]


_SC_METRICS = ("accuracy", "macro_f1", "f1", "mcc")

DATASET_KINDS: Registry[DatasetKind] = Registry(
    "kind of dataset",
    [
        DatasetKind(name="text", form="SC", labelled=True, metrics=_SC_METRICS),
        DatasetKind(name="pair", form="SC", labelled=True, metrics=_SC_METRICS),
        DatasetKind(
            name="labels",
            form="SC-labels",
            labelled=True,
            metrics=("micro_f1", "macro_f1"),
        ),
        DatasetKind(name="value", form="SC-value", metrics=("pearson", "spearman")),
        DatasetKind(name="tags", form="TC", labelled=True, metrics=("entity_f1",)),
        DatasetKind(
            name="answers", form="QA", metrics=("f1", "exact_match"), optional=()
        ),
        DatasetKind(
            name="answers or none",
            form="QA",
            metrics=("f1", "exact_match"),
            optional=(),
        ),
        DatasetKind(
            name="retrieval",
            form="IR",
            optional=("negatives",),
            synonyms={"anchor": "query", "negative": "negatives"},
            metrics=("ndcg_at_10", "recall_at_10", "recall_at_100"),
            roles=("train", "validation", "test", "queries", "corpus"),
        ),
    ],
)
"""A class of a text, of a pair; several labels; a number; tags of words; answers in a context; retrieval."""


def read_definitions(path_or_name: Path) -> list[Dataset]:
    """Return the datasets of a file, those of a ready-made file, or a single dataset of a ready-made file.

    Args:
        path_or_name: a path; or the name of a ready-made file, such as `xnli`, or of a dataset in one, such as
            `xnli-de` or `xnli_de`. If the working folder has a file of that name, that file is read.

    Raises:
        UserError: there is no such file or name, or a table of the file is not understood.
    """
    name = str(path_or_name)
    # A path has a suffix or a folder, which no name of a ready-made file or dataset has.
    is_path = bool(path_or_name.suffix) or path_or_name.name != name
    if is_path or path_or_name.is_file():
        return _definitions_in(path_or_name)
    if name in READY:
        return _definitions_in(READY[name])

    # A dataset's name begins with that of its file and has underscores, as xnli_de. People also write xnli-de.
    wanted = name.replace("-", "_")
    for stem, path in READY.items():
        if wanted.startswith(stem.replace("-", "_")):
            by_name = {dataset.name: dataset for dataset in _definitions_in(path)}
            if wanted in by_name:
                return [by_name[wanted]]
            raise UserError(
                f"{stem} has no dataset {name!r}; use one of {', '.join(by_name)}{nearest(wanted, by_name)}"
            )

    raise UserError(
        f"there is no file {name} and no ready-made definition of that name (there are {', '.join(READY)})"
        f"{nearest(name, READY)}"
    )


def ready_text() -> str:
    """Return a line for each ready-made dataset: file, name, kind, metric, title, repositories with their revisions."""
    lines = []
    for stem, path in READY.items():
        for dataset in _definitions_in(path):
            # Repositories as keys: several pins, one for each role, may be of one repository.
            origins: dict[str, None] = {}
            for pin in dataset.files.pins:
                revision = pin.commit or _AT_FETCH
                origins[f"{pin.repo}@{revision[:12]}"] = None
            kind = dataset.files.content["kind"]
            columns = f"{stem:11} {dataset.name:22} {kind:10} {dataset.headline:11}"
            lines.append(f"{columns} {dataset.title:26} {', '.join(origins)}")

    return "\n".join(lines)


def _definitions_in(path: Path) -> list[Dataset]:
    """Return the datasets that a TOML file defines, one a table."""
    if path.suffix != ".toml":
        raise UserError(
            f"{path} is not a dataset definition: that must be a TOML file whose name ends in .toml"
        )

    try:
        tables = read_toml(path)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None

    if not tables:
        raise UserError(
            f"{path} defines no dataset; give each a table such as [reviews]"
        )

    return [
        definition_of(name, table, f"{path}: [{name}]", path.parent)
        for name, table in tables.items()
    ]


_Paths = tuple[str, ...] | str
"""The files of a role in a definition: a list, or a single one without brackets."""


@dataclass(frozen=True, kw_only=True)
class _Table(FileSettings):
    """The keys that the table of a dataset may have; docs/add-a-dataset.md says what each means."""

    kind: str
    title: str = ""
    labels: tuple[str | int, ...] = ()
    metric: str = ""
    prompt: str = ""
    columns: dict[str, str | int] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    corpus: Literal["", "all", "judged"] = ""
    header: tuple[str, ...] = ()
    quotes: bool | None = None
    ids: str = ""
    leave_out: tuple[str | int, ...] = ()
    files: dict[str, _Paths] = field(default_factory=dict)
    hub: tuple[dict[str, _Paths], ...] = ()
    epochs: Annotated[int, Ge(1)] | None = None
    range: tuple[float, ...] = ()
    floor: Annotated[float, Ge(0), Le(100)] | None = None
    trained_on: str = ""
    licence: str = "not stated"
    citation: str = "not stated"


def definition_of(name: str, table: Any, where: str, folder: Path) -> Dataset:
    """Return the dataset that a table defines.

    Args:
        name: the name of the table, which is the dataset's.
        table: the content of the table.
        where: what an error message calls the table.
        folder: the folder from which relative paths start.

    Raises:
        UserError: something in the table is not understood.
    """
    if not isinstance(table, dict):
        raise UserError(
            f"{where} is not a table; put a header with the dataset's name, such as [reviews], above its keys"
        )

    # `hub` is a table of one repository, or a list of them, each with some roles. From here on it is a list.
    settings = table
    if isinstance(table.get("hub"), dict):
        settings = {**table, "hub": [table["hub"]]}

    # What the table says, with the kind's own values where it says nothing.
    entry = read_settings(_Table, settings, where)
    try:
        kind = DATASET_KINDS[entry.kind]
    except UserError as error:
        raise UserError(f"{where}: {error}") from None

    labels = tuple(str(label) for label in entry.labels)
    metric = entry.metric or kind.metrics[0]
    # The first fault is reported.
    for sentence in _faults(name, entry, kind, labels, metric):
        raise UserError(f"{where}: {sentence}")
    value_range = None
    if entry.range:
        value_range = (entry.range[0], entry.range[1])
    return Dataset(
        name=name,
        title=entry.title or name,
        task=kind.task,
        form=kind.form,
        # In `Dataset`, `labels` is the number of the head's outputs, and `label_names` below has the names. A
        # value needs one output, although it has no labels. For question answering the number is fixed;
        # retrieval has none.
        labels=OUTPUTS.get(kind.task, len(labels) or 1),
        trained_on=entry.trained_on or name,
        epochs=entry.epochs,
        prompt=entry.prompt,
        may_abstain=kind.name == "answers or none",
        headline=metric,
        value_range=value_range,
        label_names=labels,
        floor=entry.floor,
        # `table`, not `settings`: the definition is kept as it is written.
        files=_files_of(entry, kind, table, where, folder),
    )


def _files_of(
    entry: _Table,
    kind: DatasetKind,
    table: Mapping[str, Any],
    where: str,
    folder: Path,
) -> DatasetFiles:
    """Return where a dataset's files are and how they are read, as its table says.

    Args:
        entry: the keys of the table.
        kind: the kind that the table names.
        table: the table as it is written. A run store keeps it, and the definition is read again from there.
        where: what an error message calls the table.
        folder: the folder from which relative paths start.
    """
    # A column that the table names takes the place of the usual names of its field.
    columns = dict(kind.columns)
    for key, column in entry.columns.items():
        columns[kind.synonyms.get(key, key)] = (str(column),)

    # What the files have to be, in words, for help and errors.
    originals = " and ".join(kind.roles)
    if columns:
        in_words = ", ".join(" or ".join(names) for names in columns.values())
        originals = f"{originals} with the columns {in_words}"

    paths = {}
    for role, names in entry.files.items():
        paths[role] = tuple(folder / name for name in _listed(names))
    corpus = entry.corpus

    # A hub's corpus is large, so only judged documents are kept, as in the paper's sets.
    if not corpus and entry.hub:
        corpus = "judged"
    return DatasetFiles(
        columns=columns,
        ignore=entry.ignore,
        corpus=corpus,
        header=entry.header,
        quotes=entry.quotes,
        ids=entry.ids,
        leave_out=tuple(map(str, entry.leave_out)),
        originals=originals,
        paths=paths,
        pins=tuple(_pins(entry.hub, kind)),
        licence=entry.licence,
        citation=entry.citation,
        content=table,
        where=where,
    )


def _faults(
    name: str, entry: _Table, kind: DatasetKind, labels: Sequence[str], metric: str
) -> Iterator[str]:
    """Yield a sentence for each fault of a dataset's table; the first one is what the user sees.

    Args:
        name: the name of the table.
        entry: its content.
        kind: the kind that the table names.
        labels: its labels, as texts.
        metric: the metric that the table names, or the kind's first one.
    """
    if not _NAME.fullmatch(name):
        yield "a dataset's name consists of lowercase letters, digits and underscores"
    yield from _label_faults(kind, labels)
    yield from _metric_faults(kind, labels, metric)

    # Retrieval sets may be only evaluated, after training on MS MARCO, as the paper does with NQ and MLDR.
    trains_on_msmarco = kind.task == "IR" and entry.trained_on == "msmarco"
    if entry.trained_on not in ("", name) and not trains_on_msmarco:
        yield f"trained_on = {entry.trained_on!r}; only retrieval can name another dataset, msmarco"
    yield from _key_faults(entry, kind)
    yield from _prompt_faults(entry, kind)
    yield from _row_faults(entry, kind, labels)
    yield from _column_faults(entry, kind)
    yield from _file_faults(entry, kind)


def _label_faults(kind: DatasetKind, labels: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each fault of `labels`: too few, unwanted, one twice, or not of one tag scheme."""
    if kind.labelled and len(labels) < 2:
        yield "`labels` must name two or more classes or tags, in the order of their numbers"
    if not kind.labelled and labels:
        yield f"a dataset of the kind {kind.name!r} has no labels; leave the key out"
    if len(set(labels)) < len(labels):
        yield f"a label occurs twice in {', '.join(labels)}"
    if kind.task == "TC" and "O" not in labels:
        yield "`labels` lacks O, the tag of words outside entities; add it at any position"
    if kind.task == "TC":
        try:
            tag_parts(labels)
        except ValueError as error:
            yield f"`labels`: {error}"


def _metric_faults(
    kind: DatasetKind, labels: Sequence[str], metric: str
) -> Iterator[str]:
    """Yield a sentence if the kind has no such metric, or the metric needs another number of labels."""
    if metric not in kind.metrics:
        known = ", ".join(kind.metrics)
        yield f"{metric!r} is not a metric of {kind.name!r}; use one of {known}{nearest(metric, kind.metrics)}"
    if metric == "f1" and kind.form == "SC" and len(labels) != 2:
        yield f"f1 is that of the second of two labels; with {len(labels)} labels use macro_f1"


def _key_faults(entry: _Table, kind: DatasetKind) -> Iterator[str]:
    """Yield a sentence for each key that only other kinds have, and for a missing or an empty `range`."""
    if kind.form != "SC-value" and entry.range:
        yield "only the kind 'value' has a `range`; leave the key out"
    is_range = len(entry.range) == 2 and entry.range[0] < entry.range[1]
    if kind.form == "SC-value" and not is_range:
        yield "`range` must give the smallest and the largest value, such as range = [0, 5]"
    if (entry.corpus or entry.ignore) and kind.task != "IR":
        yield "only the kind 'retrieval' has `corpus` and `ignore`; leave them out"


def _prompt_faults(entry: _Table, kind: DatasetKind) -> Iterator[str]:
    """Yield a sentence for each fault of `prompt`: of another kind, an unknown placeholder, or no {text}."""
    if entry.prompt and kind.task != "SC":
        yield f"the kind {kind.name!r} takes no prompt; leave the key out"
    placeholders = [field for field in ("text", "second") if field in kind.columns]
    wrong = set(_PLACEHOLDER.findall(entry.prompt)) - set(placeholders)
    if wrong:
        possible = "}, {".join(placeholders)
        yield f"the prompt has the placeholder {{{min(wrong)}}}; it can have {{{possible}}}"
    if entry.prompt and "{text}" not in entry.prompt:
        yield "the prompt lacks the placeholder {text}"


def _row_faults(
    entry: _Table, kind: DatasetKind, labels: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each fault of the keys that say what counts in a row: `ids` and `leave_out`."""
    if entry.ids not in ("", "none") or (entry.ids and kind.task != "QA"):
        yield f"ids = {entry.ids!r}; only answers have ids, and the only value is 'none', which ignores them"
    if entry.leave_out and kind.task != "SC":
        yield f"rows of the kind {kind.name!r} have no single label; remove `leave_out`"
    left_out_labels = [value for value in map(str, entry.leave_out) if value in labels]
    if left_out_labels:
        yield f"`leave_out` has {left_out_labels[0]}, which is one of the labels"


def _column_faults(entry: _Table, kind: DatasetKind) -> Iterator[str]:
    """Yield a sentence for each fault of `columns`: a field that is named twice, or a number that none has.

    Unknown keys are faults of `_file_faults`, which looks at all inner tables.
    """
    for synonym, column in kind.synonyms.items():
        gives_both = synonym in entry.columns and column in entry.columns
        if gives_both:
            yield f"columns: {synonym} is another word for {column}; give one of them"
    numbers = [column for column in entry.columns.values() if isinstance(column, int)]
    if numbers and (kind.task != "TC" or 0 in numbers):
        yield "columns: only those of words and tags can be numbers, which count from 1"


def _file_faults(entry: _Table, kind: DatasetKind) -> Iterator[str]:
    """Yield a sentence for each unknown key of an inner table, and for each fault of `files` and `hub`."""
    if entry.files and entry.hub:
        yield "give `files` or `hub`, not both"
    # For each inner table of the dataset: its name, the keys that it can have, and the keys that it has.
    columns = (*kind.columns, *kind.optional, *kind.synonyms)
    inner: list[tuple[str, tuple[str, ...], Mapping[str, object]]] = [
        ("columns", columns, entry.columns),
        ("files", kind.roles, entry.files),
    ]
    of_hub = ("repo", "revision", *kind.roles)
    inner += [("hub", of_hub, hub) for hub in entry.hub]
    for part, keys, content in inner:
        unknown = [key for key in content if key not in keys]
        if unknown:
            first = unknown[0]
            can = ", ".join(keys) or "none"
            yield f"{part}: unknown key {first!r}; it can have {can}{nearest(first, keys)}"

    for hub in entry.hub:
        repo = hub.get("repo")
        if not isinstance(repo, str) or repo.count("/") != 1:
            yield "hub.repo must have the form OWNER/NAME"
        revision = hub.get("revision")
        if revision != _AT_FETCH and not _COMMIT.fullmatch(str(revision)):
            yield (
                "hub.revision must be a commit of 40 hexadecimal digits, which fixes the version, or "
                f"{_AT_FETCH!r}, with which the first fetch finds the commit and records it in the manifest"
            )


def _listed(paths: _Paths) -> tuple[str, ...]:
    """Return the files of a role as a tuple, also a single file, which a definition may give without brackets."""
    return (paths,) if isinstance(paths, str) else paths


def _pins(hubs: Iterable[Mapping[str, _Paths]], kind: DatasetKind) -> Iterator[Pin]:
    """Yield a pin for each role of each repository in the definition's `hub`."""
    for hub in hubs:
        commit = None if hub["revision"] == _AT_FETCH else str(hub["revision"])
        for role in kind.roles:
            if role in hub:
                yield Pin(
                    role=role,
                    repo=str(hub["repo"]),
                    commit=commit,
                    files=_listed(hub[role]),
                )
