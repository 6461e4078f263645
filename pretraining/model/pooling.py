"""How a sequence classifier makes one row of logits from a sequence's hidden states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from common.registry import Registry

__all__ = ["POOLINGS", "Pooling"]

Classify = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """One way to pool."""

    name: str
    """Value of `classifier_pooling`."""
    logits: Callable[[Tensor, Tensor | None, Classify], Tensor]
    """Logits (B, labels) of hidden states (B, L, H), an attention mask (B, L) or None, and the classifier."""


def _mean(values: Tensor, attention_mask: Tensor | None) -> Tensor:
    if attention_mask is None:
        return values.mean(dim=1)
    weights = attention_mask.to(values.dtype).unsqueeze(-1)
    return (values * weights).sum(dim=1) / weights.sum(dim=1)


POOLINGS = Registry(
    "classifier_pooling",
    [
        Pooling(name="mean", logits=lambda hidden, mask, classify: classify(_mean(hidden, mask))),
        Pooling(name="bos", logits=lambda hidden, mask, classify: classify(hidden[:, 0])),
        Pooling(name="late", logits=lambda hidden, mask, classify: _mean(classify(hidden), mask)),
    ],
)
"""`mean` of the hidden states, the first one (`bos`), or the mean of the tokens' logits (`late`)."""
