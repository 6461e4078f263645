from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.__main__ import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "--source requires"),
        (["--source", "x", "--out", "y"], "--tokenizer requires"),
        (["--sourc", "x"], "Did you mean --source"),
        (["--tokens", "1.5"], '--tokens: unable to convert "1.5" into int'),
    ],
)
def test_mistakes_are_reported(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        main(["shards", *words])


def test_an_unknown_compression_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = ["--source", "x", "--tokenizer", "y", "--out", str(tmp_path / "out"), "--compression", "zst"]
    with pytest.raises(UserError, match='Did you mean "zstd"'):
        main(["shards", *words])
    assert not (tmp_path / "out").exists()
