"""How an image is packed: its compression, and nothing in it that differs from build to build."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from common.errors import UserError, nearest
from common.files import write_text
from container.sif import BUILD_DATE, stamp

__all__ = ["COMPRESSIONS", "labels_of", "packs_with_words", "same_bytes", "squashfs_options"]

COMPRESSIONS = ("zstd", "gzip")
"""How images can be packed."""


def packs_with_words(apptainer: tuple[int, int]) -> bool:
    """Return whether an Apptainer hands words to mksquashfs, as it does since 1.3."""
    return apptainer >= (1, 3)


def squashfs_options(compression: str, apptainer: tuple[int, int]) -> list[str]:
    """Return the words that make Apptainer pack an image; gzip is what it does by itself.

    Raises:
        UserError: an unknown compression.
    """
    if compression not in COMPRESSIONS:
        known = nearest(compression, COMPRESSIONS)
        raise UserError(f"unknown compression {compression!r}{known}; take {' or '.join(COMPRESSIONS)}")
    if compression == "gzip" or not packs_with_words(apptainer):
        return []
    # At this level a tenth of gzip's time at the same size, or less of both.
    return ["--mksquashfs-args", "-comp zstd -Xcompression-level 6"]


def same_bytes(packed: Sequence[str], context: Path, labels: dict[str, str], seconds: int) -> list[str]:
    """Return the words that also make mksquashfs write one time everywhere, and labels without the build's date.

    Apptainer writes its labels last, after every script of ours: its file is left out, and another laid in its place.
    So are logs, caches and what debootstrap copies from the machine that builds; nothing is removed from the root, from
    where a script could reach the machine's own folders.

    Args:
        packed: what `squashfs_options` returns.
        context: the folder that the build reads.
        labels: the image's.
        seconds: the time, in seconds since 1970.
    """
    write_text(context / "labels.json", json.dumps(labels, sort_keys=True) + "\n")
    write_text(context / "hostname", "localhost\n")
    write_text(context / "empty", "")
    files = {
        ".singularity.d/labels.json": "labels.json",
        "etc/hostname": "hostname",
        "etc/resolv.conf": "empty",
    }
    made = [f"/{path} f 0644 0 0 cat {context / name}" for path, name in files.items()]
    made += [f"/{path} d {mode} 0 0" for path, mode in _EMPTIED.items()]
    write_text(context / "hidden", "".join(f"{path}\n" for path in (*files, *_EMPTIED, *_HIDDEN)))
    write_text(context / "made", "".join(f"{line}\n" for line in made))
    words = [*packed[1:], "-all-time", str(seconds), "-mkfs-time", str(seconds)]
    words += ["-ef", str(context / "hidden"), "-pf", str(context / "made")]
    return ["--mksquashfs-args", " ".join(words)]


_EMPTIED = {
    "var/log": "0755", "var/cache/apt": "0755", "var/lib/systemd": "0755", "tmp": "1777", "var/tmp": "1777",
    "root": "0700", "context": "0755",
}  # fmt: skip
"""Folders that are packed empty, with their modes."""

_HIDDEN = (
    "etc/machine-id", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/subuid-", "etc/subgid-",
    "etc/.pwd.lock", "var/cache/ldconfig/aux-cache", "var/cache/debconf/config.dat-old",
    "var/cache/debconf/templates.dat-old", "var/cache/debconf/passwords.dat-old", "var/lib/dpkg/status-old",
    "var/lib/dpkg/diversions-old", "var/lib/dpkg/statoverride-old", "var/lib/apt/extended_states",
)  # fmt: skip
"""Files that differ from build to build or machine to machine, and that nothing in an image reads."""


def labels_of(definition: str, arguments: Mapping[str, str], seconds: int) -> dict[str, str]:
    """Return an image's labels: those of its definition, filled, and the usual ones with the commit's time."""
    section = definition.partition("\n%labels\n")[2].partition("\n%")[0]
    found = {"org.label-schema.schema-version": "1.0", BUILD_DATE: stamp(seconds)}
    for line in filter(None, map(str.strip, section.splitlines())):
        key, _, value = line.partition(" ")
        found[key] = re.sub(r"\{\{ (\w+) \}\}", lambda match: arguments[match[1]], value.strip())
    return found
