"""The tokenizer that transformers makes of a model's files: its special tokens, and where it reads texts otherwise.

The ids of shards are those of tokenizer.json. Its names of special tokens, and what stands before and after a text,
are asked of the class that the model was made with. Classes that build their tokenizer anew, from the vocabulary and
the fields of tokenizer_config.json, may read texts in another way than the file: that is said. No code that comes with
a model is run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from common.errors import first_line, refused_as

logger = logging.getLogger(__name__)

_LINES = (
    "The baker sold a map of the old town.",
    "HOLD Capitals, iPhones and NASA",
    "d\u00e9j\u00e0 vu, na\u00efve, \u00c5ngstr\u00f6m, co\u0302te\u0301",
    "7 12 345 6789 3.14 1,000,000",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u041c\u0418\u0420",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    " a blank before",
    "a blank after ",
    "two  blanks and\ta tab",
    "one line\nanother\n\nand a third\r\n",
    "it's, don't, I'LL, we've",
    "x_1 = f(y) + {z: [0]}; // <b>",
    "user@host.org: 50 % off?!...",
    "\ufb01ne \u00bd \u2167 \uff21\uff22",
    "\u201cquoted\u201d \u2013 a dash \u2026",
    "\U0001f389 \U0001f44d\U0001f3fd",
    "antidisestablishmentarianism",
)
_MOST_WORDS = 4
"""Words that were added, of which each is a line as well."""


def parse_tokenizer(content: Mapping[str, Any], where: str | Path) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json, which neither cuts nor pads, and to which special tokens are text.

    Raises:
        UserError: the library cannot read it.
    """

    def sentence(error: BaseException) -> str:
        return f"{where}: not a tokenizer.json: {' '.join(str(error).split())[:300]}"

    with refused_as(sentence):
        inner = Tokenizer.from_str(json.dumps(content))
    inner.no_padding()
    inner.no_truncation()
    inner.encode_special_tokens = True
    return inner


def ask_owner(
    folder: Path, content: dict[str, Any], special: dict[str, str]
) -> tuple[list[int], list[str]]:
    """Complete what a model's files say by what transformers' tokenizer says of itself.

    Where transformers has none, that is a warning and the files stand; so is a line that it reads otherwise than
    tokenizer.json.

    Args:
        folder: the model's, local.
        content: its tokenizer.json; words that transformers reads from other files are added, and its template counts.
        special: the texts of special tokens by name, as other files say them; those of transformers overwrite them.

    Returns:
        The ids before a text, and the tokens after it.

    Raises:
        UserError: the library cannot read its tokenizer.json.
    """
    from transformers import AutoTokenizer
    from transformers.utils import logging as library

    file = parse_tokenizer(content, folder / "tokenizer.json")
    verbosity = library.get_verbosity()
    library.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        backend = tokenizer.backend_tokenizer
        for token in backend.get_added_tokens_decoder().values():
            is_word = not token.special or token.content == special.get("mask_token")
            if is_word and file.token_to_id(token.content) is None:
                file.add_tokens([token])
                number = file.token_to_id(token.content)
                content["added_tokens"].append({"id": number} | token.__getstate__())
        if backend.post_processor is not None:
            file.post_processor = backend.post_processor
            content["post_processor"] = json.loads(file.post_processor.__getstate__())
        for name, token in tokenizer.special_tokens_map.items():
            if file.token_to_id(token) is not None:
                special[name] = token
        _compare(folder, file, tokenizer)
    except Exception as error:  # whatever a class may raise
        logger.warning(
            "%s: transformers does not load its tokenizer (%s); the names of special tokens are taken from its JSON "
            "files",
            folder,
            first_line(error),
        )
    finally:
        library.set_verbosity(verbosity)
    # What stands around a text does not depend on the text: a one-word vocabulary will do.
    text = Tokenizer(WordLevel({"a": 0}, unk_token="a")).encode("a")
    if file.post_processor is not None:
        text = file.post_processor.process(text)
    place = text.special_tokens_mask.index(0)
    return text.ids[:place], text.tokens[place + 1 :]


def _compare(folder: Path, file: Tokenizer, tokenizer: Any) -> None:
    """Warn of the first line that a tokenizer.json and transformers' tokenizer read differently."""
    added = []
    for token in tokenizer.added_tokens_decoder.values():
        if not token.special:
            added.append(f"an {token.content} among words")
    names = " ".join(tokenizer.all_special_tokens)
    for line in (*_LINES, *added[-_MOST_WORDS:], names):
        ours = file.encode(line, add_special_tokens=False)
        # As in shards, special tokens in a text are read as text.
        read = tokenizer(line, add_special_tokens=False, split_special_tokens=True)
        theirs = read.input_ids
        if ours.ids != theirs:
            config = "config.json"
            if (folder / "tokenizer_config.json").is_file():
                config = "tokenizer_config.json"
            words = tokenizer.convert_ids_to_tokens(theirs)
            logger.warning(
                "%s: tokenizer.json and %s (%s) differ: %r is %.60s by the one, %.60s by the other; shards and the "
                "export follow tokenizer.json",
                folder,
                config,
                type(tokenizer).__name__,
                line,
                " ".join(ours.tokens),
                " ".join(str(word) for word in words),
            )
            return
