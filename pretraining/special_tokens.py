"""The special tokens of pretraining, the mask among them: names and ids, written here alone. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SPECIAL_TOKENS", "SpecialTokens"]


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Special tokens of Llama 3's tokenizer that pretraining uses; the mask was its first reserved one."""

    begin: str = "<|begin_of_text|>"
    """Begin of text."""
    begin_id: int = 128_000
    """Its id, the first one after the ranks."""
    end: str = "<|end_of_text|>"
    """End of text, which is the padding, too."""
    end_id: int = 128_001
    """Its id."""
    mask: str = "<|mask|>"
    """The mask."""
    mask_id: int = 128_002
    """Its id."""


SPECIAL_TOKENS = SpecialTokens()
"""Those of the paper's tokenizer."""
