"""All metrics, and the scores of a dataset's predictions by each that it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.metrics import paper, standard
from benchmarks.metrics.metric import Metric, Score
from benchmarks.protocol import PAPER, STANDARD, Dataset
from common.registry import Registry

__all__ = ["METRICS", "Evaluation", "evaluate", "metrics_of"]

METRICS: Registry[Metric] = Registry("metric", [*paper.METRICS, *standard.METRICS])
"""The metrics of both protocols; `run.json` has the standard ones in this order."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What one fine-tuned model scores on one split."""

    scores: list[float]
    """The paper's score of each instance, in the split's order."""
    standard: dict[str, Any] = field(default_factory=dict)
    """The standard metrics by name; under `instances` what they are made of, one list a measure."""


def metrics_of(dataset: Dataset, protocol: str) -> list[Metric]:
    """Return the metrics of a dataset by a protocol.

    Raises:
        ValueError: there is not exactly one by the paper's protocol, which has one score a run.
    """
    metrics = [metric for metric in METRICS.values() if metric.protocol == protocol and metric.is_of(dataset)]
    if protocol == PAPER and len(metrics) != 1:
        names = ", ".join(metric.name for metric in metrics) or "none"
        raise ValueError(f"{dataset.name} needs exactly one metric of the {PAPER} protocol and has {names}")
    return metrics


def evaluate(dataset: Dataset, predictions: object) -> Evaluation:
    """Score a dataset's predictions by all its metrics.

    Raises:
        ValueError: a metric reads another kind of predictions.
    """
    (papers,) = metrics_of(dataset, PAPER)
    scores = list(_compute(papers, predictions).instances[Metric.SCORES_I])
    values: dict[str, Any] = {}
    instances: dict[str, Any] = {}
    for metric in metrics_of(dataset, STANDARD):
        score = _compute(metric, predictions)
        values[metric.key] = score.value
        instances |= score.instances
    return Evaluation(scores=scores, standard={**values, "instances": instances})


def _compute(metric: Metric, predictions: object) -> Score:
    if not isinstance(predictions, metric.needs):
        made = type(predictions).__name__
        raise ValueError(
            f"the metric {metric.name!r} reads {metric.needs.__name__}, not the {made} of its task"
        )
    return metric.compute(predictions)
