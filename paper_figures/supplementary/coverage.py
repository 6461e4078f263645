"""The true coverage of each nominal 95 % interval, by dataset, for two meanings of the truth."""

from __future__ import annotations

from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure

from analysis.precision import coverage
from analysis.precision.coverage import KINDS, TARGETS
from benchmarks.protocol import AVERAGE, DATASETS
from paper_figures.drawing.layout import caption_lines, write_caption
from paper_figures.drawing.style import INK, LIGHT
from paper_figures.figure_types import SupplementaryFigure
from paper_figures.inputs import Inputs
from paper_figures.output.captions import selection_sentence

__all__ = ["FIGURE"]

_WIDTH, _ROW = 7.2, 0.19
_MARKS = (
    ("X", "#b3261e"), ("o", "#15508f"), ("v", "#b07d00"), ("^", "#8a8a8a"), ("s", "#8654b3"), ("D", "#1f7a5c"),
    ("P", "#3a3a3a"), ("*", "#c2518b"),
)  # fmt: skip
"""Marker and colour of the intervals in their order; they begin again when there are more."""
_TITLES = {
    "seeds": "over seeds, on these test instances",
    "seeds and instances": "over seeds and test instances",
}


def draw(data: pd.DataFrame, caption: str) -> Figure:
    """Return two panels of coverages, a row a dataset and a mark an interval.

    Args:
        data: as `analysis.precision.coverage.simulate` returns it.
        caption: the line below.
    """
    single = data[data["dataset"] != AVERAGE]
    names = list(dict.fromkeys(single["dataset"]))
    lines = caption_lines(caption)
    foot, head = 0.4 + 0.1 * len(lines), 0.62
    height = head + _ROW * len(names) + foot
    figure = Figure(figsize=(_WIDTH, height))
    width = 2.85
    for column, target in enumerate(TARGETS):
        left = 0.95 + column * (width + 0.3)
        ax = figure.add_axes((left / _WIDTH, foot / height, width / _WIDTH, _ROW * len(names) / height))
        part = single[single["target"] == target].set_index("dataset").loc[names]
        ax.set_ylim(len(names) - 0.5, -0.5)
        smallest = float(part[list(KINDS)].to_numpy().min())
        ax.set_xlim(100 * min(0.8, smallest) - 3, 101.5)
        ax.grid(axis="x", color=LIGHT)
        ax.grid(axis="y", visible=False)
        ax.axvline(95, color=INK, linewidth=0.9)
        titles = [DATASETS[name].title for name in names]
        ax.set_yticks(range(len(names)), titles if column == 0 else [""] * len(names), fontsize=6.2)
        for place, (kind, (marker, color)) in enumerate(zip(KINDS, cycle(_MARKS))):
            heights = [row + (place - (len(KINDS) - 1) / 2) * 0.1 for row in range(len(names))]
            ax.scatter(
                100 * part[kind], heights, marker=marker, s=12, color=color, linewidths=0.4,
                edgecolors="white", label=kind, zorder=3,
            )  # fmt: skip
        figure.text(
            left / _WIDTH, (height - head + 0.08) / height, _TITLES[target], fontsize=7, fontweight="bold"
        )
        figure.text(
            (left + width / 2) / _WIDTH, (foot - 0.26) / height, "coverage (%)", ha="center", fontsize=6.6
        )
        if column == 0:
            figure.legend(
                *ax.get_legend_handles_labels(), loc="upper right", ncols=len(KINDS), fontsize=6.2,
                bbox_to_anchor=(1 - 0.08 / _WIDTH, 1 - 0.05 / height), columnspacing=1.0, handletextpad=0.1,
            )  # fmt: skip
    figure.text(0.1 / _WIDTH, 1 - 0.2 / height, FIGURE.heading, fontsize=8.6, fontweight="bold")
    write_caption(figure, lines)
    return figure


def describe(data: pd.DataFrame) -> str:
    """Return what is seen, in sentences."""
    sentences = [
        "Two panels of dots, a row a dataset, each dot the true coverage of a nominal 95 % interval."
    ]
    for target in TARGETS:
        part = data[(data["target"] == target) & (data["dataset"] != AVERAGE)]
        ranges = [f"{kind} {100 * part[kind].min():.0f} to {100 * part[kind].max():.0f} %" for kind in KINDS]
        sentences.append(f"For the mean {_TITLES[target]}: {', '.join(ranges)}.")
    return " ".join(sentences)


def _collect(inputs: Inputs) -> pd.DataFrame:
    return coverage.simulate(
        inputs.source,
        trials=coverage.COVERAGE_TRIALS,
        resamples=coverage.COVERAGE_RESAMPLES,
        seed=inputs.settings.seed,
        selection=inputs.settings.selection,
    )


def _details(inputs: Inputs) -> str:
    simulation = (
        f"Five-seed cells simulated with their variances: {coverage.COVERAGE_TRIALS:,} cells a dataset, "
        f"{coverage.COVERAGE_RESAMPLES:,} resamples."
    )
    return f"{selection_sentence(inputs)} {simulation}".lstrip()


FIGURE = SupplementaryFigure(
    name="coverage",
    title="Coverage of nominal 95 % intervals",
    collect=_collect,
    draw=draw,
    describe=describe,
    details=_details,
    note="Black line: the nominal 95 %. What the intervals are: docs/intervals.md.",
)
