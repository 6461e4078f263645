"""Which dataset has which metric, and that none is computed under another's name."""

import dataclasses

import numpy as np
import pytest

from benchmarks.metrics.metric import (
    METRICS,
    ClassPredictions,
    Metric,
    Score,
    evaluate,
    metrics_of,
)
from benchmarks.protocol import DATASETS, PAPER, STANDARD, TASKS, get_dataset

PREDICTIONS = ClassPredictions(predicted=np.array([1, 1, 0]), gold=np.array([1, 0, 0]))


def errors(made: ClassPredictions) -> Score:
    return Score(
        value=float((made.predicted != made.gold).mean()),
        instances={"wrong": [0, 1, 0]},
    )


@pytest.mark.parametrize("name", DATASETS)
def test_each_dataset_has_one_paper_metric_and_a_headline(name: str) -> None:
    dataset = DATASETS[name]
    assert len(metrics_of(dataset, PAPER)) == 1
    assert TASKS[dataset.task].headline in {
        metric.key for metric in metrics_of(dataset, STANDARD)
    }
    assert all(metric.task == dataset.task for metric in metrics_of(dataset, STANDARD))


def test_a_made_up_metric_is_written_for_its_datasets_alone() -> None:
    metric = Metric(
        key="errors", protocol=STANDARD, task="SC", compute=errors, on_request=True
    )
    asking = dataclasses.replace(DATASETS["sst2"], also=("errors",))
    METRICS.register(metric)
    try:
        found = evaluate(asking, PREDICTIONS)
        assert found.standard == pytest.approx({"errors": 1 / 3, "accuracy": 2 / 3})
        assert found.instances == {"predicted": [1, 1, 0], "wrong": [0, 1, 0]}
        assert "errors" not in evaluate(get_dataset("qqp"), PREDICTIONS).standard
        assert metric not in metrics_of(get_dataset("squad"), STANDARD)
        with pytest.raises(
            ValueError, match="there is already a metric called 'standard SC errors'"
        ):
            METRICS.register(metric)
    finally:
        METRICS.pop(metric.name)
    assert "errors" not in evaluate(asking, PREDICTIONS).standard


def test_which_datasets_have_a_metric() -> None:
    """All of its form; or, on request, those whose headline it is, or that have it besides."""
    sst2 = DATASETS["sst2"]
    named = {
        "sst2": sst2,
        "headline": dataclasses.replace(sst2, headline="k"),
        "besides": dataclasses.replace(sst2, also=("k",)),
        "squad": DATASETS["squad"],
    }

    def having(**rest: object) -> list[str]:
        metric = Metric(key="k", protocol=STANDARD, task="SC", compute=errors, **rest)  # type: ignore[arg-type]
        return [name for name, dataset in named.items() if metric.is_of(dataset)]

    assert having() == [name for name in named if name != "squad"]
    assert having(on_request=True) == ["headline", "besides"]
    assert having(form="QA") == ["squad"]
    for dataset in DATASETS.values():
        keys = {metric.key for metric in metrics_of(dataset, STANDARD)}
        assert not {"macro_f1", "mcc"} & keys
        assert ("f1" in keys) == (dataset.name == "qqp" or dataset.task == "QA")


def test_a_second_paper_metric_is_refused() -> None:
    second = Metric(key="errors", protocol=PAPER, task="SC", compute=errors)
    METRICS.register(second)
    try:
        with pytest.raises(
            ValueError,
            match=r"needs exactly one metric of the paper protocol but has .*errors",
        ):
            evaluate(get_dataset("sst2"), PREDICTIONS)
    finally:
        METRICS.pop(second.name)
