"""The true coverage of each nominal 95 % interval, by dataset, for two meanings of the truth."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.precision import coverage
from analysis.precision.coverage import KINDS, TARGETS
from benchmarks.protocol import AVERAGE, title_of
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet
from paper_figures.drawing.style import INK, LIGHT, PAPER
from paper_figures.figure import FigureSpec, Inputs
from paper_figures.words import selection_sentence

__all__ = ["FIGURES"]

_ROW, _HEAD, _PANEL = 0.3, 0.84, 2.85
_MARKS = (
    ("X", "#b3261e"), ("o", "#15508f"), ("v", "#b07d00"), ("^", "#6f6f6f"), ("s", "#7c4aa9"), ("D", "#1f7a5c"),
    ("P", "#1a1a1a"), ("*", "#b8609a"), ("h", "#d9523d"),
)  # fmt: skip
"""Marker and colour of the intervals in their order; they begin again when there are more."""
_TITLES = {
    "seeds": "Over seeds, on these test instances",
    "seeds and instances": "Over seeds and test instances",
}


@dataclass(frozen=True, kw_only=True)
class _Coverage(FigureSpec):
    """Two panels of coverages, one row per dataset and one mark per interval."""

    def collect(self, inputs: Inputs) -> pd.DataFrame:
        return inputs.coverage

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        single = data[data["dataset"] != AVERAGE]
        names = list(dict.fromkeys(single["dataset"]))
        tall = _ROW * len(names)
        sheet = Sheet(caption, body=_HEAD + tall, below=0.48)
        for column, target in enumerate(TARGETS):
            left = 0.95 + column * (_PANEL + 0.3)
            ax = sheet.axes(left, sheet.foot, _PANEL, tall)
            part = single[single["target"] == target].set_index("dataset").loc[names]
            ax.set_ylim(len(names) - 0.5, -0.5)
            lowest = 100 * min(0.8, float(part[list(KINDS)].to_numpy().min())) - 3
            ax.set_xlim(lowest, 101.5)
            ticks = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(lowest, 100)
            ax.set_xticks([tick for tick in ticks if lowest <= tick <= 100])
            ax.grid(axis="x", color=LIGHT)
            ax.grid(axis="y", visible=False)
            ax.axvline(95, color=INK, linewidth=0.9)
            ax.hlines([row + 0.5 for row in range(len(names))], *ax.get_xlim(), color=LIGHT, linewidth=0.6)
            titles = [title_of(name) for name in names]
            ax.set_yticks(range(len(names)), titles if column == 0 else [""] * len(names))
            for place, (kind, (marker, color)) in enumerate(zip(KINDS, cycle(_MARKS))):
                heights = [row + (place + 0.5) / len(KINDS) * 0.84 - 0.42 for row in range(len(names))]
                ax.scatter(
                    100 * part[kind], heights, marker=marker, s=12, color=color, linewidths=0.4,
                    edgecolors=PAPER, label=kind, zorder=3,
                )  # fmt: skip
            above = sheet.foot + tall + 0.08
            sheet.text(left, above, _TITLES[target], fontsize=TITLE_SIZE, fontweight="bold")
            sheet.text(left + _PANEL / 2, sheet.foot - 0.32, "Coverage (%)", ha="center")
            if column == 0:
                sheet.figure.legend(
                    *ax.get_legend_handles_labels(), loc="upper left", ncols=len(KINDS), columnspacing=0.9,
                    bbox_to_anchor=(0.06 / WIDTH, 1 - 0.32 / sheet.height), handletextpad=0.1, handlelength=1.2,
                    borderpad=0,
                )  # fmt: skip
        sheet.write_heading(heading)
        sheet.write_caption()
        return sheet.figure

    def describe(self, data: pd.DataFrame) -> str:
        sentences = [
            "Two panels of dots, one row per dataset, each dot the true coverage of a nominal 95 % interval."
        ]
        for target in TARGETS:
            part = data[(data["target"] == target) & (data["dataset"] != AVERAGE)]
            ranges = [
                f"{kind} {100 * part[kind].min():.0f} to {100 * part[kind].max():.0f} %" for kind in KINDS
            ]
            sentences.append(f"For the mean {_TITLES[target].lower()}: {', '.join(ranges)}.")
        return " ".join(sentences)

    def details(self, inputs: Inputs) -> str:
        simulation = (
            f"Simulated five-seed cells with the source's variances: {coverage.COVERAGE_TRIALS:,} per dataset, each "
            f"resampled {coverage.COVERAGE_RESAMPLES:,} times."
        )
        return f"{selection_sentence(inputs)} {simulation}".lstrip()


FIGURES = (
    _Coverage(
        name="coverage",
        title="Coverage of nominal 95 % intervals",
        supplementary=True,
        note="Vertical line: the nominal 95 %. docs/intervals.md describes the intervals.",
    ),
)
