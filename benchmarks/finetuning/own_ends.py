"""A tokenizer that ends texts by itself, so that whoever loads it reads them as they were trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from transformers import PreTrainedTokenizerFast

from benchmarks.finetuning.tokenization import Tokenizer, end_of_text


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
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend["truncation"] = backend["padding"] = None
    numbers = {token: tokenizer.convert_tokens_to_ids(token) for token in (*first, end)}
    backend["post_processor"] = _template(
        backend["post_processor"], first, end, numbers
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(json.dumps(backend)),
        model_max_length=tokenizer.model_max_length,
        padding_side="right",
        truncation_side="right",
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )


def _template(
    before: dict[str, Any] | None,
    first: Sequence[str],
    end: str,
    numbers: Mapping[str, int],
) -> dict[str, Any]:
    """Return a post-processor that puts tokens around texts, and handles offsets as the one before it does."""
    steps = [] if before is None else before.get("processors", [before])
    kept = [step for step in steps if step["type"] == "ByteLevel"]
    kept += [
        {"type": "ByteLevel", "use_regex": True}
        | {name: step[name] for name in ("add_prefix_space", "trim_offsets")}
        for step in steps
        if step["type"] == "RobertaProcessing"
    ]

    def part(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    def special(token: str, kind: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    # A text ends with the token in its own segment: 0 alone, 1 as the second of a pair.
    begin = [special(token, 0) for token in first]
    template = {
        "type": "TemplateProcessing",
        "single": [*begin, part("A", 0), special(end, 0)],
        "pair": [*begin, part("A", 0), part("B", 1), special(end, 1)],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]}
            for token, number in numbers.items()
        },
    }
    return {"type": "Sequence", "processors": [*kept, template]}
