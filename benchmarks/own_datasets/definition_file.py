"""The file of datasets of one's own: what they are, where their files are, and what their columns are called.

Standard library only; the page is docs/add-a-dataset.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.own_datasets.definition_formats import read_tables
from benchmarks.protocol import Dataset
from common.errors import UserError, nearest
from common.registry import Registry

__all__ = ["AT_FETCH", "KINDS", "Definition", "Kind", "definition_of", "read_definitions"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
AT_FETCH = "at fetch"
"""The revision of a hub's files that the first fetch finds out and writes to the lock."""
_PLACE = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a dataset of one's own can be."""

    name: str
    """As `kind` names it in the file."""
    task: str
    """The paper's task whose learning rates, steps and folders it shares."""
    form: str
    """Its local form: a name in `benchmarks.datasets.schema.FORMS`."""
    columns: Mapping[str, tuple[str, ...]]
    """The fields, each with the names of columns that need no entry in the file."""
    roles: tuple[str, ...] = ("train", "validation", "test")
    """What its files can be."""
    labelled: bool = False
    """Whether it has named classes, labels or tags."""
    metrics: tuple[str, ...] = ()
    """The standard metrics to choose from, the default first."""
    prompted: bool = False
    """Whether the text that a model reads can be given as a prompt with the fields in braces."""
    optional: tuple[str, ...] = ()
    """Fields that a file may lack."""


_TEXT = ("text", "sentence")
_SC_METRICS = ("accuracy", "macro_f1", "f1", "mcc")
_ANSWERS = {"question": ("question",), "context": ("context",), "answers": ("answers",), "id": ("id",)}

KINDS: Registry[Kind] = Registry(
    "kind of dataset",
    [
        Kind(name="text", task="SC", form="SC", columns={"text": _TEXT, "label": ("label",)}, labelled=True,
             metrics=_SC_METRICS, prompted=True),
        Kind(name="pair", task="SC", form="SC", labelled=True, metrics=_SC_METRICS, prompted=True,
             columns={"text": ("sentence1", "premise", "question1", "text1"),
                      "second": ("sentence2", "hypothesis", "question2", "text2"), "label": ("label",)}),
        Kind(name="labels", task="SC", form="SC-labels", columns={"text": _TEXT, "labels": ("labels",)}, labelled=True,
             metrics=("micro_f1", "macro_f1"), prompted=True),
        Kind(name="value", task="SC", form="SC-value", metrics=("pearson", "spearman"), prompted=True,
             columns={"text": ("sentence1", *_TEXT), "second": ("sentence2",), "value": ("score", "label", "value")},
             optional=("second",)),
        Kind(name="tags", task="TC", form="TC", labelled=True,
             columns={"words": ("words", "tokens"), "tags": ("tags", "ner_tags", "ner")}, metrics=("entity_f1",)),
        Kind(name="answers", task="QA", form="QA", columns=_ANSWERS, metrics=("f1", "exact_match"), optional=("id",)),
        Kind(name="answers or none", task="QA", form="QA", columns=_ANSWERS, metrics=("f1", "exact_match"),
             optional=("id",)),
        Kind(name="retrieval", task="IR", form="IR", columns={},
             roles=("train", "validation", "test", "queries", "corpus"),
             metrics=("ndcg_at_10", "recall_at_10", "recall_at_100")),
    ],
)  # fmt: skip
"""A class of a text, of a pair; several labels; a number; tags of words; answers in a context; retrieval."""


@dataclass(frozen=True, kw_only=True)
class Definition(Dataset):
    """A dataset of one's own; it is the same one as long as what makes a score is the same."""

    in_paper: bool = False
    kind: Kind = field(compare=False)
    """What it is."""
    label_names: tuple[str, ...]
    """Names of the classes, labels or tags by id."""
    columns: Mapping[str, tuple[str, ...]] = field(compare=False)
    """Names of the columns by field."""
    files: Mapping[str, tuple[Path, ...]] = field(compare=False)
    """Files by role; none when they are given on the command line or come from a hub."""
    sources: tuple[Mapping[str, Any], ...] = field(compare=False)
    """For each repository `repo`, `revision` and patterns of paths by role; empty when there is no hub."""
    licence: str = field(compare=False)
    """The data's licence."""
    citation: str = field(compare=False)
    """Whom to cite."""
    content: Mapping[str, Any] = field(repr=False, compare=False)
    """As the file says it."""
    where: str = field(compare=False)
    """The file."""


def read_definitions(path: Path) -> list[Definition]:
    """Return the datasets of a TOML or YAML file, one a table.

    Raises:
        UserError: the file is absent, not valid, or says something that is not understood; the line or table is named.
    """
    return [
        definition_of(name, table, f"{path}: [{name}]", path.parent)
        for name, table in read_tables(path).items()
    ]


_KEYS = (
    "kind", "title", "labels", "metric", "prompt", "columns", "files", "hub", "epochs", "range", "trained_on",
    "licence", "citation",
)  # fmt: skip


def definition_of(name: str, table: Any, where: str, folder: Path) -> Definition:
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
        raise UserError(f"{where}: give the dataset a table of its own, [{name}], before its keys")
    if not _NAME.fullmatch(name):
        raise UserError(f"{where}: a dataset's name is made of small letters, digits and underscores")
    for key in table:
        if key not in _KEYS:
            raise UserError(
                f"{where}: unknown key {key!r}{nearest(key, _KEYS)}; the keys are {', '.join(_KEYS)}"
            )
    if "kind" not in table:
        raise UserError(f"{where}: `kind` is missing; one of {', '.join(KINDS)}")
    try:
        kind = KINDS[_text(table, "kind", where)]
    except KeyError as error:
        raise UserError(f"{where}: {error}") from None
    labels = _labels(table, where)
    _check_labels(kind, labels, where)
    metric = _text(table, "metric", where) or kind.metrics[0]
    if metric not in kind.metrics:
        raise UserError(
            f"{where}: {metric!r} is no metric of {kind.name!r}{nearest(metric, kind.metrics)}; one of "
            f"{', '.join(kind.metrics)}"
        )
    if metric == "f1" and kind.form == "SC" and len(labels) != 2:
        raise UserError(f"{where}: f1 is of the second of two labels; with {len(labels)} take macro_f1")
    epochs = table.get("epochs")
    if epochs is not None and (isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1):
        raise UserError(f"{where}: epochs = {epochs!r} must be a whole number of at least 1")
    trained_on = _text(table, "trained_on", where) or name
    if trained_on != name and (kind.task != "IR" or trained_on != "msmarco"):
        raise UserError(f"{where}: trained_on = {trained_on!r}; only retrieval can name another set, msmarco")
    hub = _hub(table, kind, where)
    return Definition(
        name=name,
        title=_text(table, "title", where) or name,
        task=kind.task,
        form=kind.form,
        hub=next((part["repo"] for part in hub), ""),
        labels=_outputs(kind, labels),
        trained_on=trained_on,
        epochs=epochs,
        prompt=_prompt(table, kind, where),
        may_abstain=kind.name == "answers or none",
        headline=metric,
        value_range=_range(table, kind, where),
        kind=kind,
        label_names=labels,
        columns=_columns(table, kind, where),
        files=_files(table, kind, where, folder),
        sources=hub,
        licence=_text(table, "licence", where) or "not stated",
        citation=_text(table, "citation", where) or "not stated",
        content=table,
        where=where,
    )


def _outputs(kind: Kind, labels: tuple[str, ...]) -> int | None:
    if kind.task == "IR":
        return None
    return {"QA": 2}.get(kind.form, len(labels) or 1)


def _labels(table: Mapping[str, Any], where: str) -> tuple[str, ...]:
    labels = _list(table, "labels", where)
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise UserError(
                f"{where}: the label {label!r} must be a text in quotation marks, or a whole number"
            )
    return tuple(str(label) for label in labels)


def _check_labels(kind: Kind, labels: tuple[str, ...], where: str) -> None:
    if kind.labelled and len(labels) < 2:
        raise UserError(
            f"{where}: `labels` is missing; name the classes or tags in the order of their numbers"
        )
    if not kind.labelled and labels:
        raise UserError(f"{where}: a dataset of the kind {kind.name!r} has no labels; leave the key out")
    if len(set(labels)) < len(labels):
        raise UserError(f"{where}: a label occurs twice in {', '.join(labels)}")
    if kind.task == "TC" and "O" not in labels:
        raise UserError(f"{where}: the tags lack O, that of words outside of entities; the order is free")


def _prompt(table: Mapping[str, Any], kind: Kind, where: str) -> str:
    prompt = _text(table, "prompt", where)
    if not prompt:
        return ""
    if not kind.prompted:
        raise UserError(f"{where}: the kind {kind.name!r} has a prompt of its own; leave the key out")
    fields = [name for name in ("text", "second") if name in kind.columns]
    for name in _PLACE.findall(prompt):
        if name not in fields:
            raise UserError(
                f"{where}: the prompt has the place {{{name}}}; it can have {{{'}, {'.join(fields)}}}"
            )
    if "{text}" not in prompt:
        raise UserError(f"{where}: the prompt lacks the place {{text}}")
    return prompt


def _range(table: Mapping[str, Any], kind: Kind, where: str) -> tuple[float, float] | None:
    if kind.form != "SC-value":
        if "range" in table:
            raise UserError(f"{where}: `range` is of the kind 'value'; leave the key out")
        return None
    ends = _list(table, "range", where)
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(ends) != 2 or len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise UserError(
            f"{where}: `range` must be the smallest and the largest value, such as range = [0, 5]"
        )
    return float(numbers[0]), float(numbers[1])


def _columns(table: Mapping[str, Any], kind: Kind, where: str) -> dict[str, tuple[str, ...]]:
    given = _table(table, "columns", where)
    for name, column in given.items():
        if name not in kind.columns:
            known = ", ".join(kind.columns) or "none"
            raise UserError(
                f"{where}: unknown field {name!r} in columns{nearest(name, kind.columns)}; the fields of "
                f"{kind.name!r} are {known}"
            )
        if not isinstance(column, str) or not column:
            raise UserError(f"{where}: columns.{name} must be the name of a column")
    return {name: (given[name],) if name in given else usual for name, usual in kind.columns.items()}


def _files(table: Mapping[str, Any], kind: Kind, where: str, folder: Path) -> dict[str, tuple[Path, ...]]:
    given = _table(table, "files", where)
    found = {}
    for role, paths in given.items():
        if role not in kind.roles:
            raise UserError(
                f"{where}: unknown file {role!r}{nearest(role, kind.roles)}; it can be {', '.join(kind.roles)}"
            )
        found[role] = tuple(folder / path for path in _paths(paths, f"{where}: files.{role}"))
    return found


def _hub(table: Mapping[str, Any], kind: Kind, where: str) -> tuple[Mapping[str, Any], ...]:
    """Return the repositories: one table, or a list of them where the roles are in several."""
    given = table.get("hub", [])
    parts = given if isinstance(given, list) else [_table(table, "hub", where)]
    if parts and "files" in table:
        raise UserError(f"{where}: give `files` or `hub`, not both")
    known, taken = ("repo", "revision", *kind.roles), set[str]()
    for part in parts:
        if not isinstance(part, dict):
            raise UserError(
                f"{where}: hub = {given!r} must be a table with repo and revision, or a list of such"
            )
        for key in part:
            if key not in known:
                raise UserError(
                    f"{where}: unknown key hub.{key}{nearest(key, known)}; the keys are {', '.join(known)}"
                )
            if key in taken:
                raise UserError(f"{where}: hub.{key} is given in two repositories")
        taken |= part.keys() & set(kind.roles)
        if str(part.get("repo", "")).count("/") != 1:
            raise UserError(f"{where}: hub.repo must read OWNER/NAME")
        revision = str(part.get("revision", ""))
        if revision != AT_FETCH and not _COMMIT.fullmatch(revision):
            raise UserError(
                f"{where}: hub.revision must be a commit of 40 hexadecimal digits, so that it stays the same, or "
                f"{AT_FETCH!r}: the first fetch then finds the commit and writes it to the lock"
            )
        for role in part.keys() & set(kind.roles):
            _paths(part[role], f"{where}: hub.{role}")
    return tuple(parts)


def _paths(value: Any, what: str) -> list[str]:
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise UserError(f"{what} must be a path or a list of paths")
    return paths


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UserError(f"{where}: {key} = {value!r} must be a text in quotation marks")
    return value


def _list(table: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise UserError(f"{where}: {key} = {value!r} must be a list in square brackets")
    return value


def _table(table: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise UserError(f'{where}: {key} = {value!r} must be a table, such as {key}.train = "train.tsv"')
    return value
