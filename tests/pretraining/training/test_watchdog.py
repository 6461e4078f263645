"""One process alone; test_train_accidents has several."""

import time

import torch

from pretraining.training.ranks import Ranks
from pretraining.training.watchdog import Watchdog


def test_one_process_waits_for_nobody() -> None:
    with Watchdog(
        Ranks(rank=0, world=1, device=torch.device("cpu")), "stage", 0.01
    ) as watchdog:
        time.sleep(0.05)
        watchdog.mark(1, 1)
