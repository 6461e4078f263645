"""Figure 7: how much seed and masking ratio matter, MLM alone and after CLM at 610M (needs runs)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.statistics.selection import select_runs
from paper_figures.drawing.style import MLM, RAMP_PURPLE, Look
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs
from paper_figures.spread import describe_spread, draw_columns, spread_data, task_averages
from pretraining.study import FIGURES, RATIOS

__all__ = ["FIGURE"]

_COLUMNS = {
    "MLM": tuple(f"610m-mlm{ratio}-42k" for ratio in RATIOS),
    "CLM+MLM": tuple(f"610m-clm-40k-mlm{ratio}-42k" for ratio in RATIOS),
}
_BOTH = Look(color=RAMP_PURPLE[1].color, marker="D")


def _collect(inputs: Inputs) -> pd.DataFrame:
    runs = inputs.source.need_runs(FIGURE.label)
    models = [name for names in _COLUMNS.values() for name in names]
    chosen = select_runs(runs[runs["model"].isin(models)], inputs.settings.selection)
    scores = task_averages(chosen, ("model", "seed"))
    return spread_data(scores, _COLUMNS, label="{model}, seed {seed}", figure=FIGURE, inputs=inputs)


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return centred scores: a panel a task, a column for MLM and one for CLM and then MLM."""
    return draw_columns(FIGURE.heading, data, caption, {"MLM": MLM, "CLM+MLM": _BOTH})


FIGURE = PaperFigure(
    name="7",
    title="Sensitivity to seed and masking ratio",
    collect=_collect,
    draw=draw,
    describe=describe_spread,
    models=FIGURES[7],
    note="Test scores of 610M models after 42K steps, MLM only or its last 2K steps after 40K of CLM, at every seed "
    "and masking ratio from 20 to 50 %, centred on their mean: bar, one standard deviation; small points, single "
    "scores by rising ratio. Each panel has its own range.",
    averaged=False,
)
