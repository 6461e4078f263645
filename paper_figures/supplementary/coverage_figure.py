"""The coverage of nominal 95 % intervals in simulations (`analysis/data/interval_coverage.csv`), by distribution."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.evidence.intervals import DEFAULT_OF_RUNS, PAPER_INTERVAL, SOURCE_CELLS
from analysis.palette import VERDICT
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet
from paper_figures.drawing.style import INK, LIGHT, WHITE
from paper_figures.figure import FigureInputs, FigureSpec

_ROW, _HEAD, _PANEL, _LEFT = 0.3, 0.84, 2.6, 1.5
_MARKS = ("X", "o", "v", "^", "s", "D", "P")
"""Markers of the intervals in their order; they begin again when there are more."""
_COLORS = {PAPER_INTERVAL.name: VERDICT["fails"], DEFAULT_OF_RUNS.name: VERDICT["holds"]}
"""Of the interval that the paper prints and of the one that runs get here; others are grey."""
_SEEDS = (5, 20)
"""Numbers of seeds that have a panel, of those in the file."""
_SHAPES = {
    "normal": "Normal", "t3": "Student's t, df 3", "sst2": "Released SST-2 runs", "collapse": "One in ten collapses",
    "queries": "43 queries",
}  # fmt: skip
"""How the seeds' scores are distributed (docs/intervals.md)."""


@dataclass(frozen=True, kw_only=True)
class _Coverage(FigureSpec):
    """A panel for each number of seeds, one row per distribution and one mark per interval."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        del inputs
        with (resources.files("analysis") / "data" / "interval_coverage.csv").open(encoding="utf-8") as file:
            data = pd.read_csv(file)
        shown = data[data["n_seeds"].isin(_SEEDS) & (data["n_cells"] == SOURCE_CELLS)]
        return shown[["shape", "n_seeds", "interval", "coverage"]].reset_index(drop=True)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        del inputs
        usual = data[(data["interval"] == PAPER_INTERVAL.name) & (data["n_seeds"] == _SEEDS[0])]
        [covered] = usual.loc[usual["shape"] == "normal", "coverage"]
        return (
            f"The paper's interval covers {100 * covered:.0f}\u00a0%, not 95\u00a0%, with {_SEEDS[0]} seeds"
        )

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        shapes = list(dict.fromkeys(data["shape"]))
        intervals = list(dict.fromkeys(data["interval"]))
        tall = _ROW * len(shapes)
        sheet = Sheet(caption, body=_HEAD + tall, below=0.48)
        lowest = 100 * float(data["coverage"].min()) - 3
        for column, seeds in enumerate(_SEEDS):
            left = _LEFT + column * (_PANEL + 0.3)
            ax = sheet.axes(left, sheet.foot, _PANEL, tall)
            ax.set_ylim(len(shapes) - 0.5, -0.5)
            ax.set_xlim(lowest, 101.5)
            ticks = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(lowest, 100)
            ax.set_xticks([tick for tick in ticks if lowest <= tick <= 100])
            ax.grid(axis="x", color=LIGHT)
            ax.grid(axis="y", visible=False)
            ax.axvline(95, color=INK, linewidth=0.9)
            ax.hlines([row + 0.5 for row in range(len(shapes))], *ax.get_xlim(), color=LIGHT, linewidth=0.6)
            ax.set_yticks(range(len(shapes)), [_SHAPES[name] if column == 0 else "" for name in shapes])
            for rank, (interval, marker) in enumerate(zip(intervals, cycle(_MARKS))):
                color = _COLORS.get(interval, "#8f8f8f")
                part = data[(data["n_seeds"] == seeds) & (data["interval"] == interval)]
                # In a row of the panel, which is 1 high, the intervals' marks stand below each other.
                heights = part["shape"].map(shapes.index) + (rank + 0.5) / len(intervals) * 0.84 - 0.42
                ax.scatter(
                    100 * part["coverage"], heights, marker=marker, s=20, color=color, linewidths=0.4,
                    edgecolors=WHITE, label=interval, zorder=3,
                )  # fmt: skip
            above = sheet.foot + tall + 0.08
            sheet.text(left, above, f"{seeds} seeds", fontsize=TITLE_SIZE, fontweight="bold")
            sheet.text(left + _PANEL / 2, sheet.foot - 0.32, "Coverage (%)", ha="center")
            if column == 0:
                sheet.figure.legend(
                    *ax.get_legend_handles_labels(), loc="upper left", ncols=len(intervals), columnspacing=0.9,
                    bbox_to_anchor=(0.06 / WIDTH, 1 - 0.32 / sheet.height), handletextpad=0.1, handlelength=1.2,
                    borderpad=0,
                )  # fmt: skip
        return sheet.finish(heading)

    def describe(self, data: pd.DataFrame) -> str:
        sentences = [
            "Two panels of dots, one row per distribution, each dot the true coverage of a nominal 95 % interval."
        ]
        for seeds, part in data.groupby("n_seeds", sort=False):
            ranges = [
                f"{kind!s} {100 * covered.min():.0f} to {100 * covered.max():.0f} %"
                for kind, covered in part.groupby("interval", sort=False)["coverage"]
            ]
            sentences.append(f"{seeds!s} seeds: {', '.join(ranges)}.")
        return " ".join(sentences)


FIGURES = (
    _Coverage(
        name="coverage",
        title="Coverage of nominal 95 % intervals",
        supplementary=True,
        simulated=True,
        note="Simulated cells with a known mean; rows: the distribution of the seeds' scores. Vertical line: the "
        "nominal 95 %. docs/intervals.md describes the intervals and the distributions.",
    ),
)
