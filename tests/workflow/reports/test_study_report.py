"""A study's own scores and losses as a table and a picture."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pretraining.training.log import LOG, write_log
from workflow.reports.study_report import draw, losses_of, score_table

SCORES = pd.DataFrame(
    [("b", "sst2", 80.0, 79.0, 81.0), ("b", "nq", 20.0, 18.0, 22.0), ("a", "sst2", 70.0, 69.5, 70.5)],
    columns=["model", "dataset", "mean", "low", "high"],
)


def test_a_row_is_a_model_and_a_column_a_dataset() -> None:
    assert score_table(SCORES) == (
        "| model | sst2 | nq |\n|---|---|---|\n| b | 80.00 (+-1.00) | 20.00 (+-2.00) |\n| a | 70.00 (+-0.50) | - |\n"
    )


def test_losses_are_those_of_finished_models(tmp_path: Path) -> None:
    row = {"objective": "mlm", "ratio": 0.4, "stage": "s"}
    for folder, loss in (("models/b", 2.0), ("models/a", 1.0), ("stages/s", 9.0)):
        rows = [{**row, "step": step, "split": "train", "loss": loss / step} for step in (1, 2)]
        write_log(tmp_path / folder / LOG, rows)
    losses = losses_of(tmp_path)
    assert list(losses.columns) == ["model", "step", "split", "objective", "loss"]
    assert losses[["model", "loss"]].to_numpy().tolist() == [["a", 1.0], ["a", 0.5], ["b", 2.0], ["b", 1.0]]


def test_the_picture_has_a_line_for_each_loss_and_a_mark_for_each_score() -> None:
    losses = pd.DataFrame(
        [
            (model, step, "train", objective, 2.0)
            for model, objective in (("a", "mlm"), ("b", "clm"))
            for step in (1, 2)
        ],
        columns=["model", "step", "split", "objective", "loss"],
    )
    upper, lower = draw(SCORES, losses).axes
    assert [line.get_linestyle() for line in upper.lines] == ["-", "--"]
    assert [label.get_text() for label in lower.get_xticklabels()] == ["sst2", "nq"]
    assert sorted(len(item.lines[0].get_xdata()) for item in lower.containers) == [1, 2]
