"""`python -m pretraining tokenizer`: a Hugging Face tokenizer folder."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY
from common.errors import UserError

__all__ = ["tokenizer"]


def tokenizer(
    *,
    out: Annotated[Path, Parameter(metavar="DIR")],
    convert: Annotated[str | None, Parameter(metavar="ID_OR_PATH")] = None,
    train: Annotated[tuple[str, ...], MANY, Parameter(metavar="SOURCE")] = (),
    vocab: int = 4096,
    documents: int = 2000,
    text_field: str = "text",
) -> None:
    """Write a Hugging Face tokenizer folder: converted, or trained.

    Args:
        out: the folder
        convert: a tokenizer.json or a tiktoken file such as Llama 3's
        train: train a byte-level BPE on these documents
        vocab: ids of a trained one, 259 at least
        documents: documents it is trained on at most
        text_field: column or key of the text
    """
    if (convert is None) == (not train):
        raise UserError("tokenizer needs either --convert or --train")
    from pretraining.data.corpus import open_source
    from pretraining.data.tokenizer import load_tokenizer, train_tokenizer

    if convert is not None:
        made = load_tokenizer(convert)
    else:
        texts = (document.text for document in islice(open_source(train, text_field).documents(), documents))
        made = train_tokenizer(texts, vocab)
    made.save(out)
    sys.stdout.write(f"{out}: {made.vocab_size} ids, SHA-256 {made.sha256}\n")
