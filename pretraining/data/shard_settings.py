"""What the shards' bytes depend on, with the source and the tokenizer: options of `clm-or-mlm shards`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from common.cli import shared_options
from common.errors import UserError

__all__ = ["COMPRESSION", "SHARDS", "ShardSettings"]

COMPRESSION = 1
"""Level of zstd at which shards are compressed."""

SHARDS = 1
"""Version of the code that decides which tokens are in which shard; it is raised together with the golden tokens, and
unfinished or finished shards of another version are not continued or taken for the same."""


@shared_options("what the shards' bytes depend on")
@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """What the shards' bytes depend on, with the source and the tokenizer."""

    text_field: str = "text"
    """column or key of the text"""
    document_separator: str = "blank"
    """what ends a document in a text file: a blank line (blank), each newline (line), only the end of the file (file),
    or a line that consists of the given text"""
    validation_share: float | None = None
    """share of documents to hold out for validation, between 0 and 1 (documents are chosen by hash); default: 0.005,
    or, for a small source, the share that gives 200 kB, but at most 0.1"""
    validation_tokens: int = 4_000_000
    """number of validation tokens after which no more documents are held out"""
    tokens: int = 0
    """number of training tokens after which reading stops, at the end of the current document; 0 reads everything"""
    shard_records: int = 4_096
    """number of records of 4,096 tokens in a shard; the default gives 67 MB before compression"""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.validation_share is not None and not 0 < self.validation_share < 1:
            raise UserError(f"--validation-share must be above 0 and below 1, not {self.validation_share}")
        if self.shard_records < 1 or self.validation_tokens < 1 or self.tokens < 0:
            raise UserError("--shard-records and --validation-tokens must be at least 1, --tokens at least 0")

    def settled(self, size: int) -> ShardSettings:
        """Return the settings for a source of so many bytes, with the share that is held out of it."""
        usual = min(0.1, max(0.005, 200_000 / max(size, 1)))
        return replace(self, validation_share=self.validation_share or usual)
