"""Tokenizers rebuilt so that they read texts as the model was trained, whoever loads them.

A rebuilt tokenizer may put texts in lower case, or add the end of text by itself, where this package did so in front of
the tokenizer. Both stand in the parts of its tokenizer.json: normalizer and post_processor.
"""

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
        tokenizer: a fast tokenizer.
        max_length: longest input in tokens; None: the tokenizer's own.
        parts: replacements for parts of its tokenizer.json, by name.
    """
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    # The tokenizer's last call left its settings for truncation and padding in the tokenizer: drop them.
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
    """Return a tokenizer that puts the end of text behind each text or pair by itself, also where it cuts the text.

    Args:
        tokenizer: a fast tokenizer.
        alone: whether the end of text is the only special token. Else the tokenizer's own special tokens stay, and a
            tokenizer that already puts one behind a text is returned as it is.
    """
    end = end_of_text(tokenizer)
    first: list[str] = []
    if not alone:
        # Read a letter without and with special tokens, to see which come before it and whether one comes behind.
        text = tokenizer("a", add_special_tokens=False)["input_ids"]
        ids = tokenizer("a")["input_ids"]
        if ids[-1] != text[-1]:
            return tokenizer
        # Nothing comes behind the letter, so all ids besides its own stand before it.
        first = tokenizer.convert_ids_to_tokens(ids[: len(ids) - len(text)])

    numbers = {token: tokenizer.convert_tokens_to_ids(token) for token in (*first, end)}
    replaced = _part_of(tokenizer, "post_processor")
    template = _template(replaced, first, end, numbers)
    return made_again(tokenizer, post_processor=template)


def _part_of(tokenizer: Tokenizer, name: str) -> dict[str, Any] | None:
    """Return a part of a tokenizer's tokenizer.json; None where it has none."""
    part: dict[str, Any] | None = json.loads(tokenizer.backend_tokenizer.to_str())[name]
    return part


def _steps_of(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """Return the steps of a part of tokenizer.json in their order: those that a sequence lists under `name`.

    A part that is no sequence is itself the only step.
    """
    if part is None:
        return []
    steps: list[dict[str, Any]] = part.get(name, [part])
    return steps


def _template(
    replaced: dict[str, Any] | None,
    first: Sequence[str],
    end: str,
    numbers: Mapping[str, int],
) -> dict[str, Any]:
    """Return a post-processor, as tokenizer.json writes it, that puts special tokens around texts.

    Args:
        replaced: the post-processor in whose place it comes; the new one handles character offsets in the same way.
        first: tokens before a text.
        end: the token behind a text, or behind the second text of a pair.
        numbers: ids of these tokens.
    """
    # Steps that only put special tokens around texts are left out: the template below does that in their place.
    offset_steps: list[dict[str, Any]] = []
    for step in _steps_of(replaced, "processors"):
        # A byte-level step changes only offsets.
        if step["type"] == "ByteLevel":
            offset_steps.append(step)
        # RoBERTa's step puts tokens around a text and trims offsets: a byte-level step keeps only the trimming.
        if step["type"] == "RobertaProcessing":
            options = {
                name: step[name] for name in ("add_prefix_space", "trim_offsets")
            }
            # `use_regex` has an effect only where such a step splits texts, which a post-processor does not.
            offset_steps.append({"type": "ByteLevel", "use_regex": True, **options})

    # The entries of a template, as tokenizer.json writes them. It calls the first text A and the second one B.
    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    def special(token: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": segment}}

    # The end token belongs to the segment of its text: 0 for one text, 1 for the second of a pair.
    begin = [special(token, 0) for token in first]
    one, two = text("A", 0), text("B", 1)
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
    return {"type": "Sequence", "processors": [*offset_steps, template]}
