"""Memory of a GPU, next to what was allocated at full size (docs/performance.md)."""

from __future__ import annotations

import math

import pytest

from pretraining.paper_settings import SHAPES
from pretraining.plan.devices import DEVICES
from pretraining.plan.memory import largest_microbatch, training_gb

H100_GB = 83.7
"""78 GiB."""


@pytest.mark.parametrize(
    ("size", "tokens", "allocated"),
    [("210m", 24_576, 18.0), ("610m", 24_576, 44.8), ("1b", 24_576, 70.3), ("610m", 297_000 // 7, 67.5)],
)
def test_it_is_what_was_allocated(size: str, tokens: int, allocated: float) -> None:
    assert training_gb(SHAPES[size], tokens) == pytest.approx(allocated, rel=0.05)


@pytest.mark.parametrize("several", [False, True])
def test_the_largest_pass_fits_and_one_more_sequence_does_not(several: bool) -> None:
    chosen = {
        size: largest_microbatch(shape, H100_GB, 2048, several=several) for size, shape in SHAPES.items()
    }
    assert chosen == ({"210m": 32, "610m": 22, "1b": 11} if several else {"210m": 32, "610m": 24, "1b": 13})
    for size, most in chosen.items():
        assert training_gb(SHAPES[size], most * 2048, several=several) <= 0.9 * H100_GB
        if most < 32:
            assert training_gb(SHAPES[size], (most + 1) * 2048, several=several) > 0.9 * H100_GB


@pytest.mark.parametrize(
    ("size", "device", "fits"),
    [("1b", "H100", 12), ("610m", "RTX 4090", 3), ("1b", "RTX 4090", 0), ("610m", "A100", 9)],
)
def test_the_largest_pass_that_fits(size: str, device: str, fits: int) -> None:
    shape, gpu = SHAPES[size], DEVICES[device]
    assert largest_microbatch(shape, gpu.memory_gb or 0, 2_048, most=12) == fits
    if fits:
        assert training_gb(shape, fits * 2_048) < (gpu.memory_gb or 0)
    assert largest_microbatch(shape, math.inf, 2_048, most=12) == 12
