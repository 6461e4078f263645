"""How a sequence becomes one vector.

Shape suffixes: B examples, L padded length, H hidden size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from common.registry import Registry

__all__ = ["MEAN", "POOLINGS", "Pooling", "get_pooling"]


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
    mask = (torch.arange(hidden.shape[1], device=hidden.device) < lengths[:, None]).to(hidden.dtype)
    return (hidden * mask[..., None]).sum(1) / lengths[:, None].to(hidden.dtype)


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


def get_pooling(name: str) -> Pooling:
    """Return a pooling by name; `UserError` names the nearest for an unknown one."""
    return POOLINGS[name]
