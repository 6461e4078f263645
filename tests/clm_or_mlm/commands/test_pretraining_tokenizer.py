from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.__main__ import main
from tests.pretraining.documents import make_documents, write_jsonl


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", make_documents(40))
    main(["tokenizer", "--train", str(file), "--vocab", "300", "--out", str(tmp_path / "t")])
    assert "300 ids" in capsys.readouterr().out
    main(["tokenizer", "--convert", str(tmp_path / "t"), "--out", str(tmp_path / "u")])
    assert (tmp_path / "t/tokenizer.json").read_bytes() == (tmp_path / "u/tokenizer.json").read_bytes()
    with pytest.raises(UserError, match="either --convert or --train"):
        main(["tokenizer", "--out", str(tmp_path)])


def test_an_unknown_option_is_the_mistake_not_what_is_missing() -> None:
    with pytest.raises(UserError, match="--out instead of --source"):
        main(["tokenizer", "--source", "x"])
