"""Long texts in pieces that give the same tokens, since a tokenizer needs hundreds of times the memory of its text.

A text is cut after a letter, where a space, a line break or a mark of punctuation stands before another letter, and
there only if neither the normalizer nor an added token reaches over the place and the pre-tokenizer cuts there
whatever stands around. Kinds for which that does not follow from what they are take a text whole: all that begin or
end with a text (`Prepend`, `Strip` on the left), that count (`FixedLength`) or remember (`UnicodeScripts`), and
regular expressions of which a match may hold the letter and what stands after it, or that look around further than
the next character.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import tokenizers
from tokenizers.pre_tokenizers import Split

PIECE, _PLACES = 100_000, 1_000
"""Characters of a piece, but for the way to the next cut; places that are looked at for one."""
_PLACE = re.compile(r"(?<=[^\W\d_])[ \n,\u3001\u3002\uff0c](?=[^\W\d_])")
_JAMO = range(0x1161, 0x1200)
"""Korean vowels and finals, which become one with a letter before them."""

_LOCAL = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "BertNormalizer", "Precompiled"}
"""Normalizers of single characters or of what Unicode keeps together: nothing reaches from a letter to a space."""
_OF_TWO = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Digits", "Punctuation"}
"""Pre-tokenizers that decide by the two characters next to a place whether they cut there."""
_LOOK = r"(?!\S)"
_SIGNS = {_LOOK, "(", "(?:", "(?i:", ")", "|"}
_TOKEN = re.compile(
    r"(?P<what>\(\?!\\S\)|\(\?i?:|\((?!\?)|[)|]|\[(?:\\.|(?!&&)[^\[\]\\])+\]|\\p\{\w+\}|\\[sSdDwWrnt]|\\[^\w<>'`]"
    r"|[^\\\[\](){}|?*+^$.])(?P<times>(?:[?*+]|\{[\d,]+\})*)"
)
"""What a regular expression consists of that can be judged."""


def pieces_of(inner: tokenizers.Tokenizer) -> Callable[[str], Iterator[str]]:
    """Return what cuts a text into pieces of which a tokenizer gives the same tokens, one after the other."""
    neutral = functools.cache(functools.partial(_is_neutral, inner))

    def pieces(text: str) -> Iterator[str]:
        start = 0
        while len(text) - start > PIECE:
            places = islice(_PLACE.finditer(text, start + PIECE), _PLACES)
            cut = next((m.start() for m in places if neutral(text[m.start() - 1], m[0])), len(text))
            yield text[start:cut]
            start = cut
        if start < len(text) or not text:
            yield text[start:]

    return pieces


def _is_neutral(inner: tokenizers.Tokenizer, letter: str, mark: str) -> bool:
    """Whether a text may be cut between a letter and what stands before another letter, whatever stands around."""
    before, after = letter, mark
    for part in _parts(inner.normalizer):
        fields = json.loads(part.__getstate__())
        kind = fields["type"]
        if kind == "Replace":
            atoms = set(_atoms(fields["pattern"]) or _SIGNS)
            if atoms & _SIGNS:
                return False
            replaced = {char for char in before + after if any(_takes(atom, char) for atom in atoms)}
            # A run of spaces that becomes something else does not reach the letter before it.
            if replaced and (replaced & {*before} or not atoms <= {" ", r"\ ", r"\s"}):
                return False
        elif kind not in _LOCAL and (kind != "Strip" or fields["strip_left"] or before[-1:].isspace()):
            return False
        before = part.normalize_str(before)
        after = after if kind == "Strip" else part.normalize_str(after)  # a letter stands behind it
    if not before or ord(before[0]) in _JAMO or len(after) != 1:
        return False
    before = before[-1]
    for token in inner.get_added_tokens_decoder().values():
        form = "" if inner.normalizer is None else inner.normalizer.normalize_str(token.content)
        reaches = letter + mark in token.content or before + after in form
        if reaches or token.rstrip or token.single_word:
            return False
    return _cuts(inner.pre_tokenizer, before, after)


def _cuts(pre_tokenizer: Any, before: str, after: str) -> bool:
    """Whether a pre-tokenizer cuts between two characters, whatever stands around them."""
    is_cut = False
    for part in _parts(pre_tokenizer):
        fields = json.loads(part.__getstate__())
        kind = fields["type"]
        if kind == "Metaspace" and after not in (" ", fields["replacement"]):
            return False  # it may put a space before what does not begin with one
        if is_cut:
            continue
        if before.isspace() and kind not in _OF_TWO:
            return False
        if kind == "Split" and fields["behavior"] in ("Isolated", "Removed"):
            atoms = _atoms(fields["pattern"])
            if atoms is None or not _separates(atoms, before, after):
                return False
            bare = Split(_pattern(fields["pattern"]), "removed")
            # What stands after it may have been looked at, so that only the letter says that a match ends there.
            judged = before if _LOOK in atoms else before + after
            # Of a character that is a match, nothing is left.
            is_cut = any(not bare.pre_tokenize_str(char) for char in judged)
            continue
        changes = (
            kind == "ByteLevel" and fields["use_regex"] and (after == " " or not fields["add_prefix_space"])
        )
        changes |= kind == "Metaspace" and fields["split"]
        if not changes and kind not in _OF_TWO:
            return False
        spans = (span for _, span in part.pre_tokenize_str(before + after))
        is_cut = not any(start < 1 < end for start, end in spans)
        if changes and not is_cut:
            return False
    return is_cut


def _parts(component: Any) -> Iterator[Any]:
    """Yield the parts of a normalizer or a pre-tokenizer, in the order of their work."""
    if type(component).__name__ == "Sequence":
        for part in component:
            yield from _parts(part)
    elif component is not None:
        yield component


def _atoms(pattern: dict[str, str]) -> list[str] | None:
    """Return the characters and classes of a pattern, its bars, groups and look-aheads; None if it cannot be judged.

    What may be repeated comes twice.
    """
    if "String" in pattern:
        return [re.escape(letter) for letter in pattern["String"]]
    atoms = list[str]()
    place = 0
    while place < len(pattern["Regex"]):
        token = _TOKEN.match(pattern["Regex"], place)
        if token is None:
            return None
        atoms += [token["what"]] * (1 if token["what"] in _SIGNS or token["times"] in ("", "?") else 2)
        place = token.end()
    return atoms


def _separates(atoms: list[str], before: str, after: str) -> bool:
    """Return whether no match of a pattern (`_atoms`) spans `before` and `after`, nor looks ahead at `after`."""
    depth = 0  # of groups
    taken = False  # whether a match may have taken `before` by now: in a group, always
    for atom in atoms:
        if atom.startswith("(") and atom != _LOOK:
            depth += 1
            taken = True
        elif atom == ")":
            depth -= 1
        elif atom == "|":
            taken &= depth > 0
        elif (taken or depth) and (atom == _LOOK or _takes(atom, after)):
            return False
        elif atom != _LOOK:
            taken |= _takes(atom, before)
    return True


@functools.lru_cache(10_000)
def _takes(atom: str, letter: str) -> bool:
    """Whether a character or class of a regular expression matches a letter."""
    return not Split(tokenizers.Regex(atom), "removed").pre_tokenize_str(letter)


def _pattern(pattern: dict[str, str]) -> str | tokenizers.Regex:
    return pattern["String"] if "String" in pattern else tokenizers.Regex(pattern["Regex"])
