"""Byte-level BPE in its two forms: ranks, as tiktoken reads them, and merges, as Hugging Face's tokenizers do.

The two libraries give the same ids, tiktoken several times as fast. `tiktoken_twin` decides from a tokenizer's
content, not from where it came from, whether tiktoken may take its place.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tiktoken
import tokenizers
from tokenizers import models

from common.errors import UserError
from common.packed import unzstd
from common.reading import MOST_BYTES, read_bounded

__all__ = ["LLAMA3_SPLIT", "bpe_model", "overflows", "read_ranks", "tiktoken_twin"]

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The regular expression that cuts text into the pieces which BPE merges within (Llama 3's)."""

# The same alternatives: tiktoken's fancy-regex hands a group without look-ahead to a faster engine as one.
_SPLIT_IN_GROUPS = (
    r"(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)|\s+(?!\S)|\s+"
)

_CUT = [
    {"type": "Split", "pattern": {"Regex": LLAMA3_SPLIT}, "behavior": "Isolated", "invert": False},
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
]
_SPACES = 250_000


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the byte strings and ranks of a tiktoken file: one base64 string and one number a line."""
    data = read_bounded(path)
    if path.suffix == ".zst":
        try:
            data = unzstd(io.BytesIO(data)).read(MOST_BYTES)
        except OSError as error:
            raise UserError(f"{path} cannot be decompressed: {error}; fetch it again") from None
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise UserError(
                f"{path} is not a tiktoken file: line {number} is not a base64 token and its rank"
            ) from None
    if not _are_ranks(ranks):
        raise UserError(
            f"{path} is not a tiktoken file: its ranks are not 0 to {len(ranks) - 1}, or one of 256 bytes is missing"
        )
    return ranks


def bpe_model(ranks: Mapping[bytes, int]) -> models.BPE:
    """Return the BPE model of the `tokenizers` package whose ids are tiktoken's for these ranks."""
    letters = _byte_letters()
    vocabulary = {"".join(letters[byte] for byte in token): rank for token, rank in ranks.items()}
    # Like tiktoken, take a whole piece that is a token as it is, even where merges would not lead to it.
    return models.BPE(vocab=vocabulary, merges=_merges(vocabulary), ignore_merges=True)


def tiktoken_twin(content: Mapping[str, Any]) -> tiktoken.Encoding | None:
    """Return tiktoken's encoder of the same ids, or None when the tokenizer is not exactly of that kind.

    Of that kind is what `bpe_model` makes of ranks under Llama 3's split: Llama 3's own `tokenizer.json` is, a
    vocabulary with one merge a token, as the `tokenizers` package trains it, is not.

    Args:
        content: a `tokenizer.json` as the `tokenizers` package writes it.
    """
    parts = (content["pre_tokenizer"] or {}).get("pretokenizers", ())
    cut = [{key: value for key, value in part.items() if key != "trim_offsets"} for part in parts]
    if content["normalizer"] is not None or cut != _CUT:
        return None
    special = {item["content"]: item["id"] for item in content["added_tokens"] if item["special"]}
    byte_of = {letter: byte for byte, letter in enumerate(_byte_letters())}
    try:
        vocabulary = content["model"]["vocab"].items()
        ranks = {bytes(byte_of[letter] for letter in token): rank for token, rank in vocabulary}
    except (AttributeError, KeyError):
        return None
    if len(special) < len(content["added_tokens"]) or not _are_ranks(ranks):
        return None
    if json.loads(tokenizers.Tokenizer(bpe_model(ranks)).to_str())["model"] != content["model"]:
        return None
    # With no special token at all, tiktoken would look for the empty one at every character.
    return tiktoken.Encoding("twin", pat_str=_SPLIT_IN_GROUPS, mergeable_ranks=ranks, special_tokens=special)


def _are_ranks(ranks: Mapping[bytes, int]) -> bool:
    return sorted(ranks.values()) == list(range(len(ranks))) and all(bytes([b]) in ranks for b in range(256))


def overflows(text: str) -> bool:
    """Whether a text may hold half a million spaces on end, where tiktoken's regular expressions run out of stack."""
    return any(text[start : start + _SPACES].isspace() for start in range(0, len(text), _SPACES))


def _merges(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every pair of tokens that tiktoken may merge, in its order: by the rank of what comes of it.

    Of the pairs that give one token, those of the lowest ranks come first.
    """
    merges = []
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        pairs = [
            (vocabulary[token[:cut]], vocabulary[token[cut:]], cut)
            for cut in range(1, len(token))
            if token[:cut] in vocabulary and token[cut:] in vocabulary
        ]
        merges += [(token[:cut], token[cut:]) for _, _, cut in sorted(pairs)]
    return merges


def _byte_letters() -> list[str]:
    """Return the printable letter that byte-level BPE writes for each byte (GPT-2's table)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
