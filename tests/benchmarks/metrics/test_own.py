"""Metrics of datasets of one's own against scikit-learn and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

from benchmarks.metrics import own
from benchmarks.metrics.metric import (
    METRICS,
    ClassPredictions,
    LabelPredictions,
    ValuePredictions,
    metrics_of,
)
from benchmarks.protocol import PAPER, PAPER_DATASETS, STANDARD, Dataset

RNG = np.random.default_rng(0)


def test_label_sets_equal_scikit_learn() -> None:
    predicted, gold = RNG.random((50, 4)) < 0.4, RNG.random((50, 4)) < 0.4
    theirs = [f1_score(g, p, zero_division=1.0) for g, p in zip(gold, predicted, strict=True)]
    np.testing.assert_allclose(own.set_f1s(predicted, gold), theirs)
    for micro in (True, False):
        expected = f1_score(gold, predicted, average="micro" if micro else "macro")
        assert own.label_f1(predicted, gold, micro=micro) == pytest.approx(expected)


def test_a_label_that_nobody_has_counts_as_zero() -> None:
    predicted = gold = np.array([[True, False], [True, False]])
    assert own.label_f1(predicted, gold, micro=False) == 0.5
    assert own.set_f1s(~predicted[:, :1], ~gold[:, :1]).tolist() == [1.0, 1.0]


def test_each_name_computes_what_it_says() -> None:
    labels = LabelPredictions(predicted=RNG.random((50, 4)) < 0.4, gold=RNG.random((50, 4)) < 0.6)
    values = ValuePredictions(predicted=RNG.gumbel(size=60), gold=RNG.normal(size=60), limits=(-9.0, 9.0))
    found = {
        metric.key: metric.compute(made).value
        for form, made in (("SC-labels", labels), ("SC-value", values))
        for metric in metrics_of(
            Dataset(
                name="mine",
                title="",
                task="SC",
                hub="",
                labels=4,
                trained_on="mine",
                form=form,
                in_paper=False,
            ),
            STANDARD,
        )
    }
    assert found == pytest.approx(
        {
            "micro_f1": f1_score(labels.gold, labels.predicted, average="micro"),
            "macro_f1": f1_score(labels.gold, labels.predicted, average="macro"),
            "pearson": pearsonr(values.predicted, values.gold)[0],
            "spearman": spearmanr(values.predicted, values.gold)[0],
        }
    )


@pytest.mark.parametrize(
    ("predicted", "gold", "sets", "micro", "macro"),
    [
        ([[1, 1, 0]], [[1, 0, 0]], [2 / 3], 2 / 3, (1 + 0 + 0) / 3),
        ([[0, 0]], [[0, 0]], [1.0], 0.0, 0.0),
        ([[1, 0]], [[0, 0]], [0.0], 0.0, 0.0),
        ([[0, 0]], [[0, 1]], [0.0], 0.0, 0.0),
        ([[1], [0], [1]], [[1], [0], [0]], [1.0, 1.0, 0.0], 2 / 3, 2 / 3),
        ([[1, 1], [1, 0], [0, 1]], [[1, 1], [1, 0], [0, 0]], [1.0, 1.0, 0.0], 6 / 7, (1 + 2 / 3) / 2),
    ],
)
def test_sets_of_labels_by_hand(
    predicted: list[list[int]], gold: list[list[int]], sets: list[float], micro: float, macro: float
) -> None:
    ours, theirs = np.array(predicted, dtype=bool), np.array(gold, dtype=bool)
    assert own.set_f1s(ours, theirs).tolist() == pytest.approx(sets)
    assert own.label_f1(ours, theirs, micro=True) == pytest.approx(micro)
    assert own.label_f1(ours, theirs, micro=False) == pytest.approx(macro)


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
def test_classes_by_hand(predicted: list[int], gold: list[int], macro: float, mcc: float) -> None:
    for one, other in ((predicted, gold), (gold, predicted)):  # neither knows which side is the gold one
        assert own.macro_f1(np.array(one), np.array(other)) == pytest.approx(macro)
        assert own.matthews(np.array(one), np.array(other)) == pytest.approx(mcc)


@pytest.mark.parametrize("ranks", [False, True])
@pytest.mark.parametrize("size", [1, 3, 7, 10])
@pytest.mark.parametrize("value", [0.0, 0.1, 0.7, -1.1, 1e9 / 3])
def test_what_never_changes_correlates_with_nothing(value: float, size: int, ranks: bool) -> None:
    """Not with itself either, however its mean is rounded."""
    same = np.full(size, value)
    for other in (same, np.full(size, 0.3), np.arange(size) * 0.7):
        assert own.correlation(same, other, ranks=ranks) == 0.0
        assert own.correlation(other, same, ranks=ranks) == 0.0


@pytest.mark.parametrize(
    ("predicted", "gold", "pearson", "spearman"),
    [
        ([1.0, 2.0], [0.0, 9.0], 1.0, 1.0),
        ([1.0, 2.0], [9.0, 0.0], -1.0, -1.0),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 9.0], 8 / math.sqrt(2 * 38), 1.0),
        ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], -0.5, -0.5),
    ],
)
def test_correlations_by_hand(
    predicted: list[float], gold: list[float], pearson: float, spearman: float
) -> None:
    one, other = np.array(predicted), np.array(gold)
    assert own.correlation(one, other) == pytest.approx(pearson)
    assert own.correlation(one, other, ranks=True) == pytest.approx(spearman)


@pytest.mark.parametrize(
    ("error", "near"),
    [(0.0, 1.0), (1.0, 0.75), (-1.0, 0.75), (4.0, 0.0), (-4.0, 0.0), (4.5, 0.0), (-99, 0.0)],
)
def test_closeness_is_what_the_error_leaves_of_the_range(error: float, near: float) -> None:
    gold = np.array([-1.0, 0.0, 3.0])
    assert own.closeness(gold + error, gold, (-1.0, 3.0)).tolist() == [near] * 3


def test_each_instance_has_its_part_in_the_score_that_chooses_the_learning_rate() -> None:
    labels = LabelPredictions(
        predicted=np.array([[True, True], [False, False]]), gold=np.array([[True, False], [False, False]])
    )
    values = ValuePredictions(predicted=np.array([1.0, 9.0]), gold=np.array([2.0, 1.0]), limits=(1.0, 5.0))
    for name, made, scores in (
        ("labels set_f1", labels, [2 / 3, 1.0]),
        ("value closeness", values, [0.75, 0.0]),
    ):
        found = METRICS[f"paper SC-{name}"].score(made)
        assert list(found.instances["scores_i"]) == pytest.approx(scores)
        assert found.value == pytest.approx(sum(scores) / 2)


@pytest.mark.parametrize(("key", "value"), [("macro_f1", (2 / 3 + 4 / 5) / 2), ("mcc", 1 / math.sqrt(3))])
def test_classes_are_scored_by_the_metric_that_a_dataset_asks_for(key: str, value: float) -> None:
    made = ClassPredictions(predicted=np.array([0, 0, 1, 1]), gold=np.array([0, 1, 1, 1]))
    assert METRICS[f"standard SC {key}"].score(made).value == pytest.approx(value)


def test_classes_equal_scikit_learn() -> None:
    predicted, gold = RNG.integers(0, 4, 80), RNG.integers(0, 3, 80)
    assert own.macro_f1(predicted, gold) == pytest.approx(f1_score(gold, predicted, average="macro"))
    assert own.matthews(predicted, gold) == pytest.approx(matthews_corrcoef(gold, predicted))
    assert own.matthews(np.zeros(5, dtype=int), np.arange(5) % 2) == 0.0


def test_correlations_equal_scipys_and_closeness_stays_in_range() -> None:
    predicted, gold = RNG.normal(size=60), np.round(RNG.random(60) * 5, 1)
    assert own.correlation(predicted, gold) == pytest.approx(pearsonr(predicted, gold)[0])
    assert own.correlation(predicted, gold, ranks=True) == pytest.approx(spearmanr(predicted, gold)[0])
    assert own.correlation(np.ones(4), np.arange(4.0)) == 0.0
    found = own.closeness(np.array([1.0, 1.0, 99.0]), np.array([1.0, 3.0, 1.0]), (1.0, 5.0))
    assert found.tolist() == [1.0, 0.5, 0.0]


def test_metrics_on_request_are_of_datasets_that_ask_for_them() -> None:
    asking = Dataset(name="mine", title="", task="SC", hub="", labels=3, trained_on="mine", headline="macro_f1",
                     in_paper=False)  # fmt: skip
    assert {metric.key for metric in metrics_of(asking, STANDARD)} == {"accuracy", "macro_f1"}
    assert [metric.key for metric in metrics_of(asking, PAPER)] == ["accuracy"]
    for dataset in PAPER_DATASETS.values():
        keys = [metric.key for metric in metrics_of(dataset, STANDARD)]
        assert not {"macro_f1", "mcc"} & set(keys)
        assert ("f1" in keys) == (dataset.name == "qqp" or dataset.task == "QA")
