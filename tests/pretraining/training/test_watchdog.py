"""What the processes of a job find out about each other; test_train_accidents has the processes."""

import logging
import time
from collections.abc import Iterator

import pytest
import torch

from pretraining.training.ranks import Ranks
from pretraining.training.watchdog import OwnTime, Watchdog


class Four(Ranks):
    """The third of four processes; the others take 1 s for their part of a step."""

    def each(self, value: float) -> list[float]:
        return [1.0, 1.1, value, 0.9]


@pytest.mark.parametrize(("own", "is_slow"), [(1.4, False), (1.6, True), (0.1, False)])
def test_a_slow_rank_says_so_itself(own: float, is_slow: bool, caplog: pytest.LogCaptureFixture) -> None:
    ranks = Four(rank=2, world=4, device=torch.device("cpu"))
    times = OwnTime(ranks)
    for _ in range(3):
        times.begin()
        times.backward()
        times.count()
    times._total = 3 * own
    seconds, _ = times.by_rank("stage", 100)
    assert seconds == pytest.approx([1.0, 1.1, own, 0.9]) and times.steps == 0
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == is_slow
    if is_slow:
        assert all(words in caplog.text for words in ("rank 2", "1.6 s", "theirs 1 s", "steps 98 to 100"))


class Two(Ranks):
    """The second of two processes, of which the other takes 0.05 s for all it does."""

    def each(self, value: float) -> list[float]:
        return [0.05, value]


@pytest.mark.parametrize(("delay", "is_late"), [(0.0, False), (0.08, True)])
def test_a_rank_that_waits_for_its_data_is_named(
    delay: float, is_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def batches() -> Iterator[int]:
        for number in range(4):
            time.sleep(delay if number else 0.3)  # the first is that of the start
            yield number

    times = OwnTime(Two(rank=1, world=2, device=torch.device("cpu")))
    for _ in times.reading(batches()):
        times.begin()
        times.backward()
        times.count()
    _, waits = times.by_rank("stage", 4)
    assert 0.75 * delay <= waits[1] < 0.2
    assert ("rank 1" in caplog.text and "waits for its data" in caplog.text) == is_late


def test_own_time_ends_with_the_last_backward_pass() -> None:
    times = OwnTime(Ranks(rank=0, world=1, device=torch.device("cpu")))
    times.begin()
    times.backward()
    time.sleep(0.02)
    times.backward()
    time.sleep(0.2)
    times.count()
    assert 0.02 <= times._total < 0.2


def test_one_process_waits_for_nobody() -> None:
    with Watchdog(Ranks(rank=0, world=1, device=torch.device("cpu")), "stage", 0.01) as watchdog:
        time.sleep(0.05)
        watchdog.mark(1, 1)
