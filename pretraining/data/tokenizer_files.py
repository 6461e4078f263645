"""Which token of a tokenizer stands for a masked one: its own, a reserved one, or a new one. Standard library only.

A decoder's tokenizer has no mask. A row of the embedding that no text uses is the best place for one: a reserved token,
or one that separates files or repositories in code. It is renamed, so that its id stays. Where there is none, a new
token gets the first id after the last. The end of text, the padding and words of the language are never taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pretraining.paper_settings import SPECIAL_TOKENS

__all__ = ["MASKS", "MaskToken", "name_a_mask"]

MASKS = (SPECIAL_TOKENS.mask, "[MASK]", "<mask>")
"""Names of tokens that are masks already."""
_RESERVED = re.compile(
    r"<\|?(reserved_special_token|reserved|unused|extra_id|special)_?\d+\|?>|\[unused\d+\]", re.IGNORECASE
)
_SEPARATORS = (
    "<file_sep>", "<|file_sep|>", "<repo_name>", "<|repo_name|>", "<reponame>", "<|reponame|>", "<gh_stars>",
    "<issue_start>",
)  # fmt: skip
"""Tokens that only mark the parts of source code collections."""


@dataclass(frozen=True, kw_only=True)
class MaskToken:
    """What masked tokens are replaced by."""

    token: str
    """Its text, as `tokenizer.json` has it once `name_a_mask` is done."""
    id: int
    """Its number."""
    origin: str
    """`own`; `was TOKEN`, of a reserved one; or `new`."""


def name_a_mask(content: dict[str, Any]) -> MaskToken:
    """Find the mask in the content of a `tokenizer.json`, or make a token one; the content is changed for that.

    The reserved token with the id of the paper's mask is preferred, as the paper did with Llama 3's first; else it is
    the first one.
    """
    added: list[dict[str, Any]] = content["added_tokens"]
    ids = {item["content"]: int(item["id"]) for item in added}
    vocabulary = content["model"].get("vocab", {})
    for name in MASKS:
        if name in ids or (isinstance(vocabulary, dict) and name in vocabulary):
            return MaskToken(
                token=name, id=ids.get(name, vocabulary[name] if name not in ids else 0), origin="own"
            )
    mask = SPECIAL_TOKENS.mask
    reserved = sorted((ids[name], name) for name in ids if _RESERVED.fullmatch(name))
    reserved += [(ids[name], name) for name in _SEPARATORS if name in ids]
    if not reserved:
        place = max([*ids.values(), *_numbers(vocabulary)]) + 1
        kept = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        added.append({"id": place, "content": mask, **kept})
        return MaskToken(token=mask, id=place, origin="new")
    number, old = next((item for item in reserved if item[0] == SPECIAL_TOKENS.mask_id), reserved[0])
    chosen = next(item for item in added if item["content"] == old)
    chosen["content"], chosen["special"] = mask, True
    if isinstance(vocabulary, dict) and old in vocabulary:
        vocabulary[mask] = vocabulary.pop(old)
    elif isinstance(vocabulary, list) and number < len(vocabulary) and vocabulary[number][0] == old:
        vocabulary[number][0] = mask
    return MaskToken(token=mask, id=number, origin=f"was {old}")


def _numbers(vocabulary: Mapping[str, int] | list[Any]) -> list[int]:
    return [len(vocabulary) - 1] if isinstance(vocabulary, list) else [*vocabulary.values(), -1]
