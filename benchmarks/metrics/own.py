"""Metrics that only datasets of one's own have: for several labels, for numbers, and in place of accuracy.

The score of an instance, whose mean chooses the learning rate, is in [0, 1]: F1 of the sets of labels, and 1 minus the
error over the length of the range of values.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.metrics.metric import (
    METRICS,
    ClassPredictions,
    LabelPredictions,
    Metric,
    Score,
    ValuePredictions,
)
from benchmarks.protocol import PAPER, STANDARD

__all__ = ["closeness", "correlation", "label_f1", "macro_f1", "matthews", "set_f1s"]

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def set_f1s(predicted: Flags, gold: Flags) -> Floats:
    """Return the F1 of each example's set of labels, shape (examples, labels); 1 where both are empty."""
    both, size = (predicted & gold).sum(1), predicted.sum(1) + gold.sum(1)
    scores: Floats = np.divide(2.0 * both, size, out=np.ones(len(gold)), where=size > 0)
    return scores


def label_f1(predicted: Flags, gold: Flags, *, micro: bool) -> float:
    """Return the F1 of all labels together, or the mean of each label's; 0 where a label is on neither side."""
    axis = None if micro else 0
    both, size = (
        np.atleast_1d((predicted & gold).sum(axis)),
        np.atleast_1d(predicted.sum(axis) + gold.sum(axis)),
    )
    return float(np.divide(2.0 * both, size, out=np.zeros(len(size)), where=size > 0).mean())


def macro_f1(predicted: Ints, gold: Ints) -> float:
    """Return the mean of the F1 of each class that occurs on either side."""
    classes = np.union1d(predicted, gold)
    return label_f1(predicted[:, None] == classes, gold[:, None] == classes, micro=False)


def matthews(predicted: Ints, gold: Ints) -> float:
    """Return Matthews' correlation of classes, 0 where one side never changes."""
    classes = np.union1d(predicted, gold)
    sides = [(side[:, None] == classes) - (side[:, None] == classes).mean(0) for side in (predicted, gold)]
    spread = np.sqrt((sides[0] ** 2).sum() * (sides[1] ** 2).sum())
    return float((sides[0] * sides[1]).sum() / spread) if spread else 0.0


def correlation(predicted: Floats, gold: Floats, *, ranks: bool = False) -> float:
    """Return Pearson's correlation, of the ranks for Spearman's; 0 where one side never changes."""
    one, other = (rankdata(side) if ranks else side for side in (predicted, gold))
    one, other = one - one.mean(), other - other.mean()
    spread = np.sqrt((one**2).sum() * (other**2).sum())
    # A mean is rounded: what is left of equal values without it need not be 0.
    changing = spread and np.ptp(predicted) and np.ptp(gold)
    return float((one * other).sum() / spread) if changing else 0.0


def closeness(predicted: Floats, gold: Floats, limits: tuple[float, float]) -> Floats:
    """Return 1 - error / (largest - smallest value) of each example, 0 for larger errors."""
    near: Floats = np.clip(1 - np.abs(predicted - gold) / (limits[1] - limits[0]), 0, 1)
    return near


def _classes(compute: object, made: ClassPredictions) -> Score:
    return Score(value=compute(made.predicted, made.gold))  # type: ignore[operator]


def _label_f1(micro: bool, made: LabelPredictions) -> Score:
    return Score(value=label_f1(made.predicted, made.gold, micro=micro))


def _correlation(ranks: bool, made: ValuePredictions) -> Score:
    return Score(value=correlation(made.predicted, made.gold, ranks=ranks))


def _set_f1s(made: LabelPredictions) -> Score:
    return Score.mean_of(Metric.SCORES_I, set_f1s(made.predicted, made.gold).tolist())


def _closeness(made: ValuePredictions) -> Score:
    return Score.mean_of(Metric.SCORES_I, closeness(made.predicted, made.gold, made.limits).tolist())


_asked = partial(Metric, task="SC", protocol=STANDARD, needs=ClassPredictions, on_request=True)
_labels = partial(Metric, task="SC", form="SC-labels", needs=LabelPredictions)
_value = partial(Metric, task="SC", form="SC-value", needs=ValuePredictions)

for _metric in (
    _asked(key="macro_f1", compute=partial(_classes, macro_f1)),
    _asked(key="mcc", compute=partial(_classes, matthews)),
    _labels(key="set_f1", protocol=PAPER, compute=_set_f1s),
    _labels(key="micro_f1", protocol=STANDARD, compute=partial(_label_f1, True)),
    _labels(key="macro_f1", protocol=STANDARD, compute=partial(_label_f1, False)),
    _value(key="closeness", protocol=PAPER, compute=_closeness),
    _value(key="pearson", protocol=STANDARD, compute=partial(_correlation, False)),
    _value(key="spearman", protocol=STANDARD, compute=partial(_correlation, True)),
):
    METRICS.register(_metric)
