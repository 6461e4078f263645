"""A tokenizer's files, each read once, and which token stands for a masked one. Standard library only.

Ids are those of tokenizer.json. What its special tokens are called is asked of the model's own class
(`tokenizer_owner`); of our own models, of a tokenizer without a model, and where transformers has no such class, the
other JSON files say it.

The mask is the tokenizer's own, a reserved one, or a new one. A decoder's tokenizer has none. A row of the embedding
that no text uses is the best place for one: a reserved token, or one that separates files or repositories in code. It
is renamed, so that its id stays. Where there is none, a new token gets the first id after the last. The end of text,
the padding and words of the language are never taken: a model does not learn the row of its padding.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError, first_line
from common.files import write_text
from common.model_files import read_object
from pretraining.paper_settings import SPECIAL_TOKENS, is_own_type

logger = logging.getLogger(__name__)

TOKENIZER = "tokenizer.json"
"""The file that says how a fast tokenizer reads texts."""
_CONFIG, _MAP = "tokenizer_config.json", "special_tokens_map.json"
_SPECIAL = (
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "cls_token",
    "sep_token",
    "mask_token",
)
GENERATION, _MODEL = "generation_config.json", "config.json"
COMPANIONS = (_CONFIG, _MAP, GENERATION, _MODEL)
"""Files next to a tokenizer.json that may name its special tokens, the surest first."""
ADDED = "added_tokens.json"
"""A file with words that a tokenizer.json may lack, which transformers reads."""
_ALONE = (
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tiktoken.model",
    "*.tiktoken",
    "vocab.txt",
    "vocab.json",
)
"""Files of tokenizers that are not read here, of classes of transformers that make a tokenizer.json of them."""

_MOST_ROWS = 2**24

_ENDS = {
    SPECIAL_TOKENS.end: SPECIAL_TOKENS.begin,
    "<|endoftext|>": "<|endoftext|>",
    "</s>": "<s>",
    "[SEP]": "[CLS]",
    "<eos>": "<bos>",
    "<|im_end|>": None,
}
"""Names that end a text, each with the one that begins it: what a `tokenizer.json` is asked for that stands alone."""

MASKS = (SPECIAL_TOKENS.mask, "[MASK]", "<mask>")
"""Names of tokens that are masks already, where no file names one."""
_RESERVED = re.compile(
    r"<\|?(reserved_special_token|reserved|unused|extra_id|special)_?\d+\|?>|\[unused\d+\]",
    re.IGNORECASE,
)
_SEPARATORS = (
    "<file_sep>",
    "<|file_sep|>",
    "<repo_name>",
    "<|repo_name|>",
    "<reponame>",
    "<|reponame|>",
    "<gh_stars>",
    "<issue_start>",
)
"""Tokens that only mark the parts of source code collections."""


@dataclass(frozen=True, kw_only=True)
class MaskToken:
    """The token that stands for a masked one."""

    token: str
    """Its text, as `TokenizerFiles.content` has it."""
    id: int
    """Its number."""
    origin: str
    """`own`; `was TOKEN`, of a reserved one; or `new`."""


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """The content of a fast tokenizer's files."""

    content: Mapping[str, Any]
    """Its `tokenizer.json`, with a mask token in it."""
    mask: MaskToken
    """That token."""
    special: Mapping[str, str]
    """The texts of its special tokens, by names such as `eos_token`; the mask is not among them."""

    rows: int
    """Rows that an embedding needs: the largest id plus one."""
    begin: str | None = None
    """What begins a text, in the model's own words; None when they name nothing."""
    end: str | None = None
    """What ends a text; None when nothing says which token does."""
    first: tuple[int, ...] = ()
    """What its template puts before a text, where it is the tokenizer of a model that is not our own."""


def without_json(folder: Path) -> UserError:
    """Return the error to raise for a folder without a tokenizer.json, which names the tokenizer that it has."""
    if (folder / TOKENIZER).is_file():
        return UserError(f"{folder} has a tokenizer.json; give it, or the folder")
    other = other_tokenizer(folder)
    only = f", only {other}" if other else ""
    return UserError(
        f"{folder} has no tokenizer.json{only}; load its tokenizer with transformers' AutoTokenizer and save it there "
        "with save_pretrained"
    )


def other_tokenizer(folder: Path) -> str:
    """Return the name of the file that is the tokenizer of a folder without tokenizer.json; empty: there is none."""
    for name in _ALONE:
        for path in folder.glob(name):
            return path.name
    return ""


def read_tokenizer(path: Path, *, is_planned: bool = False) -> TokenizerFiles:
    """Read a tokenizer.

    Args:
        path: a folder with `tokenizer.json` and perhaps its companions, or such a file alone.
        is_planned: only plan with its size, which needs no library that reads it.

    Raises:
        FileNotFoundError: there is no `tokenizer.json`.
        UserError: one of the files is damaged, or not a tokenizer's; the sentence names it.
    """
    is_folder = path.is_dir()
    file = path / TOKENIZER if is_folder else path
    content = read_object(file)
    companions = {}
    for name in COMPANIONS:
        if is_folder and (path / name).is_file():
            companions[name] = read_object(path / name)
    model_type = companions.get(_MODEL, {}).get("model_type")
    special = _special_tokens(companions)
    before: list[int] = []
    after: list[str] = []
    try:
        is_foreign = model_type is not None and not is_own_type(model_type)
        if is_foreign and not is_planned:
            # Imported here: it imports transformers, which takes seconds.
            from pretraining.data.tokenizer_owner import ask_owner

            before, after = ask_owner(path, content, special)
        words = _words(content)
        begin, named_end, own_mask = _names(content, words, special, companions)
        end = after[-1] if after else named_end
        if named_end not in (None, end):
            logger.warning(
                "%s: its template ends a text with %s, and its end of text is called %s; documents end as texts do, "
                "or as --end-of-text says",
                file,
                end,
                named_end,
            )
        special.pop("mask_token", None)
        padding = {
            words.get(special.get("pad_token") or ""),
            companions.get(_MODEL, {}).get("pad_token_id"),
        }
        mask = _name_a_mask(content, words, own_mask, padding, {end, *special.values()})
        rows = 1 + max(mask.id, *words.values())
        if not 0 < rows <= _MOST_ROWS or min((*words.values(), *before)) < 0:
            raise ValueError(
                f"an id that no embedding has, below 0 or above {_MOST_ROWS:,}"
            )
        if content["model"].get("dropout"):
            raise UserError(
                f"{file}: its model has a dropout, so that shards would differ from run to run; set it to null"
            )
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
        raise UserError(
            f"{file}: not a tokenizer.json: {what}; fetch the model again"
        ) from None
    return TokenizerFiles(
        content=content,
        mask=mask,
        special=special,
        rows=rows,
        begin=begin,
        end=end,
        first=tuple(number for number in before if number < rows),
    )


def _special_tokens(companions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts of special tokens by name: those of tokenizer_config.json, else of special_tokens_map.json."""
    special: dict[str, str] = {}
    # tokenizer_config.json is surer, so it comes last and overwrites the map.
    for file in (_MAP, _CONFIG):
        for key, token in companions.get(file, {}).items():
            if isinstance(token, dict):
                token = token.get("content")
            if key in _SPECIAL and isinstance(token, str):
                special[key] = token
    return special


def _words(content: Mapping[str, Any]) -> dict[str, int]:
    """Return the id of every word: those of the vocabulary, and those that were added."""
    vocabulary = content["model"].get("vocab", {})
    if isinstance(vocabulary, list):
        words = {word: number for number, (word, *_) in enumerate(vocabulary)}
    else:
        words = dict(vocabulary)
    for item in content["added_tokens"]:
        words[item["content"]] = int(item["id"])
    return words


def write_tokenizer(
    folder: Path,
    content: str,
    special: Mapping[str, str],
    *,
    max_length: int,
    **more: object,
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
        text = json.dumps(fields_of_file, indent=2, sort_keys=True)
        write_text(folder / name, f"{text}\n")


def _names(
    content: Mapping[str, Any],
    words: Mapping[str, int],
    special: Mapping[str, str],
    companions: Mapping[str, Mapping[str, Any]],
) -> tuple[str | None, str | None, str | None]:
    """Return begin, end and mask of texts: by name, by number, or by its usual name where no file says.

    A number counts only for a special token: a configuration that nobody filled in has its class's, of any word.
    """
    special_by_id = {}
    for item in content["added_tokens"]:
        if item.get("special"):
            special_by_id[int(item["id"])] = item["content"]

    def special_token(*names: str, id_field: str) -> str | None:
        for name in names:
            if special.get(name) in words:
                return special[name]
        for file in (GENERATION, _MODEL):
            value = companions.get(file, {}).get(id_field)
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and number in special_by_id:
                    return str(special_by_id[number])
        return None

    mask = special_token("mask_token", id_field="mask_token_id")
    if companions:
        begin = special_token("bos_token", "cls_token", id_field="bos_token_id")
        end = special_token("eos_token", "sep_token", id_field="eos_token_id")
        return begin, end, mask
    present = special_by_id.values()
    ends = [token for token in _ENDS if token in present]
    begins = {token for token in _ENDS.values() if token in present}
    if len(ends) != 1 or begins - {_ENDS[ends[0]]}:
        # Several tokens may be meant, and nobody can tell which.
        return None, None, None
    return next(iter(begins), None), ends[0], None


def _name_a_mask(
    content: dict[str, Any],
    words: Mapping[str, int],
    own: str | None,
    padding: Set[int | None],
    used: Set[str | None],
) -> MaskToken:
    """Find the mask in the content of a `tokenizer.json`, or make a token one; the content is changed for that.

    The reserved token with the id of the paper's mask is preferred, as the paper did with Llama 3's first; else it is
    the first one, of those that are not used. A model never learns the row of its padding.
    """
    # First choice: the tokenizer's own mask.
    for name in (own, *MASKS):
        if name and name in words and words[name] not in padding:
            return MaskToken(token=name, id=words[name], origin="own")

    # Second: an unused reserved token, the lowest id first, or one that separates code.
    added: list[dict[str, Any]] = content["added_tokens"]
    mask = SPECIAL_TOKENS.mask
    names = {item["content"] for item in added} - used
    names = {name for name in names if words[name] not in padding}
    reserved = [name for name in names if _RESERVED.fullmatch(name)]
    reserved.sort(key=lambda name: (words[name], name))
    reserved += [name for name in _SEPARATORS if name in names]
    if reserved:
        of_the_paper = [
            name for name in reserved if words[name] == SPECIAL_TOKENS.mask_id
        ]
        old = [*of_the_paper, *reserved][0]
        _rename(content, old, words[old], mask)
        return MaskToken(token=mask, id=words[old], origin=f"was {old}")

    # Last: a new token.
    new_id = 1 + max(words.values())
    flags = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    added.append({"id": new_id, "content": mask, **flags})
    return MaskToken(token=mask, id=new_id, origin="new")


def _rename(content: dict[str, Any], old: str, number: int, mask: str) -> None:
    """Rename an added token to the mask, in the vocabulary as well if it is there."""
    chosen = next(item for item in content["added_tokens"] if item["content"] == old)
    chosen["content"], chosen["special"] = mask, True
    vocabulary = content["model"].get("vocab", {})
    if isinstance(vocabulary, dict):
        if old in vocabulary:
            vocabulary[mask] = vocabulary.pop(old)
    # Unigram's vocabulary is a list of words with their scores.
    elif number < len(vocabulary) and vocabulary[number][0] == old:
        vocabulary[number][0] = mask
