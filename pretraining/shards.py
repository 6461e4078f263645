"""From documents to shards: tokenised in parallel, deduplicated, split, packed, hashed; resumable, and the same
bytes whatever the number of workers.

Documents keep the order of the source. A document whose text has been seen is dropped (128-bit BLAKE2b). A
share of the documents, chosen by the hash of their text, is held out for validation, so that no text is in both
splits. Each document is closed by end-of-text and appended to its split's token stream.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from common.errors import UserError
from common.files import atomic_path, write_text
from common.provenance import git_commit, lock_hash, versions
from pretraining.encoding import DIGEST_BYTES, encoded
from pretraining.meter import Meter
from pretraining.shard_files import RECORD, clear, damages, write_index, write_shard
from pretraining.sources import Source, batched, open_source
from pretraining.tokenizer import TextTokenizer, load_tokenizer

__all__ = ["MANIFEST", "SPLITS", "ShardSettings", "build", "load_manifest", "verify"]

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
SPLITS = ("train", "validation")
_GROUP_CHARACTERS, _GROUP_DOCUMENTS = 500_000, 1_000
# Level 1: beside tiktoken the default, 3, would be a twelfth of the work, for a tenth less disk.
_ZSTD = "zstd:1"

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class ShardSettings:
    """What decides about the shards' bytes, beside the source and the tokenizer."""

    text_field: str = "text"
    """Column or key of the text."""
    validation_share: float = 0.005
    """Share of the documents that is held out, 0 to 1, chosen by hash."""
    validation_tokens: int = 4_000_000
    """Tokens after which further documents are no longer held out."""
    tokens: int = 0
    """Training tokens after which reading stops, at the end of a document; 0 reads all."""
    shard_records: int = 4_096
    """Records of `RECORD` tokens in a shard: 67 MB before compression."""
    compression: str = "zstd"
    """`zstd` or `none`."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if not 0 < self.validation_share < 1:
            raise UserError(f"--validation-share lies between 0 and 1, not at {self.validation_share}")
        if self.compression not in ("zstd", "none"):
            raise UserError(f"--compression is zstd or none, not {self.compression!r}")
        if self.shard_records < 1 or self.validation_tokens < 1 or self.tokens < 0:
            raise UserError("--shard-records and --validation-tokens must be at least 1, --tokens at least 0")


@dataclass(kw_only=True)
class _Split:
    """One split while it is written."""

    name: str
    entries: list[dict[str, Any]] = field(default_factory=list)
    pending: list[Tokens] = field(default_factory=list)
    held: int = 0
    documents: int = 0
    tokens: int = 0

    def add(self, tokens: Tokens) -> None:
        self.pending.append(tokens)
        self.held += len(tokens)
        self.tokens += len(tokens)
        self.documents += 1

    def take(self) -> Tokens:
        joined = np.concatenate(self.pending) if self.pending else np.zeros(0, np.int32)
        self.pending, self.held = [joined] if len(joined) else [], len(joined)
        return joined

    def write(self, out: Path, size: int, compression: str | None, *, last: bool = False) -> bool:
        """Write every whole shard that is pending, and what is left when it is the last; tell if any was."""
        if self.held < size and not (last and self.held):
            return False
        tokens = self.take()
        whole = len(tokens) // size * size
        stop = len(tokens) if last else whole
        for first in range(0, stop, size):
            part = tokens[first : min(first + size, stop)]
            self.entries.append(write_shard(out / self.name, len(self.entries), part, compression))
        rest = tokens[stop:].copy()
        self.pending, self.held = [rest] if len(rest) else [], len(rest)
        return True


@dataclass(kw_only=True)
class _State:
    """Everything that a killed run needs to go on."""

    file: int = 0
    row: int = 0
    read_bytes: int = 0
    duplicates: int = 0
    empty: int = 0
    characters: int = 0
    digests: int = 0


def build(
    specs: Sequence[str], tokenizer: str, out: Path, settings: ShardSettings, *, workers: int | None = None
) -> bool:
    """Write the shards of a source into `out`, going on where a killed run stopped.

    Args:
        specs: local paths, folders and patterns, or one `hf:owner/name[:config][@revision]`.
        tokenizer: what `load_tokenizer` takes.
        out: folder for `train`, `validation`, `tokenizer` and `manifest.json`.
        settings: what decides about the bytes.
        workers: processes that tokenise; one a core when left out, 0 for this process.

    Returns:
        False when the shards were there already.

    Raises:
        UserError: another request's shards are in `out`, or source or tokenizer cannot be used.
    """
    source, encoder = open_source(specs, settings.text_field), load_tokenizer(tokenizer)
    request = {
        "source": source.identity(),
        "tokenizer": encoder.sha256,
        "settings": asdict(settings),
        "record": RECORD,
    }
    if (out / MANIFEST).is_file():
        if load_manifest(out)["request"] != request:
            raise UserError(
                f"{out}: holds shards of another request; choose another --out or remove the folder"
            )
        logger.info("%s: nothing to do, the shards are complete", out)
        return False
    scratch = out / ".state"
    request_path = scratch / "request.json"
    if request_path.is_file() and json.loads(request_path.read_text()) != request:
        raise UserError(
            f"{out}: holds the unfinished shards of another request; choose another --out or remove it"
        )
    write_text(request_path, json.dumps(request, sort_keys=True))
    encoder.save(out / "tokenizer")
    splits = {name: _Split(name=name) for name in SPLITS}
    for name in SPLITS:
        clear(out / name)
    state = _load_state(scratch, splits)
    if state.file or state.row:
        tokens = sum(split.tokens for split in splits.values())
        logger.info("going on after %s tokens", f"{tokens:,}")
    count = (os.cpu_count() or 1) if workers is None else workers
    _write_splits(source, out, settings, state, splits, encoder, count)
    if not splits["validation"].documents or not splits["train"].documents:
        raise UserError(
            f"{out}: of {splits['train'].documents + splits['validation'].documents} documents "
            f"{splits['validation'].documents} were held out; change --validation-share so that both splits have some"
        )
    _finish(source, out, settings, state, splits, encoder, request)
    return True


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
            if (data / ".state").is_dir()
            else ""
        )
        raise UserError(
            f"{path}: no shards here{unfinished}; write them with `python -m pretraining shards`"
        ) from None
    except ValueError:
        raise UserError(f"{path}: is damaged; write the shards again") from None
    return manifest


def verify(data: Path) -> list[str]:
    """Return one sentence for each file that is not what the manifest says; an empty list when all is well."""
    manifest = load_manifest(data)
    found = []
    for name, split in manifest["splits"].items():
        if _index_hashes(data / name) != split["shards"]:
            found.append(
                f"{data / name / 'index.json'}: is missing or not the index the manifest was made with"
            )
        else:
            found += damages(data / name)
    try:
        same = load_tokenizer(str(data / "tokenizer")).sha256 == manifest["tokenizer"]["sha256"]
    except UserError:
        same = False
    if not same:
        found.append(f"{data / 'tokenizer'}: is missing or not the tokenizer the shards were made with")
    if _data_hash(manifest) != manifest["sha256"]:
        found.append(f"{data / MANIFEST}: its own hash is wrong")
    return found


def _write_splits(
    source: Source,
    out: Path,
    settings: ShardSettings,
    state: _State,
    splits: dict[str, _Split],
    encoder: TextTokenizer,
    workers: int,
) -> None:
    seen = _load_digests(out / ".state" / "digests.bin", state.digests)
    fresh = bytearray()
    before, size = sum(source.sizes[: state.file]), settings.shard_records * RECORD
    compression = None if settings.compression == "none" else _ZSTD
    limit, enough = settings.tokens or float("inf"), False
    began, first_tokens = time.monotonic(), sum(split.tokens for split in splits.values())
    groups = batched(source.documents(state.file, state.row), _GROUP_CHARACTERS, _GROUP_DOCUMENTS)
    with Meter("tokenising", sum(source.sizes), done=before + state.read_bytes, unit="B") as meter:
        for group, found in encoded(groups, str(out / "tokenizer"), encoder, workers):
            for document, (digest, tokens) in zip(group, found, strict=True):
                if splits["train"].tokens >= limit:
                    enough = True
                    break
                state.file, state.row, state.read_bytes = document.file, document.row, document.read_bytes
                if not document.text:
                    state.empty += 1
                elif digest in seen:
                    state.duplicates += 1
                else:
                    seen.add(digest)
                    fresh += digest
                    state.characters += len(document.text)
                    splits[_split_of(digest, settings, splits)].add(tokens)
            wrote = [split.write(out, size, compression) for split in splits.values()]
            if any(wrote):
                _save_state(out / ".state", state, splits, fresh)
                fresh.clear()
            total = sum(split.tokens for split in splits.values())
            rate = (total - first_tokens) / (time.monotonic() - began)
            done = sum(source.sizes[: state.file]) + state.read_bytes
            meter.update(done, f"{total / 1e6:,.1f} M tokens, {rate:,.0f} tokens/s")
            if enough:
                break
    for split in splits.values():
        split.write(out, size, compression, last=True)


def _split_of(digest: bytes, settings: ShardSettings, splits: dict[str, _Split]) -> str:
    chosen = int.from_bytes(digest[:8], "little") < settings.validation_share * 2**64
    return "validation" if chosen and splits["validation"].tokens < settings.validation_tokens else "train"


def _save_state(scratch: Path, state: _State, splits: dict[str, _Split], fresh: bytearray) -> None:
    """Record the place after the last document; what is written before the record is harmless when it is not."""
    with (scratch / "digests.bin").open("ab") as file:
        file.truncate(state.digests * DIGEST_BYTES)
        file.write(fresh)
        file.flush()
        os.fsync(file.fileno())
    state.digests += len(fresh) // DIGEST_BYTES
    content: dict[str, Any] = {"state": asdict(state), "splits": {}}
    for split in splits.values():
        name = f"{split.name}-{state.digests}.npy"
        with atomic_path(scratch / name) as temporary, temporary.open("wb") as file:
            np.save(file, split.take())
        content["splits"][split.name] = {
            "entries": split.entries,
            "documents": split.documents,
            "tokens": split.tokens,
            "pending": name,
        }
    write_text(scratch / "state.json", json.dumps(content))
    kept = {item["pending"] for item in content["splits"].values()}
    for path in scratch.glob("*.npy"):
        if path.name not in kept:
            path.unlink()


def _load_state(scratch: Path, splits: dict[str, _Split]) -> _State:
    path = scratch / "state.json"
    if not path.is_file():
        (scratch / "digests.bin").unlink(missing_ok=True)
        return _State()
    content = json.loads(path.read_text())
    for name, saved in content["splits"].items():
        split, pending = splits[name], np.load(scratch / saved["pending"])
        split.entries, split.documents, split.tokens = saved["entries"], saved["documents"], saved["tokens"]
        split.pending, split.held = [pending] if len(pending) else [], len(pending)
    return _State(**content["state"])


def _load_digests(path: Path, count: int) -> set[bytes]:
    data = path.read_bytes()[: count * DIGEST_BYTES] if count else b""
    return {data[place : place + DIGEST_BYTES] for place in range(0, len(data), DIGEST_BYTES)}


def _finish(
    source: Source,
    out: Path,
    settings: ShardSettings,
    state: _State,
    splits: dict[str, _Split],
    encoder: TextTokenizer,
    request: dict[str, Any],
) -> None:
    for split in splits.values():
        write_index(out / split.name, split.entries)
    manifest: dict[str, Any] = {
        "format": 1,
        "request": request,
        "source": source.identity() | {"sha256": source.hashes()},
        "tokenizer": {
            "sha256": encoder.sha256,
            "vocab_size": encoder.vocab_size,
            "bos_id": encoder.bos_id,
            "eos_id": encoder.eos_id,
            "mask_id": encoder.mask_id,
        },
        "splits": {
            split.name: {
                "documents": split.documents,
                "tokens": split.tokens,
                "shards": [_file_hash(entry) for entry in split.entries],
            }
            for split in splits.values()
        },
        "characters": state.characters,
        "duplicates_dropped": state.duplicates,
        "empty_dropped": state.empty,
        "code": {
            "commit": git_commit(),
            "lock": lock_hash("full"),
            "engine": encoder.engine,
            "versions": versions(("tiktoken", "tokenizers", "mosaicml-streaming", "zstandard", "numpy")),
        },
    }
    manifest["sha256"] = _data_hash(manifest)
    write_text(out / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    for path in sorted((out / ".state").iterdir()):
        path.unlink()
    (out / ".state").rmdir()
    train = manifest["splits"]["train"]
    logger.info(
        "%s: %s training tokens of %s documents in %d shards; %s duplicates dropped",
        out,
        f"{train['tokens']:,}",
        f"{train['documents']:,}",
        len(train["shards"]),
        f"{state.duplicates:,}",
    )


def _index_hashes(folder: Path) -> list[dict[str, Any]] | None:
    try:
        return [_file_hash(entry) for entry in json.loads((folder / "index.json").read_text())["shards"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file_hash(entry: dict[str, Any]) -> dict[str, Any]:
    info = entry["zip_data"] or entry["raw_data"]
    return {"name": info["basename"], "bytes": info["bytes"], "sha256": info["hashes"]["sha256"]}


def _data_hash(manifest: dict[str, Any]) -> str:
    """Hash what a model sees: the tokenizer and the shards' content, in order."""
    content = {"tokenizer": manifest["tokenizer"], "splits": manifest["splits"]}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
