"""The same bytes for the same commit, locks and mksquashfs: nothing in an image differs from build to build.

mksquashfs leaves out, empties or replaces what a build or its machine put there; then the image file, whose layout is
that of the SIF format, version 1 (github.com/apptainer/sif), gets the commit's time in place of the build's, and no
random id.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from common.errors import UserError
from common.files import write_text

_BUILD_DATE = "org.label-schema.build-date"
_FIELD = re.compile(r"\{\{ (\w+) \}\}")
"""What Apptainer fills by an argument of the build."""
_EMPTIED = {
    "var/log": "0755",
    "var/cache/apt": "0755",
    "var/lib/systemd": "0755",
    "tmp": "1777",
    "var/tmp": "1777",
    "root": "0700",
    "context": "0755",
}
"""Folders that are packed empty, with their modes."""

_HIDDEN = (
    "etc/machine-id",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/subuid-",
    "etc/subgid-",
    "etc/.pwd.lock",
    "var/cache/ldconfig/aux-cache",
    "var/cache/debconf/config.dat-old",
    "var/cache/debconf/templates.dat-old",
    "var/cache/debconf/passwords.dat-old",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/statoverride-old",
)
"""Files that differ from build to build or machine to machine, and that nothing in an image reads."""


def mksquashfs_words(context: Path, labels: Mapping[str, str], seconds: int) -> str:
    """Return the words that make mksquashfs write one time everywhere, and our labels in place of Apptainer's.

    Apptainer writes its labels, with the build's date, after every script of ours. Nothing is removed from the root,
    from where a script could reach the machine's own folders.

    Args:
        context: the folder that the build reads; what is laid into the image is written there.
        labels: the image's.
        seconds: the time, in seconds since 1970.
    """
    contents = {
        ".singularity.d/labels.json": json.dumps(labels, sort_keys=True) + "\n",
        "etc/hostname": "localhost\n",
        "etc/resolv.conf": "",
    }
    # mksquashfs calls files that it makes itself pseudo files.
    pseudo_files = [f"/{path} d {mode} 0 0" for path, mode in _EMPTIED.items()]
    for path, text in contents.items():
        source = context / Path(path).name
        write_text(source, text)
        pseudo_files.append(f"/{path} f 0644 0 0 cat {source}")
    write_text(context / "hidden", "\n".join((*contents, *_EMPTIED, *_HIDDEN)) + "\n")
    write_text(context / "made", "\n".join(pseudo_files) + "\n")
    # zstd at level 6 takes a tenth of gzip's time and gives the same size.
    words = f"-comp zstd -Xcompression-level 6 -all-time {seconds} -mkfs-time {seconds}"
    return f"{words} -ef {context / 'hidden'} -pf {context / 'made'}"


def labels_of(
    definition: str, arguments: Mapping[str, str], seconds: int
) -> dict[str, str]:
    """Return an image's labels: its definition's, with fields filled, and the usual ones with the commit's time."""
    section = definition.partition("\n%labels\n")[2].partition("\n%")[0]
    labels = {"org.label-schema.schema-version": "1.0", _BUILD_DATE: _stamp(seconds)}
    for line in section.splitlines():
        key, _, value = line.strip().partition(" ")
        if not key:
            continue
        labels[key] = _FIELD.sub(lambda field: arguments[field[1]], value.strip())
    return labels


_HEADER = struct.Struct("<32s10s3s3s16s8q")
"""Launcher, magic, version, machine, id; times of making and change, free and all descriptors, their place and size,
place and size of the data."""
_DESCRIPTOR = struct.Struct("<i?III7q128s384s")
"""Kind, whether it is used, id, group, link; place, size, size with padding, two times, user, group; name, more."""
_SIGNATURE, _JSON = 0x4005, 0x4006


def normalise(image: Path, seconds: int) -> None:
    """Write one time in place of every time of an image file, zeros in place of its id and its users' numbers.

    Args:
        image: the file, changed in place; before it is signed.
        seconds: the time, in seconds since 1970.

    Raises:
        UserError: it is no SIF file of version 1, or it is signed already.
    """
    with image.open("r+b") as file:
        head = file.read(_HEADER.size)
        if head[32:45] != b"SIF_MAGIC\x0001\0":
            raise UserError(f"{image}: not an image file (SIF, version 1)")
        launch, magic, version, machine, _, _, _, *places = _HEADER.unpack(head)
        _, total, table, _, end_of_previous, _ = places
        file.seek(table)
        rows = [_Row.read(file) for _ in range(total)]
        used = [row for row in rows if row.is_used]
        if any(row.kind == _SIGNATURE for row in used):
            raise UserError(
                f"{image} is already signed; sign it after this step, not before"
            )
        starts = sorted(row.offset for row in used)
        for row in used:
            if row.kind == _JSON:
                row.size = _write_dated(file, image, row, starts, seconds)
            end = row.offset + row.size
            # An object's padding stands before it: the padded size counts from the end of the previous object.
            row.padded_size = end - end_of_previous
            end_of_previous = end
        file.seek(0)
        file.write(
            _HEADER.pack(
                launch, magic, version, machine, bytes(16), seconds, seconds, *places
            )
        )
        file.seek(table)
        file.write(b"".join(row.pack(seconds) for row in rows))


@dataclass(kw_only=True)
class _Row:
    """A descriptor: where an object of the file is."""

    kind: int
    is_used: bool
    ids: tuple[int, int, int]
    """Its id, group and link."""
    offset: int
    size: int
    padded_size: int
    times_and_users: tuple[int, int, int, int]
    name: bytes
    more: bytes

    @classmethod
    def read(cls, file: BinaryIO) -> _Row:
        """Read the descriptor at a file's place."""
        fields = _DESCRIPTOR.unpack(file.read(_DESCRIPTOR.size))
        kind, is_used, *ids = fields[:5]
        offset, size, padded_size = fields[5:8]
        return cls(
            kind=kind,
            is_used=is_used,
            ids=(ids[0], ids[1], ids[2]),
            offset=offset,
            size=size,
            padded_size=padded_size,
            times_and_users=fields[8:12],
            name=fields[12],
            more=fields[13],
        )

    def pack(self, seconds: int) -> bytes:
        """Return its bytes, with one time and without users where it is used."""
        times_and_users = self.times_and_users
        if self.is_used:
            times_and_users = (seconds, seconds, 0, 0)
        sizes = (self.offset, self.size, self.padded_size)
        return _DESCRIPTOR.pack(
            self.kind,
            self.is_used,
            *self.ids,
            *sizes,
            *times_and_users,
            self.name,
            self.more,
        )


def _write_dated(
    file: BinaryIO, image: Path, row: _Row, starts: Sequence[int], seconds: int
) -> int:
    """Write the image's metadata with another time, in its own place; return its new size.

    Raises:
        UserError: there is no room before the next object.
    """
    file.seek(row.offset)
    content = _dated(json.loads(file.read(row.size)), _stamp(seconds))
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    next_starts = (start for start in starts if start > row.offset)
    room = min(next_starts, default=row.offset + row.size) - row.offset
    # The new date may be a few letters longer. There is usually room: objects begin at multiples of 4,096 bytes.
    if len(text) > room:
        raise UserError(
            f"{image}: there is no room for its metadata; build the image again"
        )
    file.seek(row.offset)
    file.write(text.ljust(room, b"\0"))
    return len(text)


def _stamp(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%A_%d_%B_%Y_%H:%M:%S}_UTC"


def _dated(content: Any, date: str) -> Any:
    """Return an image's metadata with another date of its build."""
    if not isinstance(content, dict):
        return content
    return {
        key: date if key == _BUILD_DATE else _dated(value, date)
        for key, value in content.items()
    }
