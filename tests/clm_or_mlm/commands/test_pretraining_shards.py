from __future__ import annotations

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
