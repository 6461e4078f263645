"""A tokenizer's files, each read once, and which token stands for a masked one. Standard library only.

The ids of tokens are those of tokenizer.json. Which of them are its special tokens (begin and end of text, padding and
so on) is asked of the class that transformers has for the model (`tokenizer_owner`). The other JSON files of the folder
say so for our own models, for a tokenizer without a model, and where transformers has no such class.

The mask is the tokenizer's own one. The tokenizer of a decoder has none. Then a token is renamed to be the mask, and
keeps its id. The best one is a token that no text uses, though the embedding has a row for it: a reserved token, or one
that separates files or repositories in collections of source code. Without such a token, a new one gets the first id
after the last. The end of text and words of the language never become the mask, nor does the padding, whose row a model
does not learn.
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
"""Two files in which transformers says which tokens are special."""
_SPECIAL = (
    "bos_token",
    "eos_token",
    "pad_token",
    "unk_token",
    "cls_token",
    "sep_token",
    "mask_token",
)
"""Names that these files have for special tokens."""
GENERATION, _MODEL = "generation_config.json", "config.json"
COMPANIONS = (_CONFIG, _MAP, GENERATION, _MODEL)
"""Files next to a tokenizer.json that may say which tokens are special, the surest first."""
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
"""Files of tokenizers, or patterns of their names, that this package does not read. transformers can make a
tokenizer.json of each."""

_MOST_ROWS = 2**24
"""Most rows of an embedding, far above any model's."""

_ENDS = {
    SPECIAL_TOKENS.end: SPECIAL_TOKENS.begin,
    "<|endoftext|>": "<|endoftext|>",
    "</s>": "<s>",
    "[SEP]": "[CLS]",
    "<eos>": "<bos>",
    "<|im_end|>": None,
}
"""Usual names of the token that ends a text, each with the token that then begins one (None: no token does). They are
looked for in a tokenizer.json without other files."""

MASKS = (SPECIAL_TOKENS.mask, "[MASK]", "<mask>")
"""Usual names of masks, which are looked for where no file says which token is the mask."""
_RESERVED = re.compile(
    r"<\|?(reserved_special_token|reserved|unused|extra_id|special)_?\d+\|?>|\[unused\d+\]",
    re.IGNORECASE,
)
"""Names of reserved tokens: `<|reserved_special_token_0|>`, `<extra_id_0>`, `[unused1]`."""
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
    """Text of the mask, as in `TokenizerFiles.content`."""
    id: int
    """Id of the mask."""
    origin: str
    """`own` for the tokenizer's own mask, `was TOKEN` for a renamed token, or `new`."""


@dataclass(frozen=True, kw_only=True)
class TokenizerFiles:
    """The content of a fast tokenizer's files."""

    content: Mapping[str, Any]
    """Content of `tokenizer.json`, with a mask in it."""
    mask: MaskToken
    """The mask."""
    special: Mapping[str, str]
    """The texts of all other special tokens, by names such as `eos_token`."""

    rows: int
    """Number of rows that an embedding needs: the largest id plus one."""
    begin: str | None = None
    """Text of the token that begins a text; None where the files name none."""
    end: str | None = None
    """Text of the token that ends a text; None where the files do not say which one does."""
    first: tuple[int, ...] = ()
    """Ids of the tokens that the tokenizer's template puts before a text; empty for our own models and for a tokenizer
    without a model."""


def without_json(folder: Path) -> UserError:
    """Return the error to raise where a tokenizer.json is needed, which names the tokenizer that the folder has.

    Args:
        folder: the folder of a model, or of a file that was given as a tokenizer.
    """
    # The user gave another file of a folder that has one.
    if (folder / TOKENIZER).is_file():
        return UserError(f"{folder} has a tokenizer.json; give it, or the folder")
    other = other_tokenizer(folder)
    only = f", only {other}" if other else ""
    return UserError(
        f"{folder} has no tokenizer.json{only}; load its tokenizer with transformers' AutoTokenizer and save it there "
        "with save_pretrained"
    )


def other_tokenizer(folder: Path) -> str:
    """Return the name of a tokenizer's file that this package does not read; empty where a folder has no such file."""
    for name in _ALONE:
        for path in folder.glob(name):
            return path.name
    return ""


def read_tokenizer(path: Path, *, is_planned: bool = False) -> TokenizerFiles:
    """Read a tokenizer's files, and choose its mask.

    Args:
        path: a folder with `tokenizer.json` and perhaps its companions, or a tokenizer.json alone.
        is_planned: whether only the tokenizer's size is needed, for a plan; transformers is then not imported.

    Raises:
        FileNotFoundError: there is no `tokenizer.json`.
        UserError: a file is damaged, or is not a tokenizer's; the message names the file.
    """
    # Read all files.
    is_folder = path.is_dir()
    file = path / TOKENIZER if is_folder else path
    content = read_object(file)
    companions = {}
    for name in COMPANIONS:
        if is_folder and (path / name).is_file():
            companions[name] = read_object(path / name)

    model_type = companions.get(_MODEL, {}).get("model_type")
    special = _special_tokens(companions)
    # What the tokenizer's template puts around a text: ids before it, tokens after it.
    before: list[int] = []
    after: list[str] = []

    # Everything from here on stands in one `try`: the files may have any other content than a tokenizer's.
    try:
        # Ask transformers about the model's special tokens.
        is_foreign = model_type is not None and not is_own_type(model_type)
        if is_foreign and not is_planned:
            # Imported here: it imports transformers, which takes seconds.
            from pretraining.data.tokenizer_owner import ask_owner

            # This also completes `content` and `special`.
            before, after = ask_owner(path, content, special)

        # Find the begin and end of a text.
        words = _words(content)
        begin, named_end, own_mask = _begin_end_mask(
            content, words, special, companions
        )

        # A document ends as the template ends a text, whichever token is called the end of text.
        end = after[-1] if after else named_end
        if named_end not in (None, end):
            logger.warning(
                "%s: its template ends a text with %s, and its end of text is called %s; documents end as texts do, "
                "or as --end-of-text says",
                file,
                end,
                named_end,
            )

        # Choose the mask. `special` then lists all other special tokens, since the mask has a field of its
        # own.
        special.pop("mask_token", None)

        # Ids of the padding, by its name and by its number in config.json; either may be None.
        padding = {
            words.get(special.get("pad_token") or ""),
            companions.get(_MODEL, {}).get("pad_token_id"),
        }
        used = {end, *special.values()}
        mask = _choose_mask(content, words, own_mask, padding, used)

        # Refuse what no embedding has rows for, and what is not the same in each run. `words` is older than
        # the mask, whose id may be a new one.
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
        # It is a ValueError as well, but has a sentence of its own.
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
        raise UserError(
            f"{file}: not a tokenizer.json: {what}; fetch the model again"
        ) from None

    # The template is that of transformers' class, which may know tokens that tokenizer.json lacks. Their ids
    # have no row in the embedding, so no document begins with them.
    first = tuple(number for number in before if number < rows)
    return TokenizerFiles(
        content=content,
        mask=mask,
        special=special,
        rows=rows,
        begin=begin,
        end=end,
        first=first,
    )


def _special_tokens(companions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the texts of special tokens by name: those of tokenizer_config.json, else of special_tokens_map.json.

    Args:
        companions: content of the files next to a tokenizer.json, by file name.
    """
    special: dict[str, str] = {}
    # tokenizer_config.json is surer, so it comes last and overwrites the map.
    for file in (_MAP, _CONFIG):
        for key, token in companions.get(file, {}).items():
            # A token is a text, or a table with the text and how it is read.
            if isinstance(token, dict):
                token = token.get("content")
            if key in _SPECIAL and isinstance(token, str):
                special[key] = token
    return special


def _words(content: Mapping[str, Any]) -> dict[str, int]:
    """Return the id of every word of a tokenizer.json: of the vocabulary, and of the tokens that were added to it."""
    vocabulary = content["model"].get("vocab", {})
    # Unigram's vocabulary is a list of words with their scores, in which a word's place is its id.
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
        folder: where the files are written.
        content: text of the `tokenizer.json`.
        special: the texts of special tokens by name.
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


def _begin_end_mask(
    content: Mapping[str, Any],
    words: Mapping[str, int],
    special: Mapping[str, str],
    companions: Mapping[str, Mapping[str, Any]],
) -> tuple[str | None, str | None, str | None]:
    """Return the texts of three tokens: the begin of a text, the end of a text, and the mask.

    Each is None where the files do not say which token it is.

    Args:
        content: content of the tokenizer.json.
        words: id of every word.
        special: texts of special tokens by name, as the companions have them.
        companions: content of the files next to the tokenizer.json, by file name.
    """
    special_by_id = {}
    for item in content["added_tokens"]:
        if item.get("special"):
            special_by_id[int(item["id"])] = item["content"]

    def special_token(*names: str, id_field: str) -> str | None:
        """Return the first special token that has one of the names, or else an id in a field of the configurations."""
        for name in names:
            if special.get(name) in words:
                return special[name]
        for file in (GENERATION, _MODEL):
            value = companions.get(file, {}).get(id_field)
            for number in value if isinstance(value, list) else [value]:
                # Only the id of a special token counts. In a configuration that nobody filled in, the ids are the
                # defaults of its class, which may be those of any word.
                if isinstance(number, int) and number in special_by_id:
                    return str(special_by_id[number])
        return None

    mask = special_token("mask_token", id_field="mask_token_id")
    if companions:
        begin = special_token("bos_token", "cls_token", id_field="bos_token_id")
        end = special_token("eos_token", "sep_token", id_field="eos_token_id")
        return begin, end, mask

    # A tokenizer.json without other files: the usual names decide, if only one pair of begin and end is there.
    present = special_by_id.values()
    ends = [token for token in _ENDS if token in present]
    begins = {token for token in _ENDS.values() if token in present}
    if len(ends) != 1 or begins - {_ENDS[ends[0]]}:
        # Several tokens may be meant, and nobody can tell which.
        return None, None, None

    # `begins` is empty, or has only the token that belongs to the end.
    return next(iter(begins), None), ends[0], None


def _choose_mask(
    content: dict[str, Any],
    words: Mapping[str, int],
    own: str | None,
    padding: Set[int | None],
    used: Set[str | None],
) -> MaskToken:
    """Return the mask of a tokenizer; if it has none, its content is changed, so that a token becomes the mask.

    Args:
        content: content of the tokenizer.json.
        words: id of every word.
        own: the mask that the files name; None where they name none.
        padding: ids of the padding, whose row a model never learns, so that no mask may have them.
        used: texts of the tokens that have another use.
    """
    # First choice: the tokenizer's own mask.
    for name in (own, *MASKS):
        if name and name in words and words[name] not in padding:
            return MaskToken(token=name, id=words[name], origin="own")

    # Second choice: an unused reserved token, the lowest id first, or one that separates code.
    added: list[dict[str, Any]] = content["added_tokens"]
    mask = SPECIAL_TOKENS.mask
    names = {item["content"] for item in added} - used
    names = {name for name in names if words[name] not in padding}
    reserved = [name for name in names if _RESERVED.fullmatch(name)]
    reserved.sort(key=lambda name: (words[name], name))
    reserved += [name for name in _SEPARATORS if name in names]
    if reserved:
        old_name = reserved[0]
        # The paper's mask was Llama 3's first reserved token. If one of these has its id, it is taken.
        for name in reserved:
            if words[name] == SPECIAL_TOKENS.mask_id:
                old_name = name
                break

        _rename(content, old_name, words[old_name], mask)
        return MaskToken(token=mask, id=words[old_name], origin=f"was {old_name}")

    # Last choice: a new token.
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
    """Give an added token the name of the mask: among the added tokens, and in the vocabulary if that has it, too.

    Args:
        content: content of the tokenizer.json, which is changed.
        old: the token's old name.
        number: the token's id.
        mask: the token's new name.
    """
    entry = next(item for item in content["added_tokens"] if item["content"] == old)
    entry["content"], entry["special"] = mask, True
    vocabulary = content["model"].get("vocab", {})
    if isinstance(vocabulary, dict):
        if old in vocabulary:
            vocabulary[mask] = vocabulary.pop(old)
    # Unigram's vocabulary is a list of words with their scores, in which a word's place is its id.
    elif number < len(vocabulary) and vocabulary[number][0] == old:
        vocabulary[number][0] = mask
