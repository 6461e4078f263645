"""Compressed and plain files of any kind; damage is named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.readers.original_files import (
    BadRowError,
    Reading,
    Row,
    class_names,
    lines,
    pick,
    pick_text,
    records,
)
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, refused

SKIP = " (--skip-bad-lines leaves such lines out)"


def test_a_bad_line_stops_the_reading_unless_it_is_to_be_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert refused(lambda: Reading().bad("dir/a.tsv:3", "it is bad")) == f"dir/a.tsv:3: it is bad{SKIP}"
    reading = Reading(skip_bad=True)
    assert reading.notes() == ()
    reading.note("b")
    reading.note("a")
    reading.note("b")
    assert reading.notes() == ("b", "a")
    for where in ("top/dir/a.tsv:3", "b.tsv:1", "dir/c.tsv:2"):
        reading.bad(where, "it is bad")
    assert caplog.messages[0] == "top/dir/a.tsv:3: it is bad; left out"
    assert reading.notes() == ("b", "a", "bad lines left out: 3, the first at a.tsv:3: it is bad")


def test_a_line_that_lacks_several_columns_is_one_bad_line() -> None:
    reading = Reading(skip_bad=True)
    for where, what in (("a.tsv:3", "no text"), ("a.tsv:3", "no label"), ("a.tsv:4", "no label")):
        reading.bad(where, what)
    assert reading.notes() == ("bad lines left out: 2, the first at a.tsv:3: no text",)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (KeyError("text"), "'text' is missing"),
        (TypeError("no text\nbut a list"), "no text"),
        (AttributeError("no text"), "no text"),
        (IndexError("too far"), "too far"),
        (ValueError(), "ValueError"),
        (OverflowError("too large"), "too large"),
    ],
)
def test_a_row_of_another_form_is_a_bad_line(error: Exception, what: str) -> None:
    def block(reading: Reading) -> None:
        with reading.row("a.tsv:3"):
            raise error

    assert (
        refused(lambda: block(Reading())) == f"a.tsv:3: the row does not have the expected form: {what}{SKIP}"
    )
    lenient = Reading(skip_bad=True)
    block(lenient)
    assert len(lenient.notes()) == 1


@pytest.mark.parametrize("error", [UserError("as it is"), RuntimeError("as it is")])
def test_other_errors_of_a_block_are_not_of_its_row(error: Exception) -> None:
    with pytest.raises(type(error), match=r"^as it is$"), Reading(skip_bad=True).row("a.tsv:3"):
        raise error


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"x": 1}\n{"x": 2}', [(":1", {"x": 1}), (":2", {"x": 2})]),
        ('{"x": 1}\n{"x": 2}\n\n  \n{"x": 3}', [(":1", {"x": 1}), (":2", {"x": 2}), (":5", {"x": 3})]),
        ('{"p": {"x": 1}}', [(": entry p", {"x": 1})]),
        ('{"p": {"x": 1},\n"q": {"x": 2}}', [(": entry p", {"x": 1}), (": entry q", {"x": 2})]),
        ('[{"x": 1},\n{"x": 2}\n]', [(": entry 0", {"x": 1}), (": entry 1", {"x": 2})]),
        ('[\n{"x": 1}\n]', [(": entry 0", {"x": 1})]),
        ("[]", []),
        ("{}", []),
    ],
)
def test_rows_of_a_json_file_are_named_by_line_or_by_entry(
    put: Put, text: str, found: list[tuple[str, Row]]
) -> None:
    path = put("a.json", text)
    assert list(records(path, Reading())) == [(f"{path}{place}", row) for place, row in found]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"x": 1}\n[2]\n{"x": 3}', ":2: the line is not a JSON object"),
        ("a.json", '{"x": 1}\n{"x": \n{"x": 3}', ":2: the line is not a JSON object"),
        ("a.jsonl", "[1]\n", ":1: the line is not a JSON object"),
        ("a.json", '[{"x": 1}, 2]', ": entry 1: the entry is not a JSON object"),
        ("a.json", '{"p": [1]}', ": entry p: the entry is not a JSON object"),
    ],
)
def test_what_is_no_row_is_a_bad_line_and_the_others_are_read(
    put: Put, name: str, text: str, said: str
) -> None:
    path = put(name, text)
    assert refused(lambda: list(records(path, Reading()))) == f"{path}{said}{SKIP}"
    lenient = Reading(skip_bad=True)
    assert len(list(records(path, lenient))) == text.count('"x"') - ('\n{"x": \n' in text)
    assert lenient.notes() == (f"bad lines left out: 1, the first at {name}{said}",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", " contains neither a list nor an object of rows"),
        ('"rows"', " contains neither a list nor an object of rows"),
        ("", ":1: not valid JSON ("),
        ("5\n6", ":2: not valid JSON ("),
        ('[1,\n2,\n{"x" 3}]', ":3: not valid JSON ("),
    ],
)
def test_a_file_that_is_no_json_of_rows_is_named_with_its_line(put: Put, text: str, said: str) -> None:
    path = put("a.json", text)
    assert refused(lambda: list(records(path, Reading()))).startswith(f"{path}{said}")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\tb\n1\t2\n", {2: {"a": "1", "b": "2"}}),
        ("a\tb\n\n \n1\t2\n\t\n3\t4", {4: {"a": "1", "b": "2"}, 6: {"a": "3", "b": "4"}}),
        ("a\tb\na\tb", {2: {"a": "a", "b": "b"}}),
        ("", {}),
        ("a\tb", {}),
    ],
)
def test_rows_of_a_tsv_file_have_the_names_of_its_header_or_those_given(
    put: Put, text: str, found: dict[int, Row]
) -> None:
    path = put("a.tsv", text)
    assert list(records(path, Reading())) == [(f"{path}:{number}", row) for number, row in found.items()]


def test_the_first_column_with_a_value_is_picked() -> None:
    row = {"a": None, "b": 0, "c": "x"}
    assert pick(row, ("z", "a", "b", "c")) == 0
    assert pick_text(row, ("a", "c")) == "x"
    with pytest.raises(BadRowError, match=r"^b is not text: 0"):
        pick_text(row, ("b", "c"))
    shown = f"'{'x' * 39}', '{'y' * 40}', '{'z' * 40}'"
    with pytest.raises(BadRowError) as error:
        pick({"x" * 39: 1, "y" * 40: 1, "z" * 41: 1}, ("text", "query"))
    assert str(error.value) == f"there is no column text or query; the columns are {shown}"


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


def test_an_id_that_occurs_twice_is_named_with_both_places() -> None:
    reading = Reading(skip_bad=True)
    for scope, line in (("dev.json", 3), ("train.json", 3), ("dev.json", 9)):
        with reading.row(f"{scope}:{line}"):
            reading.once("q1", scope, f"{scope}:{line}")
    assert reading.notes() == (
        "bad lines left out: 1, the first at dev.json:9: the id 'q1' occurs twice, first at dev.json:3",
    )


def test_many_rows_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(20_000)}), path)
    found = list(records(path, Reading()))
    assert found == [(f"{path}: row {number}", {"x": number}) for number in range(20_000)]


@pytest.mark.parametrize(
    ("feature", "names"),
    [
        ({"names": ["no", "yes"], "_type": "ClassLabel"}, ("no", "yes")),
        ([{"names": ["O", "B"], "_type": "ClassLabel"}], ("O", "B")),
        ({"feature": {"names": ["O"], "_type": "ClassLabel"}, "_type": "Sequence"}, ("O",)),
        ({"feature": [{"feature": {"names": ["O"]}}]}, ("O",)),
        ({"dtype": "int64", "_type": "Value"}, ()),
        ({"names": [], "_type": "ClassLabel"}, ()),
        ({"feature": {"dtype": "int64"}}, ()),
        (None, ()),
    ],
)
def test_class_names_are_those_that_the_hub_wrote_into_the_file(
    tmp_path: Path, feature: object, names: tuple[str, ...]
) -> None:
    path = tmp_path / "a.parquet"
    features = {"other": {"names": ["a", "b"]}} | ({"label": feature} if feature else {})
    written = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(pa.table({"label": [0]}).replace_schema_metadata(written), path)
    assert class_names(path, "label") == names
    assert class_names(path, "other") == ("a", "b")


def test_a_file_without_the_hubs_words_names_no_classes(tmp_path: Path, put: Put) -> None:
    table = pa.table({"label": [0]})
    for metadata in (None, {"pandas": "{}"}):
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
        assert class_names(tmp_path / "a.parquet", "label") == ()
    assert class_names(put("a.json", "[]"), "label") == ()


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(UserError, match=r"x\.parquet cannot be read as Parquet"):
        list(records(path, Reading()))
    with pytest.raises(UserError, match=r"x\.parquet cannot be read as Parquet"):
        class_names(path, "label")
    with pytest.raises(UserError, match="there is no file"):
        list(records(tmp_path / "absent.parquet", Reading()))
