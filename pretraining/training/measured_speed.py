"""How fast this machine trains: a few steps of one network on random tokens, MLM at 40 %."""

from __future__ import annotations

import time

import numpy as np
import torch

from pretraining.model.configuration import config_of
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import TRAINING, Shape
from pretraining.training.objectives import loss_sum, mlm

__all__ = ["measured_speed"]

_WARM_UP, _BATCHES = 8, 4
"""Steps before the clock starts, in which blocks are compiled for each of so many batches."""


def measured_speed(shape: Shape, *, microbatch: int, steps: int = 20) -> float:
    """Return the tokens/s of training steps of one pass each, on a GPU if there is one.

    Args:
        shape: the network.
        microbatch: sequences of a pass, of 12 to the network's most tokens.
        steps: steps on the clock.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_gpu = device.type == "cuda"
    config = config_of(shape, {"eos_id": 0, "bos_id": None, "mask_id": 1})
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    model.train().to(device)
    model.fuse_projections(is_gpu)
    if is_gpu:
        model.compile_blocks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=TRAINING.peak_lr, fused=is_gpu)
    rng, rule = np.random.default_rng(0), MaskRule.of(config, ratio=0.4, seed=0)
    batches = []
    for _ in range(_BATCHES):
        lengths = rng.integers(TRAINING.min_length, shape.max_length + 1, microbatch)
        tokens = [rng.integers(2, shape.vocab, length) for length in lengths]
        batches.append(mlm(PackedBatch.of(tokens, max_length=shape.max_length), rule).to(device))
    seen, start = 0, 0.0
    for step in range(_WARM_UP + steps):
        if step == _WARM_UP:
            start = _now(device)
        batch = batches[step % _BATCHES]
        with torch.autocast(device.type, torch.bfloat16, enabled=is_gpu):
            loss = loss_sum(model, batch).mean
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seen += batch.inputs.num_tokens * (step >= _WARM_UP)
    return seen / (_now(device) - start)


def _now(device: torch.device) -> float:
    """Return the time once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
