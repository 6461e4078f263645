"""Manifests: a JSON file next to what it describes, with how that was made and the SHA-256 of each of its files.

A manifest is believed only byte for byte as it was written: its last key, the seal, is the hash of the rest. A seal
finds damage and careless edits. It is no signature: whoever can write the file can seal it again.

Commands write only over files that are this package's own, and remove only those: a file is `ours` if a manifest lists
it and its content still has the hash that stands there. Everything else in a folder is a stranger's.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.errors import UserError, first_line
from common.files import (
    is_temporary,
    remove_folder,
    sha256_bytes,
    sha256_file,
    sha256_open,
    state_of,
    temporary_folder,
    write_text,
)
from common.plain_text import first_of
from common.reading import BadJsonError, inside, open_plain, read_bounded, strict_json

MANIFEST = "manifest.json"
"""Name of the manifest in a folder that one describes, of shards or of a model; the last file that is written there."""
FILES = "files"
"""The key with the SHA-256 of each file, by its path below the manifest's folder."""
SEAL = "seal"
"""The last key, with the hash of the rest."""


class DamagedError(UserError):
    """Content that is not what its hash says."""


def manifest_text(record: Mapping[str, Any]) -> str:
    """Return the text of a manifest: the same bytes for the same record."""
    rest = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    sealed = {**record, SEAL: sha256_bytes(rest.encode("ascii"))}
    return json.dumps(sealed, indent=2, sort_keys=True, allow_nan=False) + "\n"


def write_manifest(
    path: Path, record: Mapping[str, Any], files: Mapping[str, str] | None = None
) -> None:
    """Write a manifest, atomically.

    Args:
        path: the file.
        record: how what it describes was made.
        files: the SHA-256 of each file, by its path below the manifest's folder.
    """
    if files is not None:
        record = {**record, FILES: dict(files)}
    write_text(path, manifest_text(record))


def read_manifest(path: Path, remedy: str) -> dict[str, Any]:
    """Return what a manifest says, without its seal.

    Args:
        path: the file.
        remedy: what the user can do about a damaged one, for the message.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: it is not as it was written; the sentence ends with the remedy.
    """
    try:
        return parse_manifest(read_bounded(path))
    except DamagedError as error:
        raise DamagedError(
            f"{path} is damaged or from an earlier version ({error}); {remedy}"
        ) from None


def parse_manifest(content: bytes) -> dict[str, Any]:
    """Return what the bytes of a manifest say, without its seal.

    Raises:
        DamagedError: the manifest is not as it was written; the words do not name the file.
    """
    try:
        record = strict_json(content)
        if not isinstance(record, dict) or SEAL not in record:
            raise DamagedError("it has no seal")
        del record[SEAL]
        # The whole text is compared, not only the seal: the same content in another layout was not written here.
        same = manifest_text(record).encode() == content
    except BadJsonError as error:
        raise DamagedError(str(error)) from None
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None

    if not same:
        raise DamagedError(
            "it has been changed since it was written: its seal does not match its content"
        )

    # Not every manifest lists files.
    files = record.get(FILES, {})
    is_table = isinstance(files, dict)
    if not is_table or any(not isinstance(sha256, str) for sha256 in files.values()):
        raise DamagedError(f"{FILES!r} is not a table of hashes")
    return record


@contextlib.contextmanager
def another_shape(path: Path, remedy: str) -> Iterator[None]:
    """Refuse a sealed manifest that lacks a field which the block reads, or has something else there.

    An earlier version of this package may have written it so.

    Args:
        path: the manifest.
        remedy: what the user can do, for the message.

    Raises:
        DamagedError: the sentence says what is missing or wrong and ends with the remedy.
    """
    try:
        yield
    # A UserError is a ValueError, but has a sentence of its own.
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else first_line(error)
        raise DamagedError(
            f"{path} is not in the form that this version writes ({what}); {remedy}"
        ) from None


def check_files(folder: Path, files: Mapping[str, str], remedy: str) -> None:
    """Compare files with their hashes: each is read once in this process as long as it does not change.

    Args:
        folder: where the files are.
        files: the SHA-256 of each, by its path below the folder.
        remedy: what the user can do about a damaged one, for the message.

    Raises:
        DamagedError: files are missing or changed; the sentence names the first ones and ends with the remedy.
    """
    problems = []
    for name, sha256 in files.items():
        try:
            check_file(inside(folder, name), sha256)
        except FileNotFoundError:
            problems.append(f"{name} is missing")
        except DamagedError as error:
            problems.append(f"{name}: {error}")

    if problems:
        raise DamagedError(
            f"{folder} is damaged: {first_of(problems, between='; ')}; {remedy}"
        )


def strangers(
    folder: Path, ours: Mapping[str, str], among: Iterable[str] = ()
) -> list[str]:
    """Return the paths, below a folder, of files that this package did not write there or that were changed since.

    Whatever removes or replaces something in a folder that a user named calls this first. What a killed process left of
    a write is this package's.

    Args:
        folder: the folder; one that is not there has no files.
        ours: the SHA-256 of each file that was written there, by its path; "" where any content is ours.
        among: names in the folder to look at: files, or folders with all that is in them; everything by default.
    """
    tops = [folder / name for name in among] or [folder]
    others = []
    for path in _files_of(tops):
        name = path.relative_to(folder).as_posix()
        if not _is_ours(path, ours.get(name)):
            others.append(name)
    return others


def written_by(record: Path) -> dict[str, str]:
    """Return which files of a folder are ours by a record in it, as `strangers` takes them.

    Returns:
        The SHA-256 of each file that the record lists, by path, and "" for the record itself: any content of it is
        ours. Empty where there is no record of ours.
    """
    try:
        content = read_bounded(record)
    except (OSError, UserError):
        return {}

    # Every record of this package has a seal: without it, the file is another program's.
    if SEAL.encode() not in content:
        return {}

    # Of a damaged record, what it lists is not believed.
    files: dict[str, str] = {}
    with contextlib.suppress(DamagedError):
        files = parse_manifest(content).get(FILES, {})
    return {**files, record.name: ""}


def refuse_strangers(
    folder: Path, ours: Mapping[str, str], remedy: str, among: Iterable[str] = ()
) -> None:
    """Refuse to use a folder that holds files of others.

    Args:
        folder: the folder.
        ours: as `strangers` takes it.
        remedy: the end of the sentence: why these files are in the way, and what to do.
        among: as `strangers` takes it.

    Raises:
        UserError: the sentence names the others' files.
    """
    others = strangers(folder, ours, among)
    if others:
        raise UserError(f"{folder} holds other files ({first_of(others)}), {remedy}")


def check_outputs(
    folder: Path, contents: Mapping[str, str], record: Path | None = None
) -> None:
    """Refuse to write files over files of others.

    A file that is there may be written over if the record lists it, or if it already has the bytes to be written.

    Args:
        folder: where the files go.
        contents: the SHA-256 of each file to be written, by its path below the folder; "" for the record.
        record: the manifest or provenance that lists what was written there before; None: there is none.

    Raises:
        UserError: the sentence names the others' files.
    """
    ours = {} if record is None else written_by(record)
    # Given as `among`, `contents` stands for its keys: only files in the places of those to be written are
    # looked at.
    others = strangers(folder, ours, contents)
    if others:
        # A killed call may have written files before their record: files that are the same bytes are ours. So
        # the files in `others` are looked at again, by the hashes of what is to be written. A record has no
        # hash here: one that `written_by` does not know is another program's.
        same = {name: sha256 for name, sha256 in contents.items() if sha256}
        remedy = (
            "which this command did not write, or which were changed since; choose another --out, or move them "
            "elsewhere"
        )
        refuse_strangers(folder, same, remedy, among=others)


@contextlib.contextmanager
def outputs_folder(folder: Path, record: str = "") -> Iterator[Path]:
    """Yield a temporary folder whose files move into `folder` when the block ends well.

    Args:
        folder: where the files go.
        record: name of the manifest or provenance that the block writes, which lists the other files; empty: none.

    Raises:
        UserError: files of others are in the way (`check_outputs`); nothing was moved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # A hidden folder inside of `folder`, so on its file system: the moves at the end are renames.
    with temporary_folder(folder / "made") as making:
        yield making
        contents = {}
        for path in _files_of([making]):
            contents[path.relative_to(making).as_posix()] = sha256_file(path)

        # The record moves last (False sorts before True): a folder that has a record is whole.
        names = sorted(contents, key=lambda name: name == record)
        # `check_outputs` takes no hash of the record: whether one that is there is ours, its own content
        # says.
        if record:
            contents[record] = ""
        check_outputs(folder, contents, folder / record if record else None)
        for name in names:
            # Files stand in `folder` or one level below, as tables/ and figures/ of `reproduce`.
            (folder / name).parent.mkdir(exist_ok=True)
            (making / name).replace(folder / name)


def _files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files and links among paths, and those in the folders among them."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            yield from _files_of(sorted(path.iterdir()))
        elif os.path.lexists(path):
            yield path


def _is_ours(path: Path, sha256: str | None) -> bool:
    """Return whether a file is this package's own.

    Args:
        path: the file.
        sha256: the hash of what was written there; "": any content is ours; None: nothing was.
    """
    if is_temporary(path.name):
        return True
    if sha256 is None:
        return False
    if sha256 == "":
        return True
    try:
        check_file(path, sha256)
    except (FileNotFoundError, UserError):
        return False
    return True


def remove_ours(folder: Path, ours: Mapping[str, str]) -> list[str]:
    """Remove the files that this package wrote into a folder, and the folder if nothing else is in it.

    Args:
        folder: the folder.
        ours: as `strangers` takes it; files are removed in this order. A manifest stands last, so that a
            killed call leaves it for the next one, which by it knows the others as ours.

    Returns:
        The paths, below the folder, of other files, which stay.
    """
    others = strangers(folder, ours)
    if not others:
        remove_folder(folder)
        return []
    for name in ours:
        if name not in others:
            inside(folder, name).unlink(missing_ok=True)
    return others


@dataclass(eq=False)
class VerifiedFile:
    """A file that is read only if its content has the known hash: checked when first opened and after each change."""

    path: Path
    """The path of the file."""
    sha256: str
    """The SHA-256 that its content must have."""
    bytes: int = -1
    """The size that the file must have, which is compared without reading it; -1: not known."""
    _seen: tuple[int, ...] | None = None
    """The `state_of` the file when its content had the hash; None: not yet."""

    def open(self) -> int:
        """Return a descriptor of the file, for reading, once its content was compared with the hash.

        A file that has not changed since it was last compared is not read again.

        Raises:
            FileNotFoundError: there is no such file.
            UserError: it is no regular file.
            DamagedError: its content is another; the words do not name the file.
        """
        descriptor = open_plain(self.path)
        try:
            state = state_of(os.fstat(descriptor))
            if state != self._seen:
                # Should the file turn out damaged, nothing of it counts as compared.
                self._seen = None
                # Device, inode, size and time of the last change.
                _, _, size, _ = state
                if self.bytes not in (-1, size):
                    raise DamagedError(f"it has {size} bytes instead of {self.bytes}")
                if sha256_open(descriptor) != self.sha256:
                    raise DamagedError("its content has changed (SHA-256)")

                # Bytes that were written during the hashing may be missing from the hash.
                if state_of(os.fstat(descriptor)) != state:
                    raise DamagedError("it changed while it was being read")
                self._seen = state
        except BaseException:
            os.close(descriptor)
            raise

        return descriptor

    def is_seen(self, descriptor: int) -> bool:
        """Return whether an open file is still the one that was compared with the hash, and still has a name."""
        # A file without a name was replaced: whoever opens the path now reads another file.
        status = os.fstat(descriptor)
        return state_of(status) == self._seen and status.st_nlink > 0

    def trust(self, descriptor: int) -> None:
        """Take an open file as compared with the hash: this process has just written and hashed it."""
        self._seen = state_of(os.fstat(descriptor))


_files: dict[tuple[Path, str], VerifiedFile] = {}
"""The files that `check_file` has compared in this process, by path and hash."""


def check_file(path: Path, sha256: str) -> None:
    """Compare a file with its hash, once in this process as long as it does not change.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it is no regular file.
        DamagedError: its content is another; the words do not name the file.
    """
    file = _files.setdefault((path, sha256), VerifiedFile(path, sha256))
    os.close(file.open())
