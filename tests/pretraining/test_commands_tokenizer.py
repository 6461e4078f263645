from __future__ import annotations

from pathlib import Path

import pytest

from clm_or_mlm.__main__ import main
from tests.pretraining.documents import make_documents, write_jsonl


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", make_documents(40))
    main(["tokenizer", "--train", str(file), "--vocab", "300", "--out", str(tmp_path / "t")])
    assert "300 ids" in capsys.readouterr().out
    main(["tokenizer", "--convert", str(tmp_path / "t"), "--out", str(tmp_path / "u")])
    assert (tmp_path / "t/tokenizer.json").read_bytes() == (tmp_path / "u/tokenizer.json").read_bytes()
