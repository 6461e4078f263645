"""Compressed and plain files of any kind; tables as pandas writes them, quotes and all; damage is named."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.datasets.readers.original_files import (
    class_names,
    lines,
    row_at,
    rows_of_file,
)
from benchmarks.datasets.schema import Row
from benchmarks.protocol import get_dataset
from common.errors import UserError
from tests.benchmarks.datasets.readers.originals import Put, defined, refused

PAPERS = get_dataset("sst2").files


def table_of(path: Path, **more: Any) -> list[Row]:
    """The rows of a table of one's own."""
    return [
        row
        for _, row in rows_of_file(
            path, defined("text", labels=["x", "y"], **more).files
        )
    ]


@pytest.mark.parametrize("error", [UserError("as it is"), RuntimeError("as it is")])
def test_other_errors_of_a_block_are_not_of_its_row(error: Exception) -> None:
    with pytest.raises(type(error), match=r"^as it is$"), row_at("a.tsv:3"):
        raise error


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"x": 1}\n{"x": 2}', [(":1", {"x": 1}), (":2", {"x": 2})]),
        (
            '{"x": 1}\n{"x": 2}\n\n  \n{"x": 3}',
            [(":1", {"x": 1}), (":2", {"x": 2}), (":5", {"x": 3})],
        ),
        ('{"p": {"x": 1}}', [(": entry p", {"x": 1})]),
        (
            '{"p": {"x": 1},\n"q": {"x": 2}}',
            [(": entry p", {"x": 1}), (": entry q", {"x": 2})],
        ),
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
    assert list(rows_of_file(path, PAPERS)) == [
        (f"{path}{place}", row) for place, row in found
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\tb\n1\t2\n", {2: {"a": "1", "b": "2"}}),
        (
            "a\tb\n\n \n1\t2\n\t\n3\t4",
            {4: {"a": "1", "b": "2"}, 6: {"a": "3", "b": "4"}},
        ),
        ("a\tb\na\tb", {2: {"a": "a", "b": "b"}}),
        ("", {}),
        ("a\tb", {}),
    ],
)
def test_rows_of_a_tsv_file_have_the_names_of_its_header(
    put: Put, text: str, found: dict[int, Row]
) -> None:
    path = put("a.tsv", text)
    assert list(rows_of_file(path, PAPERS)) == [
        (f"{path}:{number}", row) for number, row in found.items()
    ]


@settings(max_examples=200, deadline=None)
@given(
    texts=st.lists(
        st.text(st.sampled_from('ab "\t,;\n'), max_size=8), min_size=1, max_size=6
    ),
    ending=st.sampled_from([".csv", ".tsv", ".csv.gz"]),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
    mark=st.sampled_from(",;"),
)
def test_what_pandas_writes_is_read(
    texts: list[str],
    ending: str,
    quoting: Any,
    mark: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("tables") / f"x{ending}"
    frame = pd.DataFrame({"text": texts, "label": ["x"] * len(texts)})
    frame.to_csv(
        path, index=False, sep=mark if ".csv" in ending else "\t", quoting=quoting
    )
    assert table_of(
        path, **({"quotes": True} if ending == ".tsv" else {})
    ) == frame.to_dict("records")


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(
        st.text("ab\u00e9\u00a0\u4e2d\U0001f600", min_size=1, max_size=8),
        min_size=1,
        max_size=5,
    ),
    encoding=st.sampled_from(
        ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
    ),
)
def test_a_text_is_read_as_what_it_is_or_its_encoding_is_refused(
    texts: list[str], encoding: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Never as other letters: UTF-8 with or without its mark is read, all else is one sentence with the file."""
    path = tmp_path_factory.mktemp("encodings") / "x.csv"
    content = "text,label\n" + "".join(f'"{text}",x\n' for text in texts)
    path.write_bytes(content.encode(encoding))
    if encoding.startswith("utf-8"):
        assert [row["text"] for row in table_of(path)] == texts
    else:
        with pytest.raises(UserError) as refusal:
            table_of(path)
        assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.text("ab ,\u2028", max_size=4), min_size=1, max_size=3),
        min_size=1,
        max_size=8,
    ),
    place=st.integers(1, 2),
)
def test_a_row_that_line_breaks_cut_is_left_out_and_counted(
    texts: list[list[str]], place: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In any column but the first and the last; of a row that is not cut nothing is lost."""
    path, notes = tmp_path_factory.mktemp("cut") / "x.tsv", list[str]()
    made = [[f"{n}", "one", "two", "0"] for n in range(len(texts))]
    for row, text in zip(made, texts, strict=True):
        row[place] = "\n".join(text)
    path.write_text(
        "".join("\t".join(row) + "\n" for row in [list("abcd"), *made]),
        encoding="utf-8",
    )
    found = [list(row.values()) for _, row in rows_of_file(path, PAPERS, notes.append)]
    assert found == [
        row for row, text in zip(made, texts, strict=True) if len(text) == 1
    ]
    cut = len(made) - len(found)
    assert [f"left out: {cut} (first: line " in note for note in notes] == [True] * (
        cut > 0
    )
    if cut:
        assert "columns instead of 4" in refused(
            lambda: list(rows_of_file(path, PAPERS))
        )


def test_a_parquet_file_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]),
        tmp_path / "x.parquet",
    )
    assert "the column 'x' is there twice" in refused(
        lambda: table_of(tmp_path / "x.parquet")
    )


def test_quotes_of_a_tsv_file_are_to_be_explained(put: Put) -> None:
    assert (
        table_of(put("y.tsv", 'text\tlabel\nHe said "so"\tx\n'))[0]["text"]
        == 'He said "so"'
    )
    path = put("x.tsv", 'text\tlabel\nplain\tx\n"Great"\ty\n')
    said = refused(lambda: table_of(path))
    assert (
        said.startswith(f"{path}:3: the quotes may enclose the text")
        and "quotes = true" in said
    )
    assert [table_of(path, quotes=quotes)[1]["text"] for quotes in (True, False)] == [
        "Great",
        '"Great"',
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.csv", 'text,label\na,x\n"b,y\n', ":3: the line has invalid quotes"),
        ("x.csv", 'text,label\na,x\n"b"c,y\n', ":3: the line has invalid quotes"),
        ("x.csv", '"text"s,label\na,x\n', ":1: the line has invalid quotes"),
        ("x.tsv", "\ntext\tlabel\n", ":2: the line has 2 columns instead of 1"),
        (
            "x.csv",
            'text,label\n"a\nb",x\n\nc\n',
            ":5: the line has 1 columns instead of 2",
        ),
    ],
)
def test_a_bad_line_is_counted_across_fields_of_several_lines(
    put: Put, name: str, text: str, said: str
) -> None:
    path = put(name, text)
    assert refused(lambda: table_of(path)).startswith(f"{path}{said}")


@pytest.mark.parametrize(
    ("name", "text"), [("x.tsv", "a\tx\nb\ty\n"), ("x.csv", '"a",x\nb,y\n')]
)
def test_a_table_without_a_header_is_given_one(put: Put, name: str, text: str) -> None:
    header = ["text", "label"]
    expected = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    assert table_of(put(name, text), header=header) == expected
    headed = put(name, ("," if name == "x.csv" else "\t").join(header) + "\n" + text)
    assert "the first line is the header" in refused(
        lambda: table_of(headed, header=header)
    )


def test_lines_plain_gz_and_zst(tmp_path: Path) -> None:
    text = "\ufeffone\r\ntwo \x0c\u2028 still two\n\nfour"
    expected = [(1, "one"), (2, "two \x0c\u2028 still two"), (3, ""), (4, "four")]
    raw = text.encode()
    (tmp_path / "a.txt").write_bytes(raw)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(raw[:7]) + gzip.compress(raw[7:]))
    frames = zstandard.ZstdCompressor()
    (tmp_path / "a.txt.zst").write_bytes(
        frames.compress(raw[:9]) + frames.compress(raw[9:])
    )
    for name in ("a.txt", "a.txt.gz", "a.txt.zst"):
        assert list(lines(tmp_path / name)) == expected


_CONTENT = "\n".join(f"line {i} {i * 7919}" for i in range(50_000)).encode()
_GZ, _ZST = (
    gzip.compress(_CONTENT, mtime=0),
    zstandard.ZstdCompressor().compress(_CONTENT),
)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "cut.gz",
            _GZ[: len(_GZ) // 2],
            r"cut\.gz: the compressed file is damaged after line \d+",
        ),
        (
            "cut.zst",
            _ZST[: len(_ZST) // 2],
            r"cut\.zst: the compressed file is damaged after line \d+",
        ),
        ("x.gz", b"not packed at all", r"x\.gz: .* is damaged after line 0"),
        ("x.zst", b"not packed at all", r"x\.zst: .* is damaged after line 0"),
        (
            "latin.tsv",
            b"fine\ncaf\xe9\n",
            r"latin\.tsv: line 2, byte 4 \(0xe9\) is not UTF-8",
        ),
        (
            "x.tsv",
            _GZ,
            r"x\.tsv is packed by gzip; unpack it, or let its name end in \.gz",
        ),
        (
            "x.xlsx",
            b"PK\x03\x04\n",
            "is a spreadsheet; save its rows as CSV or JSON Lines in UTF-8",
        ),
        ("absent.tsv", None, "there is no file"),
        ("absent.parquet", None, "there is no file"),
        ("x.parquet", b"PAR1 nothing PAR1", r"x\.parquet cannot be read as Parquet"),
    ],
    ids=[
        "gz",
        "zst",
        "no gz",
        "no zst",
        "latin",
        "no name",
        "xlsx",
        "no file",
        "no parquet",
        "parquet",
    ],
)
def test_damaged_files_are_named(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=said):
        list(rows_of_file(tmp_path / name, PAPERS))


def test_many_rows_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(20_000)}), path)
    found = list(rows_of_file(path, PAPERS))
    assert found == [
        (f"{path}: row {number}", {"x": number}) for number in range(20_000)
    ]


@pytest.mark.parametrize(
    ("feature", "names"),
    [
        ({"names": ["no", "yes"], "_type": "ClassLabel"}, ("no", "yes")),
        ([{"names": ["O", "B"], "_type": "ClassLabel"}], ("O", "B")),
        (
            {"feature": {"names": ["O"], "_type": "ClassLabel"}, "_type": "Sequence"},
            ("O",),
        ),
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
    features = {"other": {"names": ["a", "b"]}} | (
        {"label": feature} if feature else {}
    )
    written = {"huggingface": json.dumps({"info": {"features": features}})}
    pq.write_table(pa.table({"label": [0]}).replace_schema_metadata(written), path)
    assert class_names(path, "label") == names
    assert class_names(path, "other") == ("a", "b")
