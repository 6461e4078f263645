"""Metrics of datasets of one's own: by hand, and against what was computed before scikit-learn and SciPy did it."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from benchmarks.metrics import standard
from benchmarks.metrics.metric import (
    METRICS,
    ClassPredictions,
    LabelPredictions,
    ValuePredictions,
)

RNG = np.random.default_rng(0)


def labels(predicted: object, gold: object) -> LabelPredictions:
    return LabelPredictions(
        predicted=np.array(predicted, dtype=bool), gold=np.array(gold, dtype=bool)
    )


def values(predicted: object, gold: object) -> ValuePredictions:
    return ValuePredictions(
        predicted=np.array(predicted, dtype=float),
        gold=np.array(gold, dtype=float),
        limits=(0, 1),
    )


def by_hand(made: LabelPredictions, *, micro: bool) -> float:
    axis = None if micro else 0
    both = np.atleast_1d((made.predicted & made.gold).sum(axis))
    size = np.atleast_1d(made.predicted.sum(axis) + made.gold.sum(axis))
    return float(
        np.divide(2.0 * both, size, out=np.zeros(len(size)), where=size > 0).mean()
    )


def centred(side: np.ndarray) -> np.ndarray:
    return np.asarray(side - side.mean(axis=0))


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


def test_they_equal_their_closed_forms() -> None:
    for _ in range(50):
        flags = labels(RNG.random((40, 4)) < 0.3, RNG.random((40, 4)) < 0.3)
        assert standard.f1("micro", flags) == pytest.approx(
            by_hand(flags, micro=True), abs=1e-12
        )
        assert standard.f1("macro", flags) == pytest.approx(
            by_hand(flags, micro=False), abs=1e-12
        )
        made = ClassPredictions(
            predicted=RNG.integers(0, 4, 80), gold=RNG.integers(0, 3, 80)
        )
        classes = np.union1d(made.predicted, made.gold)
        hot = labels(made.predicted[:, None] == classes, made.gold[:, None] == classes)
        assert standard.f1("macro", made) == pytest.approx(
            by_hand(hot, micro=False), abs=1e-12
        )
        expected = cosine(
            centred(hot.predicted.astype(float)), centred(hot.gold.astype(float))
        )
        assert standard.matthews(made) == pytest.approx(expected, abs=1e-12)
        numbers = values(RNG.gumbel(size=60), np.round(RNG.random(60) * 5, 1))
        pearson = cosine(centred(numbers.predicted), centred(numbers.gold))
        assert METRICS["standard SC-value pearson"].compute(
            numbers
        ).value == pytest.approx(pearson, abs=1e-12)
        ranks = [centred(rankdata(side)) for side in (numbers.predicted, numbers.gold)]
        spearman = METRICS["standard SC-value spearman"].compute(numbers).value
        assert spearman == pytest.approx(cosine(*ranks), abs=1e-12)


@pytest.mark.parametrize(
    ("predicted", "gold", "sets", "micro", "macro"),
    [
        ([[1, 1, 0]], [[1, 0, 0]], [2 / 3], 2 / 3, (1 + 0 + 0) / 3),
        ([[0, 0]], [[0, 0]], [1.0], 0.0, 0.0),
        ([[1, 0]], [[0, 0]], [0.0], 0.0, 0.0),
        ([[0, 0]], [[0, 1]], [0.0], 0.0, 0.0),
        ([[1, 0], [1, 0]], [[1, 0], [1, 0]], [1.0, 1.0], 1.0, 0.5),
        (
            [[1, 1], [1, 0], [0, 1]],
            [[1, 1], [1, 0], [0, 0]],
            [1.0, 1.0, 0.0],
            6 / 7,
            (1 + 2 / 3) / 2,
        ),
    ],
)
def test_sets_of_labels_by_hand(
    predicted: list[list[int]],
    gold: list[list[int]],
    sets: list[float],
    micro: float,
    macro: float,
) -> None:
    made = labels(predicted, gold)
    found = METRICS["paper SC-labels set_f1"].compute(made)
    assert list(found.instances["scores_i"]) == pytest.approx(sets)
    assert found.value == pytest.approx(np.mean(sets))
    assert METRICS["standard SC-labels micro_f1"].compute(made).value == pytest.approx(
        micro
    )
    assert METRICS["standard SC-labels macro_f1"].compute(made).value == pytest.approx(
        macro
    )


@pytest.mark.parametrize(
    ("predicted", "gold", "macro", "mcc"),
    [
        ([0, 1], [0, 1], 1.0, 1.0),
        ([0, 1], [1, 0], 0.0, -1.0),
        ([5], [5], 1.0, 0.0),
        ([2, 2], [7, 7], 0.0, 0.0),
        ([0, 0, 1, 1], [0, 1, 1, 1], (2 / 3 + 4 / 5) / 2, 1 / math.sqrt(3)),
        ([1, 1, 1], [0, 1, 2], (0 + 1 / 2 + 0) / 3, 0.0),
    ],
)
def test_classes_by_hand(
    predicted: list[int], gold: list[int], macro: float, mcc: float
) -> None:
    # Neither knows which side is the gold one
    for one, other in ((predicted, gold), (gold, predicted)):
        made = ClassPredictions(predicted=np.array(one), gold=np.array(other))
        assert METRICS["standard SC macro_f1"].compute(made).value == pytest.approx(
            macro
        )
        assert METRICS["standard SC mcc"].compute(made).value == pytest.approx(mcc)


@pytest.mark.parametrize("kind", ["pearsonr", "spearmanr"])
@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("value", [0.0, 0.1, -1.1, 1e9 / 3])
def test_what_never_changes_correlates_with_nothing(
    value: float, size: int, kind: str
) -> None:
    """Not with itself either, however its mean is rounded."""
    same = np.full(size, value)
    for other in (same, np.full(size, 0.3), np.arange(size) * 0.7):
        assert standard.correlation(kind, values(same, other)) == 0.0
        assert standard.correlation(kind, values(other, same)) == 0.0


@pytest.mark.parametrize(
    ("error", "near"),
    [
        (0.0, 1.0),
        (1.0, 0.75),
        (-1.0, 0.75),
        (4.0, 0.0),
        (-4.0, 0.0),
        (4.5, 0.0),
        (-99, 0.0),
    ],
)
def test_closeness_is_what_the_error_leaves_of_the_range(
    error: float, near: float
) -> None:
    gold = np.array([-1.0, 0.0, 3.0])
    made = ValuePredictions(predicted=gold + error, gold=gold, limits=(-1.0, 3.0))
    found = METRICS["paper SC-value closeness"].compute(made)
    assert list(found.instances["scores_i"]) == [near] * 3 and found.value == near
