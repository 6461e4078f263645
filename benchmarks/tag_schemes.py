"""Tags of words in entities: IOB1, IOB2, IOE, IOBES or BMES, BILOU or BMEW, plain labels; and each of them as IOB2."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

OUTSIDE = "O"
_SCHEMES = ("BI", "IE", "BIES", "BILU", "BMES", "BMEW")
_TAG = re.compile(r"([BIELMSUW])(?:-(.+))?")
_ALONE, _LAST = "SUW", "ELSUW"
"""Letters of an entity's only word, and of the last one."""

Parts = Mapping[str, tuple[str, str]]
"""The letter and the type of each tag."""


def tag_parts(names: Iterable[str]) -> Parts:
    """Return the parts of tags other than O. Plain labels are types, whose neighbouring words are one entity.

    Raises:
        ValueError: some tags are of a scheme and others of none, or of another one; the sentence names one of them.
    """
    tags = [name for name in dict.fromkeys(names) if name != OUTSIDE]
    parts = {
        tag: (match[1], match[2] or "")
        for tag in tags
        if (match := _TAG.fullmatch(tag))
    }
    letters = {letter for letter, _ in parts.values()}
    if len(parts) == len(tags) and any(letters <= set(scheme) for scheme in _SCHEMES):
        return parts
    if typed := [tag for tag, (_, kind) in parts.items() if kind]:
        other = next((tag for tag in tags if tag not in parts), typed[-1])
        raise ValueError(
            f"{typed[0]} and {other} are of no one scheme of tags (IOB, IOE, IOBES, BILOU, plain)"
        )
    return {tag: ("I", tag) for tag in tags}


def is_iob(parts: Parts) -> bool:
    """Return whether no tags are plain labels or of another scheme than IOB1 and IOB2."""
    return all(
        letter in "BI" and tag[:1] == letter for tag, (letter, _) in parts.items()
    )


def to_iob2(tags: Sequence[str], parts: Parts) -> list[str]:
    """Return the tags of a sentence with `B-` on the first word of every entity and `I-` on its others.

    An entity ends where the type changes, too, as conlleval and seqeval have it.
    """
    iob2 = []
    last_letter, last_kind = "", ""
    for tag in tags:
        letter, kind = parts.get(tag, ("", ""))
        starts = (
            not last_letter
            or kind != last_kind
            or letter in f"B{_ALONE}"
            or last_letter in _LAST
        )
        name = f"{'B' if starts else 'I'}-{kind}".removesuffix("-")
        iob2.append(name if letter else OUTSIDE)
        last_letter, last_kind = letter, kind
    return iob2
