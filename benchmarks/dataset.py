"""What a dataset is: its task, where it comes from, how it is read, split and scored. Light: no third package.

The paper's twelve (`benchmarks.paper_datasets`) and those that a file defines (`benchmarks.own_datasets`) are both a
`Dataset`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common.registry import Registry

__all__ = ["LANGUAGES", "TASKS", "Dataset", "Pin", "Task"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One of the four families."""

    name: str
    """`SC`, `TC`, `QA` or `IR`."""
    title: str
    """Name in prose."""
    metric: str
    """Metric as the paper prints it on axes and in captions; scores are in [0, 1], printed in percent."""
    standard_metric: str
    """What the `standard` protocol computes."""
    headline: str
    """The one of those metrics that stands for a run's score, as `run.json` names it."""
    run_prefix: str = ""
    """What comes before `lr1e-04_sd0` in the name of a run's folder."""


TASKS: Registry[Task] = Registry(
    "task",
    (
        Task(name="SC", title="Sequence classification", metric="Accuracy",
             standard_metric="accuracy (and F1 for QQP)", headline="accuracy"),
        Task(name="TC", title="Token classification", metric="F1",
             standard_metric="entity-level F1", headline="entity_f1"),
        Task(name="QA", title="Question answering", metric="F1",
             standard_metric="SQuAD F1 and exact match over all gold answers", headline="f1"),
        Task(name="IR", title="Information retrieval", metric="NDCG@10",
             standard_metric="NDCG@10 against all judged documents", headline="ndcg_at_10",
             run_prefix="msmarco_pairs_"),
    ),
)  # fmt: skip
"""The four families in the paper's order."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The files of one role in one repository."""

    role: str
    """What they are to the dataset: a role of `benchmarks.datasets.readers.reader.ROLES`."""
    repo: str
    """Repository, `owner/name`."""
    commit: str | None = None
    """Pinned commit; None: unknown, resolved by the first fetch and locked."""
    files: Sequence[str]
    """Patterns of paths, the first that matches anything counts; `refs/convert/parquet:` before one names that
    branch instead of `main`."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Known hashes by path."""


LANGUAGES = ("ar", "de", "en", "es", "hi", "vi", "zh")
"""Those that MLQA's evaluation knows: `Dataset.language`."""

_CLUSTERS = {"TC": "document", "QA": "context"}
"""Of a form whose instances come in clusters: sentences of one document, questions of one context."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One of the twelve datasets, or one of yours; the same one as long as what makes a score is the same."""

    name: str
    """Folder name in the release, and the name everywhere in this package."""
    title: str
    """Name as tables print it."""
    task: str
    """Its family: a key of `TASKS`."""
    labels: int | None
    """Number of outputs of the head; None for retrieval."""
    trained_on: str
    """The dataset whose training split is used: itself, or `msmarco` for retrieval."""
    epochs: int | None = None
    """Length of fine-tuning in epochs; None: `FineTuning.steps` optimiser steps."""
    paired: bool = True
    """Whether test instance i is the same in every run; not so for NQ, whose split is redrawn in each."""
    segments: tuple[str, str] = ("Text 1", "Text 2")
    """What comes before the two texts of a pair (sequence classification)."""
    may_abstain: bool = False
    """Whether a question may have no answer (question answering)."""
    form: str = ""
    """Its local form, and the family that reads it; as its task where it is not named."""
    prompt: str = ""
    """The text of a classification example, with {text} and {second} for its parts; empty: the paper's way."""
    headline: str = ""
    """The standard metric that stands for a run's score; its task's where it is not named."""
    also: tuple[str, ...] = ()
    """Standard metrics that it has besides those of all datasets of its form."""
    value_range: tuple[float, float] | None = None
    """Smallest and largest value, of a dataset whose examples have one."""

    cluster: str = field(default="", compare=False)
    """The column of the local form whose rows with one value are a cluster: test instances that are right or wrong
    together. A form's own where it is not named; empty: none, every instance stands for itself."""
    language: str = ""
    """The language by whose rules MLQA's evaluation compares answers; empty: SQuAD's rules, which are English."""
    label_names: tuple[str, ...] = field(default=(), compare=False)
    """Names of the classes, labels or tags by id."""
    reader: str = field(default="", compare=False)
    """How its original files are read: a key of `benchmarks.datasets.readers.READERS`; as its form where not named."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Names of the columns of its files by field; the reader's own where they are not named."""
    header: tuple[str, ...] = field(default=(), compare=False)
    """Names of the columns of tables of text without a header."""
    quotes: bool | None = field(default=None, compare=False)
    """Whether quotes around fields of a TSV file are not of their text; None: as the file shows."""
    ids: str = field(default="", compare=False)
    """`none` where the ids of the files are not unique and rows are numbered instead."""
    as_published: bool = field(default=False, compare=False)
    """Whether its three splits are as published; else validation is carved from train unless it is given, too."""
    originals: str = field(default="", compare=False)
    """Its original files, in words, for help and errors."""
    unwanted: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Words in the names of files that do not belong to the dataset, and why."""
    files: Mapping[str, tuple[Path, ...]] = field(default_factory=dict, compare=False)
    """Files by role; none when they are given on the command line or come from a hub."""
    pins: tuple[Pin, ...] = field(default=(), compare=False)
    """Where its files are on a hub; empty when they are on none."""
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Examples a split of the official data in the local form; others are noted where it is made."""
    licence: str = field(default="not stated", compare=False)
    """The data's licence."""
    citation: str = field(default="not stated", compare=False)
    """Whom to cite."""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """As the file says it that defines it; empty for the paper's."""
    where: str = field(default="the paper", compare=False)
    """The file that defines it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", self.form or self.task)
        object.__setattr__(self, "reader", self.reader or self.form)
        object.__setattr__(self, "headline", self.headline or TASKS[self.task].headline)
        named = "document" if "document" in self.columns else ""
        object.__setattr__(self, "cluster", self.cluster or _CLUSTERS.get(self.form, named))

    @property
    def run_prefix(self) -> str:
        """What comes before `lr1e-04_sd0` in the name of a run's folder."""
        return TASKS[self.task].run_prefix
