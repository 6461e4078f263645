"""What the scripts that measure pretraining share: models, batches, the optimizer, one step of ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from pretraining.model.configuration import EncoderConfig, config_for
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import TRAINING
from pretraining.training.objectives import ObjectiveBatch, clm, loss_sum, mlm

RATIO = 0.4
OBJECTIVES = ("mlm40", "clm")


def head_heavy() -> EncoderConfig:
    """A body of 3.9 million parameters under the paper's vocabulary: 8.3 times as many in the head."""
    return config_for(
        "tiny",
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=1024,
    )


def ours(config: EncoderConfig) -> EuroBertForMaskedLM:
    """Return our model with weights from a seed."""
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    return model.train()


def packed(config: EncoderConfig, lengths: Sequence[int], seed: int = 0) -> PackedBatch:
    """Return sequences of random tokens."""
    rng = np.random.default_rng(seed)
    return PackedBatch.of([rng.integers(0, config.vocab_size, n) for n in lengths], max_length=2048)


def prepared(config: EncoderConfig, batch: PackedBatch, objective: str) -> ObjectiveBatch:
    """Return the batch made ready for the objective."""
    return clm(batch) if objective == "clm" else mlm(batch, MaskRule.of(config, ratio=RATIO, seed=0))


def drawn(config: EncoderConfig, objective: str, sequences: int, longest: int, seed: int) -> ObjectiveBatch:
    """Return a batch of sequences of uniformly random lengths, as the paper's are."""
    lengths = np.random.default_rng(seed).integers(TRAINING.min_length, longest + 1, sequences)
    return prepared(config, packed(config, lengths.tolist()), objective)


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return the paper's optimiser."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=TRAINING.peak_lr,
        betas=TRAINING.betas,
        eps=TRAINING.eps,
        weight_decay=TRAINING.weight_decay,
        fused=True,
    )


def step(
    model: EuroBertForMaskedLM, optimizer: torch.optim.Optimizer, batch: ObjectiveBatch, *, bf16: bool
) -> None:
    """Take one step: forward, backward, clipping, AdamW."""
    with torch.autocast(batch.inputs.tokens.device.type, torch.bfloat16, enabled=bf16):
        loss = loss_sum(model, batch).mean
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), TRAINING.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
