"""Figures 5 and 7: how far single scores are from their mean, as a standard deviation and one by one.

A single score is a task average: the mean test score of the task's three datasets, all fine-tuned with the same
seed (and, in Figure 5, the same learning rate). It is centred on the mean of its column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.records import records
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.drawing.marks import draw_spread
from paper_figures.drawing.page import make_page, task_panels
from paper_figures.drawing.style import Look
from paper_figures.figure import COLUMNS, FigureSpec, Inputs
from pretraining.model_names import FIGURES

__all__ = ["SD", "SINGLE", "spread_figure", "task_averages"]

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


def spread_figure(
    number: int,
    title: str,
    *,
    columns: Mapping[str, Sequence[str]],
    looks: Mapping[str, Look],
    scores: Callable[[pd.DataFrame, Inputs], pd.DataFrame],
    label: str,
    note: str,
    claim: str,
    selected: bool,
) -> FigureSpec[pd.DataFrame]:
    """Return a figure of centred scores, a panel a task.

    Args:
        number: the paper's.
        title: what it shows, in a few words.
        columns: the models of each column.
        looks: the columns' looks, left to right.
        scores: runs of these models and the inputs -> columns `task, model, seed, score` and what else `label` names.
        label: a format that names a single score, such as `lr {lr:.0e}, seed {seed}`.
        note: a sentence of the caption on how to read it.
        claim: the finding that it shows, by whose verdict it is entitled.
        selected: whether the learning rates were chosen by validation score.
    """

    def collect(inputs: Inputs) -> pd.DataFrame:
        runs = inputs.source.need_runs(figure.label)
        models = [name for names in columns.values() for name in names]
        data = _centred(scores(runs[runs["model"].isin(models)], inputs), columns, label)
        if data.empty:
            raise UserError(
                f"{figure.label} cannot be drawn from this source: it holds no task average "
                f"({inputs.source.average_needs}, at one seed) of {', '.join(models)}"
            )
        return data.assign(source=inputs.name)

    def draw(data: pd.DataFrame, heading: str, caption: str) -> Figure:
        page = make_page(heading=heading, panels=task_panels(centred=True), x_label="", caption=caption)
        for task, ax in page.axes.items():
            rows = data[data["panel"] == task]
            single = rows["interval"] == SINGLE
            draw_spread(ax, rows[~single], rows[single], looks, columns=list(looks))
        return page.figure

    figure = FigureSpec(
        name=str(number),
        title=title,
        collect=collect,
        draw=draw,
        describe=_describe,
        models=FIGURES[number],
        note=note,
        claim=claim,
        averaged=False,
        selected=selected,
    )
    return figure


def _centred(scores: pd.DataFrame, columns: Mapping[str, Sequence[str]], label: str) -> pd.DataFrame:
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
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def _describe(data: pd.DataFrame) -> str:
    """Return each column's standard deviation, in sentences."""
    sentences = []
    for task, rows in data.groupby("panel", sort=False):
        single = rows.loc[rows["interval"] == SINGLE, "x"]
        parts = [
            f"{column} {high:.2f} points over {int((single == column).sum())} scores"
            for column, high in records(rows[rows["interval"] == SD], "series", "high")
        ]
        sentences.append(f"{TASKS[str(task)].title} ({TASKS[str(task)].metric}): {'; '.join(parts)}.")
    return "Standard deviations in four panels, one a task. " + " ".join(sentences)
