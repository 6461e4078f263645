from __future__ import annotations

from common.errors import first_line, nearest


def test_nearest() -> None:
    assert nearest("publishd", ["published", "released"]) == "; did you mean 'published'?"
    assert nearest("zzz", ["published"]) == ""


def test_the_first_line_of_a_message_stands_for_it() -> None:
    assert first_line(ValueError("\n  first.\nsecond")) == "first"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError("x" * 10_000))) == 300
