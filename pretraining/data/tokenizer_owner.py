"""The tokenizer that transformers makes of a model's files: its special tokens, and where it reads texts differently.

The ids of tokens in shards are those of tokenizer.json. Which tokens are special, and which tokens stand before and
after a text, is asked of the class that transformers has for the model (the owner of the file). Some classes build
their tokenizer anew, from the vocabulary and the fields of tokenizer_config.json. They may read texts in another way
than tokenizer.json does, of which users are warned. No code that comes with a model is run.
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
"""Lines that both tokenizers read, to find a difference: capitals, accents, numbers, scripts, blanks, signs."""
_MOST_WORDS = 4
"""Most words added to the vocabulary that get a line of their own in this comparison."""


def parse_tokenizer(content: Mapping[str, Any], where: str | Path) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json.

    It neither cuts nor pads texts, and reads the name of a special token in a text as plain text.

    Args:
        content: content of the tokenizer.json.
        where: path or hub id of the file, for messages.

    Raises:
        UserError: the library cannot read the file.
    """

    def sentence(error: BaseException) -> str:
        # The library's error on one line, and not all of a long one.
        return f"{where}: not a tokenizer.json: {' '.join(str(error).split())[:300]}"

    # Whatever the library raises becomes a `UserError` with that sentence.
    with refused_as(sentence):
        inner = Tokenizer.from_str(json.dumps(content))
    inner.no_padding()
    inner.no_truncation()
    inner.encode_special_tokens = True
    return inner


def ask_owner(
    folder: Path, content: dict[str, Any], special: dict[str, str]
) -> tuple[list[int], list[str]]:
    """Complete the content of a model's files by what transformers' own tokenizer of the model says.

    Where transformers cannot load the tokenizer, there is a warning, and the files stay as they are. There is also a
    warning if the two tokenizers read a text differently.

    Args:
        folder: local folder of the model.
        content: content of the tokenizer.json. Words that transformers reads from other files are added to it, and its
            template is replaced by that of transformers.
        special: the texts of special tokens by name, as other files say them; those of transformers overwrite them.

    Returns:
        The ids that the template puts before a text, and the tokens that it puts after the text.

    Raises:
        UserError: the library cannot read the tokenizer.json.
    """
    from transformers import AutoTokenizer
    from transformers.utils import logging as library

    # `file` is the tokenizer as tokenizer.json has it, `backend` the one that transformers has made.
    file = parse_tokenizer(content, folder / "tokenizer.json")
    # The library's messages below errors are not shown meanwhile.
    verbosity = library.get_verbosity()
    library.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        backend = tokenizer.backend_tokenizer

        # Words, and the mask, that transformers reads from other files, such as added_tokens.json. Words are
        # read in texts, and the mask is needed. Of all other special tokens only those that the file has are
        # used (below).
        for token in backend.get_added_tokens_decoder().values():
            is_word = not token.special or token.content == special.get("mask_token")
            if is_word and file.token_to_id(token.content) is None:
                file.add_tokens([token])
                number = file.token_to_id(token.content)
                # The state of a token is a dictionary of the fields that tokenizer.json has for it, except
                # its id.
                content["added_tokens"].append({"id": number} | token.__getstate__())

        # The post-processor is the template: it puts special tokens around a text. Its state is JSON.
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

    # What the template puts around a text does not depend on the text: one word of a one-word vocabulary will do.
    encoding = Tokenizer(WordLevel({"a": 0}, unk_token="a")).encode("a")
    if file.post_processor is not None:
        encoding = file.post_processor.process(encoding)

    # The word is the only token that is not special.
    place = encoding.special_tokens_mask.index(0)
    return encoding.ids[:place], encoding.tokens[place + 1 :]


def _compare(folder: Path, file: Tokenizer, tokenizer: Any) -> None:
    """Warn of the first line that a tokenizer.json and transformers' tokenizer read differently.

    Args:
        folder: the model's folder, for the message.
        file: the tokenizer as tokenizer.json has it.
        tokenizer: transformers' tokenizer.
    """
    # Besides the fixed lines: some words that were added, each among other words, and the names of special tokens.
    added = []
    for token in tokenizer.added_tokens_decoder.values():
        if not token.special:
            added.append(f"an {token.content} among words")

    names = " ".join(tokenizer.all_special_tokens)
    # Of the added words only the last ones that the tokenizer lists.
    for line in (*_LINES, *added[-_MOST_WORDS:], names):
        ours = file.encode(line, add_special_tokens=False)
        # As in shards, special tokens in a text are read as text.
        theirs = tokenizer(line, add_special_tokens=False, split_special_tokens=True)
        if ours.ids != theirs.input_ids:
            # The message names the file from which transformers took the class.
            config = "config.json"
            if (folder / "tokenizer_config.json").is_file():
                config = "tokenizer_config.json"
            words = tokenizer.convert_ids_to_tokens(theirs.input_ids)
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
