"""What the scripts that measure pretraining share: models, batches, the optimizer."""

import numpy as np
import torch
from torch import nn

from pretraining.model.configuration import EncoderConfig
from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM, initialise
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import TRAINING
from pretraining.training.objectives import ObjectiveBatch, clm, mlm


def ours(config: EncoderConfig) -> EuroBertForMaskedLM:
    """Return our model with weights from a seed."""
    model = EuroBertForMaskedLM(config)
    initialise(model, 0)
    return model.train()


def prepared(
    config: EncoderConfig, batch: PackedBatch, objective: str
) -> ObjectiveBatch:
    """Return the batch made ready for the objective."""
    return (
        clm(batch)
        if objective == "clm"
        else mlm(batch, MaskRule.of(config, ratio=0.4, seed=0))
    )


def drawn(
    config: EncoderConfig, objective: str, sequences: int, longest: int, seed: int
) -> ObjectiveBatch:
    """Return sequences of random tokens, of uniformly random lengths, as the paper's are."""
    lengths = np.random.default_rng(seed).integers(
        TRAINING.min_length, longest + 1, sequences
    )
    rng = np.random.default_rng(seed)
    tokens = [rng.integers(0, config.vocab_size, length) for length in lengths]
    return prepared(config, PackedBatch.of(tokens, max_length=2048), objective)


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
