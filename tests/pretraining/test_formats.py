from __future__ import annotations

import pytest

from common.errors import UserError
from pretraining.formats import Count, Format, Hash, Positive, Text

GOOD = {"sha": "0" * 64, "count": 0, "size": 1, "name": "a b", "rate": 0.5}


class Made(Format):
    sha: Hash
    count: Count
    size: Positive
    name: Text
    rate: float


def test_fields_of_their_types_are_taken() -> None:
    assert Made.of(GOOD, "a.json", "write it again").model_dump() == GOOD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sha", "0" * 63),
        ("sha", "0" * 63 + "A"),
        ("sha", "0" * 64 + "\n"),
        ("count", -1),
        ("count", 1.0),
        ("count", True),
        ("count", "1"),
        ("count", 2**63),
        ("size", 0),
        ("name", "a\x1b[0m"),
        ("name", "a" * 5000),
        ("name", None),
        ("rate", float("nan")),
        ("rate", float("inf")),
        ("rate", "0.5"),
        ("other", 1),
    ],
)
def test_anything_else_is_refused_in_one_line(field: str, value: object) -> None:
    with pytest.raises(UserError) as error:
        Made.of({**GOOD, field: value}, "a.json", "write it again")
    text = str(error.value)
    assert text.startswith(f"a.json: '{field}': ") and text.endswith("; write it again") and "\n" not in text
    if field in GOOD:
        with pytest.raises(UserError, match="required"):
            Made.of({key: kept for key, kept in GOOD.items() if key != field}, "a.json", "write it again")


@pytest.mark.parametrize("content", [None, [], 1, "x"])
def test_what_is_no_record_is_refused(content: object) -> None:
    with pytest.raises(UserError, match="'the whole'"):
        Made.of(content, "a.json", "write it again")
