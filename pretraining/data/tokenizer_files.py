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

import itertools
import json
import logging
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError, first_line
from common.files import write_text
from common.model_files import read_object
from pretraining.paper_settings import OWN_TYPES, SPECIAL_TOKENS

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
GENERATION, _MODEL, _ADDED = (
    "generation_config.json",
    "config.json",
    "added_tokens.json",
)
COMPANIONS = (_CONFIG, _MAP, GENERATION, _MODEL, _ADDED)
"""Files next to a tokenizer.json that may name its special tokens, the surest first, or have words that it lacks."""
_ALONE = (
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tiktoken.model",
    "vocab.txt",
    "vocab.json",
)
"""Files of tokenizers that are not read here, of classes of transformers that make a tokenizer.json of them."""

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
"""Of an added token, as a tokenizer.json has them."""
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
    names = [*_ALONE, *(path.name for path in sorted(folder.glob("*.tiktoken")))]
    return next((name for name in names if (folder / name).is_file()), "")


def read_tokenizer(path: Path, *, is_planned: bool = False) -> TokenizerFiles:
    """Read a tokenizer.

    Args:
        path: a folder with `tokenizer.json` and perhaps its companions, or such a file alone.
        is_planned: only plan with its size, which needs no library that reads it.

    Raises:
        FileNotFoundError: there is no `tokenizer.json`.
        UserError: one of the files is damaged, or no tokenizer's; the sentence names it.
    """
    is_folder = path.is_dir()
    file = path / TOKENIZER if is_folder else path
    content = read_object(file)
    companions = {
        name: read_object(path / name)
        for name in COMPANIONS
        if is_folder and (path / name).is_file()
    }
    model_type = companions.get(_MODEL, {}).get("model_type")
    is_start = model_type not in (None, *OWN_TYPES)
    try:
        special = _special_tokens(companions)
        _add_words(content, companions, special.values())
        _keep_numbers(content)
        words = _words(content)
        if is_start and not is_planned:
            # It needs transformers, which takes seconds to import
            from pretraining.data.tokenizer_owner import ask_owner

            owner = ask_owner(path, content, words)
            special |= owner.special
            content["post_processor"] = owner.processor
        before, after = (
            _template(content.get("post_processor")) if is_start else ([], [])
        )
        begin, end = _ends(content, words, special, companions)
        if after:
            end = _end_of_template(file, words, after[-1], end)
        mask = _name_a_mask(content, words, {**special, "end": end}, companions)
        _keep_numbers(content)
        added = [int(item["id"]) for item in content["added_tokens"]]
        rows = 1 + max([*added, *_numbers(content["model"].get("vocab", {}))])
        if (
            not 0 < rows <= _MOST_ROWS
            or min((*added, *before, 0)) < 0
            or max(before, default=0) >= rows
        ):
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
    special.pop("mask_token", None)
    return TokenizerFiles(
        content=content,
        mask=mask,
        special=special,
        rows=rows,
        begin=begin,
        end=end,
        first=tuple(before),
    )


def _special_tokens(companions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts of special tokens by name: those of tokenizer_config.json, else of special_tokens_map.json."""
    special: dict[str, str] = {}
    # The surer one last: it overwrites the other.
    for fields in (companions.get(_MAP, {}), companions.get(_CONFIG, {})):
        for key in _SPECIAL:
            token = fields.get(key)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                special[key] = token
    return special


def _words(content: Mapping[str, Any]) -> dict[str, int]:
    """Return the id of every word: those of the vocabulary, and those that were added."""
    vocabulary = content["model"].get("vocab", {})
    if isinstance(vocabulary, list):
        words = {word: number for number, (word, *_) in enumerate(vocabulary)}
    else:
        words = dict(vocabulary)
    return words | {
        item["content"]: int(item["id"]) for item in content["added_tokens"]
    }


def _add_words(
    content: dict[str, Any],
    companions: Mapping[str, Mapping[str, Any]],
    special: Iterable[str],
) -> None:
    """Add the words that stand beside a tokenizer.json alone, with ids that no word has, as transformers does."""
    listed = companions.get(_CONFIG, {}).get("added_tokens_decoder") or {}
    beside = {int(number): item for number, item in listed.items()}
    for word, number in companions.get(_ADDED, {}).items():
        beside.setdefault(int(number), {"content": word, "special": word in special})
    words = _words(content)
    numbers = {*words.values()}
    for number, item in sorted(beside.items()):
        word = item["content"]
        if word not in words and number not in numbers:
            is_special = bool(item.get("special", False))
            flags = {name: bool(item.get(name, False)) for name in _FLAGS}
            flags["normalized"] = bool(item.get("normalized", not is_special))
            content["added_tokens"].append({"id": number, "content": word} | flags)


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
        write_text(
            folder / name, json.dumps(fields_of_file, indent=2, sort_keys=True) + "\n"
        )


def _keep_numbers(content: dict[str, Any]) -> None:
    """Let added tokens keep their numbers where the library would count otherwise: from the size of the vocabulary on.

    It differs where words of a vocabulary, or added tokens before others, are missing: their places are filled.
    """
    vocabulary = content["model"].get("vocab", {})
    added = sorted(content["added_tokens"], key=lambda item: int(item["id"]))
    is_list = isinstance(vocabulary, list)
    words = {word for word, *_ in vocabulary} if is_list else vocabulary
    numbers = [int(item["id"]) for item in added if item["content"] not in words]
    size = len(vocabulary)
    if numbers == [*range(size, size + len(numbers))]:
        return
    missing = {*range(min(max(numbers), _MOST_ROWS))} - {*_words(content).values()}
    last = max(_numbers(vocabulary))
    for number in missing:
        if number < last:
            vocabulary[_filler(number)] = number
        else:
            flags = dict.fromkeys(_FLAGS, False) | {"special": True}
            added.append({"id": number, "content": _filler(number)} | flags)
    content["added_tokens"] = sorted(added, key=lambda item: int(item["id"]))


def _filler(number: int) -> str:
    """Return the name of a word that is none: of a character that Unicode keeps for programs, and no text has."""
    return f"\ufdd0{number}\ufdd0"


def _ends(
    content: Mapping[str, Any],
    words: Mapping[str, int],
    special: Mapping[str, str],
    companions: Mapping[str, Mapping[str, Any]],
) -> tuple[str | None, str | None]:
    """Return what begins and what ends a text: by name, by number, or by its usual name where no file says."""
    special_by_id = _special_by_id(content)

    def special_token(*names: str, id_field: str) -> str | None:
        for name in names:
            if special.get(name) in words:
                return special[name]
        return _by_number(special_by_id, companions, id_field)

    if companions.keys() - {_ADDED}:
        begin = special_token("bos_token", "cls_token", id_field="bos_token_id")
        return begin, special_token("eos_token", "sep_token", id_field="eos_token_id")
    ends = [token for token in _ENDS if token in special_by_id.values()]
    begins = {token for token in _ENDS.values() if token in special_by_id.values()}
    if len(ends) != 1 or begins - {_ENDS[ends[0]]}:
        return None, None  # several may: which, nobody can tell
    return next(iter(begins), None), ends[0]


def _special_by_id(content: Mapping[str, Any]) -> dict[int, str]:
    added = content["added_tokens"]
    return {int(item["id"]): item["content"] for item in added if item.get("special")}


def _by_number(
    special_by_id: Mapping[int, str],
    companions: Mapping[str, Mapping[str, Any]],
    id_field: str,
) -> str | None:
    """Return the token that a configuration names by number.

    A number counts only for a special token: a configuration that nobody filled in has its class's, of any word.
    """
    for file in (GENERATION, _MODEL):
        value = companions.get(file, {}).get(id_field)
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int) and number in special_by_id:
                return special_by_id[number]
    return None


def _template(processor: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """Return the ids that a tokenizer puts before and after a single text."""
    fields = processor or {"type": None}
    before: list[int] = []
    after: list[int] = []
    if fields["type"] == "Sequence":
        for part in fields["processors"]:
            inner_before, inner_after = _template(part)
            before += inner_before
            after += inner_after
    elif fields["type"] in ("BertProcessing", "RobertaProcessing"):
        before, after = [int(fields["cls"][1])], [int(fields["sep"][1])]
    elif fields["type"] == "TemplateProcessing":
        items, ids = fields["single"], fields["special_tokens"]

        def is_mark(item: Mapping[str, Any]) -> bool:
            return "SpecialToken" in item

        marks = [*itertools.takewhile(is_mark, items)]
        last_marks = [*itertools.takewhile(is_mark, reversed(items))][::-1]
        for place, found in ((before, marks), (after, last_marks)):
            for item in found:
                place += map(int, ids[item["SpecialToken"]["id"]]["ids"])
    return before, after


def _end_of_template(
    file: Path, words: Mapping[str, int], number: int, named: str | None
) -> str | None:
    """Return what ends a text of the model, whatever is called its end; where the two differ, both are said."""
    by_id = {its_number: word for word, its_number in words.items()}
    end = by_id.get(number, named)
    if named not in (None, end):
        logger.warning(
            "%s: its template ends a text with %s, and the token called its end is %s; documents end with %s, as "
            "texts do (--end-of-text names another)",
            file,
            end,
            named,
            end,
        )
    return end


def _name_a_mask(
    content: dict[str, Any],
    words: Mapping[str, int],
    special: Mapping[str, str | None],
    companions: Mapping[str, Mapping[str, Any]],
) -> MaskToken:
    """Find the mask in the content of a `tokenizer.json`, or make a token one; the content is changed for that.

    The reserved token with the id of the paper's mask is preferred, as the paper did with Llama 3's first; else it is
    the first one.
    """
    special_by_id = _special_by_id(content)
    padding = {
        words.get(special.get("pad_token") or ""),
        companions.get(_MODEL, {}).get("pad_token_id"),
    }
    by_number = _by_number(special_by_id, companions, "mask_token_id")
    named = (special.get("mask_token"), by_number, *MASKS)
    for name in filter(None, named):
        if name in words and words[name] not in padding:
            return MaskToken(token=name, id=words[name], origin="own")
    others = {token for key, token in special.items() if key != "mask_token"}
    others_ids = {words.get(token or "") for token in others}
    return _new_mask(content, words, padding | others_ids)


def _new_mask(
    content: dict[str, Any], words: Mapping[str, int], taken: Set[int | None]
) -> MaskToken:
    """Make a reserved token the mask, whose id is not taken, or add one."""
    added: list[dict[str, Any]] = content["added_tokens"]
    vocabulary = content["model"].get("vocab", {})
    ids = {item["content"]: int(item["id"]) for item in added}
    # A padding may have the name
    names = (SPECIAL_TOKENS.mask, "<|mask_token|>")
    mask = next(name for name in names if name not in words)
    reserved = sorted((ids[name], name) for name in ids if _RESERVED.fullmatch(name))
    reserved += [(ids[name], name) for name in _SEPARATORS if name in ids]
    reserved = [item for item in reserved if item[0] not in taken]
    if not reserved:
        new_id = 1 + max([*ids.values(), *_numbers(vocabulary)])
        flags = dict.fromkeys(_FLAGS, False) | {"special": True}
        added.append({"id": new_id, "content": mask} | flags)
        return MaskToken(token=mask, id=new_id, origin="new")
    number, old = next(
        (item for item in reserved if item[0] == SPECIAL_TOKENS.mask_id), reserved[0]
    )
    chosen = next(item for item in added if item["content"] == old)
    chosen["content"], chosen["special"] = mask, True
    if isinstance(vocabulary, dict) and old in vocabulary:
        vocabulary[mask] = vocabulary.pop(old)
    elif (
        isinstance(vocabulary, list)
        and number < len(vocabulary)
        and vocabulary[number][0] == old
    ):
        vocabulary[number][0] = mask
    return MaskToken(token=mask, id=number, origin=f"was {old}")


def _numbers(vocabulary: Mapping[str, int] | list[Any]) -> list[int]:
    """Return ids of a vocabulary, the largest among them; -1 for an empty one."""
    return (
        [len(vocabulary) - 1]
        if isinstance(vocabulary, list)
        else [*vocabulary.values(), -1]
    )
