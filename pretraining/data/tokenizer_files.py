"""A tokenizer's files, each read once, and which token stands for a masked one. Standard library only.

The mask is the tokenizer's own, a reserved one, or a new one. A decoder's tokenizer has none. A row of the embedding
that no text uses is the best place for one: a reserved token, or one that separates files or repositories in code. It
is renamed, so that its id stays. Where there is none, a new token gets the first id after the last. The end of text,
the padding and words of the language are never taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError, first_line
from common.files import write_text
from common.model_files import read_object
from pretraining.paper_settings import SPECIAL_TOKENS

TOKENIZER = "tokenizer.json"
"""The file that says how a fast tokenizer reads texts."""
_CONFIG, _MAP = "tokenizer_config.json", "special_tokens_map.json"
_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "cls_token", "sep_token")

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
    """Its text, as `TokenizerFiles.content` has it."""
    id: int
    """Its number."""
    origin: str
    """`own`; `was TOKEN`, of a reserved one; or `new`."""


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """What the files of a fast tokenizer say."""

    content: Mapping[str, Any]
    """Its `tokenizer.json`, with a mask token in it."""
    mask: MaskToken
    """That token."""
    special: Mapping[str, str]
    """The texts of its special tokens, by names such as `eos_token`: those of `tokenizer_config.json`, else of
    `special_tokens_map.json`; the mask is not among them."""

    rows: int
    """Rows that an embedding needs: the largest id plus one."""


def read_tokenizer(path: Path) -> TokenizerFiles:
    """Read a tokenizer.

    Args:
        path: a folder with `tokenizer.json` and perhaps its companions, or such a file alone.

    Raises:
        FileNotFoundError: there is no `tokenizer.json`.
        UserError: one of the files is damaged, or no tokenizer's; the sentence names it.
    """
    is_folder = path.is_dir()
    file = path / TOKENIZER if is_folder else path
    content, special = read_object(file), dict[str, str]()
    for name in (_MAP, _CONFIG) if is_folder else ():
        given = read_object(path / name) if (path / name).is_file() else {}
        for key in _SPECIAL:
            token = given.get(key)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                special[key] = token
    try:
        mask = _name_a_mask(content)
        added = [int(item["id"]) for item in content["added_tokens"]]
        rows = 1 + max([*added, *_numbers(content["model"].get("vocab", {}))])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
        raise UserError(f"{file}: not a tokenizer.json: {what}; fetch the model again") from None
    return TokenizerFiles(content=content, mask=mask, special=special, rows=rows)


def write_tokenizer(
    folder: Path, content: str, special: Mapping[str, str], *, max_length: int, **more: object
) -> None:
    """Write a folder that `transformers.AutoTokenizer` loads as the fast tokenizer that it is, each file atomically.

    Args:
        folder: where to.
        content: its `tokenizer.json`.
        special: the texts of its special tokens by name.
        max_length: longest text in tokens.
        more: further fields of `tokenizer_config.json`.
    """
    fields = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": max_length,
        **more,
        **special,
    }
    write_text(folder / TOKENIZER, content)
    for name, fields_of_file in ((_CONFIG, fields), (_MAP, special)):
        write_text(folder / name, json.dumps(fields_of_file, indent=2, sort_keys=True) + "\n")


def _name_a_mask(content: dict[str, Any]) -> MaskToken:
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
        place = 1 + max([*ids.values(), *_numbers(vocabulary)])
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
