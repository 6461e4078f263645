"""One process alone; test_train_accidents has several."""

import logging
import os
import time
from types import SimpleNamespace

import pytest
import torch

from pretraining.training import watchdog as module
from pretraining.training.ranks import Ranks
from pretraining.training.watchdog import Watchdog


def ranks(rank: int, world: int) -> Ranks:
    return Ranks(rank=rank, world=world, device=torch.device("cpu"))


def test_one_process_waits_for_nobody() -> None:
    with Watchdog(ranks(0, 1), "stage", 0.01) as watchdog:
        time.sleep(0.05)
        watchdog.mark(1, 1)


def test_a_lost_store_means_that_the_first_rank_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def is_gone(*_: object) -> None:
        raise RuntimeError("Connection reset by peer")

    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    watchdog = Watchdog(ranks(1, 3), "stage", 0.0)
    watchdog._store = SimpleNamespace(check=is_gone, get=is_gone, set=is_gone)
    with caplog.at_level(logging.ERROR):
        watchdog._end()
    assert codes == [75]
    assert "rank 0 of 3 has stopped there, on the first node" in caplog.text
