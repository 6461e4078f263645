"""The made-up text."""

from __future__ import annotations

import re

from miniature.grammar import documents


def test_made_up_text_is_the_same_again_and_agrees_in_number() -> None:
    text = list(documents(40))
    assert text == list(documents(40)) and text != list(documents(40, seed=1))
    pairs = re.findall(r"The (\w+?)(s?) near the \w+ (\w+) the", " ".join(text))
    assert len(pairs) > 100
    singular = {"watches", "carries", "repairs", "hides", "paints"}
    assert all((verb in singular) == (not plural) for _, plural, verb in pairs)
    for document in text:
        homes = dict(re.findall(r"The (\w+) lives in (\w+)\.", document))
        person, town = re.search(r"The (\w+) goes home to (\w+)\.", document).groups()  # type: ignore[union-attr]
        assert homes.get(person) == town or document.count(f"The {person} lives") > 1
