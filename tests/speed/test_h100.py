"""The script for a lent GPU on a CPU, and the budget that it is compared with."""

import json
import math
from pathlib import Path

import pytest
import torch

from pretraining.paper_settings import SHAPES
from tests.speed import budget, h100


def test_rows_resume_where_cut_off_and_say_what_falls_away(
    tmp_path: Path,
) -> None:
    given = {
        "file": tmp_path / "h100.json",
        "device": torch.device("cpu"),
        "small": True,
    }
    given["backends"] = ("sdpa", "flash2")
    h100.kernels(h100.Table(end=math.inf, **given))  # type: ignore[arg-type]
    rows = json.loads(given["file"].read_text())  # type: ignore[attr-defined]
    key = "attention, pretraining, mlm, "
    assert (
        rows[key + "sdpa"]["both"] > 0
        and "needs a GPU" in rows[key + "flash2"]["falls away"]
    )
    h100.kernels(h100.Table(end=0.0, rows=dict(rows), **given))  # type: ignore[arg-type]
    del rows[key + "sdpa"]
    with pytest.raises(h100.OutOfTime):
        h100.kernels(h100.Table(end=0.0, rows=rows, **given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "measured"), [("210m", 308_000), ("610m", 105_500), ("1b", 60_000)]
)
def test_the_counted_budget_meets_what_was_measured(size: str, measured: float) -> None:
    """In tokens/s of one H100."""
    assert budget.speed(SHAPES[size], budget.MEASURED) == pytest.approx(
        measured, rel=0.05
    )
