"""Packed files: what went in comes out, and a cut is noticed."""

import gzip
import io
from collections.abc import Callable

import numpy as np
import pytest
import zstandard

from common.packed import plain_suffix, unpacked

PACKED = [(".gz", gzip.compress), (".zst", zstandard.compress)]
Pack = Callable[[bytes], bytes]
NOISE = np.random.default_rng(0).bytes(300_000)
"""Bytes that no packing makes smaller."""


def content(name: str, data: bytes) -> bytes:
    return unpacked(name, io.BytesIO(data)).read()


@pytest.mark.parametrize("name", ["a", "a.tsv", "a.zst.tsv", "gz"])
def test_a_plain_file_is_given_as_it_is(name: str) -> None:
    packed = gzip.compress(b"packed", mtime=0)
    assert content(name, packed) == packed


@pytest.mark.parametrize(
    "whole", [b"", b"\n", b"one line", NOISE, NOISE + bytes(3_000_000) + NOISE]
)
@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_what_was_packed_comes_out(suffix: str, pack: Pack, whole: bytes) -> None:
    """In one piece, in two frames, and with an empty frame between and behind them; and from no bytes at all none."""
    half = len(whole) // 2
    for frames in (
        [whole],
        [whole[:half], whole[half:]],
        [whole[:half], b"", whole[half:], b""],
    ):
        for name in (f"a{suffix}", f"a{suffix.upper()}"):
            assert content(name, b"".join(map(pack, frames))) == whole
    assert content(f"a{suffix}", b"") == b""


@pytest.mark.parametrize("before", [[], [b"a whole frame"], [NOISE]])
@pytest.mark.parametrize("kept", [1, 4, 7, 5_000, 299_000])
@pytest.mark.parametrize(("suffix", "pack"), PACKED)
def test_a_file_that_is_cut_short_is_not_taken_for_a_whole_one(
    suffix: str, pack: Pack, kept: int, before: list[bytes]
) -> None:
    with pytest.raises(OSError, match=r"[Tt]runcated"):
        content(f"a{suffix}", b"".join(map(pack, before)) + pack(NOISE)[:kept])


def test_the_suffix_below_the_packing() -> None:
    assert [
        plain_suffix(name) for name in ("a.TSV", "a.jsonl.zst", "b.tar.GZ", "a")
    ] == [
        ".tsv",
        ".jsonl",
        ".tar",
        "",
    ]
