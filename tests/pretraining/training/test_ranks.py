from __future__ import annotations

import os

import pytest
import torch

from pretraining.training.ranks import Ranks


def test_alone_sums_are_the_values_themselves() -> None:
    ranks = Ranks(rank=0, world=1, device=torch.device("cpu"))
    ranks.barrier()
    assert ranks.total(0.1, 3) == [0.1, 3.0]
    assert ranks.device_name == "cpu"
    assert 0 < ranks.peak_memory() < 1000


def test_memory_of_a_gpu_grows_in_segments_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as own:
        own.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
        Ranks.here()
        assert "PYTORCH_ALLOC_CONF" not in os.environ
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "taken back after the test")
    del os.environ["PYTORCH_ALLOC_CONF"]
    Ranks.here()
    assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
