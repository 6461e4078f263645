"""What a metric is, the predictions of each family that metrics read, and scores by all metrics. NumPy only.

The metrics themselves, and yours, are in `paper` and `standard`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.protocol import PAPER, STANDARD, TASKS, Dataset
from benchmarks.ragged import Ragged
from common.registry import Registry

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score that a metric gives a split's predictions."""

    value: float
    """The score in [0, 1]."""
    instances: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """By name, values of which the score is made: one for each instance, in the split's order."""

    @classmethod
    def mean_of(cls, name: str, values: Sequence[Any]) -> Score:
        """Return the mean of the instances' scores, which `instances` keeps under this name."""
        return cls(value=float(np.mean(values)), instances={name: values})


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of one task."""

    key: str
    """Its name in `run.json`, unique in its protocol and task."""
    protocol: str
    """`PAPER` or `STANDARD`. A metric of the protocol `paper` has `SCORES_I` among its instances: the scores that
    `results.json` lists."""
    task: str
    """A name in `benchmarks.protocol.TASKS`."""
    compute: Callable[[Any], Score]
    """Scores a split's predictions, an object of the class below that belongs to the task."""
    form: str = ""
    """The local form of the datasets that it scores; empty: the form of the task's name."""
    on_request: bool = False
    """Whether it scores only the datasets that ask for it, by `Dataset.headline` or `Dataset.also`."""

    SCORES_I = "scores_i"

    def __post_init__(self) -> None:
        # The registry refuses unknown names.
        _ = TASKS[self.task]

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return f"{self.protocol} {self.form or self.task} {self.key}"

    def is_of(self, dataset: Dataset) -> bool:
        """Return whether a dataset is scored with this metric."""
        is_named = self.key in (dataset.headline, *dataset.also)
        is_wanted = is_named or not self.on_request
        return is_wanted and dataset.form == (self.form or self.task)


METRICS: Registry[Metric] = Registry("metric")
"""The metrics of both protocols, in their order in `run.json`; importing `benchmarks.metrics` fills the registry."""


@dataclass(frozen=True, kw_only=True)
class ClassPredictions:
    """Sequence classification: a class an example."""

    predicted: Ints
    """Predicted class of each example."""
    gold: Ints
    """Gold class of each example."""


@dataclass(frozen=True, kw_only=True)
class LabelPredictions:
    """Sequence classification with several labels: which of them an example has."""

    predicted: NDArray[np.bool_]
    """Whether a label is predicted, shape (examples, labels)."""
    gold: NDArray[np.bool_]
    """Whether an example has a label, in the same shape."""


@dataclass(frozen=True, kw_only=True)
class ValuePredictions:
    """Regression: a number for each example."""

    predicted: NDArray[np.float64]
    """Predicted value of each example."""
    gold: NDArray[np.float64]
    """Gold value of each example."""
    limits: tuple[float, float]
    """Smallest and largest value that an example can have."""


@dataclass(frozen=True, kw_only=True)
class TagPredictions:
    """Token classification: a tag a sub-token."""

    tokens: Ints
    """Predicted tag of each sub-token of the split."""
    words: Ints
    """The word of each of these sub-tokens: its number, counted over all sentences of the split, so that numbers do
    not decrease; -1 for the end of text, which belongs to no word."""
    gold: Ragged
    """Gold tag of each word, one row per sentence."""
    names: tuple[str, ...]
    """Tag names by id."""


@dataclass(frozen=True, kw_only=True)
class AnswerPredictions:
    """Question answering: positions inside the answer, and answers as texts."""

    chosen: Ragged
    """Whether a position is predicted to be in the answer; a row is a padded sequence."""
    gold: Ragged
    """The same for the first gold answer."""
    texts: list[str]
    """Decoded answer of each question, empty for none."""
    answers: list[list[str]]
    """All gold answers of each question."""


@dataclass(frozen=True, kw_only=True)
class RankingPredictions:
    """Retrieval: the nearest documents of each query, once as the paper tokenises texts, once as in fine-tuning."""

    query_ids: list[str]
    """Queries, in the order of the scores."""
    qrels: Mapping[str, Mapping[str, int]]
    """For each query, the relevance of each judged document."""
    paper_similarities: NDArray[np.float64]
    """Similarities of the documents retrieved under the paper's tokenisation, best first, shape (queries, depth)."""
    paper_documents: list[list[str]]
    """The ids of these documents, for each query."""
    similarities: NDArray[np.float64]
    """Similarities of the documents retrieved under the tokenisation of fine-tuning, in the same form."""
    documents: list[list[str]]
    """The ids of these documents, for each query."""

    @cached_property
    def run(self) -> dict[str, dict[str, float]]:
        """For each query, the similarity of each retrieved document, as trec_eval reads it."""
        run = {}
        for row, query in enumerate(self.query_ids):
            similarities = self.similarities[row].tolist()
            run[query] = dict(zip(self.documents[row], similarities, strict=True))
        return run


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What one fine-tuned model scores on one split."""

    scores: list[float]
    """The paper's score of each instance, in the split's order."""
    standard: dict[str, float] = field(default_factory=dict)
    """The standard metrics by name."""
    instances: dict[str, Any] = field(default_factory=dict)
    """By name, the values of which the standard metrics are made: one for each instance."""
    clusters: list[int] = field(default_factory=list)
    """The number of each instance's cluster (`cluster_ids`); empty: every instance stands for itself."""


def metrics_of(dataset: Dataset, protocol: str) -> list[Metric]:
    """Return the metrics of a protocol (`paper` or `standard`) that score a dataset.

    Raises:
        ValueError: the protocol is `paper`, which has one score a run, and there is not exactly one metric.

    >>> import benchmarks.metrics.paper, benchmarks.metrics.standard
    >>> from benchmarks.protocol import DATASETS
    >>> [metric.key for metric in metrics_of(DATASETS["squad"], "standard")]
    ['exact_match', 'f1']
    """
    metrics = []
    for metric in METRICS.values():
        if metric.protocol == protocol and metric.is_of(dataset):
            metrics.append(metric)
    if protocol == PAPER and len(metrics) != 1:
        names = ", ".join(metric.name for metric in metrics) or "none"
        raise ValueError(
            f"{dataset.name} needs exactly one metric of the {PAPER} protocol but has {names}"
        )
    return metrics


def evaluate(dataset: Dataset, predictions: object) -> Evaluation:
    """Score predictions on a split of a dataset by all metrics of the dataset.

    Args:
        dataset: the dataset.
        predictions: an object of the class above that belongs to the dataset's task.

    >>> import benchmarks.metrics.paper, benchmarks.metrics.standard
    >>> from benchmarks.protocol import DATASETS
    >>> classes = ClassPredictions(predicted=np.array([1, 0]), gold=np.array([1, 1]))
    >>> evaluate(DATASETS["sst2"], classes).scores
    [1, 0]
    """
    (paper,) = metrics_of(dataset, PAPER)
    scores = list(paper.compute(predictions).instances[Metric.SCORES_I])
    values: dict[str, float] = {}
    instances: dict[str, Any] = {}
    for metric in metrics_of(dataset, STANDARD):
        score = metric.compute(predictions)
        values[metric.key] = score.value
        instances |= score.instances
    return Evaluation(scores=scores, standard=values, instances=instances)
