"""What a door lets through: regular files of bounded size, JSON without riddles, paths that stay inside."""

import bz2
import gzip
import io
import json
import lzma
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from common.reading import (
    BadJsonError,
    UnreadableError,
    inside,
    read_bounded,
    strict_json,
    text_of,
)


def test_pipes_devices_and_large_files_are_refused_at_once(
    tmp_path: Path,
) -> None:
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


def _zipped(first: str, content: str = "text") -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        # Of no time, as are the names of the tests
        archive.writestr(zipfile.ZipInfo(first), content)
    return file.getvalue()


def _parquet() -> bytes:
    pq.write_table(pa.table({"a": [1]}), file := io.BytesIO())
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "a.xlsx",
            _zipped("[Content_Types].xml"),
            "is a spreadsheet; save its rows as CSV in UTF-8",
        ),
        (
            "a.txt",
            _zipped("[Content_Types].xml"),
            "is an Office file, such as .xlsx or .docx; save its rows as CSV",
        ),
        (
            "a.csv",
            _zipped("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
            "is an Office file",
        ),
        (
            "a.docx",
            _zipped("[Content_Types].xml"),
            "is a document with layout; save its text as .txt",
        ),
        ("a.XLS", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a spreadsheet"),
        ("a.zip", _zipped("a.txt"), "is a zip archive; unpack it"),
        ("a.csv", _parquet(), "is a Parquet file; let its name end in .parquet"),
        (
            "a.csv",
            gzip.compress(b"text", mtime=0),
            "is packed by gzip; unpack it, or let its name end in .gz",
        ),
        (
            "a.csv",
            lzma.compress(b"text"),
            "is packed by xz; unpack it, or let its name end in .xz",
        ),
        (
            "a.csv",
            zstandard.compress(b"text"),
            "is packed by Zstandard; unpack it, or let its name end in .zst",
        ),
        ("a.csv", bz2.compress(b"text"), "is packed by bzip2; unpack it"),
        ("a.csv", b"%PDF-1.7\n", "is a PDF; write its text to a .txt"),
        ("a.csv", b"SQLite format 3\0", "is an SQLite database"),
        *(
            (
                f"a.{encoding}",
                "text".encode(encoding),
                f"{name}, not in UTF-8; convert it with `iconv -f {name} ",
            )
            for encoding, name in (
                ("utf-16", "UTF-16"),
                ("utf-16-le", "UTF-16LE"),
                ("utf-16-be", "UTF-16BE"),
                ("utf-32", "UTF-32"),
            )
        ),
        (
            "a.csv",
            "\ufeffone\ntwo \xe9\n".encode("latin-1", "ignore"),
            "line 2, byte 5 (0xe9) is not UTF-8",
        ),
    ],
)
def test_what_is_no_utf8_is_named_with_what_to_do(
    name: str, content: bytes, sentence: str
) -> None:
    with pytest.raises(UserError) as refusal:
        text_of(name, content, packed=True)
    assert str(refusal.value).startswith(name) and sentence in str(refusal.value)
    # Only at the beginning is it another file; elsewhere such bytes are a line.
    assert text_of(name, b"PK\x03\x04", 2) == "PK\x03\x04"


@pytest.mark.parametrize(
    "text", ["", "a", "PKW", "%PDF", "BZh9", "\u00d0\u00cf", "\ufefftext\n\u4e2d"]
)
def test_a_text_in_utf8_is_read_whatever_it_begins_with(text: str) -> None:
    assert text_of("a.xlsx", text.encode()) == text.removeprefix("\ufeff")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**39), 10**39)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


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
    for name in (
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a\\..\\x",
        "a\x1b",
        "\udc80",
        "x" * 300,
    ):
        with pytest.raises(UserError, match="is not a valid path inside its folder"):
            inside(tmp_path, name)
