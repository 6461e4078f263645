"""Metrics of datasets of one's own against scikit-learn and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

from benchmarks.metrics import own
from benchmarks.metrics.metric import LabelPredictions, ValuePredictions, metrics_of
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
