"""Tags that say which words are an entity: read in any usual scheme, and written as IOB2.

A scheme's tag has a letter for the word's place in its entity and the entity's type: B-LOC is the first word of a
location, I-LOC a later one, O a word outside of entities. Schemes are IOB1, IOB2, IOE, IOBES or BMES, and BILOU or
BMEW. Plain labels (LOC on every word of a location) have no letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

OUTSIDE = "O"
_SCHEMES = ("BI", "IE", "BIES", "BILU", "BMES", "BMEW")
"""The letters of each scheme besides O."""
_TAG = re.compile(r"([BIELMSUW])(?:-(.+))?")
"""A letter and a type, B-LOC, or only a letter, B, where all entities are of one type."""
_LETTER = "([BIOESLUMW]|begin|inside|end)"
_OTHER_SPELLING = re.compile(
    rf"{_LETTER}[\W_]+(.+)|(.+?)[\W_]+{_LETTER}\W?", re.IGNORECASE
)
"""A tag whose letter is written another way: B_LOC, LOC-B, b-loc, begin-LOC."""
_ALONE = "SUW"
"""Letters of a word that is an entity by itself: single, unit, whole."""
_LAST = "ELSUW"
"""Letters of an entity's last word: end, last, and those of its only word."""

Parts = Mapping[str, tuple[str, str]]
"""The letter and the type by tag: `{"B-LOC": ("B", "LOC")}`; of a plain label `{"LOC": ("I", "LOC")}`."""


def tag_parts(names: Iterable[str]) -> Parts:
    """Return letter and type of each tag but O. A plain label is a type; its letter is I.

    With I on every word, neighbouring words with one plain label are one entity.

    Raises:
        ValueError: some tags are of a scheme and others of none, or of another one, or plain labels differ only in what
            looks like the letter of a scheme. The message names two such tags.
    """
    tags = [name for name in dict.fromkeys(names) if name != OUTSIDE]
    parts = {}
    for tag in tags:
        match = _TAG.fullmatch(tag)
        if match is not None:
            parts[tag] = (match[1], match[2] or "")

    # The tags are of a scheme if all of them have a letter, and one scheme has all these letters.
    letters = {letter for letter, _ in parts.values()}
    if len(parts) == len(tags) and any(letters <= set(scheme) for scheme in _SCHEMES):
        return parts

    # Else all of them have to be plain labels. A single letter, as B, may be one; B-LOC is certainly of a scheme.
    typed = [tag for tag, (_, kind) in parts.items() if kind]
    if typed:
        # Plain labels are mixed with tags, or tags of two schemes. The first tag with a type is named, and
        # with it the first plain label; without a plain label, the last of the other tags, as an example: some
        # scheme may have these two, but none has all tags. There is another tag: each letter is of some scheme,
        # so a single tag was returned above.
        without_letter = [tag for tag in tags if tag not in parts]
        others = [tag for tag in tags if tag != typed[0]]
        other = without_letter[0] if without_letter else others[-1]
        raise ValueError(
            f"{typed[0]} and {other} are of no one scheme of tags (IOB, IOE, IOBES, BILOU, plain); write all in one"
        )

    # By type, the first label that looks like a tag of that type, and how it would be written as a tag.
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

        # One such label may be a plain name. Two of one type, as B_LOC and I_LOC, are a scheme: read as names, they
        # would cut one entity into several.
        if other != tag:
            raise ValueError(
                f"{other} and {tag} are not read as tags of one type; write {other_meant} and {meant}"
            )

    return {tag: ("I", tag) for tag in tags}


def is_iob(parts: Parts) -> bool:
    """Return whether all tags are of IOB1 or IOB2: neither plain labels nor tags of another scheme."""
    letters = {tag: letter for tag, (letter, _) in parts.items()}
    # A plain label has the letter I as well, so the text is compared with the letter: LOC does not begin with I.
    return all(
        letter in "BI" and tag.startswith(letter) for tag, letter in letters.items()
    )


def to_iob2(tags: Sequence[str], parts: Parts) -> list[str]:
    """Return the tags of a sentence with `B-` on the first word of every entity and `I-` on its others.

    An entity also ends where the type changes, as conlleval and seqeval have it.
    """
    iob2 = []
    # Letter and type of the word before; both are empty at the beginning and behind an O, which is not in `parts`.
    last_letter, last_kind = "", ""
    for tag in tags:
        letter, kind = parts.get(tag, ("", ""))
        continues_type = bool(last_letter) and kind == last_kind
        # An empty letter is in every text. So this is also true for an O, whose name is not used, and for a
        # word behind an O, where an entity begins in any case.
        begins = letter in f"B{_ALONE}" or last_letter in _LAST
        name = f"I-{kind}" if continues_type and not begins else f"B-{kind}"
        # A scheme with one type may leave the type out: the tags are then only B and I.
        iob2.append(name.removesuffix("-") if letter else OUTSIDE)
        last_letter, last_kind = letter, kind

    return iob2
