"""The manifest of finished shards: what they were made from, and the hash of every file; reading and verifying."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_text
from pretraining.data.shard_files import damages
from pretraining.data.tokenizer import load_tokenizer

__all__ = ["MANIFEST", "SPLITS", "UNFINISHED", "file_hash", "load_manifest", "verify", "write_manifest"]

MANIFEST = "manifest.json"
"""Name of the manifest in a folder of shards; there once they are complete."""
UNFINISHED = ".state"
"""Folder next to it while they are not."""
SPLITS = ("train", "validation")


def load_manifest(data: Path) -> dict[str, Any]:
    """Return the manifest of a finished shards folder.

    Raises:
        UserError: there is none, or it is damaged.
    """
    path = data / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        unfinished = (
            " (they are unfinished: run the same `shards` command again)"
            if (data / UNFINISHED).is_dir()
            else ""
        )
        raise UserError(
            f"{path}: no shards here{unfinished}; write them with `python -m pretraining shards`"
        ) from None
    except ValueError:
        raise UserError(f"{path}: is damaged; write the shards again") from None
    return manifest


def write_manifest(data: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write the manifest with the hash of what a model sees, and return it."""
    manifest = {**content, "sha256": _data_hash(content)}
    write_text(data / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    return manifest


def verify(data: Path) -> list[str]:
    """Return one sentence for each file that is not what the manifest says; an empty list when all is well."""
    manifest = load_manifest(data)
    problems = []
    for name, split in manifest["splits"].items():
        if _index_hashes(data / name) != split["shards"]:
            problems.append(
                f"{data / name / 'index.json'}: is missing or not the index the manifest was made with"
            )
        else:
            problems += damages(data / name)
    try:
        same = load_tokenizer(str(data / "tokenizer")).sha256 == manifest["tokenizer"]["sha256"]
    except UserError:
        same = False
    if not same:
        problems.append(f"{data / 'tokenizer'}: is missing or not the tokenizer the shards were made with")
    if _data_hash(manifest) != manifest["sha256"]:
        problems.append(f"{data / MANIFEST}: its own hash is wrong")
    return problems


def file_hash(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return name, size and SHA-256 of the file of one entry of an index."""
    info = entry["zip_data"] or entry["raw_data"]
    return {"name": info["basename"], "bytes": info["bytes"], "sha256": info["hashes"]["sha256"]}


def _index_hashes(folder: Path) -> list[dict[str, Any]] | None:
    try:
        return [file_hash(entry) for entry in json.loads((folder / "index.json").read_text())["shards"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _data_hash(manifest: Mapping[str, Any]) -> str:
    """Hash what a model sees: the tokenizer and the shards' content, in order."""
    content = {"tokenizer": manifest["tokenizer"], "splits": manifest["splits"]}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
