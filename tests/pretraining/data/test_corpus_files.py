from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.data.corpus import ORIGINS, Origin, Source, open_source
from pretraining.data.corpus_files import ARCHIVES, FILE_KINDS, Archive, CorpusFile, FileKind, kind_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.jsonl", ".jsonl"), ("a.JSONL.gz", ".jsonl"), ("b/c.parquet.zst", ".parquet"), ("readme", "")],
)
def test_kinds_go_by_the_suffix_below_a_compression(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_a_made_up_kind_of_file_and_compression_are_read(tmp_path: Path) -> None:
    def words(file: CorpusFile, start: int) -> Iterator[tuple[str, int]]:
        data = ARCHIVES[".upside"].open(file.raw).read().decode()
        yield from ((word, file.size) for word in data.split()[start:])

    path = tmp_path / "a.words.upside"
    path.write_bytes(b"eerht owt eno")
    with pytest.raises(UserError, match="unknown kind of file"):
        open_source([str(path)])
    FILE_KINDS.register(FileKind(name=".words", texts=words))
    ARCHIVES.register(Archive(name=".upside", open=lambda raw: io.BytesIO(raw.read()[::-1])))
    try:
        source = open_source([str(tmp_path)])
        assert [document.text for document in source.documents()] == ["one", "two", "three"]
        assert [document.text for document in source.documents(0, 2)] == ["three"]
    finally:
        FILE_KINDS.unregister(".words")
        ARCHIVES.unregister(".upside")


def test_a_made_up_origin_is_found_by_its_prefix() -> None:
    def find(specs: object, text_field: str) -> Source:
        return Source(
            spec="made:up", files=("x.txt",), sizes=(5,), revision="1", text_field=text_field, origin=made_up
        )

    made_up = Origin(name="made up", prefix="made:", find=find, open=lambda file: io.BytesIO(b"hello"))
    with pytest.raises(UserError, match="no documents here"):
        open_source(["made:up"])
    ORIGINS.register(made_up)
    try:
        assert [document.text for document in open_source(["made:up"]).documents()] == ["hello"]
    finally:
        ORIGINS.unregister("made up")
