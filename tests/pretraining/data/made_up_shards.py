"""Documents and shards of the tests of this room."""

import hashlib
import json
from pathlib import Path

import zstandard

from common.files import sha256_file
from common.provenance import PROVENANCE
from pretraining.data.shard_manifest import INDEX, ShardSettings
from pretraining.data.token_stream import Tokens, TokenStream
from tests.pretraining.documents import make_documents

SETTINGS = ShardSettings(shard_records=2, validation_share=0.05)


DOCUMENTS = make_documents(900)


def sources(folder: Path) -> list[str]:
    return [str(folder / "a.jsonl"), str(folder / "b.jsonl")]


def hashes(folder: Path) -> dict[str, str]:
    """Return the hash of every file but the one that says who made the shards."""
    files = (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != PROVENANCE
    )
    return {str(path.relative_to(folder)): sha256_file(path) for path in files}


def stream(folder: Path, split: str, cache: Path) -> TokenStream:
    return TokenStream(folder / split, cache / split)


def whole_of(folder: Path, cache: Path) -> Tokens:
    """Return all tokens of the training split."""
    reader = stream(folder, "train", cache)
    return reader.read(0, reader.tokens)


def with_content(split: Path, content: bytes, packed: bytes | None = None) -> None:
    """Make the first shard of a split hold other bytes, with sizes and hashes that fit."""
    path = split / INDEX
    index = json.loads(path.read_text())
    entry = index["shards"][0]
    packed = zstandard.compress(content, 1) if packed is None else packed
    for key, data in (("raw_data", content), ("zip_data", packed)):
        entry[key] |= {
            "bytes": len(data),
            "hashes": {"sha256": hashlib.sha256(data).hexdigest()},
        }
    (split / entry["zip_data"]["basename"]).write_bytes(packed)
    path.write_text(json.dumps(index, sort_keys=True))
