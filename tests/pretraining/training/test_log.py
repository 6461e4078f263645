import json
import math
from pathlib import Path

import pytest

from common import reading
from common.errors import UserError
from pretraining.training.log import LOG, TIMINGS, LogWriter, read_log, validation_gain


def test_unfinished_lines_of_a_log_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = {
        "step": 1,
        "split": "train",
        "objective": "clm",
        "ratio": None,
        "stage": "a",
        "loss": 1.0,
    }
    path.write_text(json.dumps(row) + "\n" + '{"step": 2, "spl')
    assert read_log(path) == [row]
    writer = LogWriter(path)
    writer.write(row | {"step": 2})
    writer.write(row | {"loss": 3.0})
    writer.close()
    assert [(item["step"], item["loss"]) for item in read_log(path)] == [
        (1, 3.0),
        (2, 1.0),
    ]
    path.write_bytes(b"\x80\x04\x95\xff\n")
    with pytest.raises(
        UserError,
        match=r"line 1 is not a row of a training log; give a log.*is not UTF-8",
    ):
        read_log(path)
    with pytest.raises(UserError, match="no log here"):
        read_log(tmp_path / "absent")
    with pytest.raises(UserError, match="is a folder"):
        read_log(tmp_path)


ROW = {
    "step": 1,
    "split": "train",
    "objective": "clm",
    "ratio": None,
    "stage": "a",
    "loss": 1.0,
    "tokens": 5,
}


def test_what_is_measured_has_a_file_of_its_own(tmp_path: Path) -> None:
    measured = {
        "tokens_per_second": 5.0,
        "mfu": 0.1,
        "memory_gb": 2.0,
        "device": "cpu",
        "processes": 1,
    }
    for folder, speed in (("a", 1.0), ("b", 2.0)):
        writer = LogWriter(tmp_path / folder / LOG)
        for step in (1, 2, 1):
            writer.write(
                ROW | {"step": step} | measured | {"tokens_per_second": speed * step}
            )
        writer.close()
    assert (tmp_path / "a" / LOG).read_bytes() == (tmp_path / "b" / LOG).read_bytes()
    rows = [
        json.loads(line) for line in (tmp_path / "b" / TIMINGS).read_text().splitlines()
    ]
    assert [row["tokens_per_second"] for row in rows] == [2.0, 4.0, 2.0]
    assert rows[0] == {"step": 1, "stage": "a"} | measured | {"tokens_per_second": 2.0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", -1),
        ("step", True),
        ("step", 1.0),
        ("step", None),
        ("step", 2**63),
        ("split", None),
        ("split", []),
        ("split", "test"),
        ("objective", 5),
        ("objective", ""),
        ("ratio", -1),
        ("ratio", 101),
        ("ratio", "40"),
        ("stage", "a\nb"),
        ("stage", "\x1b[0m"),
        ("loss", "1"),
        ("loss", None),
        ("loss", 1e308),
        ("tokens", 1.5),
        ("batch", "0" * 65),
        ("unknown", "1"),
        ("x", [[[[1]]]]),
    ],
)
def test_rows_that_cannot_be_are_refused(
    tmp_path: Path, field: str, value: object
) -> None:
    (tmp_path / LOG).write_text(
        json.dumps(ROW | {field: value}) + "\n" + json.dumps(ROW) + "\n"
    )
    with pytest.raises(
        UserError, match="line 1 is not a row of a training log"
    ) as error:
        read_log(tmp_path / LOG)
    assert str(error.value).isprintable()
    assert f"its {field} cannot be" in str(error.value)


def test_another_metric_is_written_and_read(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / LOG)
    writer.write(ROW | {"weight_norm": 3.5})
    writer.close()
    assert read_log(tmp_path / LOG) == [ROW | {"weight_norm": 3.5}]


@pytest.mark.parametrize(
    "line",
    [
        "no",
        "NaN",
        "[]",
        "",
        "[" * 100_000,
        '{"step": 1, "step": 2}',
        json.dumps(ROW).replace("5", "NaN"),
        json.dumps(ROW).replace("1.0", "1e999"),
        json.dumps(ROW).replace("5", "9" * 5000),
    ],
)
def test_lines_that_are_no_row_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / LOG).write_text(line + "\n")
    with pytest.raises(UserError, match="line 1 is not a row"):
        read_log(tmp_path / LOG)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_read_as_it_was_written(
    tmp_path: Path, loss: float
) -> None:
    writer = LogWriter(tmp_path / LOG)
    writer.write(ROW | {"split": "validation", "loss": loss})
    writer.close()
    (row,) = read_log(tmp_path / LOG)
    assert repr(row["loss"]) == repr(loss)


def test_rows_after_the_checkpoint_are_cut_off_on_resuming(tmp_path: Path) -> None:
    path = tmp_path / LOG
    steps = {None: [1, 2, 3, 4], 4: [1, 2, 3, 4], 2: [1, 2], -1: []}
    for until, kept in steps.items():
        writer = LogWriter(path)
        for step in range(1, 5):
            writer.write(ROW | {"step": step, "tokens_per_second": 1.0})
        writer.close()
        LogWriter(path, until).close()
        for file in (path, tmp_path / TIMINGS):
            assert [
                json.loads(line)["step"] for line in file.read_text().splitlines()
            ] == kept
            file.unlink()


def test_damaged_log_is_read_as_far_as_it_is_whole(
    tmp_path: Path,
) -> None:
    faults: list[str] = []
    assert read_log(tmp_path / LOG, faults) == [] and "no log here" in faults.pop()
    (tmp_path / LOG).write_text(
        json.dumps(ROW)
        + "\n{\n"
        + "x" * 200_000
        + "\n"
        + json.dumps(ROW | {"step": 2})
        + "\n{"
    )
    assert [row["step"] for row in read_log(tmp_path / LOG, faults)] == [1, 2]
    assert "line 2 is not a row" in faults[0] and "more than 65,536 bytes" in faults[1]


def test_a_log_of_any_size_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 10)
    (tmp_path / LOG).write_text(
        "".join(json.dumps(ROW | {"step": step}) + "\n" for step in range(2000))
    )
    assert len(read_log(tmp_path / LOG)) == 2000


def test_gain_is_of_the_first_ratio() -> None:
    rows = [
        {"split": split, "ratio": ratio, "loss": loss}
        for split, ratio, loss in (
            ("validation", 30, 8.171),
            ("train", 30, 9.0),
            ("validation", 30, 6.348),
            ("validation", 15, 6.2),
            ("validation", 15, 6.143),
        )
    ]
    assert validation_gain(rows) == "8.17 -> 6.35 at 30 %"
    assert validation_gain(rows[:2]) == ""
