"""The answer in one picture: two schedules as bars, and by how much the one with CLM first is ahead on each task.

The paper's question is whether to pretrain with MLM alone, or with CLM first and then MLM. The answer is judged as a
finding of the paper is (`analysis.claims`): there is a comparison of the two for each task and budget (the steps of
pretraining).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.claims.assessment import SPLIT
from analysis.claims.titles import ANSWER
from analysis.claims.verdicts import OPEN
from analysis.palette import SIGN
from analysis.records import records
from benchmarks.protocol import TASKS
from common.level import LEVEL_IN_WORDS
from paper_figures.drawing.page import WIDTH, Sheet, draw_schedules
from paper_figures.drawing.style import GREY, INK, LIGHT
from paper_figures.figure import FigureInputs, FigureSpec, point_id
from paper_figures.supplementary.findings_figure import details
from pretraining.paper_models import find_model

_SIZE = 8.6
"""Type size in points: the picture is also read at a width of 800 px."""
# Lengths in inches. Across: the margins, where the first panel begins, the gap between panels. Down: the heading, the
# bars of the schedules, the titles of the panels, one row of a panel, the labels of the ticks.
_EDGE, _LEFT, _GAP, _HEAD, _BARS, _TITLES, _ROW, _TICKS = (
    0.12,
    0.86,
    0.14,
    0.34,
    0.5,
    0.62,
    0.25,
    0.24,
)
_COLUMNS = ["panel", "steps", "effect", "low", "high", "says", "p_holm", "says_holm"]
_IN_WORDS = {
    "SC": "Classification",
    "TC": "Tagging",
    "QA": "Question answering",
    "IR": "Retrieval",
}
_BARS_OF = {
    "MLM alone": (("MLM: fill in blanked words", 100),),
    "CLM first": (
        (f"CLM: next word, {SPLIT}\u00a0%", SPLIT),
        (f"MLM, {100 - SPLIT}\u00a0%", 100 - SPLIT),
    ),
}


@dataclass(frozen=True, kw_only=True)
class _Answer(FigureSpec):
    """The figure: a panel for each task, in it a row for each budget.

    In the data, `says` is the outcome of a comparison on its own: `holds` if CLM first is clearly better, `fails` if it
    is clearly worse, `open` if neither, or `not run` if the source lacks its scores. `p_holm` and `says_holm` are after
    Holm's adjustment over the comparisons of all splits; the title counts these outcomes.
    """

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the columns `_COLUMNS`, a row for each comparison of the answer."""
        rows = []
        judged = inputs.assessment.judged[ANSWER]
        # Of the finding, `counted` are its parts of which the source has the scores; here each is one comparison.
        # A part's `branch.node` is the comparison as it is stated, with the same label as its result.
        part_of_label = {part.branch.node.label: part for part in judged.counted}
        for result in judged.comparisons:
            models = map(find_model, result.comparison.models)
            # Both models are the paper's and have the steps of one budget: the comparison is drawn in its
            # row. The steps are equal, so that `min` only takes one of them.
            steps = min(model.steps for model in models if model)
            row = [result.task, steps, result.effect, result.low, result.high]
            part = part_of_label.get(result.label)
            if part is None:
                row += ["not run", math.nan, "not run"]
            else:
                # The p of the side that the evidence leans to.
                p_holm = min(part.p_for_holm, part.p_against_holm)
                # The outcome on its own; of a part, `counted` is its outcome after Holm's adjustment.
                row += [part.branch.outcome, p_holm, part.counted]

            rows.append(row)

        return pd.DataFrame(rows, columns=_COLUMNS)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return in how many comparisons CLM first is clearly better and clearly worse, as a sentence."""
        answer = inputs.assessment.judged[ANSWER]
        if not answer.known:
            return "This source does not compare CLM first with MLM alone"
        # `not_run` is empty, or a text such as ` (8 not run)`.
        comparisons = f"{answer.known} comparisons{answer.not_run}"
        # `holds_in` and `fails_in` are numbers of comparisons: the sentence says none for 0.
        better = answer.holds_in or "none"
        worse = answer.fails_in or "none"
        return (
            f"CLM first is clearly better than MLM alone in {better} of {comparisons}, "
            f"clearly worse in {worse}"
        )

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page: the schedules above, the panels of the tasks side by side below."""
        # The page, and on it the schedules below the heading.
        budgets = sorted(set(data["steps"]))
        panel_height = _ROW * len(budgets)
        sheet = Sheet(caption, body=_HEAD + _BARS + _TITLES + panel_height + _TICKS)
        bars_bottom = sheet.height - _HEAD - _BARS
        bars = sheet.axes(_EDGE, bars_bottom, WIDTH - 2 * _EDGE, _BARS)
        draw_schedules(bars, list(_BARS_OF.items()), size=_SIZE)

        # The panels. All have the same x axis, so that their lengths can be compared.
        panels_width = WIDTH - _EDGE - _LEFT - _GAP * (len(TASKS) - 1)
        panel_width = panels_width / len(TASKS)
        bottom = sheet.foot + _TICKS
        top = bottom + panel_height
        low, high = _ends(data)
        for column, task in enumerate(TASKS.values()):
            left = _LEFT + column * (panel_width + _GAP)
            ax = sheet.axes(left, bottom, panel_width, panel_height)
            ax.set_xlim(low, high)

            # A row has its middle at 0, 1, 2 and so on, counted from the top.
            ax.set_ylim(len(budgets) - 0.5, -0.5)
            ax.set_yticks([])
            ax.tick_params(labelsize=_SIZE)
            ax.grid(axis="x", color=LIGHT)
            ax.axvline(0, color=INK, linewidth=1.0)
            round_ticks = MaxNLocator(4, integer=True).tick_values(low, high)

            # Matplotlib would widen the axis to ticks beyond its ends.
            ticks = [int(tick) for tick in round_ticks if low <= tick <= high]
            ax.set_xticks(ticks, [_signed(tick) for tick in ticks])
            _draw_rows(ax, data[data["panel"] == task.name], budgets)
            title = _IN_WORDS[task.name]
            sheet.text(left, top + 0.08, title, fontsize=_SIZE, fontweight="bold")

        # The words for all panels, above and left of them.
        what = "CLM first minus MLM alone (points)"
        sheet.text(_EDGE, top + 0.3, what, fontsize=_SIZE, color=GREY)
        # Left of the first panel, the budget of each row.
        for row, steps in enumerate(budgets):
            y = top - _ROW * (row + 0.5)
            sheet.text(_EDGE, y, f"{steps // 1000}K steps", fontsize=_SIZE, va="center")

        return sheet.finish(heading)

    def describe(self, data: pd.DataFrame) -> str:
        """Return the sentences of the alt text: the schedules, then for each task the difference at each budget."""
        bars = f"Two bars: MLM alone; CLM for {SPLIT} %, then MLM for {100 - SPLIT} %."
        columns = ("steps", "effect", "low", "high", "says")
        parts = []
        for task, rows in data.groupby("panel", sort=False):
            texts = []
            for steps, effect, low, high, says in records(rows, *columns):
                text = "not run"
                if says != "not run":
                    text = f"{effect:+.2f} [{low:+.2f}, {high:+.2f}]"
                texts.append(f"{text} at {steps // 1000}K steps")
            parts.append(f"{TASKS[str(task)].title}: {', '.join(texts)}")

        return (
            f"{bars} Differences in points, positive where CLM first is better. "
            f"{'. '.join(parts)}."
        )


def _signed(tick: int) -> str:
    """Return a tick's label: every number but zero with its sign."""
    return f"{tick:+d}".replace("-", "\u2212") if tick else "0"


def _ends(data: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of the x axis that all panels share, in points: 0 and all intervals are within them."""
    values = data[["effect", "low", "high"]].to_numpy(dtype=float)
    # Comparisons that were not run have no numbers.
    values = values[np.isfinite(values)]
    lowest = float(values.min(initial=0)) - 0.4
    highest = float(values.max(initial=0)) + 0.4
    # The axis reaches at least from -2 to 2, so that small differences do not fill the panels.
    return min(-2.0, lowest), max(2.0, highest)


def _draw_rows(ax: Axes, data: pd.DataFrame, budgets: list[int]) -> None:
    """Draw a task's differences with their intervals; the mark of an open one (after Holm's adjustment) is hollow.

    Args:
        ax: the panel of the task.
        data: the rows of the task; their index holds the number of the row in the CSV.
        budgets: the steps of the panel's rows, from top to bottom.
    """
    columns = ("steps", "effect", "low", "high", "says", "says_holm")
    rows = zip(data.index, records(data, *columns), strict=True)
    for index, (steps, effect, low, high, says, says_holm) in rows:
        row = budgets.index(steps)
        if says == "not run":
            ax.text(
                0.98,
                row,
                "not run",
                transform=ax.get_yaxis_transform(),
                va="center",
                ha="right",
                color=GREY,
                fontsize=_SIZE,
            )
            continue

        # The sign changes the form of the mark as well: printed in grey, the two colours are alike.
        color, marker = SIGN["+"], "o"
        if effect < 0:
            color, marker = SIGN["-"], "s"
        face = "white" if says_holm == OPEN.name else color
        ax.plot([low, high], [row, row], color=color, linewidth=1.2, label="_interval")
        ax.plot(
            [effect],
            [row],
            marker=marker,
            markersize=5,
            markeredgewidth=1,
            color=color,
            markerfacecolor=face,
            linestyle="none",
            gid=point_id(index),
        )


FIGURES = (
    _Answer(
        name="answer",
        title="CLM first against MLM alone",
        supplementary=True,
        note=f"610M models. Lines: {LEVEL_IN_WORDS} intervals over fine-tuning seeds, one by one. "
        "Filled: still clear when all comparisons are tested together.",
    ),
)
