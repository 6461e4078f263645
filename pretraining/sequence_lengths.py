"""What the lengths of sequences mean for their cost. Standard library only."""

from __future__ import annotations

from pretraining.paper_settings import TRAINING

__all__ = ["effective_length"]


def effective_length(shortest: int = TRAINING.min_length, longest: int = TRAINING.max_length) -> float:
    """Return the length whose FLOPs per token are the expectation over uniform lengths [shortest, longest].

    Attention costs a token as much as its sequence is long, so that tokens meet a mean length of E[L^2] / E[L]:
    1,365.7 for the paper's [12, 2048], where the mean sequence has 1,030 tokens.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(f"lengths must satisfy 1 <= shortest <= longest, not {shortest} and {longest}")
    count, mean = longest - shortest + 1, (shortest + longest) / 2
    return mean + (count**2 - 1) / 12 / mean
