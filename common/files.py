"""Files that are either whole or absent, their hashes, and the folders of caches that one user alone writes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from common.errors import UserError
from common.reading import open_plain, read_bounded

_OLD = ".old"
"""The end of the name of a folder that is being replaced."""


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in `path`'s folder that becomes `path` when the block ends well.

    The file is flushed to disk before the rename, so a killed process or a lost machine leaves either the old file or
    the new one. A temporary file that such a process leaves is removed by the next writer of `path`. After an error
    the temporary file is removed and `path` is as it was. A link stays a link to the file that is written; a device or
    a pipe is yielded itself.

    Raises:
        OSError: with the name that the user gave, also where the temporary file could not be written.
    """
    is_device = path.exists() and not path.is_file() and not path.is_dir()
    if is_device:
        with _named(path):
            yield path
        return

    # The rename below would replace a link, not the file that it leads to.
    target = path.resolve() if path.is_symlink() else path
    temporary = target.with_name(temporary_name(target.name, target.suffix))
    with _named(path, also=temporary):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, target.name)
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_folder(target.parent)
        finally:
            # An error of this removal would hide the error that counts.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `path` that takes the place of `path` when the block ends well.

    Its files are flushed to disk before the rename, and whoever may read the folder may read them. A link stays a link
    to the folder that is written.
    """
    target = path.resolve() if path.is_symlink() else path
    temporary = target.with_name(temporary_name(target.name))
    # Where the folder that is there now goes while the new one takes its place.
    old = temporary.with_name(f"{temporary.name}{_OLD}")
    # Outside the `try` below: before the temporary folder is made, nothing has to be removed or moved back.
    with _named(path, also=temporary):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, target.name)
        temporary.mkdir()

    try:
        with _named(path, also=temporary):
            yield temporary
            # Owner, group and others may read a file if they may read the folder.
            may_read = temporary.stat().st_mode & 0o444
            for item in temporary.rglob("*"):
                if item.is_file():
                    # Some libraries, such as safetensors, let only the owner read a file, whatever the umask is.
                    if not item.is_symlink():
                        item.chmod(item.stat().st_mode | may_read)
                    with item.open("rb") as file:
                        os.fsync(file.fileno())
                elif item.is_dir():
                    sync_folder(item)

            sync_folder(temporary)
            # A rename replaces only an empty folder.
            if target.exists():
                target.rename(old)
            temporary.replace(target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        # The old folder was moved aside, but the new one could not take its place.
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder next to `path`; it is removed at the end, or after a kill by the next call for `path`."""
    remove_leftovers(path.parent, path.name)
    temporary = path.with_name(temporary_name(path.name))
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_folder(path: Path) -> None:
    """Remove a folder, never half: what a killed process leaves of it has a temporary name."""
    temporary = path.rename(path.with_name(temporary_name(path.name)))
    shutil.rmtree(temporary, ignore_errors=True)


def temporary_name(name: str, suffix: str = "") -> str:
    """Return the name of a temporary file or folder in whose place `name` will be.

    It says which process of which machine uses it, and is short enough for a file system however long `name` is:
    `.model.json.1f0c9a-4242-9e3b7d10.tmp.json`.

    Args:
        name: the name of what is written.
        suffix: the temporary name ends in it, for libraries that choose a format by the suffix.
    """
    short_suffix = suffix if len(suffix) < 20 else ""
    owner = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return f".{_short(name)}.{owner}.tmp{short_suffix}"


_TEMPORARY = re.compile(
    r"\.(?P<short>.+)\.(?P<machine>[0-9a-f]{6})-(?P<process>\d+)-[0-9a-f]{8}\.tmp(\..*)?",
    re.DOTALL,
)
"""A name of `temporary_name`, also with `_OLD` behind it."""
_DAY = 86_400.0


def remove_leftovers(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes have left in a folder while they wrote `name` there; None: any name.

    Only what has a name of `temporary_name` is removed: that of a process of this machine that has ended, or that of
    another machine's process if it was not touched for a day.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        # All names first: what is removed below must not change what is listed.
        temporaries = []
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match is not None:
                temporaries.append((Path(entry.path), match))

        for path, match in temporaries:
            # `temporary_name` cuts long names, so two cut names are compared.
            short = match["short"]
            if name is not None and short != _short(name):
                continue
            is_local = match["machine"] == _machine()
            if is_local and is_alive(int(match["process"])):
                continue

            # Whether a process of another machine lives cannot be asked: only its files' age tells.
            if not is_local and time.time() - path.lstat().st_mtime < _DAY:
                continue
            if path.is_dir() and not path.is_symlink():
                # What the temporary folder was to become. Without `name`, only its short form is known.
                target = folder / (name or short)
                if path.name.endswith(_OLD) and not target.exists():
                    # The old folder was moved aside to be replaced, and the new one never came: restore it. Then
                    # there is no folder `path` any more, which the next line passes over.
                    path.rename(target)
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Return whether a name is one of `temporary_name`."""
    return _TEMPORARY.fullmatch(name) is not None


def _short(name: str) -> str:
    """Return the first 150 bytes of a name; file systems allow 255, and `temporary_name` adds more."""
    return name.encode(errors="surrogateescape")[:150].decode(errors="ignore")


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, so that a rename in it survives a lost machine; where that cannot be done,
    do nothing.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@functools.cache
def _machine() -> str:
    """Return six hexadecimal digits for this machine."""
    # `host_name` includes the namespace of process ids: two containers of one host may each have a process 12.
    from filelock._identity import host_name

    return hashlib.sha256(host_name().encode()).hexdigest()[:6]


def is_alive(pid: int) -> bool:
    """Return whether a process of this machine runs, also another user's."""
    try:
        os.kill(pid, 0)  # signal 0 only asks whether there is such a process
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's

    try:
        stat_line = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # not Linux
        return True

    # Such as `12 (python) S 1 ...`: the state, S, follows the program's name, which may have brackets of its own.
    _, _, after_name = stat_line.rpartition(b")")
    state = after_name.split()[0]

    # Z is a zombie, X is dead. A container without an init process keeps a killed process as a zombie, and signals
    # reach it.
    return state not in (b"Z", b"X")


@contextlib.contextmanager
def _named(path: Path, also: Path | None = None) -> Iterator[None]:
    """Make an OSError of the block name the path that the user gave.

    Args:
        path: the user's path.
        also: a temporary path, which the user does not know: an error that names it, or what is in it, gets the user's
            path instead. So does an error that names nothing, as of a full disk.
    """
    try:
        yield
    except OSError as error:
        is_nameless = error.filename is None
        is_temporary_path = also is not None and str(error.filename).startswith(
            str(also)
        )
        if is_nameless or is_temporary_path:
            # A failed rename names two paths; now the error names only the one that the user knows.
            error.filename, error.filename2 = str(path), None
        raise


def nearest_existing(path: Path) -> Path:
    """Return a path, or, if it is not there, the nearest folder above it that is."""
    return next(place for place in (path, *path.parents) if place.exists())


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically, making its folder."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def append_bytes(path: Path, content: bytes) -> None:
    """Append `content` to `path` and flush it to disk, making the folder; a kill may leave a part of the content."""
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        with path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # The file's content is on the disk, but not yet its name.
        if is_new:
            sync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Append a line to `path`, making its folder."""
    content = f"{line}\n".encode()
    if path.is_file() and path.stat().st_size > 0:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            last_byte = file.read(1)
        # A full disk may have cut the last line: it stays a line of its own.
        if last_byte != b"\n":
            content = b"\n" + content
    append_bytes(path, content)


def write_text(path: Path, content: str) -> None:
    """Write `content` to `path` atomically as UTF-8 with Unix line ends, making its folder."""
    write_bytes(path, content.encode("utf-8"))


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files, making their folders: where one cannot be written, as on a full disk, all are as they were."""
    # Each temporary file takes its place only when the stack is left, so once all of them were written.
    with contextlib.ExitStack() as all_written:
        for path, content in contents.items():
            temporary = all_written.enter_context(atomic_path(path))
            temporary.write_bytes(content)
            # Some file systems notice only here that the disk is full. A device cannot be flushed.
            if temporary.is_file():
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())


def sha256_bytes(content: bytes) -> str:
    """Return the SHA-256 of `content`, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a regular file's content, in hexadecimal."""
    with os.fdopen(open_plain(path), "rb", buffering=0) as file:
        return sha256_open(file.fileno())


def state_of(status: os.stat_result) -> tuple[int, ...]:
    """Return a file's device, inode, size and time of last change: while these stay the same, so does its content."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def written(path: Path) -> str:
    """Return a file's size and the time of its last change: where both are as before, its content hardly differs."""
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def sha256_open(descriptor: int) -> str:
    """Return the SHA-256 of an open file's content, in hexadecimal; the file is at its beginning afterwards."""
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
    return digest


def cache_folder() -> Path:
    """Return the folder for what can be made again: `clm-or-mlm` in CLM_OR_MLM_CACHE, else in the user's cache."""
    chosen = os.environ.get("CLM_OR_MLM_CACHE")
    if chosen:
        return Path(chosen).expanduser() / "clm-or-mlm"
    place = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # A relative path, or none, does not count, as the XDG specification says.
    if not place.is_absolute():
        place = Path.home() / ".cache"
    return place / "clm-or-mlm"


TAG = "CACHEDIR.TAG"
"""The file that marks a folder of caches."""
_TAG_TEXT = b"Signature: 8a477f597d28d172789f06886806bc55\n# A cache of clm-or-mlm; it can be deleted.\n"


def mark_cache(folder: Path) -> None:
    """Make a folder of caches, if need be, with the mark by which backups leave it out (bford.info/cachedir)."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / TAG).exists():
        write_bytes(folder / TAG, _TAG_TEXT)


def is_marked(folder: Path) -> bool:
    """Return whether a folder has the mark of `mark_cache`: all that is in it is this package's."""
    try:
        return read_bounded(folder / TAG, len(_TAG_TEXT)) == _TAG_TEXT
    except (OSError, UserError):
        return False


def scratch_folder(place: str = "") -> Path:
    """Return this user's folder for large caches; it is not made.

    Args:
        place: the folder that the user chose; empty: $CLM_OR_MLM_SCRATCH, else $SLURM_TMPDIR, else the user's own
            cache folder.
    """
    for name in ("CLM_OR_MLM_SCRATCH", "SLURM_TMPDIR"):
        place = place or os.environ.get(name, "")
    if not place:
        return cache_folder()
    # Users may share such a place, so each has a folder in it.
    return Path(place).expanduser() / f"clm-or-mlm-{os.getuid()}"


def share_with_group(folder: Path) -> None:
    """Let the folder's group write what this process and its children make, if it may write the folder itself."""
    # The mask of a process has the permissions that its files do not get; it can be read only by setting another.
    mask = os.umask(0)
    may_group_write = folder.stat().st_mode & stat.S_IWGRP
    if may_group_write:
        mask &= ~stat.S_IRWXG
    os.umask(mask)


def private_folder(path: Path) -> Path:
    """Make a folder that its user alone can read and write, if need be, and return it.

    Raises:
        UserError: a file, a link or a folder of someone else's is there.
        OSError: it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise UserError(
            f"{path} is not a folder, so it cannot be a cache; remove it or choose another folder"
        )

    if status.st_uid != os.getuid():
        raise UserError(
            f"{path} belongs to another user (UID {status.st_uid}), so its contents cannot be trusted; "
            f"choose another cache folder"
        )

    if stat.S_IMODE(status.st_mode) != 0o700:
        path.chmod(0o700)
    return path
