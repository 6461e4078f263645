from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize(
    "change",
    [
        {"split": None},
        {"stage": []},
        {"objective": {}},
        {"step": "5"},
        {"ratio": "x"},
        {"stage": "a\x1b[2J"},
        {"x": [[[[1]]]]},
    ],
)
def test_a_row_of_other_types_is_refused_in_a_sentence(change: dict[str, object], tmp_path: Path) -> None:
    row = {"step": 1, "split": "train", "objective": "mlm", "ratio": 40, "stage": "s", "loss": 2.0}
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (row | change, row)))
    with pytest.raises(UserError, match="line 1 is not a row of a training log"):
        read_log(path)


def test_deep_nesting_and_pipes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("[" * 50_000 + "\n{}\n")
    with pytest.raises(UserError, match="line 1 is not a row"):
        read_log(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match="no regular file"):
        read_log(path)
