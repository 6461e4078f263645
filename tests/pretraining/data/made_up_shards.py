"""Documents and shards of the tests of this room."""

from __future__ import annotations

from pathlib import Path

from common.files import sha256_file
from pretraining.data.shard_files import TokenStream
from pretraining.data.shard_settings import ShardSettings
from tests.pretraining.documents import make_documents

SETTINGS = ShardSettings(shard_records=2, validation_share=0.05)


DOCUMENTS = make_documents(900)


def sources(folder: Path) -> list[str]:
    return [str(folder / "a.jsonl"), str(folder / "b.jsonl")]


def hashes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): sha256_file(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def stream(folder: Path, split: str, cache: Path) -> TokenStream:
    return TokenStream(folder / split, cache / split)
