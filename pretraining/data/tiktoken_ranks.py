"""tiktoken's form of byte-level BPE: its files of ranks, and its encoder in place of one of `tokenizers`.

Byte-level BPE comes in two forms. tiktoken reads ranks: byte strings, each with a number, which is its token's id. Two
neighbouring tokens of a text may be merged if both together are a byte string with a rank, and the pair with the lowest
rank is merged first. Hugging Face's `tokenizers` reads a list of merges, which are pairs of tokens, in their order. The
two libraries give the same ids, tiktoken several times as fast. `tiktoken_twin` decides from the content of a
tokenizer, not from where it came from, whether tiktoken may take its place.
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
from pretraining.data.tokenizer_files import without_json

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The regular expression that cuts text into the pieces which BPE merges within (Llama 3's)."""

# The same alternatives as in the split, grouped: tiktoken's regex library gives a group without look-ahead to a faster
# engine.
_SPLIT_IN_GROUPS = (
    r"(?:(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)|\s+(?!\S)|\s+"
)

# The split as a tokenizer.json has it.
_CUT = [
    {
        "type": "Split",
        "pattern": {"Regex": LLAMA3_SPLIT},
        "behavior": "Isolated",
        "invert": False,
    },
    {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
]
_SPACES = 250_000
"""Length of the stretches that are searched for long runs of spaces (`overflows`)."""


def read_ranks(path: Path) -> dict[bytes, int]:
    """Return the ranks of a tiktoken file by their byte strings.

    Each line of the file has a byte string in base64, a blank, and the rank.

    Raises:
        UserError: the file cannot be decompressed, or is not one of tiktoken.
    """
    data = read_bounded(path)
    # Vocabularies of other tokenizers that are called .json or .txt, or a model of SentencePiece, whose first byte is a
    # line feed.
    if data.startswith(b"\n") or path.suffix in (".json", ".txt"):
        raise without_json(path.parent)
    if path.suffix == ".zst":
        try:
            # No more than these bytes, since a few compressed bytes can stand for any number.
            data = unzstd(io.BytesIO(data)).read(MOST_BYTES)
        except OSError as error:
            raise UserError(
                f"{path} cannot be decompressed: {error}; fetch it again"
            ) from None

    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise UserError(
                f"{path} is not a tiktoken file: line {number} is not a base64 token and its rank"
            ) from None

    if not ranks:
        raise UserError(f"{path} is empty; give a tokenizer.json or a tiktoken file")
    if not _are_ranks(ranks):
        raise UserError(
            f"{path} is not a tiktoken file: its ranks are not 0 to {len(ranks) - 1}, or one of 256 bytes is missing"
        )

    return ranks


def bpe_model(ranks: Mapping[bytes, int]) -> models.BPE:
    """Return the BPE model of the `tokenizers` package whose ids are tiktoken's for these ranks."""
    letters = dict(enumerate(_byte_letters()))
    vocabulary = {}
    for token, rank in ranks.items():
        # Latin-1 has one character for each byte, which becomes the byte's printable letter.
        vocabulary[token.decode("latin-1").translate(letters)] = rank
    # `ignore_merges`, like tiktoken, takes a piece that is a token as it is, even if merges would not lead to it.
    return models.BPE(vocab=vocabulary, merges=_merges(vocabulary), ignore_merges=True)


LLAMA3_MODEL = "e04a4858019da455612d3e9af50e8e8a0d984609e4d1a22146f1508e11b1fefc"
"""SHA-256 of Llama 3's model as the `tokenizers` package writes it. A test finds that its merges are those of ranks."""


def tiktoken_twin(
    content: Mapping[str, Any], *, of_ranks: bool = False
) -> tiktoken.Encoding | None:
    """Return tiktoken's encoder that gives the same ids as a tokenizer; None when there is no such encoder.

    There is one if the tokenizer has Llama 3's split, and its merges are those that `bpe_model` makes of ranks. This is
    true for Llama 3's own `tokenizer.json`. It is not for a vocabulary with only one merge for each token, as the
    `tokenizers` package trains it.

    Args:
        content: a `tokenizer.json` as the `tokenizers` package writes it.
        of_ranks: whether its merges are known to be those of ranks; to compare them takes a second.
    """
    # The split must be Llama 3's; `trim_offsets` may differ, since it does not change any piece. A normalizer
    # would change texts before they are split, and tiktoken has none. A tokenizer without a pre-tokenizer
    # (null), or with a single one, has no list `pretokenizers`, and so not this split.
    split = []
    for part in (content["pre_tokenizer"] or {}).get("pretokenizers", ()):
        fields = {key: value for key, value in part.items() if key != "trim_offsets"}
        split.append(fields)

    if content["normalizer"] is not None or split != _CUT:
        return None

    # The vocabulary must be byte strings with ranks, and all added tokens must be special. In a text, both
    # libraries read the name of a special token as plain text here. `tokenizers` would still find an added
    # token that is not special, and tiktoken would not.
    byte_of = {letter: byte for byte, letter in enumerate(_byte_letters())}
    ranks = {}
    try:
        for token, rank in content["model"]["vocab"].items():
            ranks[bytes([byte_of[letter] for letter in token])] = rank
    except (AttributeError, KeyError):
        # A list of words (Unigram), or a letter that stands for no byte.
        return None

    added = content["added_tokens"]
    special = {item["content"]: item["id"] for item in added if item["special"]}
    if len(special) < len(added) or not _are_ranks(ranks):
        return None
    if of_ranks:
        return _twin(ranks, special)

    # The model must be equal to `bpe_model(ranks)`. To build that would take three times as long, so its settings are
    # taken from an empty model, and vocabulary and merges are added.
    empty = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    model_of_ranks = json.loads(empty.to_str())["model"]
    vocabulary = content["model"]["vocab"]
    model_of_ranks["vocab"] = vocabulary
    model_of_ranks["merges"] = [list(pair) for pair in _merges(vocabulary)]

    # Not only the merges may differ, but also a setting, such as a prefix of words or a dropout.
    if content["model"] != model_of_ranks:
        return None
    return _twin(ranks, special)


def _twin(ranks: Mapping[bytes, int], special: Mapping[str, int]) -> tiktoken.Encoding:
    """Return tiktoken's encoder of ranks under Llama 3's split, with special tokens by their text."""
    # There is always a special token: without one, tiktoken would search for an empty one at every character.
    return tiktoken.Encoding(
        "twin",
        pat_str=_SPLIT_IN_GROUPS,
        mergeable_ranks=dict(ranks),
        special_tokens=dict(special),
    )


def _are_ranks(ranks: Mapping[bytes, int]) -> bool:
    """Return whether the ranks are 0, 1, 2 and so on, and each single byte has one."""
    if sorted(ranks.values()) != list(range(len(ranks))):
        return False
    return all(bytes([number]) in ranks for number in range(256))


def overflows(text: str) -> bool:
    """Return whether tiktoken may overflow the stack on a text: on half a million blank characters in a row.

    Half as many in a row may be enough for True.
    """
    # The text is divided into stretches of half that length, at least one of which such a row fills.
    firsts = range(0, len(text), _SPACES)
    return any(text[first : first + _SPACES].isspace() for first in firsts)


def _merges(vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every pair of tokens that tiktoken may merge, the pair that it merges first at the beginning.

    Pairs are in the order of the merged token's rank. Pairs that make the same token are in the order of the rank of
    their first token.

    Args:
        vocabulary: ranks by token; a token has a letter for each of its bytes.
    """
    merges = []
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        # All ways to cut the token into two tokens.
        pairs = []
        for cut in range(1, len(token)):
            first, second = token[:cut], token[cut:]
            if first in vocabulary and second in vocabulary:
                pairs.append((vocabulary[first], first, second))
        merges += [(first, second) for _, first, second in sorted(pairs)]
    return merges


def _byte_letters() -> list[str]:
    """Return the printable letter that byte-level BPE writes for each byte (GPT-2's table)."""
    # These bytes are written as themselves: visible ASCII and Latin-1, except the soft hyphen.
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters = []
    # All others get the letters from U+0100 on, in order.
    next_letter = 0x100
    for byte in range(256):
        if byte in plain:
            letters.append(chr(byte))
        else:
            letters.append(chr(next_letter))
            next_letter += 1
    return letters
