"""Compressed and plain files of any kind; damage is named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.readers import original_files, packed_files
from benchmarks.datasets.readers.original_files import (
    FILE_KINDS,
    TEXT,
    FileKind,
    Reading,
    Row,
    json_of,
    kind_of,
    lines,
    pick,
    pick_text,
    records,
)
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, refused

SKIP = " (--skip-bad-lines leaves such lines out)"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tsv", ".tsv"),
        ("a.json", ".json"),
        ("a.JSON.GZ", ".json"),
        ("train-v1.1.json", ".json"),
        ("a.jsonl.zst", ".jsonl"),
        ("a.b.parquet", ".parquet"),
        ("a.json.txt", ".tsv"),
        ("json", ".tsv"),
        ("a.gz", ".tsv"),
    ],
)
def test_the_last_ending_says_what_a_file_is_and_how_it_may_be_read(name: str, kind: str) -> None:
    found = kind_of(Path("folder.json", name))
    assert found.name == kind
    assert (found.bare, found.whole, found.columnar) == (kind == ".tsv", kind == ".json", kind == ".parquet")


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


def test_the_first_bad_line_is_named_without_a_folder_where_there_is_none() -> None:
    reading = Reading(skip_bad=True)
    reading.bad("a.tsv:3", "it is bad")
    assert reading.notes() == ("bad lines left out: 1, the first at a.tsv:3: it is bad",)


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
        (AttributeError("no \x1b text"), "no \\x1b text"),
        (IndexError("too far"), "too far"),
        (ValueError(), "ValueError"),
        (OverflowError("too large"), "too large"),
    ],
)
def test_a_row_of_another_form_is_a_bad_line(error: Exception, what: str) -> None:
    def block(reading: Reading) -> None:
        with reading.shape("a.tsv:3"):
            raise error

    assert refused(lambda: block(Reading())) == f"a.tsv:3: the row has not the expected form: {what}{SKIP}"
    lenient = Reading(skip_bad=True)
    block(lenient)
    assert len(lenient.notes()) == 1


@pytest.mark.parametrize("error", [UserError("as it is"), RuntimeError("as it is")])
def test_other_errors_of_a_block_are_not_of_its_row(error: Exception) -> None:
    with pytest.raises(type(error), match=r"^as it is$"), Reading(skip_bad=True).shape("a.tsv:3"):
        raise error


def test_only_the_mark_at_the_start_of_a_file_and_one_line_end_are_taken_off(put: Put) -> None:
    path = put("a.txt", "\ufeff\ufeffone\r\r\n\ufefftwo\n\r\n\ufeff\n")
    assert list(lines(path)) == [(1, "\ufeffone\r"), (2, "\ufefftwo"), (3, ""), (4, "\ufeff")]


@pytest.mark.parametrize(
    ("before", "last", "fits"), [(0, 9, True), (0, 10, False), (2, 9, True), (2, 10, False), (2, 25, False)]
)
def test_a_line_is_read_up_to_its_bound(
    put: Put, monkeypatch: pytest.MonkeyPatch, before: int, last: int, fits: bool
) -> None:
    """The end of the line counts."""
    monkeypatch.setattr(original_files, "_LONGEST", 10)
    for end in ("\n", ""):
        path = put("a.txt", "12345678\n" * before + "x" * (last - len(end)) + end)
        if fits:
            assert [number for number, _ in lines(path)] == list(range(1, before + 2))
        else:
            assert refused(lambda path=path: list(lines(path))) == (
                f"{path}:{before + 1}: the line has 10 bytes or more, and none needs that many"
            )


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.tsv.zst"])
def test_damage_is_named_with_the_line_that_was_read_last(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pack = {".gz": gzip.compress, ".zst": zstandard.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(b"fine\nfine\ncaf\xe9\n"))
    assert refused(lambda: list(lines(path))) == f"{path}:3: the line is not UTF-8; convert the file first"
    if path.suffix != ".tsv":
        path.write_bytes(pack(b"one\ntwo\n") + pack(b"three\n")[:-2])
        assert refused(lambda: list(lines(path))).startswith(
            f"{path}: the compressed file is damaged after line "
        )
        path.write_bytes(pack(b"one\n")[:9])
        assert refused(lambda: list(lines(path))).startswith(
            f"{path}: the compressed file is damaged after line 0 ("
        )


@pytest.mark.parametrize(("text", "size"), [("[1]", 4), ("[1]\n", 4), ("[1,\n2,\n3]", 10)])
def test_a_json_file_is_read_up_to_its_bound(
    put: Put, monkeypatch: pytest.MonkeyPatch, text: str, size: int
) -> None:
    """Each line counts with its end."""
    path = put("a.json", text)
    for bound in (size, size + 1):
        monkeypatch.setattr(original_files, "_MOST_WHOLE", bound)
        assert json_of(path) == json.loads(text)
    monkeypatch.setattr(original_files, "_MOST_WHOLE", size - 1)
    assert refused(lambda: json_of(path)) == (
        f"{path}: holds more than {size - 1} bytes of JSON; convert it to one row a line"
    )


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
        ("a.json", '{"x": 1}\n[2]\n{"x": 3}', ":2: the line is no JSON object"),
        ("a.json", '{"x": 1}\n{"x": \n{"x": 3}', ":2: the line is no JSON object"),
        ("a.jsonl", "[1]\n", ":1: the line is no JSON object"),
        ("a.json", '[{"x": 1}, 2]', ": entry 1: the entry is no JSON object"),
        ("a.json", '{"p": [1]}', ": entry p: the entry is no JSON object"),
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
        ("5", " holds neither rows nor an object of rows"),
        ('"rows"', " holds neither rows nor an object of rows"),
        ("", ":1: not valid JSON ("),
        ("5\n6", ":2: not valid JSON ("),
        ('[1,\n2,\n{"x" 3}]', ":3: not valid JSON ("),
    ],
)
def test_a_file_that_is_no_json_of_rows_is_named_with_its_line(put: Put, text: str, said: str) -> None:
    path = put("a.json", text)
    assert refused(lambda: list(records(path, Reading()))).startswith(f"{path}{said}")


@pytest.mark.parametrize(
    ("text", "columns", "found"),
    [
        ("a\tb\n1\t2\n", (), {2: {"a": "1", "b": "2"}}),
        ("a\tb\n\n \n1\t2\n\t\n3\t4", (), {4: {"a": "1", "b": "2"}, 6: {"a": "3", "b": "4"}}),
        ("1\t2\n3\t4", ("a", "b"), {1: {"a": "1", "b": "2"}, 2: {"a": "3", "b": "4"}}),
        ("b\ta\n1\t2", ("a", "b"), {2: {"b": "1", "a": "2"}}),
        ("b\n1\n", ("a", "b"), {2: {"b": "1"}}),
        ("\n1\t2", ("a", "b"), {2: {"a": "1", "b": "2"}}),
        ("1\t2\nb\ta", ("a", "b"), {1: {"a": "1", "b": "2"}, 2: {"a": "b", "b": "a"}}),
        ("a\tb\na\tb", (), {2: {"a": "a", "b": "b"}}),
        ("a\tb\tc", ("a", "b"), {}),
        ("", (), {}),
        ("a\tb", (), {}),
    ],
)
def test_rows_of_a_tsv_file_have_the_names_of_its_header_or_those_given(
    put: Put, text: str, columns: tuple[str, ...], found: dict[int, Row]
) -> None:
    path = put("a.tsv", text)
    reading = Reading(skip_bad=True)
    assert list(records(path, reading, columns)) == [
        (f"{path}:{number}", row) for number, row in found.items()
    ]
    assert bool(reading.notes()) == (text == "a\tb\tc")


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("a\tb\n1\t2\t3", (), "2: the line has 3 columns instead of 2"),
        ("a\tb\n1\t2\n1\n", (), "3: the line has 1 columns instead of 2"),
        ("1\t2\t3\n", ("a", "b"), "1: the line has 3 columns instead of 2"),
    ],
)
def test_a_line_of_other_columns_is_bad(put: Put, text: str, columns: tuple[str, ...], said: str) -> None:
    path = put("a.tsv", text)
    assert refused(lambda: list(records(path, Reading(), columns))) == f"{path}:{said}{SKIP}"


def test_the_first_column_with_a_value_is_picked() -> None:
    row = {"a": None, "b": 0, "c": "x"}
    assert pick(row, ("z", "a", "b", "c"), Reading(), "a.tsv:1") == 0
    assert pick_text(row, ("a", "c"), Reading(), "a.tsv:1") == "x"
    lenient = Reading(skip_bad=True)
    assert pick(row, ("z", "a"), lenient, "a.tsv:1") is None
    assert pick_text(row, ("z", "a"), lenient, "a.tsv:2") is None
    assert pick_text(row, ("z", "b"), lenient, "a.tsv:3") is None
    assert lenient.notes()[0].startswith("bad lines left out: 3, ")


@pytest.mark.parametrize(
    ("where", "there"),
    [
        ("data/a.tsv:7", "the first line, which must be a header, reads"),
        ("data/a.txt.gz:7", "the first line, which must be a header, reads"),
        ("data/a.jsonl:7", "there are"),
        ("C:/data/a.jsonl.zst:7", "there are"),
        ("data/a.json: entry 7", "there are"),
        ("data/a.json: entry x: y", "there are"),
        ("data/a.parquet: row 7", "there are"),
    ],
)
def test_a_column_that_is_missing_is_named_with_those_there_are(where: str, there: str) -> None:
    row = {"x" * 39: 1, "y" * 40: 1, "z" * 41: 1}
    shown = f"'{'x' * 39}', '{'y' * 40}', '{'z' * 40}'"
    assert refused(lambda: pick(row, ("text", "query"), Reading(), where)) == (
        f"{where}: there is no column text or query; {there} {shown}{SKIP}"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (5, "5"),
        (["\x1b"], "['\\x1b']"),
        (10**80, "1" + "0" * 79),
        (10**79, "1" + "0" * 79),
    ],
)
def test_a_value_that_is_no_text_is_shown(value: object, shown: str) -> None:
    assert refused(lambda: pick_text({"b": value}, ("a", "b", "c"), Reading(), "a.tsv:7")) == (
        f"a.tsv:7: a is no text: {shown}{SKIP}"
    )


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
def test_a_file_may_unpack_to_its_bound_and_not_to_a_byte_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(pack(b"seven\n\n" * 5_000))
    for spare in (0, 1):
        monkeypatch.setattr(packed_files, "_UNPACKED", 35_000 - 200 * path.stat().st_size + spare)
        assert len(list(lines(path))) == 10_000
    monkeypatch.setattr(packed_files, "_UNPACKED", 35_000 - 200 * path.stat().st_size - 1)
    found = lines(path)
    assert [next(found) for _ in range(9_999)][-1] == (9_999, "seven")
    with pytest.raises(UserError) as error:
        next(found)
    assert str(error.value) == (
        f"{path}: unpacks to more than 200 times its size, as no text does; it is not read further"
    )


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


def test_a_file_without_a_header_is_named_with_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "train.tsv"
    file.write_text("a good film\t1\na bad film\t0\n")
    reading = Reading()
    where, row = next(iter(records(file, reading)))
    with pytest.raises(
        UserError,
        match=r"no column sentence; the first line, which must be a header, reads 'a good film', '1'",
    ):
        pick(row, ("sentence",), reading, where)


def test_an_id_that_occurs_twice_is_named_with_both_places() -> None:
    reading = Reading()
    assert reading.is_new("q1", "dev.json", "dev.json:3") and reading.is_new(
        "q1", "train.json", "train.json:3"
    )
    with pytest.raises(UserError, match=r"dev\.json:9: the id 'q1' occurs twice, first at dev.json:3"):
        reading.is_new("q1", "dev.json", "dev.json:9")
    lenient = Reading(skip_bad=True)
    assert [lenient.is_new("q1", "dev.json", f"dev.json:{line}") for line in (3, 9)] == [True, False]
    assert "bad lines left out: 1" in lenient.notes()[0]
