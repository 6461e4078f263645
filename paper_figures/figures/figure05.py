"""Figure 5: how much the fine-tuning's seed and learning rate matter, MLM and CLM at 610M (needs runs)."""

from __future__ import annotations

import pandas as pd

from paper_figures.drawing.style import CLM, MLM
from paper_figures.figure import Inputs
from paper_figures.spread import spread_figure, task_averages

__all__ = ["FIGURE", "RATES"]

RATES = (1e-5, 1e-4)
"""Smallest and largest learning rate that counts."""


def _scores(runs: pd.DataFrame, inputs: Inputs) -> pd.DataFrame:
    if inputs.source.stand_ins is None:  # small networks are tuned at other rates
        margin = 1e-9
        runs = runs[runs["lr"].between(RATES[0] * (1 - margin), RATES[1] * (1 + margin))]
    return task_averages(runs, ("model", "lr", "seed"))


FIGURE = spread_figure(
    5,
    "Sensitivity to seed and learning rate",
    claim="F7",
    columns={"MLM": ("610m-mlm40-42k",), "CLM": ("610m-clm-42k",)},
    looks={"MLM": MLM, "CLM": CLM},
    scores=_scores,
    label="lr {lr:.0e}, seed {seed}",
    note="Test scores of 610M models after 42K steps at every seed and learning rate from 1e-5 to 1e-4 (all rates "
    "where small networks stand for them), centred on their mean: bar, one standard deviation; small points, single "
    "scores by rising learning rate. Each panel has its own range.",
    selected=False,
)
