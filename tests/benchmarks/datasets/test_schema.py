"""The tables of each family, and manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.schema import schema_of, table_names
from benchmarks.protocol import get_dataset
from common.errors import UserError
from common.manifest import manifest_text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is damaged"),
        (manifest_text({"schema": 99}), "has version 99 of the local form"),
        ('{"schema": 1}', "is damaged"),
        ("[]", "is damaged"),
    ],
)
def test_broken_manifest(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2/manifest.json").write_text(text)
    with pytest.raises(UserError, match=sentence):
        load(tmp_path, "sst2")


def test_tables_of_each_family() -> None:
    assert table_names(get_dataset("squad")) == ("train", "validation", "test")
    assert table_names(get_dataset("msmarco")) == ("pairs", "queries", "corpus", "qrels")
    assert table_names(get_dataset("nq")) == ("queries", "corpus", "qrels")
    assert schema_of("QA", "train").names == ["id", "question", "context", "answers"]
