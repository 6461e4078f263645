"""Pins, the files that they choose, and the lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.hub_files import LockedFile, Pin, choose, read_lock, write_lock
from common.errors import UserError


def test_choose() -> None:
    pin = Pin(role="train", repo="o/n", files=("a/*.parquet", "other:b/*.parquet"))
    assert choose(pin, {"main": ["a/2.parquet", "a/1.parquet"]}) == ("main", ["a/1.parquet", "a/2.parquet"])
    assert choose(pin, {"main": [], "other": ["b/1.parquet"]}) == ("other", ["b/1.parquet"])
    with pytest.raises(UserError, match="several folders"):
        choose(pin, {"main": ["a/b/1.parquet", "a/c/1.parquet"]})


def test_the_lock_is_read_back_and_sorted(tmp_path: Path) -> None:
    file = LockedFile(role="train", repo="o/n", revision="1" * 40, path="x.parquet", bytes=3, sha256=None)
    assert read_lock(tmp_path / "lock") == {}
    write_lock(tmp_path / "lock", {"squad": [file], "qqp": [file, file]})
    assert list(read_lock(tmp_path / "lock")) == ["qqp", "squad"]
    assert read_lock(tmp_path / "lock")["squad"] == [file]


LOCKED = {
    "role": "train",
    "repo": "o/n",
    "revision": "1" * 40,
    "path": "x.parquet",
    "bytes": 3,
    "sha256": None,
}


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../../../../victim.txt"}, {"path": "a/../../x"}, {"path": "a\x1b"}, {"repo": "../.."},
        {"repo": "o/n/../.."}, {"revision": ".."}, {"revision": "main"}, {"bytes": "3"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_lock_names_files_of_a_hub_and_no_others(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "hub.lock.json"
    path.write_text(json.dumps({"datasets": {"sst2": [LOCKED | change]}}))
    with pytest.raises(UserError, match=r"hub.lock.json is no lock file .*; remove it"):
        read_lock(path)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"datasets": {"a": 1}}', '{"datasets": {"a": [1]}}', "[" * 9_999]
)
def test_what_is_no_lock_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(text)
    with pytest.raises(UserError, match="is no lock file"):
        read_lock(tmp_path / "lock")
