"""Metrics that only datasets of one's own have, by scikit-learn and SciPy: for several labels, numbers and classes.

The score of an instance, whose mean chooses the learning rate, is in [0, 1]: F1 of the sets of labels, and 1 minus the
error over the length of the range of values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.metrics.metric import (
    METRICS,
    ClassPredictions,
    LabelPredictions,
    Metric,
    Score,
    ValuePredictions,
)
from benchmarks.protocol import PAPER, STANDARD

__all__ = ["correlation", "f1", "matthews"]


def f1(average: str, made: ClassPredictions | LabelPredictions) -> float:
    """Return the F1 of all labels together (`micro`), or the mean over labels (`macro`); 0 where a label has none."""
    from sklearn.metrics import f1_score

    return float(f1_score(made.gold, made.predicted, average=average, zero_division=0.0))


def matthews(made: ClassPredictions) -> float:
    """Return Matthews' correlation of classes, 0 where one side never changes."""
    from sklearn.metrics import matthews_corrcoef

    if not (np.ptp(made.predicted) and np.ptp(made.gold)):
        return 0.0
    return float(matthews_corrcoef(made.gold, made.predicted))


def correlation(kind: str, made: ValuePredictions) -> float:
    """Return Pearson's or Spearman's correlation (`pearsonr`, `spearmanr`); 0 where one side never changes."""
    from scipy import stats

    if not (np.ptp(made.predicted) and np.ptp(made.gold)):
        return 0.0
    return float(getattr(stats, kind)(made.predicted, made.gold).statistic)


def _whole(compute: Any, made: Any) -> Score:
    return Score(value=compute(made))


def _set_f1s(made: LabelPredictions) -> Score:
    """Score each example's set of labels by its F1; 1 where both sets are empty."""
    both, size = (made.predicted & made.gold).sum(1), made.predicted.sum(1) + made.gold.sum(1)
    scores = np.divide(2.0 * both, size, out=np.ones(len(size)), where=size > 0)
    return Score.mean_of(Metric.SCORES_I, scores.tolist())


def _closeness(made: ValuePredictions) -> Score:
    """Score each example by 1 - error / (largest - smallest value), 0 for larger errors."""
    low, high = made.limits
    near = np.clip(1 - np.abs(made.predicted - made.gold) / (high - low), 0, 1)
    return Score.mean_of(Metric.SCORES_I, near.tolist())


_asked = partial(Metric, task="SC", protocol=STANDARD, needs=ClassPredictions, on_request=True)
_labels = partial(Metric, task="SC", form="SC-labels", needs=LabelPredictions)
_value = partial(Metric, task="SC", form="SC-value", needs=ValuePredictions)

for _metric in (
    _asked(key="macro_f1", compute=partial(_whole, partial(f1, "macro"))),
    _asked(key="mcc", compute=partial(_whole, matthews)),
    _labels(key="set_f1", protocol=PAPER, compute=_set_f1s),
    _labels(key="micro_f1", protocol=STANDARD, compute=partial(_whole, partial(f1, "micro"))),
    _labels(key="macro_f1", protocol=STANDARD, compute=partial(_whole, partial(f1, "macro"))),
    _value(key="closeness", protocol=PAPER, compute=_closeness),
    _value(key="pearson", protocol=STANDARD, compute=partial(_whole, partial(correlation, "pearsonr"))),
    _value(key="spearman", protocol=STANDARD, compute=partial(_whole, partial(correlation, "spearmanr"))),
):
    METRICS.register(_metric)
