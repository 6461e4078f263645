"""`python -m pretraining shards`: documents as training shards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY
from common.errors import UserError

__all__ = ["shards"]


def shards(
    words: Annotated[tuple[str, ...], Parameter(metavar="verify DIR", show_default=False)] = (),
    /,
    *,
    source: Annotated[tuple[str, ...], MANY, Parameter(metavar="SOURCE")] = (),
    tokenizer: Annotated[str | None, Parameter(metavar="ID_OR_PATH")] = None,
    out: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    text_field: str = "text",
    validation_share: float = 0.005,
    validation_tokens: int = 4_000_000,
    tokens: int = 0,
    shard_records: int = 4_096,
    compression: str = "zstd",
    workers: int | None = None,
) -> int | None:
    """Write a source's documents as training shards, or check shards.

    `shards verify DIR` compares every file of written shards with its hash.

    Args:
        words: check the shards in DIR
        source: hf:OWNER/NAME[:CONFIG][@REVISION], or Parquet, JSON-lines and text files, folders, patterns
        tokenizer: folder, tokenizer.json, tiktoken file or hub id
        out: folder of the shards
        text_field: column or key of the text
        validation_share: documents held out
        validation_tokens: most tokens held out
        tokens: stop after so many training tokens; 0 reads all
        shard_records: records of 4,096 tokens a shard
        compression: zstd or none
        workers: processes that tokenise (one a core); changes no byte
    """
    if words:
        return _verify(words)
    given = {"--source": source, "--tokenizer": tokenizer, "--out": out}
    if missing := [name for name, value in given.items() if not value]:
        raise UserError(f"shards needs {', '.join(missing)}")
    assert tokenizer is not None and out is not None
    from pretraining.data.build_shards import ShardSettings, build

    chosen = ShardSettings(
        text_field=text_field,
        validation_share=validation_share,
        validation_tokens=validation_tokens,
        tokens=tokens,
        shard_records=shard_records,
        compression=compression,
    )
    build(source, tokenizer, out, chosen, workers=workers)
    return None


def _verify(words: tuple[str, ...]) -> int | None:
    if words[0] != "verify" or len(words) != 2:
        raise UserError("shards takes options only, or the words `verify DIR`")
    from pretraining.data.manifest import verify

    problems = verify(Path(words[1]))
    for problem in problems:
        sys.stdout.write(problem + "\n")
    if not problems:
        sys.stdout.write(f"{words[1]}: all files are what the manifest says\n")
    return 1 if problems else None
