"""The study's heads on an encoder's hidden states.

Shape suffixes: B examples, L padded length, H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.finetuning.poolings import MEAN, Pooling

__all__ = ["SequenceHead", "TokenHead", "initialise_head"]


class TokenHead(nn.Module):
    """One linear layer with bias on every token (TC, QA)."""

    def __init__(self, hidden: int, labels: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, labels)

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, L, labels)."""
        logits: Tensor = self.out(hidden)
        return logits


class SequenceHead(nn.Module):
    """Linear, GELU and linear on the pooled sequence (SC), or on every token before pooling."""

    def __init__(self, hidden: int, labels: int, pooling: Pooling = MEAN) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, labels)
        self.pooling = pooling

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, labels)."""
        vectors = hidden if self.pooling.of_logits else self.pooling.pool(hidden, lengths)
        logits: Tensor = self.out(nn.functional.gelu(self.dense(vectors)))
        return self.pooling.pool(logits, lengths) if self.pooling.of_logits else logits


@torch.no_grad()
def initialise_head(head: nn.Module, std: float, seed: int) -> None:
    """Draw a head's weights from normal(0, std) with the run's seed alone, module by module; biases are zero.

    The numbers are those that the global generator gives after `torch.manual_seed(seed)`, in float32 on the
    CPU, so they do not depend on the device.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in head.modules():
        if isinstance(module, nn.Linear):
            module.weight.copy_(torch.empty(module.weight.shape).normal_(0.0, std, generator=generator))
            module.bias.zero_()
