"""Makes an Apptainer image's file follow from what is in it: no build date, no random id, no user of the machine.

Apptainer stamps an image file with the time and a random id, and its metadata with the build's date. This writes the
commit's time in their places. The layout is that of the SIF format, version 1 (github.com/apptainer/sif).
"""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from common.errors import UserError

__all__ = ["BUILD_DATE", "normalise", "stamp"]

BUILD_DATE = "org.label-schema.build-date"
"""The label with the date of a build."""

_HEADER = struct.Struct("<32s10s3s3s16s8q")
_DESCRIPTOR = struct.Struct("<i?III7q128s384s")
_MAGIC = b"SIF_MAGIC\0"
_SIGNATURE, _JSON = 0x4005, 0x4006
_NO_ID = bytes(16)


def stamp(seconds: int) -> str:
    """Return a time in the form of Apptainer's label."""
    return f"{datetime.fromtimestamp(seconds, UTC):%A_%d_%B_%Y_%H:%M:%S}_UTC"


def normalise(image: Path, seconds: int) -> None:
    """Write one time in place of every time of an image file, zeros in place of its id and its users' numbers.

    Args:
        image: the file, changed in place; before it is signed.
        seconds: the time, in seconds since 1970.

    Raises:
        UserError: it is no SIF file of version 1, or it is signed already.
    """
    with image.open("r+b") as file:
        raw = file.read(_HEADER.size)
        if len(raw) < _HEADER.size or raw[32:42] != _MAGIC:
            raise UserError(f"{image}: not an image file (SIF)")
        launch, magic, version, arch, _, _, _, free, total, at, size, data, length = _HEADER.unpack(raw)
        if version != b"01\0":
            raise UserError(f"{image}: version {version!r} of the SIF format is not known here")
        header = (launch, magic, version, arch, _NO_ID, seconds, seconds, free, total, at, size, data, length)
        file.seek(0)
        file.write(_HEADER.pack(*header))
        file.seek(at)
        rows = [_DESCRIPTOR.unpack(file.read(_DESCRIPTOR.size)) for _ in range(total)]
        if any(row[0] == _SIGNATURE for row in rows if row[1]):
            raise UserError(f"{image}: it is signed; a signature is made after this")
        ends = data
        starts = sorted(row[5] for row in rows if row[1])
        for number, (kind, used, own, group, linked, offset, bytes_, *_, name, extra) in enumerate(rows):
            if not used:
                continue
            if kind == _JSON:
                room = min((start for start in starts if start > offset), default=offset + bytes_) - offset
                bytes_ = _dated(file, offset, bytes_, room, seconds)
            # With the padding before it, which follows from the lengths of those before.
            padded = offset + bytes_ - ends
            ends = offset + bytes_
            file.seek(at + number * _DESCRIPTOR.size)
            row = (
                kind,
                used,
                own,
                group,
                linked,
                offset,
                bytes_,
                padded,
                seconds,
                seconds,
                0,
                0,
                name,
                extra,
            )
            file.write(_DESCRIPTOR.pack(*row))


def _dated(file: BinaryIO, offset: int, size: int, room: int, seconds: int) -> int:
    """Set the build date in an image's metadata, in the place it has, and return the new size."""
    file.seek(offset)
    content = json.loads(file.read(size))
    _date(content, stamp(seconds))
    text = json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
    # Dates differ by a few letters; the next object begins at a multiple of 4,096 bytes, with zeros before it.
    if len(text) > room:
        raise UserError("an image's metadata does not fit into its place; build the image again")
    file.seek(offset)
    file.write(text.ljust(room, b"\0"))
    return len(text)


def _date(content: object, date: str) -> None:
    if isinstance(content, dict):
        for key, value in content.items():
            if key == BUILD_DATE:
                content[key] = date
            else:
                _date(value, date)
