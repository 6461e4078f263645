"""The same bytes for the same commit, locks and mksquashfs: nothing in an image differs from build to build.

This takes two steps. mksquashfs, which packs the image's file system, leaves out, empties or replaces what depends on
the build or its machine. Then the image file gets the commit's time in place of the build's, and no random id.

An image file has the SIF format, version 1 (github.com/apptainer/sif): a header, a table of descriptors, and objects. A
descriptor says what an object is (the file system, labels, a signature) and where it is in the file.
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
"""A field of a definition, such as `{{ COMMIT }}`, in whose place Apptainer writes an argument of the build."""
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
    """Return mksquashfs's options that make it pack the same bytes in every build, as one text.

    It writes one time everywhere, leaves out what differs, and packs labels and other files from `context` in place of
    those of the build. A script in the image could not do this: Apptainer writes its labels, with the build's date,
    after all of them, and a script that removes files could reach the machine's own folders.

    Args:
        context: the folder that the build reads; the files that are packed are written there.
        labels: the image's labels by name (`labels_of`).
        seconds: the time, in seconds since 1970.
    """
    contents = {
        ".singularity.d/labels.json": json.dumps(labels, sort_keys=True) + "\n",
        "etc/hostname": "localhost\n",
        "etc/resolv.conf": "",
    }

    # mksquashfs calls files and folders that it makes itself pseudo files. A line of its list: the path, d for a folder
    # or f for a file, mode, owner and group (root), and for a file the command whose output is the content.
    pseudo_files = [f"/{path} d {mode} 0 0" for path, mode in _EMPTIED.items()]
    for path, text in contents.items():
        source = context / Path(path).name
        write_text(source, text)
        pseudo_files.append(f"/{path} f 0644 0 0 cat {source}")

    # Not packed from the build: what mksquashfs makes itself, and the files of `_HIDDEN`.
    left_out = (*contents, *_EMPTIED, *_HIDDEN)
    write_text(context / "hidden", "\n".join(left_out) + "\n")
    write_text(context / "made", "\n".join(pseudo_files) + "\n")

    # zstd at level 6 takes a tenth of gzip's time and gives the same size.
    # -ef gives the list of what is left out, -pf that of the pseudo files.
    words = f"-comp zstd -Xcompression-level 6 -all-time {seconds} -mkfs-time {seconds}"
    return f"{words} -ef {context / 'hidden'} -pf {context / 'made'}"


def labels_of(
    definition: str, arguments: Mapping[str, str], seconds: int
) -> dict[str, str]:
    """Return an image's labels: its definition's, with fields filled, and those that Apptainer adds to every image.

    Args:
        definition: the text of the definition file, with a section `%labels` of lines `name value`.
        arguments: what is written in place of the fields, by name.
        seconds: the date of the build that one label gives, in seconds since 1970.
    """
    # The section ends where the next one begins.
    _, _, from_section = definition.partition("\n%labels\n")
    section, _, _ = from_section.partition("\n%")
    labels = {"org.label-schema.schema-version": "1.0", _BUILD_DATE: _stamp(seconds)}
    for line in section.splitlines():
        key, _, value = line.strip().partition(" ")
        if not key:
            continue
        labels[key] = _FIELD.sub(lambda field: arguments[field[1]], value.strip())
    return labels


_HEADER = struct.Struct("<32s10s3s3s16s8q")
"""Launcher, magic, version, machine, id; time of creation and of the last change; numbers of free and of all
descriptors; offset and size of their table; offset and size of the data, which are all objects."""
_DESCRIPTOR = struct.Struct("<i?III7q128s384s")
"""Kind, whether it is used, id, group, link; offset, size, size with padding, time of creation and of the last change,
user, group of users; name, and details that depend on the kind."""
_SIGNATURE, _JSON = 0x4005, 0x4006
"""Kinds of objects: a signature; the image's metadata, which have its labels, as JSON."""


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
        # Behind the 32 bytes of the launcher stand the magic, SIF_MAGIC and a zero byte, and the version, 01
        # and a zero byte. In the text below, \x00 is the first zero byte, and 01 the version.
        if head[32:45] != b"SIF_MAGIC\x0001\0":
            raise UserError(f"{image}: not an image file (SIF, version 1)")

        # Left out are the id and the two times, which get new values. In `numbers` are the six others: of
        # descriptors, of their table and of the data.
        launch, magic, version, machine, _, _, _, *numbers = _HEADER.unpack(head)
        # Free and all descriptors; offset and size of their table; offset and size of the data.
        _, n_descriptors, table, _, data, _ = numbers
        file.seek(table)
        descriptors = [_Descriptor.read(file) for _ in range(n_descriptors)]
        used = [descriptor for descriptor in descriptors if descriptor.is_used]

        # A signature is of the bytes as they were: it would no longer be valid.
        if any(descriptor.kind == _SIGNATURE for descriptor in used):
            raise UserError(
                f"{image} is already signed; sign it after this step, not before"
            )

        # The metadata get another date, in the file; the sizes that follow from it are written below. Where
        # each object begins, by which `_write_dated` finds the room of the metadata:
        starts = sorted(descriptor.offset for descriptor in used)
        # Descriptors are in the order of their objects. An object's padding stands before it: the padded size counts
        # from the end of the previous object, or from the beginning of the data.
        end_of_previous = data
        for descriptor in used:
            # The metadata hold a date in words, which may have another length.
            if descriptor.kind == _JSON:
                descriptor.size = _write_dated(file, image, descriptor, starts, seconds)
            end = descriptor.offset + descriptor.size
            descriptor.padded_size = end - end_of_previous
            end_of_previous = end

        # Header and table, in their places: new values take as many bytes as the old ones.
        file.seek(0)
        file.write(
            _HEADER.pack(
                launch, magic, version, machine, bytes(16), seconds, seconds, *numbers
            )
        )
        file.seek(table)
        packed = [descriptor.pack(seconds) for descriptor in descriptors]
        file.write(b"".join(packed))


@dataclass(kw_only=True)
class _Descriptor:
    """What one object of the file is, and where it is; the fields of `_DESCRIPTOR`."""

    kind: int
    is_used: bool
    ids: tuple[int, int, int]
    """Its id, group and link."""
    offset: int
    size: int
    padded_size: int
    times_and_users: tuple[int, int, int, int]
    """Time of creation, time of the last change, user, group of users."""
    name: bytes
    details: bytes

    @classmethod
    def read(cls, file: BinaryIO) -> _Descriptor:
        """Read a descriptor from where the file stands, and move behind it."""
        fields = _DESCRIPTOR.unpack(file.read(_DESCRIPTOR.size))
        # In the order of `_DESCRIPTOR`. `ids` is a list of three; a type checker wants the tuple spelt out.
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
            details=fields[13],
        )

    def pack(self, seconds: int) -> bytes:
        """Return its bytes. If it is used, they have the time `seconds` in place of both times, and 0 for the users."""
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
            self.details,
        )


def _write_dated(
    file: BinaryIO,
    image: Path,
    descriptor: _Descriptor,
    starts: Sequence[int],
    seconds: int,
) -> int:
    """Write the image's metadata with another date, where they are in the file; return their new size.

    Args:
        file: the image file, open for reading and writing.
        image: its path, for the message.
        descriptor: the descriptor of the metadata.
        starts: the offsets of all objects.
        seconds: the date, in seconds since 1970.

    Raises:
        UserError: there is no room before the next object.
    """
    file.seek(descriptor.offset)
    content = _dated(json.loads(file.read(descriptor.size)), _stamp(seconds))
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()

    # The room ends at the next object; behind the last one there is only its own size.
    later_starts = [start for start in starts if start > descriptor.offset]
    end = min(later_starts, default=descriptor.offset + descriptor.size)
    room = end - descriptor.offset

    # The new date may be a few letters longer. There is usually room: objects begin at multiples of 4,096 bytes.
    if len(text) > room:
        raise UserError(
            f"{image}: there is no room for its metadata; build the image again"
        )

    file.seek(descriptor.offset)
    # Zeros overwrite the rest of longer metadata.
    file.write(text.ljust(room, b"\0"))
    return len(text)


def _stamp(seconds: int) -> str:
    """Return a time as Apptainer writes it into a label: `Tuesday_14_November_2023_22:13:20_UTC`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%A_%d_%B_%Y_%H:%M:%S}_UTC"


def _dated(content: Any, date: str) -> Any:
    """Return an image's metadata with another date of its build, wherever in nested objects it is."""
    if not isinstance(content, dict):
        return content
    dated = {}
    for key, value in content.items():
        dated[key] = date if key == _BUILD_DATE else _dated(value, date)
    return dated
