"""From documents to shards: the text of a source becomes the tokens of two splits, `train` and `validation`.

Documents are read in the order of the source and tokenised in parallel. A document whose text has been seen before is
dropped (texts are compared by 96 bits of a BLAKE2b hash). A share of the documents is held out for validation. It is
chosen by the hash of their text, so that no text is in both splits. Each document is closed by end-of-text and appended
to its split's token stream, which is written in shards of equal size. Any number of threads gives the same bytes, and a
killed run can be resumed.

While shards are not complete, all files are in the folder `.state` (`shard_folder`). A source of many files can be
tokenised in parts, by several calls or machines; a last call without a part then makes shards of their tokens
(`token_files`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from common import manifest as manifests
from common.errors import UserError
from common.files import mark_cache, sha256_file, write_text
from common.manifest import MANIFEST
from common.packed import plain_suffix
from common.plain_text import first_of
from common.processes import cores
from common.progress import Meter
from common.provenance import provenance, provenance_path
from pretraining.data.corpus import (
    BLANK,
    FILE_KINDS,
    Document,
    TextGoneError,
    TextSource,
    batched,
    open_documents,
)
from pretraining.data.shard_folder import (
    publish,
    refuse_others,
    remove_unfinished,
    writing,
)
from pretraining.data.shard_manifest import (
    INDEX,
    RECORD,
    SHARD_SPLITS,
    SHARDS,
    UNFINISHED,
    ShardSettings,
    check_request,
    load_manifest,
    lost,
    read_provenance,
    shard_manifest_text,
    tokenizer_files,
    write_index,
)
from pretraining.data.shard_writer import ShardWriter
from pretraining.data.token_files import EncodedGroups, TokenFiles, part_of, read_tokens
from pretraining.data.tokenizer import TextTokenizer, encoded, load_tokenizer

logger = logging.getLogger(__name__)

_GROUP_CHARACTERS, _GROUP_DOCUMENTS = 500_000, 1_000
"""Most characters and documents that a thread takes at a time."""
_SMALL_SHARE, _FIRST_SHARE, _LEAST_TOKENS = 0.01, 0.1, 2_048
"""For a small source: the share of documents that is held out; the larger share until validation has tokens for a whole
sequence; that number of tokens, which is the paper's longest sequence."""
_UNKNOWN = 0.01
"""Share of unknown tokens above which a tokenizer does not fit its text."""
_SHORT = 200
"""Mean number of tokens below which the documents of a text file look like paragraphs."""
_PACKAGES = ("tiktoken", "tokenizers", "mosaicml-streaming", "zstandard", "numpy")
"""Packages whose versions the record of provenance names."""
_TOKENS = "tokens"
"""Name of the folder for the tokens of parts."""
_TOKENIZER = ("sha256", "vocab_size", "bos_id", "eos_id", "mask_id")
"""Properties of a tokenizer that a manifest lists."""


def build(
    specs: Sequence[str],
    tokenizer: str,
    out: Path,
    settings: ShardSettings,
    *,
    begin: str | None = None,
    end: str | None = None,
    kind: str | None = None,
    workers: int | None = None,
    part: str | None = None,
    as_llama3: bool = False,
) -> bool:
    """Write the shards of a source into a folder, resuming where a killed run stopped.

    A call with a part only writes the tokens of that part's files; a later call without a part writes the shards.

    Args:
        specs: local paths, folders and patterns, or one `hf:owner/name[:config][@revision]`.
        tokenizer: what `load_tokenizer` takes.
        out: folder for `train`, `validation`, `tokenizer` and `manifest.json`.
        settings: the settings that the bytes of the shards depend on.
        begin: token that begins a text, in place of what the tokenizer's files say.
        end: token that ends a text, in place of what the tokenizer's files say.
        kind: how files of no known suffix are read, such as `txt`.
        workers: number of threads that tokenise; one for each core when left out, and 0 for no other than this thread.
        part: such as `3/8`, the third of every eight files.
        as_llama3: read any tiktoken file with Llama 3's split and special tokens.

    Returns:
        False when the shards were complete already; True when something was written.

    Raises:
        UserError: the folder holds shards of another request or files that are not shards, source or tokenizer cannot
            be used, a text changed while it was read, or another process writes there.
    """
    if (out / "config.json").is_file():
        raise UserError(
            f"--out {out} is a model's folder; choose another for the shards"
        )

    # A killed run may have completed the shards without moving them to their place.
    is_complete = publish(out)
    if not is_complete:
        refuse_others(out)

    # The manifest of shards that are complete already, and which of their files are missing or damaged.
    old_manifest = load_manifest(out, "choose another --out") if is_complete else None
    missing = [] if old_manifest is None else lost(out, old_manifest)

    # The source and the tokenizer of this call.
    source, identity = _open_text(specs, settings, kind, out, old_manifest, missing)
    encoder = load_tokenizer(tokenizer, begin=begin, end=end, as_llama3=as_llama3)
    ids = _ids(encoder)
    # By the identity, since a source whose text is gone has no files.
    source_bytes = sum(file["bytes"] for file in identity["files"])

    # The share that is held out depends on the source's size where the user gives none.
    settings = settings.settled(source_bytes)
    # What the shards are made from: two calls with equal requests and equal ids give the same bytes.
    request = {
        "source": identity,
        "tokenizer": encoder.sha256,
        "settings": asdict(settings),
        # Tokens of a record, which is the unit that shards consist of.
        "record": RECORD,
        "version": SHARDS,
    }

    # If shards are complete, they must be those of this request. Then only missing or damaged files are written again.
    # For this check, and for the record of unfinished shards below, the request has all of `ids` in place of
    # the tokenizer's hash: options such as --end-of-text change the ids without the hash.
    if old_manifest is not None:
        record = read_provenance(out)
        asked = {**request, "tokenizer": ids}
        _check_finished(source, out, old_manifest, asked, record)
        if not missing:
            # What a killed call left unfinished is not needed. A record of provenance that is missing or
            # damaged is no reason to read the text again: it is written anew.
            remove_unfinished(out)
            if record is None:
                _write_provenance(out, source, encoder)
            logger.info("%s: nothing to do; the shards are complete", out)
            return False

        logger.warning(
            "%s: missing or damaged, so written again: %s", out, first_of(missing)
        )

    # A call with a part ends here. The tokens of a file are found again by all that they depend on.
    tokens_depend_on = {
        "tokenizer": ids,
        "text_field": source.text_field,
        "separator": source.separator,
        "kind": source.kind,
        "version": SHARDS,
        # Version of the form of token files. Files of form 1 did not begin with their own name.
        "form": 2,
    }
    token_files = TokenFiles(out / UNFINISHED / _TOKENS, source, tokens_depend_on)
    threads = cores() if workers is None else workers
    encode = partial(_encoded, encoder=encoder, workers=threads)
    if part is not None:
        numbers = part_of(part, len(source.files))
        token_files.write(numbers, encode)
        logger.info(
            "%s: part %s is done, %s files; after all parts, give the command without --part",
            out,
            part,
            f"{len(numbers):,}",
        )
        return True

    # Write the shards, from the position on at which a killed run stopped. One process at a time does this.
    with writing(out):
        # All of `ids`, which contain the hash: there is no manifest yet that lists them.
        writer = ShardWriter(out, {**request, "tokenizer": ids}, source.states)
        # Files that the killed run has read must be unchanged.
        _check_states(source, out, writer.states_read, writer.hashes)
        position = writer.position
        if position.file or position.row:
            logger.info("resuming after %s tokens", f"{writer.tokens:,}")

        # Tokens come from the files of parts where there are any, else from the text.
        if token_files.folder.is_dir():
            groups = _joined(source, token_files, writer, encode)
        else:
            groups = encode(source.documents(position.file, position.row))

        _write_splits(source, settings, writer, groups, encoder.unknown_id)

        # Refuse what must not become finished shards. Nothing of it is kept, so that a later call can begin
        # anew.
        _check_splits(source, out, settings, writer)
        try:
            source.refuse_changed()
        except UserError:
            remove_unfinished(out)
            raise

        # Write all other files beside the shards, and move everything to its place.
        _finish(source, writer, encoder, request)
        # Where missing files were written again, the others are those of the old manifest and must belong to it.
        # The new manifest is still in the writer's folder (`.state`).
        if old_manifest is not None and load_manifest(writer.folder) != old_manifest:
            remove_unfinished(out)
            raise UserError(
                f"{out}: its text gives other shards now than those that its manifest lists; remove the folder and "
                "write the shards again"
            )

        publish(out)

    manifest = load_manifest(out)
    # Another process may have written other shards meanwhile.
    check_request(out, manifest["request"], request)
    _report(source, out, writer, encoder, manifest)
    return True


def _open_text(
    specs: Sequence[str],
    settings: ShardSettings,
    kind: str | None,
    out: Path,
    old_manifest: dict[str, Any] | None,
    missing: Sequence[str],
) -> tuple[TextSource, dict[str, Any]]:
    """Return the source of the text, and its identity, by which sources are compared.

    Complete shards do not need their text any more, which may be deleted. The source then has no files, and
    the identity is the one that the manifest lists.

    Args:
        specs: the paths or the hub dataset, as `build` takes them.
        settings: the settings of this call.
        kind: how files of no known suffix are read.
        out: the folder of the shards, for messages.
        old_manifest: the manifest of shards that are complete already; None where they are not.
        missing: which files of complete shards are missing or damaged.

    Raises:
        UserError: the source cannot be used, or the text is gone and is needed.
    """
    try:
        source = open_documents(
            specs, settings.text_field, settings.document_separator, kind
        )
        return source, source.identity()
    except TextGoneError as error:
        if old_manifest is None:
            raise
        if missing:
            raise UserError(
                f"{out}: {first_of(missing)} is missing or damaged, and the text, of which it could be made again, is "
                f"gone: {error}"
            ) from None

        logger.warning("the text is gone, but the shards are complete: %s", error)
        source = TextSource(spec=" ".join(specs), files=(), sizes=(), revision=None)
        return source, old_manifest["request"]["source"]


def _check_finished(
    source: TextSource,
    out: Path,
    old_manifest: dict[str, Any],
    request: dict[str, Any],
    record: dict[str, Any] | None,
) -> None:
    """Refuse shards that are complete already, but were made from something else than this call asks for.

    Args:
        source: the source of this call.
        out: the folder of the shards.
        old_manifest: the manifest of the complete shards.
        request: the request of this call, with all of the tokenizer's ids and not only its hash: options such
            as --end-of-text change the ids alone.
        record: their record of provenance; None if it is missing or damaged.

    Raises:
        UserError: the text, the tokenizer or the settings differ.
    """
    old_request = old_manifest["request"] | {"tokenizer": old_manifest["tokenizer"]}
    check_request(out, old_request, request)
    # Without a record of provenance no state is known, and the content of all files is compared.
    states = record.get("texts", []) if record else []
    # A manifest has no hashes (None) of files on the hub, whose content their revision fixes.
    hashes = old_manifest["source"]["sha256"] or []
    _check_states(source, out, states, hashes)


def _check_splits(
    source: TextSource, out: Path, settings: ShardSettings, writer: ShardWriter
) -> None:
    """Refuse shards of which a split has no document.

    All files written so far are removed. The next call will have other settings, and would be refused because of them.

    Raises:
        UserError: `train` or `validation` has no document.
    """
    held_out = writer.splits["validation"].documents
    for_training = writer.splits["train"].documents
    if held_out and for_training:
        return
    remove_unfinished(out)
    if not held_out + for_training:
        raise UserError(f"{source.spec}: there is no text; give files that have some")

    # Without a share of the user's, so little text was split by the first share.
    share = settings.validation_share or _FIRST_SHARE
    raise UserError(
        f"{source.spec}: of {held_out + for_training} documents ({writer.position.duplicates:,} duplicates dropped), "
        f"{held_out} were held out for validation (--validation-share "
        f"{share:g}) and {for_training} left for training, but each needs one; "
        f"--document-separator splits text files (now: {settings.document_separator}; `line` makes each line "
        "a document)"
    )


def _check_states(
    source: TextSource, out: Path, states: Sequence[Any], hashes: Sequence[str]
) -> None:
    """Refuse a source of which a file has other content than when shards were made from it.

    A file whose place and time of change are as they were is not read. A file that had not been read may have changed.

    Args:
        source: the source as it is now.
        out: the folder of the shards, for messages.
        states: `TextSource.states` as they were, each a hash of a file's place and time of change; may be incomplete.
        hashes: SHA-256 of the content of the source's first files: all those that had been read, at least in part.

    Raises:
        UserError: a file has other content.
    """
    # A source whose text is gone, or on the hub, has no states.
    for number, sha256 in enumerate(hashes[: len(source.states)]):
        file = source.files[number]
        old_state = states[number] if number < len(states) else None
        if source.states[number] == old_state:
            continue
        if sha256_file(Path(file)) != sha256:
            raise UserError(
                f"{file} is not the text that the shards in {out} were made from; give that text, choose another "
                "--out or remove the folder"
            )


def _encoded(
    documents: Iterator[Document], encoder: TextTokenizer, workers: int
) -> EncodedGroups:
    """Yield documents in groups, each with their digests and tokens."""
    groups = batched(documents, _GROUP_CHARACTERS, _GROUP_DOCUMENTS)
    return encoded(groups, encoder, workers)


def _joined(
    source: TextSource,
    parts: TokenFiles,
    writer: ShardWriter,
    encode: Callable[[Iterator[Document]], EncodedGroups],
) -> EncodedGroups:
    """Yield groups of documents with their tokens, from the writer's position in the source on.

    The tokens of a file are read if a call with a part has written them, else they are made here.

    Args:
        source: the source.
        parts: the tokens that calls with parts have written.
        writer: the writer of the shards, whose hashes of files are completed on the way.
        encode: makes groups with tokens of documents.
    """
    first_file, row = writer.position.file, writer.position.row
    files_by_parts = 0
    for number in range(first_file, len(source.files)):
        # Up to the next number, so that the hash of this file is known.
        source.hash_up_to(number + 1, writer.hashes)
        # A commit fixes the content of a hub's file, so the file is not hashed.
        sha256 = None if source.revision else writer.hashes[number]
        path = parts.path(number, sha256)
        if path.is_file():
            yield from read_tokens(path, number, row)
            files_by_parts += 1
        else:
            yield from encode(source.documents(number, row, files=[number]))

        # A killed run stopped within the first file only; all others are read from their first row.
        row = 0

    logger.info(
        "files tokenised by parts: %s of %s",
        f"{files_by_parts:,}",
        f"{len(source.files) - first_file:,}",
    )


def _write_splits(
    source: TextSource,
    settings: ShardSettings,
    writer: ShardWriter,
    groups: EncodedGroups,
    unknown_id: int | None,
) -> None:
    """Write the shards of both splits from groups of documents, up to the limit of training tokens.

    What was written is saved after each shard, so that a killed run loses at most the work on the next one.

    Args:
        source: the source of the documents.
        settings: size of a shard, limit of tokens and share that is held out.
        writer: the writer of the shards, at the position of the first group.
        groups: documents with the digest of their text and their tokens.
        unknown_id: id of the token for unknown text, which is counted; None for a tokenizer without one.
    """
    # `writer.add` moves this position, and fills these splits.
    position, splits = writer.position, writer.splits
    shard_tokens = settings.shard_records * RECORD
    # The setting 0 stands for no limit.
    limit = settings.tokens or float("inf")
    is_enough = False

    # For the rate of this call: when it began, and the tokens that a killed run had written before.
    began, tokens_before = time.monotonic(), writer.tokens

    def read_bytes() -> int:
        """Return how many bytes of the source have been read."""
        return sum(source.sizes[: position.file]) + position.read_bytes

    with Meter("tokenising", sum(source.sizes), done=read_bytes(), unit="B") as meter:
        for group, encodings in groups:
            # Sort the group's documents into the splits; a document whose text was seen before goes into none.
            are_new = writer.unseen([digest for digest, _ in encodings])
            rows = zip(group, encodings, are_new, strict=True)
            for document, (digest, tokens), is_new in rows:
                is_enough = splits["train"].tokens >= limit
                # The rest of the group is left out. Its digests count as seen already, but nothing more is
                # read.
                if is_enough:
                    break
                split_name = _split_of(digest, settings, writer) if is_new else None
                writer.add(document, tokens, split_name, unknown_id=unknown_id)

            # Write the shards that are full now. This is a list, since `any` of a generator would stop at the first
            # split that has written a shard, and leave out the other split.
            has_written = [split.write(shard_tokens) for split in splits.values()]
            if any(has_written):
                # The current file is hashed as well: what is saved depends on a part of it.
                source.hash_up_to(position.file + 1, writer.hashes)
                writer.save()

            rate = (writer.tokens - tokens_before) / (time.monotonic() - began)
            words = f"{writer.tokens:,} tokens, {rate:,.0f} a second"
            meter.update(read_bytes(), words)
            if is_enough:
                break

    # The remaining tokens of each split are its last, shorter shard.
    for split in splits.values():
        split.write(shard_tokens, last=True)


def _split_of(digest: bytes, settings: ShardSettings, writer: ShardWriter) -> str:
    """Return the split of a new text, `train` or `validation`.

    The hash of a text chooses a share of all texts for validation, until validation has as many tokens as it may.
    """
    held_out = writer.splits["validation"].tokens
    share = settings.validation_share
    # A small source has no fixed share: more is held out until validation has tokens for a whole sequence.
    if not share:
        share = _SMALL_SHARE if held_out >= _LEAST_TOKENS else _FIRST_SHARE
    # Eight bytes of the digest are a random number from 0 to 2^64 - 1.
    is_chosen = int.from_bytes(digest[:8], "little") < share * 2**64
    is_full = held_out >= settings.validation_tokens
    return "validation" if is_chosen and not is_full else "train"


def _ids(encoder: TextTokenizer) -> dict[str, Any]:
    """Return what a manifest says of the tokenizer: its hash, the size of its vocabulary and the ids that are used.

    Two fields are left out where they do not apply, as for the tokenizers of this package's own models:
    `first`, the ids that every document begins with, and `unknown_id`.
    """
    ids = {name: getattr(encoder, name) for name in _TOKENIZER}
    # What a manifest leaves out has its default, which is none of these ids (`shard_manifest._Tokenizer`).
    if encoder.first:
        ids["first"] = list(encoder.first)
    if encoder.unknown_id is not None:
        ids["unknown_id"] = encoder.unknown_id
    return ids


def _finish(
    source: TextSource,
    writer: ShardWriter,
    encoder: TextTokenizer,
    request: dict[str, Any],
) -> None:
    """Write all other files next to the shards: tokenizer, indexes, manifest and provenance."""
    source.hash_up_to(len(source.files), writer.hashes)
    # A folder without the mark would be refused as one of another program.
    mark_cache(writer.folder)
    encoder.save(writer.folder / "tokenizer")
    for split in writer.splits.values():
        write_index(writer.folder / split.name, split.shards)
    splits = {}
    for split in writer.splits.values():
        splits[split.name] = {
            "documents": split.documents,
            "tokens": split.tokens,
            "shards": [shard.listing() for shard in split.shards],
        }

    text = source.identity()
    text["sha256"] = None if source.revision else writer.hashes
    manifest = {
        "request": request,
        "source": text,
        "tokenizer": _ids(encoder),
        "tokenizer_files": tokenizer_files(writer.folder / "tokenizer"),
        "splits": splits,
        "characters": writer.position.characters,
        "duplicates_dropped": writer.position.duplicates,
        "empty_dropped": writer.position.empty,
    }

    # The order here does not matter: files move into the shards' folder later, the manifest last.
    write_text(writer.folder / MANIFEST, shard_manifest_text(manifest))
    _write_provenance(writer.folder, source, encoder)


def _write_provenance(folder: Path, source: TextSource, encoder: TextTokenizer) -> None:
    """Write the record of provenance: versions of packages, states of the texts, hashes of manifest and indexes."""
    # The texts' states, with their times of change, stand here and not in the manifest, so that the same text gives the
    # same manifest everywhere.
    # "full" is the environment whose lock file the record names (requirements/full.txt).
    record = provenance("full", _PACKAGES)
    record |= {"engine": encoder.engine, "texts": list(source.states)}
    # The manifest lists the shards, but neither its own hash nor those of the indexes.
    names = [MANIFEST, *(f"{split}/{INDEX}" for split in SHARD_SPLITS)]
    hashes = {name: sha256_file(folder / name) for name in names}
    # `folder=True`: the record stands in the folder, and not next to it as that of a file does.
    manifests.write_manifest(provenance_path(folder, folder=True), record, hashes)


def _report(
    source: TextSource,
    out: Path,
    writer: ShardWriter,
    encoder: TextTokenizer,
    manifest: dict[str, Any],
) -> None:
    """Log what the shards hold, and warn of text that was left out or does not seem to fit the settings."""
    position = writer.position
    train, validation = manifest["splits"]["train"], manifest["splits"]["validation"]
    documents = train["documents"] + validation["documents"]
    tokens = train["tokens"] + validation["tokens"]

    # What was read of the source: documents that were dropped, and those that were written.
    read = position.duplicates + position.empty
    read += sum(split.documents for split in writer.splits.values())
    logger.info("files: %s; documents read: %s", f"{len(source.files):,}", f"{read:,}")
    if source.left_out:
        logger.warning(
            "left out, hidden or of no kind that is read (%s): %s; if they are text, name one with --kind",
            ", ".join(FILE_KINDS),
            first_of(source.left_out, 3),
        )

    # What the shards hold.
    mean_tokens = tokens / documents
    held_out_percent = 100 * validation["tokens"] / tokens

    # Tokens of text only: each document also has an end and, for some tokenizers, tokens at its begin.
    text_tokens = max(1, tokens - documents * (1 + len(encoder.first)))
    letters_per_token = position.characters / text_tokens
    unknown_percent = 100 * position.unknown / tokens
    logger.info(
        "%s: %s training tokens from %s documents, %s more for validation; shards: %d; duplicates dropped: %s; tokens "
        "a document: %s; held out: %.2g %%; %.1f letters a token; unknown tokens: %.3g %%",
        out,
        f"{train['tokens']:,}",
        f"{train['documents']:,}",
        f"{validation['documents']:,}",
        len(train["shards"]),
        f"{position.duplicates:,}",
        f"{mean_tokens:,.0f}",
        held_out_percent,
        letters_per_token,
        unknown_percent,
    )

    # Warnings about text that does not seem to fit the tokenizer or the settings.
    if position.unknown > _UNKNOWN * tokens:
        logger.warning(
            "%.3g %% of the tokens stand for text that the tokenizer does not know; choose one that knows "
            "its script",
            unknown_percent,
        )

    is_text = any(plain_suffix(file) == ".txt" for file in source.files)
    # That is, if a document has fewer than _SHORT tokens on average.
    if is_text and source.separator == BLANK and tokens < _SHORT * documents:
        logger.warning(
            "a document has %.0f tokens: a blank line ends one in a text file; if these are paragraphs, give "
            "--document-separator file, or a line that stands between documents",
            mean_tokens,
        )
