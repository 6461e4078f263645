"""The memory of one pass of a start's class, measured on this GPU: classes keep too much of their own to be counted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from pretraining.model.attention import resolve_backend
from pretraining.model.configuration import EncoderConfig
from pretraining.model.masking import MLM_STREAM, MaskRule
from pretraining.model.packed_batch import PackedBatch
from pretraining.model.start_weights import network_of
from pretraining.plan.config import TrainingConfig
from pretraining.starts import Start
from pretraining.training.objectives import loss_sum, prepare

_STATE_BYTES, _REDUCED_BYTES = 8, 6
"""Of AdamW by parameter, and of what several GPUs add."""
_RATIO = 0.5
"""Of masks; what the head takes is made in chunks and hardly depends on it."""


class PassMemory(NamedTuple):
    """GPU memory of training in bf16, in GB."""

    fixed: float
    """Weights, gradients and the optimizer's state."""
    each: float
    """What each sequence of a pass adds."""


def measured_gb(
    start: Start,
    model_config: EncoderConfig,
    config: TrainingConfig,
    device: torch.device,
    *,
    several: bool,
) -> PassMemory:
    """Return the GB that training takes without a pass, and those of each sequence of one.

    Args:
        start: what is trained; its weights are not read.
        model_config: of the data.
        config: the settings.
        device: a GPU, which is as free afterwards as before.
        several: whether several GPUs share the work.
    """
    model = network_of(start, model_config).to(device).train()
    head_dim = getattr(model, "head_dim", 0) or model.config.head_dim
    backend = resolve_backend(config.machine.backend, device, torch.bfloat16, head_dim)
    model.set_attention_backend(backend.name)
    parameters = sum(tensor.numel() for tensor in model.parameters())
    rule = MaskRule.of(model_config, ratio=_RATIO, seed=0, stream=MLM_STREAM)
    length = config.batches.max_length
    tokens = np.arange(length) % model_config.vocab_size
    peaks_gb = []
    # The first pass allocates the gradients. The second and third then differ by two sequences: half is one's memory.
    for count in (1, 1, 3):
        packed = PackedBatch.of([tokens] * count, max_length=length)
        torch.cuda.reset_peak_memory_stats(device)
        with torch.autocast(device.type, torch.bfloat16):
            batch = prepare(packed, "mlm", rule).to(device)
            loss_sum(model, batch).mean.backward()  # type: ignore[no-untyped-call]
        peaks_gb.append(torch.cuda.max_memory_allocated(device) / 1e9)
    del model
    torch.cuda.empty_cache()
    sequence_gb = (peaks_gb[2] - peaks_gb[1]) / 2
    parameter_bytes = _STATE_BYTES
    if several:
        parameter_bytes += _REDUCED_BYTES
    optimizer_gb = parameters * parameter_bytes / 1e9
    fixed_gb = peaks_gb[1] - sequence_gb + optimizer_gb
    return PassMemory(fixed=fixed_gb, each=sequence_gb)
