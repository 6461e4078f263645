"""The study's heads on an encoder's hidden states, and how a sequence becomes one vector.

Shape suffixes: B examples, L padded length, H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.errors import UserError, nearest

__all__ = ["POOLINGS", "SequenceHead", "TokenHead", "initialise_head", "pool"]

POOLINGS = ("mean", "first", "last", "late")
"""How a sequence becomes one vector: mean over tokens, first or last token, or mean of the tokens' logits."""


def pool(hidden: Tensor, lengths: Tensor, pooling: str = "mean") -> Tensor:
    """Return one vector (B, H) a sequence from its hidden states (B, L, H)."""
    if pooling == "first":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]
    mask = (torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]).to(hidden.dtype)
    return (hidden * mask[..., None]).sum(1) / lengths[:, None].to(hidden.dtype)


class TokenHead(nn.Module):
    """One linear layer with bias on every token (TC, QA)."""

    def __init__(self, hidden: int, labels: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, labels)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits (..., labels)."""
        logits: Tensor = self.out(hidden)
        return logits


class SequenceHead(nn.Module):
    """Linear, GELU and linear on the pooled sequence (SC); `late` pools the logits of the tokens instead."""

    def __init__(self, hidden: int, labels: int, pooling: str = "mean") -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise UserError(
                f"unknown pooling {pooling!r}{nearest(pooling, POOLINGS)}; known are {', '.join(POOLINGS)}"
            )
        self.dense = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, labels)
        self.pooling = pooling

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, labels)."""
        late = self.pooling == "late"
        vectors = hidden if late else pool(hidden, lengths, self.pooling)
        logits: Tensor = self.out(nn.functional.gelu(self.dense(vectors)))
        return pool(logits, lengths) if late else logits


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
