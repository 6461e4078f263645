from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from common.packed import ARCHIVES
from pretraining.data.corpus import FILE_KINDS, SOURCES, CorpusFile, Source, open_source


@pytest.mark.parametrize(
    ("name", "known"), [("a.jsonl", True), ("a.JSONL.gz", True), ("b.parquet.zst", True), ("readme", False)]
)
def test_kinds_go_by_the_suffix_below_a_compression(tmp_path: Path, name: str, known: bool) -> None:
    (tmp_path / name).write_bytes(b"")
    (tmp_path / "z.txt").write_text("z")
    files = open_source([str(tmp_path)]).files
    assert files == tuple(str(tmp_path / file) for file in ([name] if known else []) + ["z.txt"])


def test_a_made_up_kind_of_file_and_compression_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def words(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
        data = ARCHIVES[".upside"](file.raw).read().decode()
        yield from ((word, file.size) for word in data.split()[start:])

    path = tmp_path / "a.words.upside"
    path.write_bytes(b"eerht owt eno")
    with pytest.raises(UserError, match="unknown kind of file"):
        open_source([str(path)])
    monkeypatch.setitem(FILE_KINDS, ".words", words)
    monkeypatch.setitem(ARCHIVES, ".upside", lambda raw: io.BytesIO(raw.read()[::-1]))
    source = open_source([str(tmp_path)])
    assert [document.text for document in source.documents()] == ["one", "two", "three"]
    assert [document.text for document in source.documents(0, 2)] == ["three"]


def test_a_made_up_kind_of_source_is_found_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(specs: object) -> Source:
        return Source(
            spec="made:up",
            files=("x.txt",),
            sizes=(5,),
            revision="1",
            open=lambda file: io.BytesIO(b"hello"),
        )

    with pytest.raises(UserError, match="no documents here"):
        open_source(["made:up"])
    monkeypatch.setitem(SOURCES, "made:", find)
    assert [document.text for document in open_source(["made:up"]).documents()] == ["hello"]
