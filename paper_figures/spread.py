"""Figures 5 and 7: how far single scores are from their mean, as a standard deviation and one by one.

A single score is a task average: the mean test score of the task's three datasets, all fine-tuned with the same
seed (and, in Figure 5, the same learning rate). It is centred on the mean of its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.drawing.layout import make_page, task_panels
from paper_figures.drawing.marks import draw_spread
from paper_figures.drawing.style import Look
from paper_figures.figure_data import COLUMNS
from paper_figures.figure_types import PaperFigure
from paper_figures.inputs import Inputs

__all__ = ["SD", "SINGLE", "describe_spread", "draw_columns", "spread_data", "task_averages"]

SD = "sd"
"""`interval` of a column: mean (0) and one standard deviation either side."""
SINGLE = "single"
"""`interval` of a single centred score."""


def task_averages(runs: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the mean test score in percent over a task's datasets (three in the paper), where all have a run.

    Args:
        runs: rows of a runs table, at most one for each dataset and `keys`.
        keys: what names a score, such as `model, lr, seed`.

    Returns:
        Columns `task`, `keys` and `score`, sorted by them.
    """
    parts = []
    for task in TASKS:
        names = list(averaged_datasets(runs, task))
        rows = runs[runs["dataset"].isin(names)]
        wide = (
            rows.pivot(index=list(keys), columns="dataset", values="test_score")
            .reindex(columns=names)
            .dropna()
        )
        # Added one by one: a sum over columns would round otherwise.
        score = 100 * sum((wide[name] for name in names[1:]), wide[names[0]]) / len(names)
        parts.append(score.rename("score").reset_index().assign(task=task))
    return pd.concat(parts, ignore_index=True)[["task", *keys, "score"]]


def spread_data(
    scores: pd.DataFrame,
    columns: Mapping[str, Sequence[str]],
    *,
    label: str,
    figure: PaperFigure,
    inputs: Inputs,
) -> pd.DataFrame:
    """Return the drawn data of a figure of centred scores.

    Args:
        scores: columns `task, model, seed, score` and what else `label` names.
        columns: the models of each column of the figure.
        label: a format that names a single score, such as `lr {lr:.0e}, seed {seed}`.
        figure: the figure.
        inputs: where the scores come from.

    Raises:
        UserError: no task average of any of the models.
    """
    rows: list[list[object]] = []
    for task in TASKS:
        for column, models in columns.items():
            part = scores[(scores["task"] == task) & scores["model"].isin(list(models))]
            if part.empty:
                continue
            centred = (part["score"] - part["score"].mean()).to_numpy()
            sd = float(np.std(centred, ddof=1)) if len(centred) > 1 else np.nan
            names = list(dict.fromkeys(part["model"]))
            name = names[0] if len(names) == 1 else " ".join(names)
            rows.append([task, column, name, column, 0.0, -sd, sd, part["seed"].nunique(), SD])
            for value, single in zip(centred, part.to_dict("records"), strict=True):
                series = f"{column}: {label.format_map(single)}"
                rows.append([task, series, single["model"], column, float(value), np.nan, np.nan, 1, SINGLE])
    if not rows:
        wanted = ", ".join(name for models in columns.values() for name in models)
        raise UserError(
            f"{figure.label} cannot be drawn from this source: it holds no task average "
            f"({inputs.source.average_needs}, at one seed) of {wanted}"
        )
    return pd.DataFrame(rows, columns=COLUMNS[:-1]).assign(source=inputs.name)


def draw_columns(title: str, data: pd.DataFrame, caption: str, look: Mapping[str, Look]) -> Figure:
    """Return the figure: a panel a task, a column each of `look`."""
    page = make_page(title=title, panels=task_panels(centred=True), x_label="", caption=caption)
    for task, ax in page.axes.items():
        rows = data[data["panel"] == task]
        draw_spread(
            ax, rows[rows["interval"] == SD], rows[rows["interval"] == SINGLE], look, columns=list(look)
        )
    return page.figure


def describe_spread(data: pd.DataFrame) -> str:
    """Return each column's standard deviation, in sentences."""
    sentences = []
    for task, rows in data.groupby("panel", sort=False):
        single = rows[rows["interval"] == SINGLE]
        parts = [
            f"{column} {high:.2f} points over {int((single['x'] == column).sum())} scores"
            for column, high in zip(
                *(rows.loc[rows["interval"] == SD, c] for c in ("series", "high")), strict=True
            )
        ]
        sentences.append(f"{TASKS[str(task)].title} ({TASKS[str(task)].metric}): {'; '.join(parts)}.")
    return "Standard deviations in four panels, one a task. " + " ".join(sentences)
