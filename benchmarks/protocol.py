"""The paper's fine-tuning protocol as data: tasks, datasets, metrics, grid and optimiser.

Standard library only: the analysis imports this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from common.registry import Registry

__all__ = [
    "AVERAGE", "DATASETS", "EXTRA_DATASETS", "FINE_TUNING", "LEARNING_RATES", "PAPER", "PROTOCOLS",
    "PROTOCOL_VERSION", "SEEDS", "STANDARD", "TASKS", "Dataset", "FineTuning", "ScoreProtocol", "Task", "datasets_of",
    "format_lr", "get_dataset", "in_order", "is_paired", "title_of",
]  # fmt: skip

AVERAGE = "average"
"""The `dataset` of a score that is the mean over a task's three datasets."""

PAPER, STANDARD = "paper", "standard"

PROTOCOL_VERSION = 2
"""Version of the protocol: raised when a dataset, a grid, an input or a metric comes to mean something else."""


@dataclass(frozen=True, kw_only=True)
class ScoreProtocol:
    """A way to turn predictions into scores; every run is scored by all of them."""

    name: str
    """As options and files name it."""
    written_to: str
    """Where a run's folder has its scores: `results.json`, or the key of `run.json`."""


PROTOCOLS: Registry[ScoreProtocol] = Registry(
    "protocol",
    [
        ScoreProtocol(name=PAPER, written_to="results.json"),
        ScoreProtocol(name=STANDARD, written_to="standard"),
    ],
)
"""`paper` has every quirk of what was released; `standard` is the field's usual definition of each metric."""

LEARNING_RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4)
SEEDS = (0, 1, 2, 3, 4)


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
class Dataset:
    """One of the twelve datasets, or one of yours."""

    name: str
    """Folder name in the release, and the name everywhere in this package."""
    title: str
    """Name as the paper's tables print it."""
    task: str
    """Its family: a key of `TASKS`."""
    hub: str
    """Where the paper's code loads it from, with the configuration after a colon."""
    labels: int | None
    """Number of classes of the head; None for retrieval."""
    trained_on: str
    """The dataset whose training split is used: itself, or `msmarco` for the three retrieval datasets."""
    epochs: int | None = None
    """Length of fine-tuning in epochs; None: `FineTuning.steps` optimiser steps."""
    paired: bool = True
    """Whether test instance i is the same in every run; not so for NQ, whose split is redrawn in each."""
    segments: tuple[str, str] = ("Text 1", "Text 2")
    """What comes before the two texts of a pair (sequence classification)."""
    may_abstain: bool = False
    """Whether a question may have no answer (question answering)."""
    in_paper: bool = True
    """Whether it is one of the paper's twelve; others are measured and scored, and enter no average or table."""
    form: str = ""
    """Its local form, and the family that reads it; as its task where it is not named."""
    prompt: str = ""
    """The text of a classification example, with {text} and {second} for its parts; empty: the paper's way."""
    headline: str = ""
    """The standard metric that stands for a run's score; its task's where it is not named."""
    value_range: tuple[float, float] | None = None
    """Smallest and largest value, of a dataset whose examples have one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", self.form or self.task)
        object.__setattr__(self, "headline", self.headline or TASKS[self.task].headline)

    @property
    def run_prefix(self) -> str:
        """What comes before `lr1e-04_sd0` in the name of a run's folder."""
        return TASKS[self.task].run_prefix


DATASETS: Registry[Dataset] = Registry("dataset", (
    Dataset(name="sst2", title="SST-2", task="SC", hub="nyu-mll/glue:sst2", labels=2, trained_on="sst2"),
    Dataset(name="qqp", title="QQP", task="SC", hub="nyu-mll/glue:qqp", labels=2, trained_on="qqp",
            segments=("Question 1", "Question 2")),
    Dataset(name="mnli_m", title="MNLI", task="SC", hub="nyu-mll/glue:mnli", labels=3, trained_on="mnli_m",
            segments=("Premise", "Hypothesis")),
    Dataset(name="ontonotes", title="OntoNotes", task="TC", hub="hgissbkh/ontonotes5", labels=37,
            trained_on="ontonotes"),
    Dataset(name="conll2003_en", title="CoNLL", task="TC", hub="hgissbkh/conll2003-en", labels=9,
            trained_on="conll2003_en", epochs=1),
    Dataset(name="uner_en", title="UNER", task="TC", hub="hgissbkh/uner_en", labels=7, trained_on="uner_en", epochs=1),
    Dataset(name="squad", title="SQuAD", task="QA", hub="rajpurkar/squad", labels=2, trained_on="squad"),
    Dataset(name="squad_v2", title="SQuAD-v2", task="QA", hub="rajpurkar/squad_v2", labels=2,
            trained_on="squad_v2", may_abstain=True),
    Dataset(name="record", title="ReCoRD", task="QA", hub="hgissbkh/record", labels=2, trained_on="record"),
    Dataset(name="nq", title="NQ", task="IR", hub="BeIR/nq", labels=None, trained_on="msmarco", paired=False),
    Dataset(name="msmarco", title="MS MARCO", task="IR", hub="BeIR/msmarco", labels=None, trained_on="msmarco"),
    Dataset(name="mldr_en", title="MLDR", task="IR", hub="hgissbkh/mldr-en", labels=None, trained_on="msmarco"),
))  # fmt: skip
"""The paper's twelve by name, in the order of the columns of its tables. Those of one's own are handed on with them in
registries of their own (`benchmarks.own_datasets.definitions.known_datasets`); nothing is added here.
"""

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
    return tuple(dataset.name for dataset in DATASETS.values() if dataset.task == TASKS[task].name)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of datasets, each once: the paper's in its order, then others by name."""
    given = set(names)
    return [*(name for name in DATASETS if name in given), *sorted(given - DATASETS.keys())]


def is_paired(name: str) -> bool:
    """Return whether test instance i of a dataset is the same in every run, as in all but one of the paper's."""
    return name not in DATASETS or DATASETS[name].paired


def title_of(name: str, known: Mapping[str, Dataset] = DATASETS) -> str:
    """Return how a dataset is called in print; its name where it is none of those that are known."""
    return known[name].title if name in known else name


def format_lr(lr: float) -> str:
    """Return `1e-04` for 0.0001, as the release names its folders; two digits only when they are needed."""
    mantissa, exponent = f"{lr:e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
