"""How images are packed; times, ids and users in an image file, on files in the SIF format made here."""

import json
import os
import random
import struct
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container.same_bytes import labels_of, mksquashfs_words, normalise

TIME = 1_700_000_000
BUILD_DATE = "org.label-schema.build-date"


def _image(path: Path, date: str, seed: int, signed: bool = False) -> Path:
    """Write a small image file in Apptainer's layout, with times, ids and users that follow from the seed."""
    draw = random.Random(seed)
    inner = {"labels": {BUILD_DATE: date, "a": "b"}, "environment": {}}
    metadata = json.dumps({"data": {"attributes": inner}, "type": "container"}).encode()
    objects = [(0x4001, b"definition"), (0x4006, metadata), (0x4004, b"squashfs" * 100)]
    objects += [(0x4005, b"signature")] if signed else []
    at, total = 4096, 6
    data = at + 585 * total
    rows, content, offset = [], b"", data
    for number, (kind, payload) in enumerate(objects, 1):
        start = offset if kind != 0x4004 else -(-offset // 4096) * 4096
        content = content.ljust(start - data, b"\0") + payload
        now, user = draw.randrange(2**31), draw.randrange(1000)
        rows.append(
            struct.pack(
                "<i?III7q128s384s",
                kind,
                True,
                number,
                1,
                0,
                start,
                len(payload),
                start + len(payload) - offset,
                now,
                now,
                user,
                user,
                b"",
                b"",
            )
        )
        offset = start + len(payload)
    now = draw.randrange(2**31)
    header = struct.pack(
        "<32s10s3s3s16s8q",
        b"#!/usr/bin/env run-singularity\n",
        b"SIF_MAGIC\0",
        b"01\0",
        b"02\0",
        draw.randbytes(16),
        now,
        now,
        total - len(objects),
        total,
        at,
        585 * total,
        data,
        offset - data,
    )
    table = b"".join(rows).ljust(585 * total, b"\0")
    path.write_bytes(header.ljust(at, b"\0") + table + content)
    return path


def test_two_builds_of_the_same_content_are_the_same_bytes(tmp_path: Path) -> None:
    first = _image(tmp_path / "a", "Sunday_22_November_2026_0:25:59_UTC", 1)
    second = _image(tmp_path / "b", "Wednesday_3_September_2031_10:05:09_UTC", 2)
    assert first.read_bytes() != second.read_bytes()
    for path in (first, second):
        normalise(path, TIME)
    assert first.read_bytes() == second.read_bytes()
    text = first.read_bytes()
    assert (
        b"Tuesday_14_November_2023_22:13:20_UTC" in text
        and b"squashfs" * 100 in text
        and b"definition" in text
    )
    assert b"2026" not in text and b"2031" not in text
    assert len(text) == (tmp_path / "b").stat().st_size


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    path = _image(tmp_path / "a", "x", 1)
    normalise(path, TIME)
    before = path.read_bytes()
    normalise(path, TIME)
    assert path.read_bytes() == before


def test_signed_and_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    signed = _image(tmp_path / "a", "x", 1, signed=True)
    before = signed.read_bytes()
    with pytest.raises(UserError, match="is already signed"):
        normalise(signed, TIME)
    other = tmp_path / "b"
    other.write_bytes(os.urandom(500))
    with pytest.raises(UserError, match="not an image file"):
        normalise(other, TIME)
    assert signed.read_bytes()[4096:] == before[4096:]


def test_labels_are_the_definitions_dated_by_the_commit() -> None:
    definition = (ROOT / "container" / "analysis.def").read_text("utf-8")
    found = labels_of(
        definition, {"COMMIT": "abc", "LOCK": "00", "SNAPSHOT": "2026"}, 0
    )
    assert found["org.opencontainers.image.revision"] == "abc"
    assert found["clm-or-mlm.debian"] == "bookworm 2026"
    assert found["org.opencontainers.image.title"] == "clm-or-mlm analysis"
    assert found[BUILD_DATE] == "Thursday_01_January_1970_00:00:00_UTC"


def test_our_labels_take_the_place_of_apptainers_own(
    tmp_path: Path,
) -> None:
    line = mksquashfs_words(tmp_path, {"b": "2", "a": "1"}, 7)
    assert line.startswith(
        "-comp zstd -Xcompression-level 6 -all-time 7 -mkfs-time 7 -ef "
    )
    hidden = (tmp_path / "hidden").read_text().splitlines()
    made = (tmp_path / "made").read_text().splitlines()
    assert f"/.singularity.d/labels.json f 0644 0 0 cat {tmp_path}/labels.json" in made
    assert "/tmp d 1777 0 0" in made and (tmp_path / "resolv.conf").read_text() == ""
    # What is laid in a place is left out there first.
    assert {line.split()[0].lstrip("/") for line in made} <= set(hidden)
    assert {"etc/machine-id", "var/log", "var/cache/ldconfig/aux-cache"} <= set(hidden)
    assert json.loads((tmp_path / "labels.json").read_text()) == {"a": "1", "b": "2"}


def test_a_builds_scripts_remove_nothing_of_the_machines_own() -> None:
    """Apptainer shows /tmp, /var/tmp and the home of the machine while it builds."""
    for name in ("post.sh", "analysis.def", "full.def"):
        for line in (ROOT / "container" / name).read_text("utf-8").splitlines():
            if line.strip().startswith(("rm ", "find ")):
                ours = ("/var/cache/archives", "/etc/apt", "/usr")
                places = [
                    word
                    for word in line.split()[1:]
                    if word.startswith(("/", "$", "~", ".")) and word != "/6000"
                ]
                assert places and all(word.startswith(ours) for word in places), line


def test_another_content_stays_another(tmp_path: Path) -> None:
    first, second = _image(tmp_path / "a", "x", 1), _image(tmp_path / "b", "x", 1)
    content = second.read_bytes().replace(b"squashfs", b"squashfz", 1)
    second.write_bytes(content)
    for path in (first, second):
        normalise(path, TIME)
    assert first.read_bytes() != second.read_bytes()
