"""Finished shards: their settings, the index of each split, and the manifest with the hash of every file.

An index lists the shards of a split, for MosaicML's streaming. A damaged or forged index would be dangerous, since
streaming's own reader takes any encoding of columns from it, even pickle, and any path. `read_index` therefore takes
only a few numbers and hashes from an index, checks them, and refuses an index unless `write_index` would write the same
of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common import manifest as manifests
from common.cli import shared_options
from common.errors import UserError
from common.files import sha256_file, write_text
from common.manifest import MANIFEST, VerifiedFile
from common.plain_text import first_of
from common.provenance import PROVENANCE
from common.reading import MOST_LARGE, read_bounded, strict_json
from common.settings import FileSettings, read_settings

INDEX = "index.json"
"""Name of a split's index."""
UNFINISHED = ".state"
"""Name of the folder in which shards are written until they are complete."""
SHARD_SPLITS = ("train", "validation")
RECORD = 4096
"""Tokens of one record; the last record of a split may be shorter."""
MDS_COLUMNS = {"tokens": "ndarray:int32"}
"""The one column of a record and how MDS encodes it."""
COMPRESSION = 1
"""Level of zstd at which shards are compressed."""
SHARDS = 1
"""Version of the code that decides which tokens are in which shard. It is raised together with the golden tokens of the
tests. A call with another version does not continue unfinished shards, and refuses finished ones."""

_MOST_BYTES = 2**32
"""Size that a shard must be below, since MDS counts its offsets in 32 bits."""
_SMALL = 20e6
"""Bytes of a source below which the share that is held out is not fixed (`ShardSettings.settled`)."""
_FORMAT = 2
"""Version of the manifest's form."""
_REMEDY = "remove the folder and write the shards again"
_AGAIN = "run the same `shards` command again"
"""Remedy for all files but the manifest: the command writes missing and damaged files again (`lost`)."""


@shared_options("what the shards' bytes depend on")
@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """What the shards' bytes depend on, with the source and the tokenizer."""

    text_field: str = "text"
    """column or key of the text"""
    document_separator: str = "blank"
    """what ends a document in a text file: blank (line), line, file, or a line of text"""
    validation_share: float | None = None
    """documents held out (default: 0.005; below 20 MB 0.01 or 2,048 tokens)"""
    validation_tokens: int = 4_000_000
    """number of validation tokens after which no more documents are held out"""
    tokens: int = 0
    """training tokens after which reading stops; 0 reads everything"""
    shard_records: int = 4_096
    """records of 4,096 tokens in a shard (4096: 67 MB)"""

    def __post_init__(self) -> None:
        """Refuse numbers that make no shards."""
        share = self.validation_share
        if share is not None and not 0 < share < 1:
            raise UserError(
                f"--validation-share must be above 0 and below 1, not {share}"
            )
        if self.shard_records < 1 or self.validation_tokens < 1 or self.tokens < 0:
            raise UserError(
                "--shard-records and --validation-tokens must be at least 1, --tokens at least 0"
            )

    def settled(self, size: int) -> ShardSettings:
        """Return the settings with the share of documents that is held out of a source of a size.

        A share that the user gave stays. For a small source it stays None: how much is held out then depends on how
        many tokens validation has already (`build_shards`).

        Args:
            size: bytes of the source.
        """
        if self.validation_share or size < _SMALL:
            return self
        # Half a percent; of less than 40 MB as much as 200 kB.
        return replace(self, validation_share=max(0.005, 200_000 / size))


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A shard of a split: records in the format MDS, compressed by Zstandard."""

    number: int
    """Place of the shard in the split's stream, from 0."""
    samples: int
    """Number of records, which MDS calls samples."""
    size: int
    """Bytes of the decompressed shard."""
    sha256: str
    """SHA-256 of the decompressed shard."""
    packed_size: int
    """Bytes of the compressed file in the split's folder."""
    packed_sha256: str
    """SHA-256 of the compressed file."""

    def __post_init__(self) -> None:
        """Refuse counts that are not positive integers, invalid hashes, and a size that the records cannot have.

        Raises:
            ValueError: these are not the numbers of a shard.
        """
        counts = (self.samples, self.size, self.packed_size)
        for count in counts:
            # Not `isinstance`, since Python's True is an int, too.
            if type(count) is not int or not 0 < count < _MOST_BYTES:
                raise ValueError(
                    f"one of {str(counts)[:99]} is not a number from 1 to {_MOST_BYTES - 1}"
                )

        for digest in (self.sha256, self.packed_sha256):
            if not re.fullmatch(r"[0-9a-f]{64}", digest):
                raise ValueError("a SHA-256 is not valid")

        # A shard begins with the number of its records and the offsets at which they begin and the last one ends, in 4
        # bytes each. A description of the columns (at most 4096 bytes) follows, then for each record its size and shape
        # (at most 16 bytes) and its tokens in 4 bytes each.
        offsets_bytes = 4 * (self.samples + 2)
        record_bytes = 16 + 4 * RECORD
        most = offsets_bytes + 4096 + self.samples * record_bytes
        if not offsets_bytes < self.size <= most:
            raise ValueError(
                f"it cannot have {self.size} bytes with {self.samples} records"
            )

    @property
    def name(self) -> str:
        """Name of the decompressed file."""
        return f"shard.{self.number:05}.mds"

    @property
    def packed_name(self) -> str:
        """Name of the file in the split's folder."""
        return f"{self.name}.zstd"

    def listing(self) -> dict[str, Any]:
        """Return name, size and SHA-256 of the file in the split's folder, as the manifest lists it."""
        return {
            "name": self.packed_name,
            "bytes": self.packed_size,
            "sha256": self.packed_sha256,
        }

    def described(self) -> dict[str, Any]:
        """Return the entry of the shard in the split's index, with the fields that streaming's readers want."""

        def entry(name: str, size: int, sha256: str) -> dict[str, Any]:
            return {"basename": name, "bytes": size, "hashes": {"sha256": sha256}}

        # Only the numbers and hashes are the shard's own, and they are checked; all else is the same for every shard.
        return {
            "column_encodings": list(MDS_COLUMNS.values()),
            "column_names": list(MDS_COLUMNS),
            "column_sizes": [None],
            "compression": f"zstd:{COMPRESSION}",
            "format": "mds",
            "hashes": ["sha256"],
            "raw_data": entry(self.name, self.size, self.sha256),
            "samples": self.samples,
            "size_limit": None,
            "version": 2,
            "zip_data": entry(self.packed_name, self.packed_size, self.packed_sha256),
        }


def read_index(folder: Path) -> list[Shard]:
    """Return a split's shards from its index, in order; at least one.

    Args:
        folder: the split's folder.

    Raises:
        UserError: the folder has no index, or one that `write_index` would not write.
    """
    path = folder / INDEX
    try:
        data = read_bounded(path, MOST_LARGE)
    except FileNotFoundError:
        raise UserError(f"{path}: no shards here; {_AGAIN}") from None

    shards: list[Shard] = []
    try:
        entries = strict_json(data)["shards"]
        for number, entry in enumerate(entries):
            raw, packed = entry["raw_data"], entry["zip_data"]
            shard = Shard(
                number=number,
                samples=entry["samples"],
                size=raw["bytes"],
                sha256=raw["hashes"]["sha256"],
                packed_size=packed["bytes"],
                packed_sha256=packed["hashes"]["sha256"],
            )
            shards.append(shard)

            # The shard that holds a record is found by division, so all shards but the last have equally many records.
            usual, is_last = shards[0].samples, number + 1 == len(entries)
            if shard.samples > usual or (shard.samples < usual and not is_last):
                raise ValueError(
                    f"shard {number} has {shard.samples} records where the first has {usual}"
                )
    except (KeyError, TypeError, ValueError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else error
        raise UserError(f"{path} is damaged: {what}; {_AGAIN}") from None

    # Any other field with another value is found here: the whole text must be the one of these shards.
    if not shards or data != _index_text(shards).encode():
        raise UserError(f"{path} is not in the form that `shards` writes; {_AGAIN}")
    return shards


def write_index(folder: Path, shards: Sequence[Shard]) -> None:
    """Write the index of a split, with which streaming's readers can open it."""
    write_text(folder / INDEX, _index_text(shards))


def _index_text(shards: Sequence[Shard]) -> str:
    """Return the text of a split's index; equal shards have equal texts."""
    index = {"shards": [shard.described() for shard in shards], "version": 2}
    return json.dumps(index, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class _Tokenizer(FileSettings):
    """The tokenizer as a manifest describes it."""

    sha256: str
    vocab_size: int
    bos_id: int | None
    eos_id: int
    mask_id: int
    first: tuple[int, ...] = ()
    unknown_id: int | None = None


def load_manifest(data: Path, remedy: str = _REMEDY) -> dict[str, Any]:
    """Return the manifest of a folder of finished shards.

    Args:
        data: the folder.
        remedy: what a message says to do about a manifest that cannot be read; other faults have remedies of
            their own.

    Raises:
        UserError: there is no manifest, it is damaged, or this version cannot read it.
    """
    path = data / MANIFEST
    try:
        manifest = manifests.read_manifest(path, remedy)
    except FileNotFoundError:
        unfinished = ""
        if (data / UNFINISHED).is_dir():
            unfinished = f" (they are unfinished: {_AGAIN})"
        raise UserError(
            f"{path}: no shards here{unfinished}; write them with `clm-or-mlm shards`"
        ) from None

    if manifest.get("format") != _FORMAT:
        raise UserError(f"{path} was written by another version; {_REMEDY}")
    # A missing or invalid field becomes a `UserError` that names the manifest (`another_shape`).
    with manifests.another_shape(path, _REMEDY):
        tokenizer = read_settings(_Tokenizer, manifest["tokenizer"], str(path))
        # Every special token must have a row in the embedding. Where one is missing (None), 0 passes the test.
        optional = [tokenizer.bos_id or 0, tokenizer.unknown_id or 0]
        ids = [tokenizer.eos_id, tokenizer.mask_id, *optional, *tokenizer.first]
        if not 0 <= min(ids) <= max(ids) < tokenizer.vocab_size:
            raise UserError(
                f"{path}: a special token's id is not below {tokenizer.vocab_size}; {_REMEDY}"
            )

    return manifest


def shard_manifest_text(content: Mapping[str, Any]) -> str:
    """Return the text of a manifest, to which its format and the hash of what a model sees are added."""
    whole = {**content, "format": _FORMAT, "sha256": _data_hash(content)}
    return manifests.manifest_text(whole)


def check_request(
    out: Path,
    old_request: Mapping[str, Any],
    request: Mapping[str, Any],
    what: str = "shards",
) -> None:
    """Refuse shards that were made from something else than this call asks for.

    Args:
        out: the folder of the shards, for messages.
        old_request: what the shards were made from: source, tokenizer and settings.
        request: the same of this call.
        what: what the shards are called in messages.

    Raises:
        UserError: the text differs (the message names the first file that does), or the settings do.
    """
    if old_request == request:
        return
    old_sizes, sizes = _bytes_by_name(old_request), _bytes_by_name(request)
    for name in sorted({*old_sizes, *sizes}):
        if old_sizes.get(name) != sizes.get(name):
            raise UserError(
                f"{out} has {what} made from other text: {name}, then {_size_in(old_sizes, name)}, now "
                f"{_size_in(sizes, name)}; give the text of then, choose another --out or remove the folder"
            )

    raise UserError(
        f"{out} has {what} made with different settings; choose another --out or remove the folder"
    )


def _bytes_by_name(request: Mapping[str, Any]) -> dict[str, int]:
    """Return the size of each file of a request's source, by the file's name."""
    return {file["name"]: file["bytes"] for file in request["source"]["files"]}


def _size_in(sizes: Mapping[str, int], name: str) -> str:
    """Return a file's size in words."""
    return f"{sizes[name]:,} bytes" if name in sizes else "missing"


def tokenizer_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a tokenizer's folder."""
    paths = [path for path in sorted(folder.iterdir()) if path.suffix == ".json"]
    return {path.name: sha256_file(path) for path in paths}


def check_tokenizer(data: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a tokenizer next to the shards that is not the one which they were made with.

    Args:
        data: the folder of the shards, which holds `tokenizer`.
        manifest: the shards' manifest.

    Raises:
        UserError: a file of the tokenizer is missing or has changed, or there is a file too many.
    """
    folder = data / "tokenizer"
    hashes = tokenizer_files(folder) if folder.is_dir() else {}
    listed: dict[str, str] = manifest["tokenizer_files"]

    # An additional file could change what transformers reads.
    additional = sorted(hashes.keys() - listed.keys())
    if additional:
        raise UserError(
            f"{folder} is not the tokenizer that the shards were made with: it also holds {first_of(additional)}; "
            "move that elsewhere"
        )

    if hashes != listed:
        raise UserError(
            f"{folder} is missing or is not the tokenizer that the shards were made with; {_AGAIN}"
        )


def check_split(
    data: Path, name: str, manifest: Mapping[str, Any], shards: list[Shard]
) -> None:
    """Refuse an index that does not agree with the manifest.

    Args:
        data: the folder of the shards, for messages.
        name: name of the split.
        manifest: the shards' manifest.
        shards: the shards that the split's index lists.

    Raises:
        UserError: the index lists other files or another number of records than the manifest.
    """
    split = manifest["splits"][name]
    records = math.ceil(split["tokens"] / RECORD)
    is_listed = [shard.listing() for shard in shards] == split["shards"]
    if not is_listed or sum(shard.samples for shard in shards) != records:
        raise UserError(
            f"{data / name / INDEX} is not the index the manifest was made with; {_AGAIN}"
        )


def files_of(data: Path, manifest: Mapping[str, Any]) -> dict[str, VerifiedFile]:
    """Return all files of finished shards but provenance.json, with the hashes that they must have.

    The hashes of manifest and indexes are those that provenance.json lists; without it, these files are left out.

    Args:
        data: the folder of the shards.
        manifest: the shards' manifest.

    Returns:
        The files by their path below the folder. Only shards have a size.
    """
    record = read_provenance(data) or {}
    # A field that the manifest lacks becomes a `UserError` that names the manifest (`another_shape`). `FILES`
    # is the field of a record with the hashes of files by their names.
    with manifests.another_shape(data / MANIFEST, _REMEDY):
        hashes: dict[str, str] = dict(record.get(manifests.FILES, {}))
        for name, sha256 in manifest["tokenizer_files"].items():
            hashes[f"tokenizer/{name}"] = sha256
        files = {}
        for name, sha256 in hashes.items():
            files[name] = VerifiedFile(data / name, sha256)
        for split in SHARD_SPLITS:
            for shard in manifest["splits"][split]["shards"]:
                name = f"{split}/{shard['name']}"
                files[name] = VerifiedFile(data / name, shard["sha256"], shard["bytes"])

    return files


def read_provenance(data: Path) -> dict[str, Any] | None:
    """Return the record of provenance of finished shards; None if it is missing or damaged.

    It has the versions of packages, the states of the texts when they were read, and hashes of manifest and indexes.
    """
    try:
        return manifests.read_manifest(data / PROVENANCE, _AGAIN)
    except (FileNotFoundError, UserError):
        return None


def lost(data: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return the paths of missing or damaged files of finished shards.

    The large files, the shards themselves, are only compared by their size.
    """
    names = []
    for name, file in files_of(data, manifest).items():
        try:
            # A file without a known size is small: opening it hashes it.
            if file.bytes < 0:
                os.close(file.open())
            elif file.path.stat().st_size != file.bytes:
                names.append(name)
        except (FileNotFoundError, UserError):
            names.append(name)
    # Of the indexes only the paths, which are the keys; the sentences on them are left out.
    return [*names, *_bad_indexes(data, manifest)]


def verify_shards(data: Path) -> list[str]:
    """Return one sentence for each file that is not what the manifest says; an empty list when all is well.

    Every file is read and hashed.

    Raises:
        UserError: there is no manifest.
    """
    try:
        manifest = load_manifest(data)
    except UserError as error:
        if not (data / MANIFEST).is_file():
            raise
        return [str(error)]

    problems = {}
    for name, file in files_of(data, manifest).items():
        try:
            # `open` hashes the file.
            os.close(file.open())
        except FileNotFoundError:
            problems[name] = f"{file.path} is missing; {_AGAIN}"
        except UserError as error:
            problems[name] = f"{file.path}: {error}; remove it and {_AGAIN}"

    if read_provenance(data) is None:
        problems[PROVENANCE] = f"{data / PROVENANCE} is missing or damaged; {_AGAIN}"
    # Indexes are compared with the manifest, too: without a record of provenance, their hashes are not known. Of two
    # problems of an index, that of its hash stays.
    problems = _bad_indexes(data, manifest) | problems

    # The tokenizer's files were hashed above; if they are as they should be, there may still be one too many.
    if not any(name.startswith("tokenizer/") for name in problems):
        try:
            check_tokenizer(data, manifest)
        except UserError as error:
            problems["tokenizer"] = str(error)

    return list(problems.values())


def _bad_indexes(data: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return a sentence for each split's index that is damaged or does not agree with the manifest, by its path."""
    problems = {}
    for split in SHARD_SPLITS:
        try:
            check_split(data, split, manifest, read_index(data / split))
        except UserError as error:
            problems[f"{split}/{INDEX}"] = str(error)
    return problems


def _data_hash(manifest: Mapping[str, Any]) -> str:
    """Return the hash of what a model sees: of the tokenizer, and of the shards' content in order."""
    content = {"tokenizer": manifest["tokenizer"], "splits": manifest["splits"]}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
