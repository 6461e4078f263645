"""How long a model's inputs may be, by task: the paper's rules (D18), inside what the model has positions for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from benchmarks.protocol import FINE_TUNING

__all__ = ["Limits", "input_limits", "usable_positions"]

_POSITIONS = 2_048
"""Positions of the paper's models; more are never used, and a model that names none is taken to have them."""
_SHARE = 0.99


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Longest inputs, in tokens."""

    labelled: int
    """SC, TC and QA: 99 % of the model's positions."""
    retrieval: int
    """IR in fine-tuning: 99 % of the smaller of positions and the tokenizer's limit."""
    paper_retrieval: int
    """IR in the paper's evaluation: all of the smaller of both."""


def input_limits(base: nn.Module, tokenizer: Any, max_length: int = FINE_TUNING.max_length) -> Limits:
    """Return the longest inputs of a base model with this tokenizer; `max_length` limits those of fine-tuning."""
    positions = int(getattr(base.config, "max_position_embeddings", 0) or _POSITIONS)
    both = min(positions, int(min(getattr(tokenizer, "model_max_length", positions), 10**9)), _POSITIONS)
    usable = usable_positions(base, positions)
    return Limits(
        labelled=min(max_length, round(_SHARE * positions), usable),
        retrieval=min(max_length, round(_SHARE * both), usable),
        paper_retrieval=min(both, usable),
    )


def usable_positions(base: nn.Module, positions: int) -> int:
    """Return how many tokens a model can read: RoBERTa's kind count positions from behind that of the padding."""
    found = positions
    for name, module in base.named_modules():
        if name.rpartition(".")[2] == "position_embeddings" and isinstance(module, nn.Embedding):
            before = 0 if module.padding_idx is None else module.padding_idx + 1
            found = min(found, module.num_embeddings - before)
    return found
