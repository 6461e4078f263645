"""The manifest of finished shards: what they were made from, and the hash of every file; reading and verifying."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import manifest as manifests
from common.errors import UserError
from common.files import sha256_file
from common.manifest import MANIFEST, VerifiedFile
from common.plain_text import first_of
from common.provenance import PROVENANCE
from common.settings import FileSettings, read_settings
from pretraining.data.shard_index import INDEX, RECORD, Shard, read_index

UNFINISHED = ".state"
"""Folder next to the manifest while the shards are not complete."""
SHARD_SPLITS = ("train", "validation")
_REMEDY = "remove the folder and write the shards again"
_AGAIN = "run the same `shards` command again"
"""Remedy for all but the manifest: what `lost` names, the command writes again."""

_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class _Tokenizer(FileSettings):
    """What a manifest says of the tokenizer."""

    sha256: str
    vocab_size: int
    bos_id: int | None
    eos_id: int
    mask_id: int
    first: tuple[int, ...] = ()
    unknown_id: int | None = None


def load_manifest(data: Path, remedy: str = _REMEDY) -> dict[str, Any]:
    """Return the manifest of a finished shards folder.

    Args:
        data: the folder.
        remedy: what to do about a damaged one, for the message.

    Raises:
        UserError: there is none, or it is not as it was written.
    """
    path = data / MANIFEST
    try:
        manifest = manifests.read_manifest(path, remedy)
    except FileNotFoundError:
        unfinished = (
            f" (they are unfinished: {_AGAIN})" if (data / UNFINISHED).is_dir() else ""
        )
        raise UserError(
            f"{path}: no shards here{unfinished}; write them with `clm-or-mlm shards`"
        ) from None
    if manifest.get("format") != _FORMAT:
        raise UserError(f"{path} was written by another version; {_REMEDY}")
    with manifests.another_shape(path, _REMEDY):
        tokenizer = read_settings(_Tokenizer, manifest["tokenizer"], str(path))
        optional = [number or 0 for number in (tokenizer.bos_id, tokenizer.unknown_id)]
        ids = (tokenizer.eos_id, tokenizer.mask_id, *optional, *tokenizer.first)
        if not 0 <= min(ids) <= max(ids) < tokenizer.vocab_size:
            raise UserError(
                f"{path}: a special token's id is not below {tokenizer.vocab_size}; {_REMEDY}"
            )
    return manifest


def manifest_text(content: Mapping[str, Any]) -> str:
    """Return the text of the manifest, with the hash of what a model sees."""
    return manifests.manifest_text(
        {**content, "format": _FORMAT, "sha256": _data_hash(content)}
    )


def check_request(
    out: Path, made: Mapping[str, Any], request: Mapping[str, Any], what: str = "shards"
) -> None:
    """Compare what shards were made from with what is asked for.

    Raises:
        UserError: it is other text, the first file that differs being named, or other settings.
    """
    if made == request:
        return
    sources = (made["source"], request["source"])
    then, now = (
        {file["name"]: file["bytes"] for file in source["files"]} for source in sources
    )
    for name in sorted({*then, *now}):
        if then.get(name) != now.get(name):
            sizes = [
                f"{files[name]:,} bytes" if name in files else "missing"
                for files in (then, now)
            ]
            raise UserError(
                f"{out} has {what} made from other text: {name}, then {sizes[0]}, now {sizes[1]}; give the text of "
                "then, choose another --out or remove the folder"
            )
    raise UserError(
        f"{out} has {what} made with different settings; choose another --out or remove the folder"
    )


def tokenizer_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a tokenizer's folder."""
    return {
        path.name: sha256_file(path)
        for path in sorted(folder.iterdir())
        if path.suffix == ".json"
    }


def check_tokenizer(data: Path, manifest: Mapping[str, Any]) -> None:
    """Compare the tokenizer next to the shards with the one they were made with.

    Raises:
        UserError: a file is missing, another, or one too many.
    """
    folder = data / "tokenizer"
    files = tokenizer_files(folder) if folder.is_dir() else {}
    listed: dict[str, str] = manifest["tokenizer_files"]
    if others := sorted(files.keys() - listed.keys()):
        raise UserError(
            f"{folder} is not the tokenizer that the shards were made with: it also holds {first_of(others)}; "
            "move that elsewhere"
        )
    if files != listed:
        raise UserError(
            f"{folder} is missing or is not the tokenizer that the shards were made with; {_AGAIN}"
        )


def check_split(
    data: Path, name: str, manifest: Mapping[str, Any], shards: list[Shard]
) -> None:
    """Compare the index of a split with the manifest.

    Raises:
        UserError: it lists other files or another number of records.
    """
    split = manifest["splits"][name]
    records = -(-split["tokens"] // RECORD)
    listed = [shard.listing() for shard in shards] == split["shards"]
    if not listed or sum(shard.samples for shard in shards) != records:
        raise UserError(
            f"{data / name / INDEX} is not the index the manifest was made with; {_AGAIN}"
        )


def files_of(data: Path, manifest: Mapping[str, Any]) -> dict[str, VerifiedFile]:
    """Return what finished shards consist of, by path: shards with their sizes, the tokenizer, and what
    provenance.json lists: manifest and indexes.
    """
    record = read_provenance(data) or {}
    with manifests.another_shape(data / MANIFEST, _REMEDY):
        hashes: dict[str, str] = dict(record.get(manifests.FILES, {}))
        for name, sha256 in manifest["tokenizer_files"].items():
            hashes[f"tokenizer/{name}"] = sha256
        files = {name: VerifiedFile(data / name, hashes[name]) for name in hashes}
        for split in SHARD_SPLITS:
            for shard in manifest["splits"][split]["shards"]:
                name = f"{split}/{shard['name']}"
                files[name] = VerifiedFile(data / name, shard["sha256"], shard["bytes"])
    return files


def read_provenance(data: Path) -> dict[str, Any] | None:
    """Return who made finished shards and when their texts had changed last; None where no undamaged record is."""
    try:
        return manifests.read_manifest(data / PROVENANCE, _AGAIN)
    except (FileNotFoundError, UserError):
        return None


def lost(data: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return the files of finished shards that are missing or damaged, by path; of shards the sizes are compared."""
    names = []
    for name, file in files_of(data, manifest).items():
        try:
            if file.bytes < 0:
                os.close(file.open())
            elif file.path.stat().st_size != file.bytes:
                names.append(name)
        except (FileNotFoundError, UserError):
            names.append(name)
    return [*names, *_bad_indexes(data, manifest)]


def verify(data: Path) -> list[str]:
    """Return one sentence for each file that is not what the manifest says; an empty list when all is well."""
    try:
        manifest = load_manifest(data)
    except UserError as error:
        if not (data / MANIFEST).is_file():
            raise
        return [str(error)]
    problems = {}
    for name, file in files_of(data, manifest).items():
        try:
            os.close(file.open())
        except FileNotFoundError:
            problems[name] = f"{file.path} is missing; {_AGAIN}"
        except UserError as error:
            problems[name] = f"{file.path}: {error}; remove it and {_AGAIN}"
    if read_provenance(data) is None:
        problems[PROVENANCE] = f"{data / PROVENANCE} is missing or damaged; {_AGAIN}"
    # Where no record lists the indexes
    problems = _bad_indexes(data, manifest) | problems
    if not any(name.startswith("tokenizer/") for name in problems):
        try:
            check_tokenizer(data, manifest)  # a file too many
        except UserError as error:
            problems["tokenizer"] = str(error)
    return list(problems.values())


def _bad_indexes(data: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the indexes of the splits, by path."""
    problems = {}
    for split in SHARD_SPLITS:
        try:
            check_split(data, split, manifest, read_index(data / split))
        except UserError as error:
            problems[f"{split}/{INDEX}"] = str(error)
    return problems


def _data_hash(manifest: Mapping[str, Any]) -> str:
    """Hash what a model sees: the tokenizer and the shards' content, in order."""
    content = {"tokenizer": manifest["tokenizer"], "splits": manifest["splits"]}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
