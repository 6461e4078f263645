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
    """What it is made of by name, one entry an instance in the split's order."""

    @classmethod
    def mean_of(cls, name: str, values: Sequence[Any]) -> Score:
        """Return the mean of one score an instance."""
        return cls(value=float(np.mean(values)), instances={name: values})


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of one task."""

    key: str
    """Its name in `run.json`, unique in its protocol and task."""
    protocol: str
    """`PAPER` or `STANDARD`. The `paper` metric of a task has `SCORES_I` among its instances, the scores of
    `results.json`."""
    task: str
    """A name in `benchmarks.protocol.TASKS`."""
    compute: Callable[[Any], Score]
    """Scores the predictions of a split of its task's class below."""
    form: str = ""
    """The local form of the datasets that have it; as the task where it is not named."""
    on_request: bool = False
    """Whether only datasets have it that ask for it, as their headline or besides."""

    SCORES_I = "scores_i"

    def __post_init__(self) -> None:
        # The registry refuses unknown names.
        _ = TASKS[self.task]

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return f"{self.protocol} {self.form or self.task} {self.key}"

    def is_of(self, dataset: Dataset) -> bool:
        """Return whether a dataset is scored with it."""
        asked = not self.on_request or self.key in (dataset.headline, *dataset.also)
        return asked and dataset.form == (self.form or self.task)


METRICS: Registry[Metric] = Registry("metric")
"""The metrics of both protocols; importing `benchmarks.metrics` fills it. `run.json` has them in this order."""


@dataclass(frozen=True, kw_only=True)
class ClassPredictions:
    """Sequence classification: a class an example."""

    predicted: Ints
    """Predicted class of each example."""
    gold: Ints
    """The gold one."""


@dataclass(frozen=True, kw_only=True)
class LabelPredictions:
    """Sequence classification with several labels: which of them an example has."""

    predicted: NDArray[np.bool_]
    """Whether a label is predicted, shape (examples, labels)."""
    gold: NDArray[np.bool_]
    """Whether it is there."""


@dataclass(frozen=True, kw_only=True)
class ValuePredictions:
    """A number an example."""

    predicted: NDArray[np.float64]
    """Predicted value of each example."""
    gold: NDArray[np.float64]
    """The gold one."""
    limits: tuple[float, float]
    """Smallest and largest value there is."""


@dataclass(frozen=True, kw_only=True)
class TagPredictions:
    """Token classification: a tag a sub-token."""

    tokens: Ints
    """Predicted tag of each sub-token of the split."""
    words: Ints
    """For each of them, the number of its word in the split, not decreasing; -1 for none."""
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
    """Of the retrieved documents under the paper's tokenisation, best first, shape (queries, depth)."""
    paper_documents: list[list[str]]
    """Their ids."""
    similarities: NDArray[np.float64]
    """The same under the tokenisation of fine-tuning."""
    documents: list[list[str]]
    """Their ids."""

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
    """What they are made of: for each measure one entry an instance."""
    clusters: list[int] = field(default_factory=list)
    """The cluster of each instance; empty where every one stands for itself."""


def metrics_of(dataset: Dataset, protocol: str) -> list[Metric]:
    """Return the metrics of a dataset by a protocol.

    Raises:
        ValueError: there is not exactly one by the paper's protocol, which has one score a run.

    >>> import benchmarks.metrics.paper, benchmarks.metrics.standard
    >>> from benchmarks.protocol import DATASETS
    >>> [metric.key for metric in metrics_of(DATASETS["squad"], "standard")]
    ['exact_match', 'f1']
    """
    of_protocol = [one for one in METRICS.values() if one.protocol == protocol]
    metrics = [metric for metric in of_protocol if metric.is_of(dataset)]
    if protocol == PAPER and len(metrics) != 1:
        names = ", ".join(metric.name for metric in metrics) or "none"
        raise ValueError(
            f"{dataset.name} needs exactly one metric of the {PAPER} protocol but has {names}"
        )
    return metrics


def evaluate(dataset: Dataset, predictions: object) -> Evaluation:
    """Score a dataset's predictions, of its task's class, by all its metrics.

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
