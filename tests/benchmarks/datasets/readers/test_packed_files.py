"""A file that unpacks to far more than text does is refused before it fills memory or disk."""

from __future__ import annotations

import gzip
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from benchmarks.datasets.readers import original_files, packed_files
from benchmarks.datasets.readers.original_files import Reading, json_of, lines, records
from benchmarks.datasets.readers.packed_files import most_unpacked, open_packed
from common.errors import UserError


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a test reaches at once."""
    monkeypatch.setattr(packed_files, "_UNPACKED", 1 << 16)
    monkeypatch.setattr(original_files, "_LONGEST", 1 << 12)
    monkeypatch.setattr(original_files, "_MOST_WHOLE", 1 << 14)


def test_only_packed_files_have_a_bound(tmp_path: Path) -> None:
    for name, bound in (
        ("a.tsv", float("inf")),
        ("a.tsv.gz", (1 << 28) + 200 * 7),
        ("a.ZST", (1 << 28) + 200 * 7),
    ):
        (tmp_path / name).write_bytes(b"7 bytes")
        assert most_unpacked(tmp_path / name) == bound
    assert most_unpacked(tmp_path / "a.tsv", packed=True) == (1 << 28) + 200 * 7


PACKED = [(".gz", gzip.compress), (".zst", zstandard.compress)]
Pack = Callable[[bytes], bytes]
NOISE = np.random.default_rng(0).bytes(300_000)
"""Bytes that no packing makes smaller."""


def content(path: Path) -> bytes:
    with open_packed(path) as file:
        return file.read()


@pytest.mark.parametrize("name", ["a", "a.tsv", "a.zst.tsv", "gz"])
def test_a_plain_file_is_given_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"packed"))
    assert content(tmp_path / name) == gzip.compress(b"packed")


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("whole", [b"", b"\n", b"one line", NOISE, NOISE + bytes(3_000_000) + NOISE])
@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_what_was_packed_comes_out(
    tmp_path: Path, suffix: str, pack: Pack, whole: bytes, upper: bool
) -> None:
    """In one piece, in two frames, and with an empty frame between and behind them."""
    path = tmp_path / f"a{suffix.upper() if upper else suffix}"
    half = len(whole) // 2
    for frames in ([whole], [whole[:half], whole[half:]], [whole[:half], b"", whole[half:], b""]):
        path.write_bytes(b"".join(map(pack, frames)))
        assert content(path) == whole


@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_a_packed_file_without_a_byte_holds_nothing(tmp_path: Path, suffix: str, pack: Pack) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"")
    assert content(path) == b""


@pytest.mark.parametrize("before", [[], [b"a whole frame"], [NOISE]])
@pytest.mark.parametrize("kept", [1, 4, 7, 5_000, 299_000])
@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_a_file_that_is_cut_short_is_not_taken_for_a_whole_one(
    tmp_path: Path, suffix: str, pack: Pack, kept: int, before: list[bytes]
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"".join(map(pack, before)) + pack(NOISE)[:kept])
    with pytest.raises((EOFError, gzip.BadGzipFile)):
        content(path)


def test_zstandard_that_is_cut_says_where(tmp_path: Path) -> None:
    (tmp_path / "a.zst").write_bytes(zstandard.compress(NOISE)[:-1])
    with pytest.raises(EOFError, match=r"^it ends inside a frame$"):
        content(tmp_path / "a.zst")


@pytest.mark.parametrize("name", ["a.tsv", "a.gz", "a.zst", "."])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"^there is no file {re.escape(str(tmp_path / name))}$"):
        content(tmp_path / name)


@pytest.mark.parametrize(("suffix", "pack"), PACKED)
@pytest.mark.usefixtures("small")
def test_a_bomb_is_refused(tmp_path: Path, suffix: str, pack: Pack) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(pack(b"one line like all\n" * 1_000_000))
    with pytest.raises(UserError, match=f"{path}: unpacks to more than 200 times its size"):
        list(lines(path))
    path.write_bytes(pack(b"few lines\n" * 100))
    assert len(list(lines(path))) == 100
    path.write_bytes(pack(bytes(1 << 13)))
    with pytest.raises(UserError, match=f"{path}:1: the line has 4,096 bytes or more"):
        list(lines(path))


@pytest.mark.usefixtures("small")
def test_the_longest_line_and_the_largest_json_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[" + b"1" * 4_093 + b"\n]")
    assert [len(line) for _, line in lines(path)] == [4_094, 1]
    path.write_bytes(b"[" + b"1,\n" * 5_400 + b"1]")
    assert len(json_of(path)) == 5_401
    path.write_bytes(b"[" + b"1,\n" * 5_500 + b"1]")
    with pytest.raises(UserError, match=f"{path}: holds more than 16,384 bytes of JSON"):
        json_of(path)


@pytest.mark.usefixtures("small")
def test_a_parquet_bomb_is_refused_by_its_own_words(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["x" * 1_000_000 + str(i) for i in range(4)]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    with pytest.raises(UserError, match=f"{path}: unpacks to more than 200 times its size"):
        list(records(path, Reading()))
    pq.write_table(table, path, compression="none", use_dictionary=False)
    assert len(list(records(path, Reading()))) == 4


def test_unpacking_takes_little_memory_at_once(tmp_path: Path) -> None:
    """Half a gigabyte of zeros in 16 kB: no more is unpacked at once than the step allows."""
    path = tmp_path / "a.zst"
    with path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as writer:
        for _ in range(512):
            writer.write(bytes(1 << 20))
    assert path.stat().st_size > 2 * packed_files._STEP
    tracemalloc.start()
    try:
        with open_packed(path) as file:
            assert file.read(10) == bytes(10)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 200_000_000
