"""The tokenizer that transformers makes of a model's files: its special tokens, and where it reads texts otherwise.

The ids of shards are those of tokenizer.json. Its names of special tokens, and what stands before and after a text,
are asked of the class that the model was made with. Classes that build their tokenizer anew, from the vocabulary and
the fields of tokenizer_config.json, may read texts in another way than the file: that is said. No code that comes with
a model is run.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import first_line

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


@dataclass(frozen=True, kw_only=True)
class Owner:
    """What transformers' tokenizer says of itself."""

    special: Mapping[str, str]
    """The texts of its special tokens, by names such as `mask_token`."""
    processor: Mapping[str, Any] | None
    """What it puts around a text, as the `post_processor` of a tokenizer.json."""


def ask_owner(
    folder: Path, content: Mapping[str, Any], words: Mapping[str, int]
) -> Owner:
    """Return what transformers' tokenizer of a model says of itself.

    Where transformers has none, that is a warning and the files stand; so is a line that it reads otherwise than
    tokenizer.json.

    Args:
        folder: the model's, local.
        content: its tokenizer.json.
        words: the id of every word in it.
    """
    from transformers import AutoTokenizer
    from transformers.utils import logging as library

    verbosity = library.get_verbosity()
    library.set_verbosity_error()
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        special = {
            name: str(token) for name, token in tokenizer.special_tokens_map.items()
        }
        numbers = tokenizer.convert_tokens_to_ids([*special.values()])
        processor = tokenizer.backend_tokenizer.post_processor
        difference = next(_differences(content, tokenizer), None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except (
        BaseException
    ) as error:  # whatever a class may raise; where Rust panics, it is no Exception
        logger.warning(
            "%s: transformers does not load its tokenizer (%s); the names of special tokens are taken from its JSON "
            "files",
            folder,
            first_line(error),
        )
        return Owner(special={}, processor=content.get("post_processor"))
    finally:
        library.set_verbosity(verbosity)
    if difference is not None:
        line, *pieces = difference
        has_config = (folder / "tokenizer_config.json").is_file()
        logger.warning(
            "%s: tokenizer.json and %s (%s) differ: %r is %s by the one, %s by the other; shards and the export follow "
            "tokenizer.json",
            folder,
            "tokenizer_config.json" if has_config else "config.json",
            type(tokenizer).__name__,
            line,
            *pieces,
        )
    # It holds ids: those of a class that numbers its tokens anew are not those of the file
    if processor is None or numbers != [words.get(token) for token in special.values()]:
        template = content.get("post_processor")
    else:
        template = json.loads(processor.__getstate__())
    return Owner(
        special={name: token for name, token in special.items() if token in words},
        processor=template,
    )


def _differences(
    content: Mapping[str, Any], tokenizer: Any
) -> Iterator[tuple[str, str, str]]:
    """Yield the lines that a tokenizer.json and transformers' tokenizer read differently, and the pieces of both."""
    from tokenizers import Tokenizer

    file = Tokenizer.from_str(json.dumps({**content, "post_processor": None}))
    file.no_truncation()
    file.no_padding()
    file.encode_special_tokens = True  # names of special tokens in a text are text
    added = [
        f"an {token.content} among words"
        for token in tokenizer.added_tokens_decoder.values()
        if not token.special
    ]
    names = " ".join(map(str, tokenizer.all_special_tokens))
    for line in (*_LINES, *added[-_MOST_WORDS:], names):
        ours = file.encode(line, add_special_tokens=False)
        theirs = tokenizer(
            line, add_special_tokens=False, split_special_tokens=True
        ).input_ids
        if ours.ids != theirs:
            pieces = tokenizer.convert_ids_to_tokens(theirs)
            yield line, _cut(ours.tokens), _cut(pieces)


def _cut(pieces: Iterable[object]) -> str:
    return " ".join(map(str, pieces))[:60]
