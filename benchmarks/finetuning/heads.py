"""The study's heads on an encoder's hidden states, and how a sequence becomes one vector.

Shape suffixes: B examples, L padded length, H hidden size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from common.registry import Registry

__all__ = ["MEAN", "POOLINGS", "Head", "Pooling", "SequenceHead", "TokenHead"]


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """A way to make one vector of a sequence."""

    name: str
    """As `--pooling` and `run.json` name it."""
    pool: Callable[[Tensor, Tensor], Tensor]
    """Returns (B, H) for hidden states (B, L, H) and the numbers of real tokens (B,), which come first in a row."""
    of_logits: bool = False
    """Whether a sequence head is put on every token, and its logits are pooled instead of the hidden states."""


def _mean(hidden: Tensor, lengths: Tensor) -> Tensor:
    # Summed as sentence-transformers does: in bfloat16 the sum of a mask is rounded like the sum of the states.
    mask = (torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]).to(hidden.dtype)
    return (hidden * mask[..., None]).sum(1) / mask[..., None].sum(1)


def _first(hidden: Tensor, lengths: Tensor) -> Tensor:
    return hidden[:, 0]


def _last(hidden: Tensor, lengths: Tensor) -> Tensor:
    return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]


MEAN = Pooling(name="mean", pool=_mean)

POOLINGS: Registry[Pooling] = Registry(
    "pooling",
    [
        MEAN,
        Pooling(name="first", pool=_first),
        Pooling(name="last", pool=_last),
        Pooling(name="late", pool=_mean, of_logits=True),
    ],
)
"""Mean over the tokens (the paper's), first token, last token, or mean of the tokens' logits."""


class Head(nn.Module, ABC):
    """What turns hidden states (B, L, H) and the numbers of real tokens (B,) into logits."""

    @torch.no_grad()
    def draw(self, std: float, seed: int) -> None:
        """Draw the weights from normal(0, std) with the run's seed alone, module by module; biases are zero.

        The numbers are those that the global generator gives after `torch.manual_seed(seed)`, in float32 on the CPU, so
        they do not depend on the device.
        """
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.copy_(torch.empty(module.weight.shape).normal_(0.0, std, generator=generator))
                module.bias.zero_()

    @abstractmethod
    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits, (B, K) of sequences or (B, L, K) of tokens."""


class TokenHead(Head):
    """One linear layer with bias on every token (TC, QA)."""

    def __init__(self, hidden: int, labels: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden, labels)

    def forward(self, hidden: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, L, labels)."""
        logits: Tensor = self.out(hidden)
        return logits


class SequenceHead(Head):
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
