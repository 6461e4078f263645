"""Compressed and plain files of any kind; damage is named."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.readers.original_files import (
    FILE_KINDS,
    TEXT,
    FileKind,
    Reading,
    Row,
    class_names,
    kind_of,
    lines,
    pick,
    records,
)
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put


def test_lines_plain_gz_and_zst(tmp_path: Path) -> None:
    text = "\ufeffone\r\ntwo \x0c\u2028 still two\n\nfour"
    expected = [(1, "one"), (2, "two \x0c\u2028 still two"), (3, ""), (4, "four")]
    raw = text.encode()
    (tmp_path / "a.txt").write_bytes(raw)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(raw[:7]) + gzip.compress(raw[7:]))
    frames = zstandard.ZstdCompressor()
    (tmp_path / "a.txt.zst").write_bytes(frames.compress(raw[:9]) + frames.compress(raw[9:]))
    for name in ("a.txt", "a.txt.gz", "a.txt.zst"):
        assert list(lines(tmp_path / name)) == expected


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), min_size=1))
def test_zst_lines_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("zst") / "x.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress("\n".join(["head", *texts]).encode()))
    found = [line for _, line in lines(path)][1:]
    assert found == (texts if texts[-1] else texts[:-1]) or (not texts[-1] and found == texts)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    content = "\n".join(f"line {i} {i * 7919}" for i in range(50_000)).encode()
    for suffix, packed in (
        (".gz", gzip.compress(content)),
        (".zst", zstandard.ZstdCompressor().compress(content)),
    ):
        path = tmp_path / f"cut{suffix}"
        path.write_bytes(packed[: len(packed) // 2])
        with pytest.raises(UserError, match=rf"cut\{suffix}: the compressed file is damaged after line \d+"):
            list(lines(path))
        path.write_bytes(b"not packed at all")
        with pytest.raises(UserError, match="is damaged after line 0"):
            list(lines(path))
    path = tmp_path / "latin"
    path.write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(UserError, match="latin:2: the line is not UTF-8"):
        list(lines(path))
    with pytest.raises(UserError, match="there is no file"):
        list(lines(tmp_path / "absent"))


def test_json_lines_in_a_json_file(put: Put) -> None:
    many = put("a.json", [{"x": 1}, {"x": 2}])
    one = put("b.json", '[{"x": 1},\n {"x": 2}]')
    keyed = put("c.json", '{"p": {"x": 1},\n "q": {"x": 2}}')
    for path in (many, one, keyed):
        assert [row["x"] for _, row in records(path, Reading())] == [1, 2]
    with pytest.raises(UserError, match=r"d\.json:2: not valid JSON"):
        list(records(put("d.json", '[{"x": 1},\n {"x" 2}]'), Reading()))
    with pytest.raises(UserError, match=r"e\.jsonl:2: the line is no JSON object"):
        list(records(put("e.jsonl", '{"x": 1}\n{"x": \n'), Reading()))


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(UserError, match=r"x\.parquet cannot be read as Parquet"):
        list(records(path, Reading()))
    with pytest.raises(UserError, match=r"x\.parquet cannot be read as Parquet"):
        class_names(path, "label")
    with pytest.raises(UserError, match="there is no file"):
        list(records(tmp_path / "absent.parquet", Reading()))


def test_a_made_up_kind_of_file_is_read_by_its_rows(tmp_path: Path) -> None:
    def semicolons(path: Path, reading: Reading, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
        for number, line in lines(path):
            yield f"{path}:{number}", dict(zip("ab", line.split(";"), strict=True))

    path = tmp_path / "x.csv2.gz"
    path.write_bytes(gzip.compress(b"1;2\n"))
    assert kind_of(path) is TEXT
    FILE_KINDS.register(FileKind(name=".csv2", rows=semicolons))
    try:
        assert kind_of(path).name == ".csv2"
        assert [row for _, row in records(path, Reading())] == [{"a": "1", "b": "2"}]
    finally:
        FILE_KINDS.pop(".csv2")


def test_a_file_without_a_header_is_told_with_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("a good film\t1\na bad film\t0\n")
    reading = Reading()
    where, row = next(iter(records(file, reading)))
    with pytest.raises(
        UserError,
        match=r"no column sentence; the first line, which must be a header, reads 'a good film', '1'",
    ):
        pick(row, ("sentence",), reading, where)


def test_an_id_that_occurs_twice_is_told_with_both_places() -> None:
    reading = Reading()
    assert reading.is_new("q1", "dev.json", "dev.json:3") and reading.is_new(
        "q1", "train.json", "train.json:3"
    )
    with pytest.raises(UserError, match=r"dev\.json:9: the id 'q1' occurs twice, first at dev.json:3"):
        reading.is_new("q1", "dev.json", "dev.json:9")
    lenient = Reading(skip_bad=True)
    assert [lenient.is_new("q1", "dev.json", f"dev.json:{line}") for line in (3, 9)] == [True, False]
    assert "bad lines left out: 1" in lenient.notes()[0]
