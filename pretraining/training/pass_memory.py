"""GPU memory that training a class of transformers takes, measured on this GPU by a few passes.

A pass is one forward and backward pass over a micro-batch of packed sequences. For this package's own class its memory
is computed (`pretraining.plan.devices`). Other classes keep too many tensors of their own for that.
"""

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
"""Bytes a parameter: of AdamW's state, and of what summing gradients over several GPUs adds."""
_RATIO = 0.5
"""Share of tokens that is masked; memory hardly depends on it, since logits are computed for a few tokens at a time."""


class PassMemory(NamedTuple):
    """GPU memory of training in bf16, in GB: `fixed` plus `each` times the sequences of a pass."""

    fixed: float
    """GB of weights, gradients and the optimizer's state."""
    each: float
    """GB that each sequence of a pass adds."""


def measured_gb(
    start: Start,
    model_config: EncoderConfig,
    config: TrainingConfig,
    device: torch.device,
    *,
    several: bool,
) -> PassMemory:
    """Return the GPU memory that training a start takes, from passes of one and of three sequences of full length.

    Args:
        start: the model that training starts from; its weights are not read.
        model_config: rows, positions and special tokens that data and masks ask for.
        config: the settings.
        device: a GPU; all that is allocated on it here is freed again.
        several: whether several GPUs share the work.
    """
    model = network_of(start, model_config).to(device).train()
    # `AdaptedModel` computes the dimension of a head, which not every configuration of transformers has. Our
    # own class has it in its configuration.
    head_dim = getattr(model, "head_dim", 0) or model.config.head_dim
    backend = resolve_backend(config.machine.backend, device, torch.bfloat16, head_dim)
    model.set_attention_backend(backend.name)
    parameters = sum(tensor.numel() for tensor in model.parameters())
    rule = MaskRule.of(model_config, ratio=_RATIO, seed=0, stream=MLM_STREAM)
    length = config.batches.max_length

    # Any tokens do: memory depends only on how many there are.
    tokens = np.arange(length) % model_config.vocab_size
    peaks_gb = []

    # The first pass allocates the gradients and is not counted. The second has one sequence and the third has three, so
    # half the difference of their peaks is the memory of one sequence.
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

    # The second pass had weights, gradients and one sequence in memory, but no optimizer: the sequence is taken off,
    # and the optimizer's state added.
    optimizer_gb = parameters * parameter_bytes / 1e9
    fixed_gb = peaks_gb[1] - sequence_gb + optimizer_gb
    return PassMemory(fixed=fixed_gb, each=sequence_gb)
