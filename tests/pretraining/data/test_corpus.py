import gzip
import json
import lzma
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from common.errors import UserError
from pretraining.data.corpus import batched, open_documents
from tests.messages import refused
from tests.pretraining.documents import make_documents, write_jsonl

TEXTS = make_documents(23)


def write_all(folder: Path) -> dict[str, Path]:
    plain = write_jsonl(folder / "a.jsonl", TEXTS)
    packed = folder / "b.jsonl.zst"
    packed.write_bytes(
        zstandard.compress(plain.read_bytes()[:500])
        + zstandard.compress(plain.read_bytes()[500:])
    )
    zipped = folder / "c.jsonl.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    table = folder / "d.parquet"
    pyarrow.parquet.write_table(
        pyarrow.table({"text": TEXTS, "id": list(range(23))}), table, row_group_size=5
    )
    return {"jsonl": plain, "zst": packed, "gz": zipped, "parquet": table}


@pytest.mark.parametrize("kind", ["jsonl", "zst", "gz", "parquet"])
def test_every_kind_gives_the_same_documents_and_resumes(
    tmp_path: Path, kind: str
) -> None:
    path = write_all(tmp_path)[kind]
    source = open_documents([str(path)])
    found = list(source.documents())
    assert [document.text for document in found] == TEXTS
    for stop in (0, 1, 4, 5, 12, 22):
        rest = list(source.documents(found[stop].file, found[stop].row))
        assert [document.text for document in rest] == TEXTS[stop + 1 :]
    assert found[0].read_bytes <= found[-1].read_bytes <= path.stat().st_size


@pytest.mark.parametrize(
    ("separator", "texts"),
    [
        ("blank", ["one\nstill one", "two", "three"]),
        ("line", ["one", "still one", "two", "three"]),
        ("file", ["one\nstill one\n \n\n\ntwo", "three"]),
        ("two", ["one\nstill one\n ", "three"]),
    ],
)
def test_text_files_are_split_where_a_document_ends(
    tmp_path: Path, separator: str, texts: list[str]
) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbf\none\nstill one\n \n\n\ntwo\n")
    (tmp_path / "y.txt.gz").write_bytes(gzip.compress(b"three", mtime=0))
    source = open_documents([str(tmp_path)], separator=separator)
    found = list(source.documents())
    assert [document.text for document in found] == texts
    for place, document in enumerate(found):
        assert [d.text for d in source.documents(document.file, document.row)] == texts[
            place + 1 :
        ]


def test_a_line_that_is_called_as_the_choice_of_lines_is_text(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("one\nline\nfile\n")
    found = {
        name: open_documents([str(tmp_path)], separator=name).documents()
        for name in ("line", "file")
    }
    assert [document.text for document in found["line"]] == ["one", "line", "file"]
    assert [document.text for document in found["file"]] == ["one\nline\nfile"]


def test_lines_that_end_in_two_characters_are_lines(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"one\r\nstill one\r\n\r\ntwo\r\n---\r\nstill two")
    assert [d.text for d in open_documents([str(tmp_path)]).documents()] == [
        "one\r\nstill one",
        "two\r\n---\r\nstill two",
    ]
    assert len(list(open_documents([str(tmp_path)], separator="---").documents())) == 2


def test_folders_and_patterns_are_read_in_order_of_names(tmp_path: Path) -> None:
    files = write_all(tmp_path)
    folder, pattern = open_documents([str(tmp_path)]), open_documents([f"{tmp_path}/*"])
    assert (
        folder.files
        == pattern.files
        == tuple(str(files[kind]) for kind in ("jsonl", "zst", "gz", "parquet"))
    )
    assert sum(1 for _ in folder.documents()) == 4 * 23


def test_linked_folders_are_read_and_other_kinds_are_named(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    (folder / "disk1").mkdir(parents=True)
    elsewhere.mkdir()
    (folder / "disk1/a.txt").write_text("one")
    (elsewhere / "b.ndjson").write_text('{"text": "two"}\n')
    (folder / "disk2").symlink_to(elsewhere)
    (elsewhere / "up").symlink_to(folder)
    (folder / "disk1/part.csv").write_text("three")
    (folder / "disk1/_SUCCESS").touch()
    (folder / "dataset_info.json").touch()
    for spec in (f"{folder}", f"{folder}/*", f"{folder}/disk*/*"):
        source = open_documents([spec])
        assert [document.text for document in source.documents()] == ["one", "two"]
        assert "part.csv" in {Path(name).name for name in source.left_out}
    (elsewhere / "data.arrow").touch()
    with pytest.raises(UserError, match=r"disk2 is a saved dataset; .*to_parquet"):
        open_documents([str(folder)])
    (elsewhere / "data.arrow").unlink()
    (elsewhere / "disk3").symlink_to("../not mounted")
    with pytest.raises(
        UserError,
        match=r"disk3 links to \.\./not mounted, where nothing is; mount that",
    ):
        open_documents([str(folder)])


def test_empty_texts_are_empty_strings(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n\n{"text": null}\n{"text": ""}\n')
    assert [document.text for document in open_documents([str(path)]).documents()] == [
        "x",
        "",
        "",
        "",
    ]


def test_halves_of_surrogate_pairs_are_replaced(tmp_path: Path) -> None:
    """JSON can name them, UTF-8 cannot hold them; whole pairs are one letter."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"text": "a\\ud83d\\ude00b\\ud800c"}\n{"text": "x", "score": NaN}\n'
    )
    texts = [document.text for document in open_documents([str(path)]).documents()]
    assert texts == ["a\U0001f600b\ufffdc", "x"]


@pytest.mark.parametrize(
    "kind",
    [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())],
)
def test_every_type_of_text_column_is_read(
    tmp_path: Path, kind: pyarrow.DataType
) -> None:
    path = tmp_path / "a.parquet"
    column = pyarrow.array(["x", None, "y"], pyarrow.string()).cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), path)
    assert [document.text for document in open_documents([str(path)]).documents()] == [
        "x",
        "",
        "y",
    ]


def test_groups_hold_all_documents(tmp_path: Path) -> None:
    source = open_documents([str(write_all(tmp_path)["jsonl"])])
    groups = list(batched(source.documents(), characters=700, most=4))
    assert [document.text for group in groups for document in group] == TEXTS
    assert all(len(group) <= 4 for group in groups)
    assert all(sum(len(d.text) for d in group[:-1]) < 700 for group in groups)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            b'{"text": "x"}\nno\n',
            r"line 2 is not a JSON object; .*jq -c \.`",
        ),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"text": "caf\xe9"}\n',
            r"line 2, byte 14 \(0xe9\) is not UTF-8; convert",
        ),
        ("a.jsonl", b'{"text": "x"}\n\x00\x00\n', "line 2 holds NULs"),
        ("a.jsonl", b'{"text": "x"}\n{"text": "a\\u0000"}\n', "line 2 holds NULs"),
        (
            "a.jsonl",
            '{"text": "x"}\n'.encode("utf-16"),
            "is text in UTF-16, .*iconv -f UTF-16 ",
        ),
        (
            "a.json",
            b'{\n "text": "x"\n}\n',
            r"line 1 is not a JSON object; .*jq -c \.`",
        ),
        ("a.json", b'\xef\xbb\xbf"x"\n', "line 1 is not a JSON object"),
        ("a.jsonl", b'{"body": "x"}\n', "line 1 has no 'text'; it has body"),
        ("a.jsonl", b"\n[1]\n", r"line 2 begins a JSON array; .*jq -c '\.\[\]'`"),
        (
            "a.jsonl",
            b'{"text": ["x"]}\n',
            r"line 1 has a list in 'text', not text; change --text-field",
        ),
        ("a.jsonl.gz", b"no gzip", "cannot be read: .*; fetch it again"),
        ("a.jsonl.zst", b"no zstd", "cannot be read"),
        ("a.parquet", b"no parquet", "cannot be read: .*; fetch it again"),
        ("a.txt", b"\xff\xfe\x00", "is text in UTF-16, .*iconv"),
        ("a.txt", "text".encode("utf-16-le"), "is text in UTF-16LE, .*iconv"),
        ("a.txt", b"one\ntw\xe9\n", r"line 2, byte 3 \(0xe9\) is not UTF-8; convert"),
        ("a.txt", b"one\ntwo\x00\n", "line 2 holds NULs"),
        *[
            (
                name,
                b"version https://git-lfs.github.com/spec/v1\n",
                "Git LFS pointer, .*git lfs pull",
            )
            for name in ("a.txt", "a.jsonl", "a.parquet", "a.jsonl.gz", "a.txt.xz")
        ],
        (
            "a.txt",
            gzip.compress(b"text", mtime=0),
            "packed by gzip; unpack it, or let its name end in .gz",
        ),
        ("a.xlsx", b"PK\x03\x04\n", "is a spreadsheet; save its rows as JSON Lines"),
        ("a.txt", b"\x00\x05\x16\x07\x00", "what macOS keeps beside a file"),
        ("a.txt", b"WARC/1.0\r\nx: y", "is a WARC of web pages; extract its texts"),
        ("a.txt", b" <!DOCTYPE html><p>x", r"is a web page \(HTML\); save its text"),
        ("a.txt", b"{\\rtf1 x}", r"a document with layout \(RTF\); save its text"),
        (
            "a.json",
            b'[{"text": "x"}]',
            "JSON array; one object with 'text' a line is needed",
        ),
        ("a.json", b'[\n{"text": "x"}]', "line 1 begins a JSON array"),
    ],
)
def test_damaged_files_are_reported(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        list(open_documents([str(path)]).documents())
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.txt", "one\n\n" + "two and\n" * 10, "line 3: .*--document-separator"),
        ("a.txt", "one\n\nthree\n" + "two and " * 10, "line 4: .*--document-separator"),
        (
            "a.jsonl",
            json.dumps({"text": "one"}) + "\n" + json.dumps({"text": "two " * 20}),
            "line 2: .*split it, .*--document-separator",
        ),
        (
            "a.jsonl",
            json.dumps({"text": "one"})
            + "\n"
            + json.dumps({"text": "two", "id": "1" * 99}),
            "line 2: .*split it",
        ),
        (
            "a.parquet",
            ["one", "two " * 20],
            "row 2: .*split it, .*--document-separator",
        ),
        ("a.parquet", ["one", "\u00e9" * 33], "row 2: .*split it"),
    ],
)
def test_a_document_that_is_too_large_is_refused(
    tmp_path: Path,
    name: str,
    content: str | list[str],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many lines of one document, and one line."""
    monkeypatch.setattr("pretraining.data.corpus.MOST_TEXT", 64)
    monkeypatch.setattr("pretraining.data.corpus.MOST_BYTES", 110)
    path = tmp_path / name
    if isinstance(content, list):
        pyarrow.parquet.write_table(pyarrow.table({"text": content}), path)
    else:
        path.write_text(content)
    documents = open_documents([str(path)]).documents()
    assert next(documents).text == "one"
    with pytest.raises(UserError, match=rf"{name}: {place}"):
        list(documents)


@pytest.mark.parametrize("kind", ["txt", "jsonl"])
def test_a_document_of_8_mb_is_read_and_no_larger_one(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"a.{kind}"
    text = "\u00e9" * 4_000_000

    def documents(text: str) -> list[str]:
        path.write_text(json.dumps({"text": text}) if kind == "jsonl" else text)
        return [document.text for document in open_documents([str(path)]).documents()]

    assert documents(text) == [text]
    with pytest.raises(
        UserError,
        match=r"line 1: the document is larger than 8 MB; .*--document-separator",
    ):
        documents(f"{text}a")


def test_mistakes_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"absent\.jsonl does not exist; give a file, a folder, a pattern",
    ):
        open_documents([str(tmp_path / "absent.jsonl")])
    for empty in (tmp_path, tmp_path / "*.jsonl"):
        with pytest.raises(UserError, match="no documents here"):
            open_documents([str(empty)])
    (tmp_path / "a.docx").write_text("x")
    for spec in (tmp_path / "a.docx", tmp_path, tmp_path / "*.docx"):
        with pytest.raises(UserError, match=r"a\.docx: unknown kind of file; .*--kind"):
            open_documents([str(spec)])
    (tmp_path / "a.docx").unlink()
    table = write_all(tmp_path)["parquet"]
    with pytest.raises(
        UserError, match=r"no column 'body'; choose one of text, id with --text-field"
    ):
        list(open_documents([str(table)], "body").documents())
    with pytest.raises(
        UserError, match=r"row 1 has a int in 'id', not text; change --text-field"
    ):
        list(open_documents([str(table)], "id").documents())
    with pytest.raises(UserError, match="a hub dataset has the form"):
        open_documents(["hf:nonsense"])
    with pytest.raises(UserError, match="not both"):
        open_documents(["hf:owner/name", str(table)])


def test_a_hub_dataset_is_pinned_and_read_by_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's three calls are stood in for; files, order, revision and reading are ours."""
    table = write_all(tmp_path)["parquet"]
    address = "hf://datasets/owner/name@abc123/sample/10BT/000.parquet"
    asked: list[object] = []

    class Hub:
        def dataset_info(self, repo: str, revision: str | None) -> SimpleNamespace:
            asked.append((repo, revision))
            return SimpleNamespace(sha="abc123")

    class Disk:
        def info(self, file: str) -> dict[str, int]:
            assert file == address
            return {"size": table.stat().st_size}

        def open(self, file: str, mode: str) -> object:
            assert (file, mode) == (address, "rb")
            return table.open("rb")

    def builder(repo: str, config: str | None, revision: str) -> SimpleNamespace:
        asked.append((repo, config, revision))
        return SimpleNamespace(config=SimpleNamespace(data_files={"train": [address]}))

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setattr("huggingface_hub.HfFileSystem", Disk)
    monkeypatch.setattr("datasets.load_dataset_builder", builder)
    source = open_documents(["hf:owner/name:sample-10BT@main"])
    assert asked == [("owner/name", "main"), ("owner/name", "sample-10BT", "abc123")]
    assert source.revision == "abc123"
    hashes: list[str] = []
    source.hash_up_to(1, hashes)
    assert hashes == [] and source.states == ()
    assert [document.text for document in source.documents(0, 7)] == TEXTS[7:]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("a.jsonl", True),
        ("a.JSONL.gz", True),
        ("b.parquet.zst", True),
        ("readme", False),
    ],
)
def test_kinds_go_by_the_suffix_below_a_compression(
    tmp_path: Path, name: str, known: bool
) -> None:
    (tmp_path / name).write_bytes(b"")
    (tmp_path / "z.txt").write_text("z")
    files = open_documents([str(tmp_path)]).files
    assert files == tuple(
        str(tmp_path / file) for file in ([name] if known else []) + ["z.txt"]
    )


def test_files_of_unknown_suffix_are_read_as_declared(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.md").write_text("one\n\ntwo")
    (tmp_path / "part-0").write_text("three")
    (tmp_path / "z.jsonl.xz").write_bytes(lzma.compress(b'{"text": "four"}\n'))
    aside = [
        "_SUCCESS",
        "part-1.csv",
        "part-2.tsv.gz",
        ".part-0.crc",
        "README",
        "SHA.sha256",
    ]
    for name in aside:
        (tmp_path / name).write_text("no text")
    source = open_documents([str(tmp_path)], kind="txt")
    assert {Path(name).name for name in source.left_out} == {*aside}
    assert open_documents([str(tmp_path / "README")], kind="txt").left_out == ()
    assert [document.text for document in source.documents()] == [
        "one",
        "two",
        "three",
        "four",
    ]
    assert open_documents([str(tmp_path)]).files == (str(tmp_path / "z.jsonl.xz"),)
    assert (
        source.identity()["kind"] == ".txt"
        and "kind" not in open_documents([str(tmp_path)]).identity()
    )
    with pytest.raises(UserError, match=r"part-0: unknown kind of file.*--kind txt"):
        open_documents([str(tmp_path / "part-0")])
    with pytest.raises(
        UserError, match=r"--kind docx: no such kind; choose one of parquet, jsonl"
    ):
        open_documents([str(tmp_path)], kind="docx")
    for bad in (lzma.compress(b'{"text": "four"}\n')[:-8], b"no xz"):
        (tmp_path / "z.jsonl.xz").write_bytes(bad)
        with pytest.raises(UserError, match=r"z\.jsonl\.xz cannot be read"):
            list(open_documents([str(tmp_path)]).documents())


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("x.warc.wet.gz", gzip.compress(b"WARC/1.0\r\n", mtime=0) * 120),
        ("x.warc", b"WARC/1.1\r\n"),
    ],
)
def test_a_warc_is_said_to_be_one(name: str, made: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(made)
    for kind in (None, "txt"):
        with pytest.raises(UserError, match="is a WARC of web pages; extract its"):
            list(open_documents([str(tmp_path)], kind=kind).documents())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_is_said_to_be_one(mode: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two three " * 99)
    path = tmp_path / f"texts.tar{mode[1:].replace(':', '.')}"
    with tarfile.open(path, mode) as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    for kind in (None, "txt"):
        with pytest.raises(UserError, match="is a tar archive; unpack it"):
            list(open_documents([str(path)], kind=kind).documents())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.html", b"<html><p>x", "is a web page"),
        ("a.rtf", b"{\\rtf1 x}", "a document with layout"),
        ("a.tgz", gzip.compress(b"x", mtime=0), "packed by gzip; unpack it"),
        ("a.md.gz", b"no gzip", "unknown kind of file"),
    ],
)
def test_other_kinds_say_what_they_are(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        open_documents([str(tmp_path)])


def test_a_cache_of_links_is_read_by_the_names_that_say_a_kind(tmp_path: Path) -> None:
    """As the hub's library lays out a dataset."""
    blobs, data = tmp_path / "blobs", tmp_path / "snapshots/9f/data"
    blobs.mkdir()
    data.mkdir(parents=True)
    for number in range(10):
        blob = write_jsonl(blobs / f"{number}a1b2", TEXTS[number : number + 2])
        (data / f"part-{number}.jsonl").symlink_to(blob)
    source = open_documents([str(tmp_path)])
    assert [Path(name).name for name in source.files] == [
        f"part-{number}.jsonl" for number in range(10)
    ]
    assert source.left_out == ()
    assert len([*source.documents()]) == 20
    assert open_documents([str(tmp_path)], kind="txt").files == source.files


@pytest.mark.parametrize(
    "hidden",
    ["._a.txt", "__MACOSX/texts/._a.txt", ".ipynb_checkpoints/a-checkpoint.txt"],
)
def test_hidden_files_are_left_out_and_named(hidden: str, tmp_path: Path) -> None:
    path = tmp_path / ".books" / hidden
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("two")
    with refused(path, "is hidden"):
        open_documents([str(tmp_path / ".books")])
    (tmp_path / ".books/a.txt").write_text("one")
    source = open_documents([str(tmp_path / ".books")], kind="txt")
    assert source.left_out == (str(path),)
    assert [document.text for document in source.documents()] == ["one"]
    named = open_documents([str(path)])
    assert [document.text for document in named.documents()] == ["two"]


def test_missing_texts_of_pandas_are_missing(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": NaN}\n{"text": "x"}\n')
    table = pyarrow.table({"text": pyarrow.array([float("nan")] * 2)})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    texts = [d.text for d in open_documents([str(tmp_path)]).documents()]
    assert texts == ["", "x", "", ""]


def test_a_column_of_bytes_is_said_to_be_one(tmp_path: Path) -> None:
    table = pyarrow.table({"text": [b"one", b"two"]})
    pyarrow.parquet.write_table(table, tmp_path / "b.parquet")
    with pytest.raises(UserError, match=r"a bytes in 'text', .*strings in UTF-8"):
        list(open_documents([str(tmp_path)]).documents())


@pytest.mark.parametrize("between", [",\n", ", ", ",\n\n"])
@pytest.mark.parametrize("end", ["", "\n", ",\n"])
def test_the_command_for_objects_between_commas_works(
    between: str, end: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    objects = [{"text": "one, {two}, "}, {"text": "three"}]
    path.write_text(between.join(map(json.dumps, objects)) + end)
    with pytest.raises(UserError, match="has a comma after an object") as error:
        list(open_documents([str(path)]).documents())
    program = str(error.value).split("`")[1].split("'")[1]
    array = subprocess.run(
        ["sed", program, str(path)], capture_output=True, check=True
    ).stdout
    assert json.loads(array) == objects
