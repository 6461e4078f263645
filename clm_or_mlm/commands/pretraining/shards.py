"""`python -m pretraining shards`: documents as training shards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from common.cli import MANY
from common.errors import UserError
from pretraining.data.shard_settings import ShardSettings

__all__ = ["shards"]


def shards(
    words: Annotated[tuple[str, ...], Parameter(metavar="verify DIR", show_default=False)] = (),
    /,
    *,
    source: Annotated[tuple[str, ...], MANY, Parameter(metavar="SOURCE")] = (),
    tokenizer: Annotated[str | None, Parameter(metavar="ID_OR_PATH")] = None,
    out: Annotated[Path | None, Parameter(metavar="DIR")] = None,
    workers: int | None = None,
    settings: ShardSettings = ShardSettings(),
) -> int | None:
    """Write a source's documents as training shards, or check shards.

    `shards verify DIR` compares every file of written shards with its hash.

    Args:
        words: check the shards in DIR
        source: hf:OWNER/NAME[:CONFIG][@REVISION], or Parquet, JSON-lines and text files, folders, patterns
        tokenizer: folder, tokenizer.json, tiktoken file or hub id
        out: folder of the shards
        workers: processes that tokenise (one a core); changes no byte
    """
    if words:
        return _verify(words)
    given = {"--source": source, "--tokenizer": tokenizer, "--out": out}
    if missing := [name for name, value in given.items() if not value]:
        raise UserError(f"shards needs {', '.join(missing)}")
    assert tokenizer is not None and out is not None
    from pretraining.data.build_shards import build

    build(source, tokenizer, out, settings, workers=workers)
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
