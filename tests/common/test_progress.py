"""Progress where there is no terminal: nothing for short work, ever rarer lines for long work."""

import logging

import pytest

from common import progress as module
from common.progress import Meter, progress


def test_items_pass_through_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress([1, 2, 3], "count")) == [1, 2, 3]
    assert capsys.readouterr().err == ""


def test_a_log_gets_lines_with_share_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After 5 seconds, then after 10, 20, 40, and from then on every 60; the clock ticks every 4."""
    clock = iter(range(0, 4000, 4))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with (
        caplog.at_level(logging.INFO),
        Meter("train", 400, done=100, unit="step") as meter,
    ):
        for step in range(101, 176):
            meter.update(step, f"loss {step}")
    assert caplog.messages[0] == "train: 25.5 %, no ETA yet, loss 102"
    assert caplog.messages[2] == "train: 27.5 %, 19:20 to go, loss 110"
    assert [line.rpartition(" ")[2] for line in caplog.messages[:-1]] == [
        "102",
        "105",
        "110",
        "120",
        "135",
        "150",
        "165",
    ]
    assert caplog.messages[-1] == "train: loss 175"


def test_what_failed_has_no_last_note(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(ZeroDivisionError),
        Meter("train", 2) as meter,
    ):
        meter.update(1, "loss 1")
        raise ZeroDivisionError
    assert not caplog.messages
