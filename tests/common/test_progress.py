"""Progress where there is no terminal: nothing for short work, a line a minute for long work."""

from __future__ import annotations

import logging

import pytest

from common import progress as module
from common.progress import Meter, progress


def test_items_pass_through_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress([1, 2, 3], "count")) == [1, 2, 3]
    assert capsys.readouterr().err == ""


def test_a_log_gets_a_line_with_share_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0.0, 30.0, 90.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with caplog.at_level(logging.INFO), Meter("train", 400, done=100, unit="step") as meter:
        meter.update(150)
        meter.update(200, "loss 3.2")
    assert caplog.messages == ["train: 50.0 %, 0.05 h to go, loss 3.2"]
