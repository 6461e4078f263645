"""Figure 5: how much the fine-tuning's seed and learning rate matter, MLM and CLM at 610M (needs runs)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figures.drawing.style import CLM, MLM
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
from paper_figures.spread import describe_spread, draw_columns, spread_data, task_averages
from pretraining.study import FIGURES

__all__ = ["FIGURE", "RATES"]

_COLUMNS = {"MLM": ("610m-mlm40-42k",), "CLM": ("610m-clm-42k",)}
RATES = (1e-5, 1e-4)
"""Smallest and largest learning rate that counts."""


def _collect(inputs: Inputs) -> pd.DataFrame:
    runs = inputs.source.need_runs(FIGURE.label)
    models = [name for names in _COLUMNS.values() for name in names]
    margin = 1e-9
    usual = runs["lr"].between(RATES[0] * (1 - margin), RATES[1] * (1 + margin))
    if inputs.source.stand_ins is not None:
        usual |= True  # small networks are tuned at other rates
    scores = task_averages(runs[runs["model"].isin(models) & usual], ("model", "lr", "seed"))
    return spread_data(scores, _COLUMNS, label="lr {lr:.0e}, seed {seed}", figure=FIGURE, inputs=inputs)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return centred scores: a panel a task, a column an objective."""
    return draw_columns(FIGURE.heading, data, caption, {"MLM": MLM, "CLM": CLM})


FIGURE = PaperFigure(
    name="5",
    title="Sensitivity to seed and learning rate",
    collect=_collect,
    draw=draw,
    describe=describe_spread,
    models=FIGURES[5],
    note="Test scores of 610M models after 42K steps at every seed and learning rate from 1e-5 to 1e-4 (all rates "
    "where small networks stand for them), centred on their mean: bar, one standard deviation; small points, single "
    "scores by rising learning rate. Each panel has its own range.",
    averaged=False,
    selected=False,
)
