"""The made-up text of the tiny study."""

from __future__ import annotations

from workflow.tiny import make_text


def test_made_up_text_is_the_same_every_time() -> None:
    first, again = list(make_text(50)), list(make_text(50))
    assert first == again
    assert list(make_text(50, seed=1)) != first
    assert len(set(first)) == 50
