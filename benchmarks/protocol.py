"""The paper's fine-tuning protocol as data: tasks, datasets, metrics, grid and optimiser. Standard library only.

The paper's twelve datasets (paper_datasets.toml) and those that a file defines (`benchmarks.own_datasets`) are both a
`Dataset`: what is scored, and where its files are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from common.registry import Registry


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
    floor: str = ""
    """The prediction without a look at the input that scores most; empty: none is known."""
    run_prefix: str = ""
    """What comes before `lr1e-04_sd0` in the name of a run's folder."""


TASKS: Registry[Task] = Registry(
    "task",
    (
        Task(name="SC", title="Sequence classification", metric="Accuracy",
             standard_metric="accuracy (and F1 for QQP)", headline="accuracy",
             floor="the most frequent class"),
        Task(name="TC", title="Token classification", metric="F1",
             standard_metric="entity-level F1", headline="entity_f1", floor="no entity"),
        Task(name="QA", title="Question answering", metric="F1",
             standard_metric="SQuAD F1 and exact match over all gold answers", headline="f1", floor="no answer"),
        Task(name="IR", title="Information retrieval", metric="NDCG@10",
             standard_metric="NDCG@10 against all judged documents", headline="ndcg_at_10",
             floor="one ranking for all queries", run_prefix="msmarco_pairs_"),
    ),
)  # fmt: skip
"""The four families in the paper's order."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The files of one role in one repository."""

    role: str
    """What they are to the dataset: a role of `benchmarks.datasets.readers.reader.ReaderInputs.files`."""
    repo: str
    """Repository, `owner/name`."""
    commit: str | None = None
    """Pinned commit; None: unknown, resolved by the first fetch and locked."""
    files: Sequence[str]
    """Patterns of paths, the first that matches anything counts; `refs/convert/parquet:` before one names that
    branch instead of `main`."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Known hashes by path."""


@dataclass(frozen=True, kw_only=True)
class DatasetFiles:
    """Where a dataset's original files are, and how they are read: what `fetch` and `import` ask."""

    reader: str = ""
    """A key of `datasets.import_files.READERS`; the dataset's form where it is not named."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the columns by field; the reader's own where they are not named."""
    ignore: tuple[str, ...] = ()
    """Columns of pairs of which nothing is read."""
    corpus: Literal["", "all", "judged"] = "judged"
    """Which documents are searched; empty: all, if they are not too many."""
    header: tuple[str, ...] = ()
    """Names of the columns of tables of text without a header."""
    quotes: bool | None = None
    """Whether quotes around fields of a TSV file are no part of the text; None: as the file shows."""
    ids: str = ""
    """`none` where the ids of the files are not unique and rows are numbered instead."""
    leave_out: tuple[str, ...] = ()
    """What rows without a label have in place of one; such rows are left out."""
    as_published: bool = False
    """Whether its three splits are as published; else validation is carved from train unless a file of it is given."""
    originals: str = ""
    """The files in words, for help and errors."""
    paths: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    """The files by role; none when they are given on the command line or come from a hub."""
    pins: tuple[Pin, ...] = ()
    """The files on a hub; empty when they are on none."""
    licence: str = "not stated"
    """The data's licence."""
    citation: str = "not stated"
    """Whom to cite."""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What the file says that defines the dataset; empty for the paper's."""
    where: str = "the paper"
    """The file that defines it."""


_CLUSTERS = {"TC": "document", "QA": "context"}
"""The column that tells the clusters of a form: sentences of one document, questions of one context."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """What is scored on one of the twelve datasets, or one of yours: the same one as long as that is the same."""

    name: str
    """Folder name in the release, and the name everywhere in this package."""
    title: str
    """Name as tables print it."""
    task: str
    """Its family: a key of `TASKS`."""
    labels: int | None
    """Number of outputs of the head; None for retrieval."""
    label_names: tuple[str, ...] = field(default=(), compare=False)
    """Names of the classes, labels or tags by id."""
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
    floor: float | None = field(default=None, compare=False)
    """What `Task.floor` scores on the official test split by the paper's metric, in percent; None: not known."""
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Examples a split of the official data in the local form; others are noted where it is made."""
    files: DatasetFiles = field(default_factory=DatasetFiles, compare=False)
    """Where its files are."""

    def __post_init__(self) -> None:
        """Fill in what the definition leaves out: form, headline metric and the column of clusters."""
        form = self.form or self.task
        headline = self.headline or TASKS[self.task].headline
        # A form without a column of clusters takes the documents for clusters, where the definition says
        # which column names a row's document.
        otherwise = "document" if "document" in self.files.columns else ""
        cluster = self.cluster or _CLUSTERS.get(form, otherwise)
        # A frozen dataclass refuses plain assignments.
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "headline", headline)
        object.__setattr__(self, "cluster", cluster)

    @property
    def run_prefix(self) -> str:
        """What comes before `lr1e-04_sd0` in the name of a run's folder."""
        return TASKS[self.task].run_prefix

    @property
    def is_own(self) -> bool:
        """Whether a file of one's own defines it."""
        return bool(self.files.content)

    @property
    def is_own_retrieval(self) -> bool:
        """Whether it is one of retrieval, whose texts are read as the model's maker means it."""
        return self.is_own and self.task == "IR"


CONVERTED = "refs/convert/parquet"
"""The hub's own conversion of a repository to Parquet."""
_PLACES = (
    "{0}*.parquet",
    "*/{0}*.parquet",
    CONVERTED + ":*/{0}*/*.parquet",
    "{0}*.json*",
    "*/{0}*.json*",
)
"""Where a split is in an authors' copy of unknown layout: the usual places, then the hub's conversion."""
OUTPUTS = {"QA": 2, "IR": None}
"""The number of outputs of a task's head where it is not the number of labels; None: no head."""


def _pins(hubs: Iterable[dict[str, Any]]) -> Iterator[Pin]:
    """Yield the pinned files of a dataset's `[[NAME.hub]]` tables in paper_datasets.toml."""
    for hub in hubs:
        repo = hub.pop("repo")
        commit = hub.pop("revision", None)
        hashes = hub.pop("sha256", {})

        # What is left of the table are roles with their files, such as `train = "sst2/train.parquet"`.
        for role, given in hub.items():
            files = [given] if isinstance(given, str) else given
            # U12: the paper pins no revision, and the layout of its copies is unknown. A table without a
            # revision therefore lists what names of files begin with, and usual places are tried for each.
            if not commit:
                files = [place.format(name) for place in _PLACES for name in files]
            yield Pin(
                role=role, repo=repo, commit=commit, files=tuple(files), sha256=hashes
            )


def _dataset(name: str, table: Mapping[str, Any]) -> Dataset:
    """Return the dataset of a table in paper_datasets.toml, which has fields of `Dataset` and `DatasetFiles` mixed."""
    given: dict[str, Any] = {}
    for key, value in table.items():
        # Lists of TOML become tuples, as the fields are declared.
        given[key] = tuple(value) if isinstance(value, list) else value

    # The file lists the labels by name; in `Dataset`, `labels` is a number and `label_names` has the names.
    label_names: tuple[str, ...] = given.pop("labels", ())
    given["pins"] = tuple(_pins(given.pop("hub", ())))
    columns = given.get("columns", {})
    given["columns"] = {key: tuple(names) for key, names in columns.items()}
    of_files = [part.name for part in fields(DatasetFiles) if part.name in given]
    files = DatasetFiles(**{key: given.pop(key) for key in of_files})

    # The fields that are left belong to `Dataset`.
    given.setdefault("trained_on", name)
    outputs = OUTPUTS.get(given["task"], len(label_names))
    return Dataset(
        name=name, label_names=label_names, labels=outputs, files=files, **given
    )


_FILE = Path(__file__).with_name("paper_datasets.toml")

DATASETS: Registry[Dataset] = Registry(
    "dataset",
    [
        _dataset(*item)
        for item in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
    ],
)
"""The paper's twelve by name, in the order of the columns of its tables. Those of one's own are handed on with them in
registries of their own (`benchmarks.own_datasets.definitions.known_datasets`); nothing is added here.
"""


AVERAGE = "average"
"""The `dataset` of a score that is the mean over a task's three datasets."""

PAPER, STANDARD = "paper", "standard"
"""The protocols by which every run is scored: `paper` (to results.json) has every quirk of the release; `standard`
(to run.json) is the usual definition of each metric."""

HeadName = Literal["paper", "ours"]
"""Whose heads are put on an encoder: `paper` each class's own, and `ours` where transformers has none; `ours` the same
heads on every encoder."""

PROTOCOL_VERSION = 2
"""Version of the protocol: raised when a dataset, a grid, an input or a metric comes to mean something else."""

# Each rate is tried with each seed. The paper takes the best rate of every seed by validation, which hides collapsed
# runs.
LEARNING_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)
SEEDS = (0, 1, 2, 3, 4)


# D10: the release's code reads QED, which the paper's tables leave out.
EXTRA_DATASETS = frozenset({"qed", "stsb", "mnli_mm"})
"""Folders that the release's code can write but the paper's twelve datasets do not hold."""


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """Hyper-parameters of every fine-tuning."""

    steps: int = 1_000
    """Optimiser steps, unless the dataset says one epoch."""
    batch: int = 32
    """Examples a step; for retrieval also the number of documents each query is scored against."""
    micro_batch: int = 4
    """Examples a forward pass; the gradient is the mean of the micro-batches' means."""
    warmup_share: float = 0.1
    """Share of the steps with rising learning rate; it falls linearly to zero afterwards."""
    betas: tuple[float, float] = (0.9, 0.95)
    """AdamW's momenta."""
    eps: float = 1e-5
    """AdamW's epsilon."""
    weight_decay: float = 0.1
    """AdamW's weight decay; none on biases and norms."""
    clip_norm: float = 1.0
    """Largest global gradient norm."""
    temperature: float = 0.05
    """Temperature of the contrastive loss on cosine similarities."""
    max_length: int = 2_028
    """Longest input in tokens: 99 % of the 2,048 positions."""
    cutoff: int = 10
    """Depth of the ranking that NDCG looks at."""


FINE_TUNING = FineTuning()
"""The paper's settings."""


def get_dataset(given: Dataset | str) -> Dataset:
    """Return a dataset itself, or one of the twelve by name; `UserError` names the nearest for an unknown one."""
    return DATASETS[given] if isinstance(given, str) else given


def datasets_of(task: str) -> tuple[str, ...]:
    """Return the names of a task's three datasets in the paper, in the order of its columns."""
    return tuple(
        dataset.name
        for dataset in DATASETS.values()
        if dataset.task == TASKS[task].name
    )


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of datasets, each once: the paper's in the paper's order, then others by name."""
    given = set(names)
    of_paper = [name for name in DATASETS if name in given]
    return of_paper + sorted(given - DATASETS.keys())


def is_paired(name: str) -> bool:
    """Return whether test instance i of a dataset is the same in every run, as in all but one of the paper's."""
    return name not in DATASETS or DATASETS[name].paired


def title_of(name: str, known: Mapping[str, Dataset] = DATASETS) -> str:
    """Return how a dataset is called in print; its name where it is none of those that are known."""
    return known[name].title if name in known else name


def format_lr(lr: float) -> str:
    """Return `1e-04` for 0.0001, as the release names its folders; decimals only when they are needed: `1.5e-04`."""
    mantissa, exponent = f"{lr:e}".split("e")  # 1.000000 and -04
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
