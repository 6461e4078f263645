from __future__ import annotations

import torch

from pretraining.training.ranks import Ranks


def test_alone_sums_are_the_values_themselves() -> None:
    ranks = Ranks(rank=0, world=1, device=torch.device("cpu"))
    ranks.barrier()
    assert ranks.total(0.1, 3) == [0.1, 3.0]
    assert ranks.device_name == "cpu"
    assert 0 < ranks.peak_memory() < 1000
