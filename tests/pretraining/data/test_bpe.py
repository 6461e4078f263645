"""tiktoken in the place of Hugging Face's tokenizers: the same ids on every text, or not at all."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken._educational import bpe_train

from pretraining.data.corpus import open_source
from pretraining.data.tokenizer import (
    LLAMA3_SPLIT,
    TextTokenizer,
    _assemble,
    bpe_model,
    llama3_special_tokens,
    load_tokenizer,
    overflows,
    tiktoken_twin,
    train_tokenizer,
)
from tests.pretraining.documents import make_documents

RANKS = bpe_train(" ".join(make_documents(20)) + " aaaa aaaaa \n\n \t 1234 it's IT'S", 360, LLAMA3_SPLIT)
TOKENIZER = _assemble(bpe_model(RANKS), llama3_special_tokens())
ALPHABET = "abeghin 'sStT\n\r\t12\u00e9\u65e5\u0130\u017f\u200d\U0001f389<|>"


def slowly(tokenizer: TextTokenizer, text: str) -> list[int]:
    return [int(i) for i in tokenizer.inner.encode(text, add_special_tokens=False).ids]


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.text(ALPHABET, max_size=60), st.text("a ", max_size=40)))
def test_ids_are_the_same_on_any_text(text: str) -> None:
    assert TOKENIZER.engine == "tiktoken"
    (found,) = TOKENIZER.encode_batch([text])
    assert found.dtype == "int32"
    assert found.tolist() == [*slowly(TOKENIZER, text), TOKENIZER.eos_id]


def test_special_tokens_never_come_from_text() -> None:
    texts = ["".join(llama3_special_tokens()), "<|mask|>", "a<|end_of_text|>b<|begin_of_text|>"]
    for text, ids in zip(texts, TOKENIZER.encode_batch(texts), strict=True):
        assert ids[:-1].max() < len(RANKS)
        assert ids[:-1].tolist() == slowly(TOKENIZER, text)


def test_a_run_of_spaces_that_tiktoken_cannot_take() -> None:
    """The longest run that is left to tiktoken, one that certainly is not, and one that it could not take."""
    longest = "x" + " " * 499_998 + "x"
    assert not overflows(longest)
    assert TOKENIZER.encode_batch([longest])[0][:-1].tolist() == slowly(TOKENIZER, longest)
    assert all(overflows("x" * start + " " * 500_000 + "x") for start in (0, 1, 249_999, 250_001))
    assert TOKENIZER.encode_batch([" " * 1_000_000])[0][:-1].tolist() == slowly(TOKENIZER, " " * 1_000_000)


def test_the_twin_follows_from_the_content_alone(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path)
    assert load_tokenizer(str(tmp_path)).engine == "tiktoken"
    assert train_tokenizer(make_documents(50), 400).engine == "tokenizers"


def swap_merges(content: dict[str, Any]) -> None:
    merges = content["model"]["merges"]
    merges[0], merges[1] = merges[1], merges[0]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "normalizer": lambda c: c.update(normalizer={"type": "NFC"}),
    "another split": lambda c: c["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=r"\s+|\S+"),
    "one part of the split": lambda c: c["pre_tokenizer"]["pretokenizers"].pop(),
    "no split": lambda c: c.update(pre_tokenizer=None),
    "space before the text": lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True),
    "tokens found in text": lambda c: c["added_tokens"][3].update(special=False),
    "merges only": lambda c: c["model"].update(ignore_merges=False),
    "dropout": lambda c: c["model"].update(dropout=0.1),
    "bytes as tokens": lambda c: c["model"].update(byte_fallback=True),
    "a prefix": lambda c: c["model"].update(continuing_subword_prefix="##"),
    "another order": swap_merges,
    "a merge less": lambda c: c["model"]["merges"].pop(),
    "a gap": lambda c: c["model"]["vocab"].pop(next(iter(c["model"]["vocab"]))),
    "letters": lambda c: c["model"]["vocab"].update({"\u65e5": len(RANKS)}),
    "another kind": lambda c: c["model"].update(type="Unigram"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_anything_else_has_no_twin(name: str) -> None:
    content = json.loads(TOKENIZER.inner.to_str())
    assert tiktoken_twin(content) is not None
    changed = copy.deepcopy(content)
    CHANGES[name](changed)
    assert changed != content
    assert tiktoken_twin(changed) is None


@pytest.mark.slow
def test_every_character_there_is_is_cut_alike() -> None:
    """The two packages have regular expressions of their own, each with its own tables of Unicode."""
    letters = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    texts = [f"a{c}b1{c}2 {c} {c}'{c} a'{c}\n{c}\n{c}{c}x!{c}\r{c}" for c in letters]
    for first in range(0, len(texts), 5_000):
        part = texts[first : first + 5_000]
        slow = TOKENIZER.inner.encode_batch_fast(part, add_special_tokens=False)
        for text, found, expected in zip(part, TOKENIZER.encode_batch(part), slow, strict=True):
            assert found[:-1].tolist() == expected.ids, text


@pytest.mark.real_data
def test_llama3_has_a_twin_and_its_ids_are_the_same_on_real_text() -> None:
    if not os.environ.get("REAL_DATA"):
        pytest.skip("REAL_DATA is not set")
    data = Path(os.environ["REAL_DATA"])
    llama3 = load_tokenizer(str(data / "tokenizer/llama3-tiktoken"))
    assert llama3.engine == "tiktoken"
    files = ["openstax-anatomy-physiology-2e.jsonl.zst", "eltec-eng.chapters.jsonl.zst"]
    for file in files:
        documents = open_source([str(data / "pretrain" / file)]).documents()
        texts = [document.text for document, _ in zip(documents, range(150), strict=False)]
        for text, ids in zip(texts, llama3.encode_batch(texts), strict=True):
            assert ids[:-1].tolist() == slowly(llama3, text)
