"""Tokenizers made again, so that whoever loads one reads texts as they were trained on: in lower case, to their end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from transformers import PreTrainedTokenizerFast

from benchmarks.finetuning.tokenization import Tokenizer, end_of_text


def made_again(
    tokenizer: Tokenizer, *, max_length: int | None = None, **parts: Any
) -> Tokenizer:
    """Return a tokenizer that reads texts as another does, and cuts and pads them on the right.

    Args:
        tokenizer: a fast one.
        max_length: longest input in tokens; None: its own.
        parts: parts of its tokenizer.json that are to be others.
    """
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    # A tokenizer's last call leaves its cutting and padding in the tokenizer: drop them.
    backend["truncation"] = backend["padding"] = None
    content = json.dumps({**backend, **parts})
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(content),
        model_max_length=max_length or tokenizer.model_max_length,
        padding_side="right",
        truncation_side="right",
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )


def lower_case_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer that reads texts in lower case, as sentence-transformers does where a folder says so."""
    normalizer = _part_of(tokenizer, "normalizer")
    steps = _steps_of(normalizer, "normalizers")
    if any(step["type"] == "Lowercase" for step in steps):
        return tokenizer
    # First, as in sentence-transformers: the tokenizer's own steps then see lower case.
    lower = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, *steps]}
    return made_again(tokenizer, normalizer=lower)


def ending_tokenizer(tokenizer: Tokenizer, *, alone: bool) -> Tokenizer:
    """Return a tokenizer that ends each text, or pair, by itself, also where that is cut.

    Args:
        tokenizer: a fast one.
        alone: the end of text is the only special token; else the tokenizer's own stay, and a text that they end is
            left to them.
    """
    end = end_of_text(tokenizer)
    first: list[str] = []
    if not alone:
        text = tokenizer("a", add_special_tokens=False)["input_ids"]
        ids = tokenizer("a")["input_ids"]
        if ids[-1] != text[-1]:
            return tokenizer
        first = tokenizer.convert_ids_to_tokens(ids[: len(ids) - len(text)])
    numbers = {token: tokenizer.convert_tokens_to_ids(token) for token in (*first, end)}
    before = _part_of(tokenizer, "post_processor")
    return made_again(tokenizer, post_processor=_template(before, first, end, numbers))


def _part_of(tokenizer: Tokenizer, name: str) -> dict[str, Any] | None:
    part: dict[str, Any] | None = json.loads(tokenizer.backend_tokenizer.to_str())[name]
    return part


def _steps_of(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """Return the steps of a part of tokenizer.json, one after the other; a sequence has them under a name."""
    if part is None:
        return []
    steps: list[dict[str, Any]] = part.get(name, [part])
    return steps


def _template(
    before: dict[str, Any] | None,
    first: Sequence[str],
    end: str,
    numbers: Mapping[str, int],
) -> dict[str, Any]:
    """Return a post-processor that puts tokens around texts, and handles offsets as the one before it does."""
    kept: list[dict[str, Any]] = []
    for step in _steps_of(before, "processors"):
        if step["type"] == "ByteLevel":
            kept.append(step)
        # RoBERTa's step puts tokens around a text and trims offsets: a byte-level step keeps only the trimming.
        if step["type"] == "RobertaProcessing":
            offsets = {
                name: step[name] for name in ("add_prefix_space", "trim_offsets")
            }
            kept.append({"type": "ByteLevel", "use_regex": True, **offsets})

    def part(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    def special(token: str, kind: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    # The end token belongs to the segment of its text: 0 for one text, 1 for the second of a pair.
    begin = [special(token, 0) for token in first]
    one, two = part("A", 0), part("B", 1)
    special_tokens = {
        token: {"id": token, "ids": [number], "tokens": [token]}
        for token, number in numbers.items()
    }
    template = {
        "type": "TemplateProcessing",
        "single": [*begin, one, special(end, 0)],
        "pair": [*begin, one, two, special(end, 1)],
        "special_tokens": special_tokens,
    }
    return {"type": "Sequence", "processors": [*kept, template]}
