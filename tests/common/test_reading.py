"""What a door lets through: regular files of bounded size, JSON without riddles, paths that stay inside."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from common.reading import BadJsonError, UnreadableError, inside, read_bounded, strict_json


def test_pipes_devices_folders_and_large_files_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(200 << 30)  # sparse: 200 GB that take no room
    for name, why in (
        ("pipe", "not a regular file"),
        ("large", "more than the limit"),
        (".", "is a folder"),
    ):
        with pytest.raises(UnreadableError, match=why):
            read_bounded(tmp_path / name, 1_000)
    with pytest.raises(UnreadableError, match="not a regular file"):
        read_bounded(Path("/dev/zero"), 1_000)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "absent", 1_000)
    (tmp_path / "a").write_bytes(b"x" * 1_000)
    assert read_bounded(tmp_path / "a", 1_000) == b"x" * 1_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**39), 10**39) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_what_json_writes_is_read_as_json_reads_it(document: object) -> None:
    content = json.dumps(document).encode()
    assert strict_json(content) == json.loads(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[1e400]", "the number 1e400"),
        (b"[NaN]", "contains NaN"),
        (b"[-Infinity]", "contains -Infinity"),
        (b"[" + b"9" * 4_301 + b"]", "4300 digits"),
        (b'"\xed\xa0\x80"', "byte 1 is not UTF-8"),
        (b"[1,]", "line 1"),
        (b"", "line 1"),
    ],
)
def test_json_with_something_to_guess_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(BadJsonError, match=why):
        strict_json(content)


def test_a_path_of_a_file_stays_in_its_folder(tmp_path: Path) -> None:
    assert inside(tmp_path, "a/b.txt") == tmp_path / "a" / "b.txt"
    for name in ("", "/etc/passwd", "../x", "a/../../x", "a\\..\\x", "a\x1b", "\udc80", "x" * 300):
        with pytest.raises(UserError, match="is not a valid path inside its folder"):
            inside(tmp_path, name)
