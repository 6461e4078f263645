"""The file of datasets of one's own: what they are, where their files are, and what their columns are called.

TOML, one table a dataset; some are ready in the folder `ready`. Light enough for the analysis; the page is
docs/add-a-dataset.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from benchmarks.protocol import OUTPUTS, Dataset, DatasetFiles, Pin
from benchmarks.tag_schemes import tag_parts
from common.errors import UserError, nearest
from common.reading import read_toml
from common.registry import Registry
from common.settings import FileSettings, read_settings

READY = {path.stem: path for path in sorted((Path(__file__).resolve().parent / "ready").glob("*.toml"))}
"""The files that are ready, by what they are called."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_AT_FETCH = "at fetch"
"""The revision of a hub's files that the first fetch finds out and writes to the lock."""
_PLACE = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True, kw_only=True)
class DatasetKind:
    """What a dataset of one's own can be."""

    name: str
    """As `kind` names it in the file."""
    form: str
    """Its local form: a name in `benchmarks.datasets.schema.FORMS`."""
    columns: Mapping[str, tuple[str, ...]]
    """The fields, each with the names of columns that need no entry in the file."""
    metrics: tuple[str, ...]
    """The standard metrics to choose from, the default first."""
    roles: tuple[str, ...] = ("train", "validation", "test")
    """What its files can be."""
    labelled: bool = False
    """Whether it has named classes, labels or tags."""
    optional: tuple[str, ...] = ("document",)
    """Fields that are read where the file names their columns."""
    synonyms: Mapping[str, str] = field(default_factory=dict)
    """Other names of fields, each with the field."""

    @property
    def task(self) -> str:
        """The paper's task whose learning rates, steps and folders it shares."""
        return self.form.partition("-")[0]


_TEXT = ("text", "sentence")
_SC_METRICS = ("accuracy", "macro_f1", "f1", "mcc")
_ANSWERS = {"question": ("question",), "context": ("context",), "answers": ("answers",), "id": ("id",)}

DATASET_KINDS: Registry[DatasetKind] = Registry(
    "kind of dataset",
    [
        DatasetKind(name="text", form="SC", labelled=True, metrics=_SC_METRICS,
                    columns={"text": _TEXT, "label": ("label",)}),
        DatasetKind(name="pair", form="SC", labelled=True, metrics=_SC_METRICS,
                    columns={"text": ("sentence1", "premise", "question1", "text1"),
                             "second": ("sentence2", "hypothesis", "question2", "text2"), "label": ("label",)}),
        DatasetKind(name="labels", form="SC-labels", columns={"text": _TEXT, "labels": ("labels",)}, labelled=True,
                    metrics=("micro_f1", "macro_f1")),
        DatasetKind(name="value", form="SC-value", metrics=("pearson", "spearman"),
                    columns={"text": ("sentence1", *_TEXT), "second": ("sentence2",),
                             "value": ("score", "label", "value")}),
        DatasetKind(name="tags", form="TC", labelled=True, metrics=("entity_f1",),
                    columns={"words": ("words", "tokens"), "tags": ("tags", "ner_tags", "ner")}),
        DatasetKind(name="answers", form="QA", columns=_ANSWERS, metrics=("f1", "exact_match"), optional=()),
        DatasetKind(name="answers or none", form="QA", columns=_ANSWERS, metrics=("f1", "exact_match"), optional=()),
        DatasetKind(name="retrieval", form="IR", columns={}, optional=("query", "positive", "negatives"),
                    synonyms={"anchor": "query", "negative": "negatives"},
                    metrics=("ndcg_at_10", "recall_at_10", "recall_at_100"),
                    roles=("train", "validation", "test", "queries", "corpus")),
    ],
)  # fmt: skip
"""A class of a text, of a pair; several labels; a number; tags of words; answers in a context; retrieval."""


def read_definitions(given: Path) -> list[Dataset]:
    """Return the datasets of a file, of a ready one, or the one dataset of a ready one.

    Args:
        given: a path, or a name such as `xnli`, `xnli-de` or `xnli_de`; a file in the working folder wins.

    Raises:
        UserError: it is neither; or the file says something that is not understood, with the table's name.
    """
    name = str(given)
    if given.is_file() or given.suffix or given.name != name:
        return _tables_of(given)
    if name in READY:
        return _tables_of(READY[name])
    wanted = name.replace("-", "_")
    for stem, path in READY.items():
        if wanted.startswith(stem.replace("-", "_")):
            known = {definition.name: definition for definition in _tables_of(path)}
            if wanted in known:
                return [known[wanted]]
            raise UserError(
                f"{stem} has no dataset {name!r}; use one of {', '.join(known)}{nearest(wanted, known)}"
            )
    raise UserError(
        f"there is no file {given} and no ready-made definition of that name (there are {', '.join(READY)})"
        f"{nearest(name, READY)}"
    )


def ready_text() -> str:
    """Return a line for each dataset that is ready: its file, kind, metric and repositories with their revisions."""
    lines = []
    for stem, path in READY.items():
        for found in _tables_of(path):
            places = dict.fromkeys(f"{pin.repo}@{(pin.commit or _AT_FETCH)[:12]}" for pin in found.files.pins)
            lines.append(
                f"{stem:11} {found.name:22} {found.files.content['kind']:10} {found.headline:11} {found.title:26} "
                f"{', '.join(places)}"
            )
    return "\n".join(lines)


def _tables_of(path: Path) -> list[Dataset]:
    if path.suffix != ".toml":
        raise UserError(
            f"{path} is not a dataset definition: that must be a TOML file whose name ends in .toml"
        )
    try:
        tables = read_toml(path)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    if not tables:
        raise UserError(f"{path} defines no dataset; give each a table such as [reviews]")
    return [definition_of(name, table, f"{path}: [{name}]", path.parent) for name, table in tables.items()]


_Paths = tuple[str, ...] | str
"""Files of a role, of which one may stand without brackets."""


@dataclass(frozen=True, kw_only=True)
class _Table(FileSettings):
    """What the table of a dataset may say."""

    kind: str
    title: str = ""
    labels: tuple[str | int, ...] = ()
    metric: str = ""
    prompt: str = ""
    columns: dict[str, str] = field(default_factory=dict)
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
        name: the table's.
        table: its content.
        where: what to call it in a refusal.
        folder: what paths start from.

    Raises:
        UserError: it says something that is not understood.
    """
    if not isinstance(table, dict):
        raise UserError(
            f"{where} is not a table; put a header with the dataset's name, such as [reviews], above its keys"
        )
    one = isinstance(table.get("hub"), dict)  # else a list, where the roles are in several repositories
    given = read_settings(_Table, {**table, "hub": [table["hub"]]} if one else table, where)
    try:
        kind = DATASET_KINDS[given.kind]
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    labels = tuple(str(label) for label in given.labels)
    metric = given.metric or kind.metrics[0]
    for sentence in _faults(name, given, kind, labels, metric):
        raise UserError(f"{where}: {sentence}")
    columns = {kind.synonyms.get(name, name): (column,) for name, column in given.columns.items()}
    named = {**kind.columns, **columns}
    words = ", ".join(" or ".join(names) for names in named.values())
    return Dataset(
        name=name,
        title=given.title or name,
        task=kind.task,
        form=kind.form,
        labels=OUTPUTS.get(kind.task, len(labels) or 1),
        trained_on=given.trained_on or name,
        epochs=given.epochs,
        prompt=given.prompt,
        may_abstain=kind.name == "answers or none",
        headline=metric,
        value_range=(given.range[0], given.range[1]) if given.range else None,
        label_names=labels,
        floor=given.floor,
        files=DatasetFiles(
            columns=named,
            header=given.header,
            quotes=given.quotes,
            ids=given.ids,
            leave_out=tuple(str(value) for value in given.leave_out),
            originals=" and ".join(kind.roles) + (f" with the columns {words}" if named else ""),
            paths={
                role: tuple(folder / path for path in _listed(paths)) for role, paths in given.files.items()
            },
            pins=tuple(_pins(given.hub, kind)),
            licence=given.licence,
            citation=given.citation,
            content=table,
            where=where,
        ),
    )


def _faults(name: str, given: _Table, kind: DatasetKind, labels: Sequence[str], metric: str) -> Iterator[str]:
    """Yield what a kind of dataset cannot be, a sentence each."""
    if not _NAME.fullmatch(name):
        yield "a dataset's name consists of lowercase letters, digits and underscores"
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
            yield f"`labels` mixes schemes: {error}; write all of them in one"
    if metric not in kind.metrics:
        known = ", ".join(kind.metrics)
        yield f"{metric!r} is not a metric of {kind.name!r}; use one of {known}{nearest(metric, kind.metrics)}"
    if metric == "f1" and kind.form == "SC" and len(labels) != 2:
        yield f"f1 is that of the second of two labels; with {len(labels)} labels use macro_f1"
    if given.trained_on not in ("", name) and (kind.task != "IR" or given.trained_on != "msmarco"):
        yield f"trained_on = {given.trained_on!r}; only retrieval can name another dataset, msmarco"
    if kind.form != "SC-value" and given.range:
        yield "only the kind 'value' has a `range`; leave the key out"
    if kind.form == "SC-value" and not (len(given.range) == 2 and given.range[0] < given.range[1]):
        yield "`range` must give the smallest and the largest value, such as range = [0, 5]"
    if given.prompt and kind.task != "SC":
        yield f"the kind {kind.name!r} takes no prompt; leave the key out"
    places = [place for place in ("text", "second") if place in kind.columns]
    if wrong := set(_PLACE.findall(given.prompt)) - set(places):
        yield f"the prompt has the placeholder {{{min(wrong)}}}; it can have {{{'}, {'.join(places)}}}"
    if given.prompt and "{text}" not in given.prompt:
        yield "the prompt lacks the placeholder {text}"
    if given.ids not in ("", "none") or (given.ids and kind.task != "QA"):
        yield f"ids = {given.ids!r}; only answers have ids, and the only value is 'none', which ignores them"
    if given.leave_out and kind.task != "SC":
        yield f"rows of the kind {kind.name!r} have no single label; remove `leave_out`"
    if both := [value for value in map(str, given.leave_out) if value in labels]:
        yield f"`leave_out` has {both[0]}, which is one of the labels"
    for name, other in kind.synonyms.items():
        if {name, other} <= given.columns.keys():
            yield f"columns: {name} is another word for {other}; give one of them"
    if given.files and given.hub:
        yield "give `files` or `hub`, not both"
    parts: list[tuple[str, tuple[str, ...], Mapping[str, object]]] = [
        ("columns", (*kind.columns, *kind.optional, *kind.synonyms), given.columns),
        ("files", kind.roles, given.files),
        *(("hub", ("repo", "revision", *kind.roles), hub) for hub in given.hub),
    ]
    for part, keys, said in parts:
        if others := [key for key in said if key not in keys]:
            can = ", ".join(keys) or "none"
            yield f"{part}: unknown key {others[0]!r}; it can have {can}{nearest(others[0], keys)}"
    for hub in given.hub:
        if not isinstance(repo := hub.get("repo"), str) or repo.count("/") != 1:
            yield "hub.repo must have the form OWNER/NAME"
        if hub.get("revision") != _AT_FETCH and not _COMMIT.fullmatch(str(hub.get("revision"))):
            yield (
                "hub.revision must be a commit of 40 hexadecimal digits, which fixes the version, or "
                f"{_AT_FETCH!r}, with which the first fetch finds the commit and records it in the manifest"
            )


def _listed(paths: _Paths) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths


def _pins(hubs: Iterable[Mapping[str, _Paths]], kind: DatasetKind) -> Iterator[Pin]:
    """Yield the files on hubs, those of a repository together."""
    for hub in hubs:
        commit = None if hub["revision"] == _AT_FETCH else str(hub["revision"])
        for role in kind.roles:
            if role in hub:
                yield Pin(role=role, repo=str(hub["repo"]), commit=commit, files=_listed(hub[role]))
