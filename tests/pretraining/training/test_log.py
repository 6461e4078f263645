from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.errors import UserError
from pretraining.training.log import LogWriter, read_log


def test_unfinished_lines_of_a_log_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {"step": 1, "split": "train", "objective": "clm", "ratio": None, "stage": "a", "loss": 1.0}
    path.write_text(json.dumps(row) + "\n" + '{"step": 2, "spl')
    assert read_log(path) == [row]
    writer = LogWriter(path)
    writer.write(row | {"step": 2})
    writer.write(row | {"loss": 3.0})
    writer.close()
    assert [(item["step"], item["loss"]) for item in read_log(path)] == [(1, 3.0), (2, 1.0)]
    path.write_text("no\n" + json.dumps(row) + "\n")
    with pytest.raises(UserError, match="line 1 is not a row"):
        read_log(path)
    path.write_text(json.dumps(row | {"step": "first"}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(UserError, match="line 1 is not a row"):
        read_log(path)
    path.write_bytes(b"\x80\x04\x95\xff")
    with pytest.raises(UserError, match="no text in UTF-8, so no training log; give a log"):
        read_log(path)
    with pytest.raises(UserError, match="no log here"):
        read_log(tmp_path / "absent")
    with pytest.raises(UserError, match="is a folder"):
        read_log(tmp_path)
