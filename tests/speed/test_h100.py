"""The script for a lent GPU on a CPU, and the budget that it is compared with."""

import json
import math
from pathlib import Path

import pytest
import torch

from pretraining.paper_settings import SHAPES
from tests.speed import budget, h100


def test_a_part_goes_on_where_it_was_cut_off_and_says_what_falls_away(tmp_path: Path) -> None:
    file, cpu = tmp_path / "kernels.json", torch.device("cpu")
    h100.kernels(h100.Part(file=file, device=cpu, end=math.inf, rows={}), small=True)
    rows = json.loads(file.read_text())
    assert rows["tiny mlm sdpa"]["both"] > 0 and "needs a GPU" in rows["tiny clm cudnn"]["falls away"]
    h100.kernels(h100.Part(file=file, device=cpu, end=0.0, rows=rows), small=True)  # measures nothing
    del rows["tiny clm sdpa"]
    with pytest.raises(h100.OutOfTime):
        h100.kernels(h100.Part(file=file, device=cpu, end=0.0, rows=rows), small=True)


RANGES = {"210m": (0.34, 0.46), "610m": (0.38, 0.50), "1b": (0.42, 0.54)}


@pytest.mark.parametrize("size", SHAPES)
def test_the_counted_budget_meets_what_was_measured(size: str) -> None:
    now, *_, best, _ = (budget.speed(SHAPES[size], rates) for _, rates in budget.variants())
    assert now[0] == pytest.approx(budget.SEEN[size], rel=0.05)
    low, high = RANGES[size]
    assert low <= now[1] < best[1] <= high
