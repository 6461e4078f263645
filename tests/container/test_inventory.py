import json
import re
import subprocess
from pathlib import Path

import pytest

from common.errors import UserError
from common.provenance import ROOT
from container import inventory
from container.inventory import (
    blob_id,
    differences,
    main,
    read_debian_lock,
    read_requirements,
    sbom,
    source_files,
)  # fmt: skip


def test_blob_ids_are_gits() -> None:
    answer = subprocess.run(["git", "hash-object", "--stdin"], input=b"some text\n", capture_output=True)
    assert blob_id(b"some text\n") == answer.stdout.decode().strip()


def test_a_source_tree_is_told_apart_by_one_byte(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text("x = 1\n")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.pyc").write_text("")
    before = source_files(tmp_path)
    assert list(before) == ["room/module.py"]
    (tmp_path / "room" / "module.py").write_text("x = 2\n")
    assert differences("file", before, source_files(tmp_path))[0].startswith("file room/module.py is ")


def test_locked_pins_are_read_for_this_python() -> None:
    pins = read_requirements(ROOT / "requirements" / "analysis.txt")
    assert re.fullmatch(r"\d+\.\d+\.\d+", pins["numpy"])
    # Two versions of these are locked, for other Pythons than this one too.
    assert "scipy" in pins
    assert "contourpy" in pins
    assert "colorama" not in pins


def test_a_line_that_is_no_pin_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("numpy>=2\n")
    with pytest.raises(UserError, match=r"requirements.txt:1: not a pinned requirement"):
        read_requirements(path)


def test_differences_name_what_is_missing_unexpected_and_other() -> None:
    lines = differences("package", {"a": "1", "b": "1"}, {"b": "2", "c": "1"})
    assert lines == [
        "package a 1 is missing",
        "package b is 2, expected 1",
        "package c 1 is not expected",
    ]


def test_the_sbom_is_sorted_hashed_and_without_time() -> None:
    document = sbom({"numpy": "2", "attrs": "1"}, {"bash": "5"}, {"bash": "00ff"}, {"commit": "abc"})
    assert document == sbom({"attrs": "1", "numpy": "2"}, {"bash": "5"}, {"bash": "00ff"}, {"commit": "abc"})
    components = document["components"]
    assert isinstance(components, list)
    assert [item["purl"] for item in components] == [
        "pkg:deb/debian/bash@5", "pkg:pypi/attrs@1", "pkg:pypi/numpy@2",
    ]  # fmt: skip
    assert components[0]["hashes"] == [{"alg": "SHA-256", "content": "00ff"}]
    assert "timestamp" not in json.dumps(document)


def test_another_set_of_debian_packages_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "debian.lock"
    lock.write_text("# bookworm 20260101T000000Z\nbash 5.2 00\nzlib1g 1.2 11\n")
    monkeypatch.setattr(inventory, "debian_packages", lambda: {"bash": "5.3", "zlib1g": "1.2"})
    monkeypatch.setattr(inventory, "debian_hashes", lambda: {"zlib1g": "22"})
    with pytest.raises(UserError, match=r"bash is 5.3, expected 5.2; .*zlib1g has another SHA-256"):
        main(["--write", str(tmp_path / "sbom.json"), "--debian-lock", str(lock)])
    assert not (tmp_path / "sbom.json").exists()


def test_committed_debian_locks_are_complete() -> None:
    for path in (ROOT / "container").glob("debian-*.lock"):
        rows = read_debian_lock(path)
        assert rows["python3.11"][0].startswith("3.11.")
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for _, digest in rows.values())
