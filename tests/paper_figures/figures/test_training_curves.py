"""Training losses read from logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from common.errors import UserError
from paper_figures.figures.losses import training_losses
from pretraining.model_names import OBJECTIVES, ObjectiveName

TRUNK = {"610m-clm-42k": {"610m-clm", "610m-clm-42k"}}


def row(step: object, loss: object = 3.0, **other: object) -> dict[str, object]:
    about = {"split": "train", "objective": "clm", "ratio": None, "stage": "610m-clm"}
    return {"step": step, "loss": loss, **about, **other}


def log(folder: Path, *lines: object, name: str = "stages/610m-clm", end: str = "\n") -> Path:
    path = folder / name / "log.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end)
    return path


def test_losses_come_in_the_order_of_steps_without_validation(tmp_path: Path) -> None:
    log(tmp_path, row(30, 2.0), row(10, 4.0, lr=5e-4), row(20, 9, split="validation"))
    assert training_losses(tmp_path, TRUNK).to_numpy().tolist() == [
        ["610m-clm", 10, "clm", 4.0],
        ["610m-clm", 30, "clm", 2.0],
    ]


def test_a_step_done_again_counts_as_it_was_done_last_and_a_cut_line_not_at_all(tmp_path: Path) -> None:
    log(tmp_path, row(10, 4.0), row(20, 3.0), row(20, 2.5), '{"step": 30, "obj', end="")
    assert training_losses(tmp_path, TRUNK)["loss"].tolist() == [4.0, 2.5]


def test_the_log_of_a_finished_model_is_enough(tmp_path: Path) -> None:
    rows = [row(10), row(20, stage="610m-clm-42k"), row(20, stage="610m-mlm40")]
    log(tmp_path, *rows, name="models/610m-clm-42k")
    assert training_losses(tmp_path, TRUNK)["stage"].tolist() == ["610m-clm", "610m-clm-42k"]


def test_the_log_of_a_model_may_repeat_those_of_its_stages(tmp_path: Path) -> None:
    log(tmp_path, row(10))
    log(tmp_path, row(20, stage="610m-clm-42k"), name="stages/610m-clm-42k")
    log(tmp_path, row(10), row(20, stage="610m-clm-42k"), name="models/610m-clm-42k")
    assert training_losses(tmp_path, TRUNK)["step"].tolist() == [10, 20]


def test_two_trainings_of_one_stage_are_not_mixed(tmp_path: Path) -> None:
    log(tmp_path, row(10, 3.0), name="a/610m-clm")
    second = log(tmp_path, row(10, 3.5), name="b/610m-clm")
    with pytest.raises(
        UserError, match=rf"^{second}: step 10 of 610m-clm has another loss here than in .*/a/"
    ):
        training_losses(tmp_path, TRUNK)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{oops", "line 2 is not a row of a training log"),
        ([1], "line 2 is not a row of a training log"),
        ({"step": 3}, "line 2 is not a row of a training log"),
        (row(-1), "line 2 is not a row of a training log"),
        (row(True), "line 2 is not a row of a training log"),
        (row("5"), "line 2 is not a row of a training log"),
        (row(5, objective="rtd"), "step 5 has objective 'rtd'"),
        (row(5, float("nan")), "line 2 is not a row of a training log"),
        (row(5, 0.0), r"step 5 has loss 0\.0"),
        (row(5, None), "line 2 is not a row of a training log"),
    ],
)
def test_a_wrong_line_is_told_with_its_file(line: object, says: str, tmp_path: Path) -> None:
    path = log(tmp_path, row(2), line, row(9))
    with pytest.raises(UserError, match=rf"^{path}: {says}") as error:
        training_losses(tmp_path, TRUNK)
    assert "\n" not in str(error.value)


def test_a_log_that_is_no_text(tmp_path: Path) -> None:
    log(tmp_path).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="no text in UTF-8"):
        training_losses(tmp_path, TRUNK)


def test_folders_that_are_absent_or_hold_no_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        training_losses(tmp_path / "absent", TRUNK)
    with pytest.raises(UserError, match=r"no log\.jsonl below it"):
        training_losses(tmp_path, TRUNK)


def test_the_losses_of_a_made_up_objective_are_read(tmp_path: Path) -> None:
    log(tmp_path, row(0, objective="rtd"))
    OBJECTIVES.register(ObjectiveName(name="rtd"))
    try:
        assert set(training_losses(tmp_path, TRUNK)["objective"]) == {"rtd"}
    finally:
        OBJECTIVES.pop("rtd")
