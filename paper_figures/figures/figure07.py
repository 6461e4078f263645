"""Figure 7: how much seed and masking ratio matter, MLM alone and after CLM at 610M (needs runs)."""

from __future__ import annotations

import pandas as pd

from analysis.statistics.learning_rate_selection import select_runs
from paper_figures.drawing.style import MLM, RAMP_PURPLE, Look
from paper_figures.figure import Inputs
from paper_figures.spread import spread_figure, task_averages
from pretraining.model_names import RATIOS

__all__ = ["FIGURE"]


def _scores(runs: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    return task_averages(select_runs(runs, inputs.settings.selection), ("model", "seed"))


FIGURE = spread_figure(
    7,
    "Sensitivity to seed and masking ratio",
    claim="F10",
    columns={
        "MLM": tuple(f"610m-mlm{ratio}-42k" for ratio in RATIOS),
        "CLM+MLM": tuple(f"610m-clm-40k-mlm{ratio}-42k" for ratio in RATIOS),
    },
    looks={"MLM": MLM, "CLM+MLM": Look(color=RAMP_PURPLE[1].color, marker="D")},
    scores=_scores,
    label="{model}, seed {seed}",
    note="Test scores of 610M models after 42K steps, MLM only or its last 2K steps after 40K of CLM, at every seed "
    "and masking ratio from 20 to 50 %, centred on their mean: bar, one standard deviation; small points, single "
    "scores by rising ratio. Each panel has its own range.",
    selected=True,
)
