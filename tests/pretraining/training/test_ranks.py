from __future__ import annotations

import torch

from pretraining.training.ranks import Ranks


def test_alone_sums_are_the_values_themselves() -> None:
    ranks = Ranks(rank=0, world=1, device=torch.device("cpu"))
    ranks.barrier()
    assert ranks.total(0.1, 3) == [0.1, 3.0]
    assert ranks.device_name == "cpu"
    assert 0 < ranks.peak_memory() < 1000


def test_64_bits_survive_the_sum_in_double_precision() -> None:
    ranks = Ranks(rank=0, world=1, device=torch.device("cpu"))
    for value in (0, 1, 2**53 + 1, 2**64 - 1):
        assert ranks.total_bits(value) == value
