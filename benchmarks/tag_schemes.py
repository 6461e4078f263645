"""Tags of words in entities: IOB1, IOB2, IOE, IOBES or BMES, BILOU or BMEW, plain labels; and each of them as IOB2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

OUTSIDE = "O"
_SCHEMES = ("BI", "IE", "BIES", "BILU", "BMES", "BMEW")
_TAG = re.compile(r"([BIELMSUW])(?:-(.+))?")
_LETTER = "([BIOESLUMW]|begin|inside|end)"
_OTHER_SPELLING = re.compile(
    rf"{_LETTER}[\W_]+(.+)|(.+?)[\W_]+{_LETTER}\W?", re.IGNORECASE
)
"""A tag whose letter is written another way: B_LOC, LOC-B, b-loc, begin-LOC."""
_ALONE, _LAST = "SUW", "ELSUW"
"""Letters of an entity's only word, and of the last one."""

Parts = Mapping[str, tuple[str, str]]
"""The letter and the type of each tag."""


def tag_parts(names: Iterable[str]) -> Parts:
    """Return the parts of tags other than O. Plain labels are types, whose neighbouring words are one entity.

    Raises:
        ValueError: some tags are of a scheme and others of none, or of another one, or plain labels differ only in what
            looks like the letter of a scheme; the sentence names two of them.
    """
    tags = [name for name in dict.fromkeys(names) if name != OUTSIDE]
    parts = {}
    for tag in tags:
        match = _TAG.fullmatch(tag)
        if match is not None:
            parts[tag] = (match[1], match[2] or "")
    letters = {letter for letter, _ in parts.values()}
    if len(parts) == len(tags) and any(letters <= set(scheme) for scheme in _SCHEMES):
        return parts
    # A single letter may be a plain label; before a type, as in B-LOC, a letter belongs to a scheme.
    typed = [tag for tag, (_, kind) in parts.items() if kind]
    if typed:
        other = next((tag for tag in tags if tag not in parts), typed[-1])
        raise ValueError(
            f"{typed[0]} and {other} are of no one scheme of tags (IOB, IOE, IOBES, BILOU, plain); write all in one"
        )
    first_of_type: dict[str, tuple[str, str]] = {}
    for tag in tags:
        spelt = _OTHER_SPELLING.fullmatch(tag)
        if spelt is None:
            continue
        # The pattern's groups 1 and 2 match a letter in front (B_LOC), 3 and 4 a letter behind (LOC-B).
        letter = spelt[1] or spelt[4]
        kind = spelt[2] or spelt[3]
        meant = f"{letter[0].upper()}-{kind}"
        other, other_meant = first_of_type.setdefault(kind.casefold(), (tag, meant))
        # One such label may be a plain name. Two of one type are a scheme: read as names, each word would be an entity.
        if other != tag:
            raise ValueError(
                f"{other} and {tag} are not read as tags of one type; write {other_meant} and {meant}"
            )
    return {tag: ("I", tag) for tag in tags}


def is_iob(parts: Parts) -> bool:
    """Return whether no tags are plain labels or of another scheme than IOB1 and IOB2."""
    letters = {tag: letter for tag, (letter, _) in parts.items()}
    # A plain label counts as I here, so its text is checked too.
    return all(one in "BI" and tag.startswith(one) for tag, one in letters.items())


def to_iob2(tags: Sequence[str], parts: Parts) -> list[str]:
    """Return the tags of a sentence with `B-` on the first word of every entity and `I-` on its others.

    An entity also ends where the type changes, as conlleval and seqeval have it.
    """
    iob2 = []
    last_letter, last_kind = "", ""
    for tag in tags:
        letter, kind = parts.get(tag, ("", ""))
        is_same_type = bool(last_letter) and kind == last_kind
        begins = letter in f"B{_ALONE}" or last_letter in _LAST
        name = f"I-{kind}" if is_same_type and not begins else f"B-{kind}"
        # A scheme with one type may leave the type out: the tags are then only B and I.
        iob2.append(name.removesuffix("-") if letter else OUTSIDE)
        last_letter, last_kind = letter, kind
    return iob2
