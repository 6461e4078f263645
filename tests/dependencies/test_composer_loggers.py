"""What `pretraining.training.monitors` relies on in Composer's loggers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from composer.core import State
from composer.loggers import Logger, LoggerDestination, TensorboardLogger

from tests.dependencies.composer_loops import Net, Record, fit, sgd


class Destination(LoggerDestination):  # type: ignore[misc]  # composer is untyped
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def init(self, state: State, logger: Logger) -> None:
        self.calls.append("init")

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        if "mine/loss" in metrics:
            self.calls.append((step, metrics["mine/loss"]))

    def post_close(self) -> None:
        self.calls.append("closed")


def test_a_logger_destination_gets_every_value_and_is_closed() -> None:
    model, destination, record = Net(), Destination(), Record(metrics=True)
    fit(model, sgd(model), record, start=2, end=5, loggers=[destination])
    # Composer counts the update as logged once its clock has moved.
    assert destination.calls == ["init", *zip((3, 4, 5), record.losses, strict=True), "closed"]


def test_tensorboards_files_hold_the_values(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model, record = Net(), Record(metrics=True)
    logger = TensorboardLogger(log_dir=str(tmp_path), rank_zero_only=True)
    fit(model, sgd(model), record, loggers=[logger], run_name="mine")
    (file,) = tmp_path.rglob("events.*")
    events = EventAccumulator(str(file))
    events.Reload()
    values = [(item.step, item.value) for item in events.Scalars("mine/loss")]
    assert [step for step, _ in values] == [1, 2, 3, 4]
    assert [value for _, value in values] == pytest.approx(record.losses, rel=1e-6)
