"""Figures 5 and 7: how much seed, learning rate and masking ratio matter at 610M (they need runs).

In the panel of a task there are two columns, MLM and CLM (or CLM and then MLM), each with single scores and their
standard deviation. A single score is a task average: the mean test score on the task's three datasets, all fine-tuned
with the same seed (and, in Figure 5, the same learning rate). It is centred: the mean of its column is subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.records import records
from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import TASKS
from common.errors import UserError
from paper_figures.drawing.marks import draw_spread
from paper_figures.drawing.page import make_page, task_panels
from paper_figures.drawing.style import CLM, MLM, RAMP_PURPLE, Look
from paper_figures.figure import FIGURE_COLUMNS, FigureInputs, FigureSpec
from pretraining.paper_models import FIGURE_MODELS, RATIOS

_SD, _SINGLE = "sd", "single"
"""What the data have as `interval`: in the row of a column, whose mean is 0 and whose ends are one standard deviation
below and above it; in the row of a single score."""
_RATES = (1e-5, 1e-4)
"""Smallest and largest learning rate of the runs in Figure 5."""


def _task_averages(runs: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the mean test scores, in percent, over a task's datasets (three in the paper), where all have a run.

    Args:
        runs: rows of a runs table, at most one for each dataset and `keys`.
        keys: the columns that name a score within a task, such as `model`, `lr` and `seed`.

    Returns:
        Columns `task`, those of `keys`, and `score`; by task, then sorted by `keys`.
    """
    parts = []
    for task in TASKS:
        names = list(averaged_datasets(runs, task))
        rows = runs[runs["dataset"].isin(names)]
        # A row for each score, a column for each dataset.
        wide = rows.pivot(index=list(keys), columns="dataset", values="test_score")

        # Adds a column of nan for a dataset without any run, so that its task has no average.
        wide = wide.reindex(columns=names).dropna()
        # Added one by one: a sum over columns rounds in another order, and so in other last digits.
        total = wide[names[0]]
        for name in names[1:]:
            total = total + wide[name]
        score = (100 * total / len(names)).rename("score")
        parts.append(score.reset_index().assign(task=task))

    averages = pd.concat(parts, ignore_index=True)
    return averages[["task", *keys, "score"]]


def _at_every_rate(runs: pd.DataFrame, inputs: FigureInputs) -> pd.DataFrame:
    """Return task averages by model, learning rate and seed, at all rates within `_RATES`."""
    # The networks of a small study are tuned at other rates, all of which are shown.
    if inputs.source.stand_ins is None:
        # The margin is for rates that differ from these two only in their last digits.
        margin = 1e-9
        lowest, highest = _RATES
        is_shown = runs["lr"].between(lowest * (1 - margin), highest * (1 + margin))
        runs = runs[is_shown]
    return _task_averages(runs, ("model", "lr", "seed"))


def _at_chosen_rates(runs: pd.DataFrame, inputs: FigureInputs) -> pd.DataFrame:
    """Return task averages by model and seed, at the learning rates that the selection rule of the inputs chooses."""
    selected = select_runs(runs, inputs.settings.selection)
    return _task_averages(selected, ("model", "seed"))


@dataclass(frozen=True, kw_only=True)
class _Spread(FigureSpec):
    """A figure of centred scores, with one panel for each task."""

    columns: Mapping[str, tuple[Look, Sequence[str]]]
    """For each column of a panel, left to right, its look and the models whose scores it shows."""
    scores: Callable[[pd.DataFrame, FigureInputs], pd.DataFrame]
    """From the runs of these models and the inputs to a frame with a row for each single score: columns `task`,
    `model`, `seed`, `score`, and any others that `each` names."""
    each: str
    """A format that names a single score, such as `lr {lr:.0e}, seed {seed}`."""
    averaged: bool = False

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the rows of all columns, by task and column.

        Raises:
            UserError: the source has no runs, or none that give a task average of the figure's models.
        """
        runs = inputs.source.need_runs(self.label)
        models: list[str] = []
        for _, names in self.columns.values():
            models += names
        scores = self.scores(runs[runs["model"].isin(models)], inputs)
        rows: list[list[object]] = []
        for task in TASKS:
            of_task = scores[scores["task"] == task]
            for column in self.columns:
                rows += self._column(column, task, of_task)

        if not rows:
            raise UserError(
                f"{self.label} cannot be drawn from this source: it has no task average of {', '.join(models)}; an "
                f"average needs {inputs.source.average_needs}, at the same seed"
            )

        # The last of these columns is `source`, which is the same in all rows.
        data = pd.DataFrame(rows, columns=FIGURE_COLUMNS[:-1])
        return data.assign(source=inputs.source.name)

    def _column(
        self, column: str, task: str, scores: pd.DataFrame
    ) -> Iterator[list[object]]:
        """Yield the row of a column's standard deviation, then a row for each of its single scores.

        Args:
            column: its name.
            task: the task of its panel.
            scores: all scores of the task, as the field `scores` returns them.

        Yields:
            The values of `FIGURE_COLUMNS` but `source`: panel, series, model, x, mean, low, high, n_seeds, interval.
        """
        _, models = self.columns[column]
        part = scores[scores["model"].isin(list(models))]
        if part.empty:
            return

        # Centred: the figure is about how far scores vary, not about which column scores higher.
        centred = (part["score"] - part["score"].mean()).to_numpy()
        # Divided by n - 1; the paper does not say whether it divides by n or n - 1.
        sd = float(np.std(centred, ddof=1)) if len(centred) > 1 else np.nan
        # The row stands for all models of the column: it names each once, with spaces between them.
        names = " ".join(dict.fromkeys(part["model"]))
        n_seeds = part["seed"].nunique()
        yield [task, column, names, column, 0.0, -sd, sd, n_seeds, _SD]
        no_interval = (np.nan, np.nan)
        for value, single in zip(centred, part.to_dict("records"), strict=True):
            series = f"{column}: {self.each.format_map(single)}"
            model = single["model"]
            yield [task, series, model, column, float(value), *no_interval, 1, _SINGLE]

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return a sentence: for each task, the first column's standard deviation divided by the second column's."""
        del inputs
        of_columns = data[data["interval"] == _SD]
        # The upper end of a column's interval is its standard deviation, since its mean is 0.
        sds = of_columns.pivot(index="panel", columns="series", values="high")
        first, second = self.columns
        if first not in sds or second not in sds:
            return ""
        ratios = sds[first] / sds[second]

        # A column with a single score of a task has no standard deviation, and the ratio is nan.
        known = ratios.reindex(list(TASKS)).dropna()
        if known.empty:
            return ""
        parts = ", ".join(f"{ratio:.1f} on {task}" for task, ratio in known.items())
        return f"Spread of {first} over that of {second}: {parts}"

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page of panels."""
        drawing, axes = make_page(
            heading=heading,
            panels=task_panels(centred=True),
            x_label="",
            caption=caption,
        )
        look = {name: look for name, (look, _) in self.columns.items()}
        for task, ax in axes.items():
            rows = data[data["panel"] == task]
            is_single = rows["interval"] == _SINGLE
            draw_spread(ax, rows[~is_single], rows[is_single], look)

        return drawing

    def describe(self, data: pd.DataFrame) -> str:
        """Return a sentence for each task: the standard deviation of each column, and how many scores it is of."""
        sentences = []
        for task, rows in data.groupby("panel", sort=False):
            of_columns = rows[rows["interval"] == _SD]
            single = rows[rows["interval"] == _SINGLE]
            # The x of a single score is the name of its column.
            counts = Counter(single["x"])
            parts = []
            for column, sd in records(of_columns, "series", "high"):
                parts.append(f"{column} {sd:.2f} points over {counts[column]} scores")
            protocol = TASKS[str(task)]
            title = f"{protocol.title} ({protocol.metric})"
            sentences.append(f"{title}: {'; '.join(parts)}.")

        text = " ".join(sentences)
        return f"Standard deviations in four panels, one per task. {text}"


FIGURES = (
    _Spread(
        name="5",
        title="Sensitivity to seed and learning rate",
        models=FIGURE_MODELS[5],
        columns={"MLM": (MLM, ("610m-mlm40-42k",)), "CLM": (CLM, ("610m-clm-42k",))},
        scores=_at_every_rate,
        each="lr {lr:.0e}, seed {seed}",
        note="610M, 42K steps. Bar: one sd; points: seeds and learning rates.",
        selected=False,
    ),
    _Spread(
        name="7",
        title="Sensitivity to seed and masking ratio",
        models=FIGURE_MODELS[7],
        columns={
            "MLM": (MLM, [f"610m-mlm{ratio}-42k" for ratio in RATIOS]),
            "CLM+MLM": (
                Look(color=RAMP_PURPLE[1].color, marker="D"),
                [f"610m-clm-40k-mlm{ratio}-42k" for ratio in RATIOS],
            ),
        },
        scores=_at_chosen_rates,
        each="{model}, seed {seed}",
        note="610M; MLM, or CLM, then 2K MLM. Bar: sd; points: seeds, ratios.",
    ),
)
