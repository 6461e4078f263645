"""The full image's own test."""

from __future__ import annotations

import pytest

from common.errors import UserError
from workflow import selftest
from workflow.selftest import main, train_and_tune


def test_it_goes_from_text_to_a_fine_tuning_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(selftest, "start", lambda *words: calls.append(words[:2]))
    with pytest.raises(UserError, match=r"the fine-tuning left no results\.json"):
        train_and_tune()
    assert calls == [
        ("pretraining", "tokenizer"), ("pretraining", "shards"), ("pretraining", "train"),
        ("benchmarks", "synthetic"), ("benchmarks", "run"),
    ]  # fmt: skip


def test_it_takes_no_words() -> None:
    with pytest.raises(UserError, match="takes no words"):
        main(["full"])
