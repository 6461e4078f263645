"""Does small predict large: how often a smaller model orders two recipes as the larger one does, by dataset."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from analysis.comparisons.sizes import ALL, sizes_table
from benchmarks.protocol import title_of
from paper_figures.drawing.page import TITLE_SIZE, Sheet
from paper_figures.drawing.style import CLM, INK, LIGHT, MLM
from paper_figures.figure import FigureSpec, Inputs

__all__ = ["FIGURES"]

_ROW, _HEAD, _PANEL, _LEFT, _GAP = 0.2, 0.62, 1.85, 1.0, 0.2


@dataclass(frozen=True, kw_only=True)
class _Sizes(FigureSpec):
    """A panel for each pair of sizes, one row per dataset: the share of pairs of recipes in the same order."""

    def collect(self, inputs: Inputs) -> pd.DataFrame:
        return sizes_table(inputs.source)

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        names = list(dict.fromkeys(data["dataset"]))
        tall = _ROW * len(names)
        sheet = Sheet(caption, body=_HEAD + tall, below=0.48)
        for column, (_, part) in enumerate(data.groupby(["small", "large"], sort=False)):
            sizes = " to ".join(part.iloc[0][["small", "large"]].str.upper())
            left = _LEFT + column * (_PANEL + _GAP)
            ax = sheet.axes(left, sheet.foot, _PANEL, tall)
            ax.set_ylim(len(names) - 0.5, -0.5)
            ax.set_xlim(-2, 102)
            ax.set_xticks([0, 25, 50, 75, 100])
            ax.grid(axis="x", color=LIGHT)
            ax.grid(axis="y", visible=False)
            ax.axvline(50, color=INK, linewidth=0.9)
            ax.set_yticks(range(len(names)), [_title(name) if column == 0 else "" for name in names])
            for row, (low, high, kept) in enumerate(
                zip(part["low"], part["high"], part["kept"], strict=True)
            ):
                look = CLM if names[row] == ALL else MLM
                ax.plot([100 * low, 100 * high], [row, row], color=look.color, linewidth=1.1)
                ax.plot(100 * kept, row, look.marker, color=look.color, markersize=4.5)
            above = sheet.foot + tall + 0.08
            sheet.text(left, above, sizes, fontsize=TITLE_SIZE, fontweight="bold")
            sheet.text(left + _PANEL / 2, sheet.foot - 0.32, "pairs in the same order (%)", ha="center")
        sheet.write_heading(heading)
        sheet.write_caption()
        return sheet.figure

    def describe(self, data: pd.DataFrame) -> str:
        sentences = [
            "Three panels, one for each pair of sizes, with a dot and its interval for each dataset."
        ]
        for row in data[data["dataset"] == ALL].to_dict("records"):
            sentences.append(
                f"Over all datasets {row['small'].upper()} orders {row['kept']:.0%} of {row['pairs']} pairs of recipes "
                f"as {row['large'].upper()} does ({row['low']:.0%} to {row['high']:.0%})."
            )
        return " ".join(sentences)

    def details(self, inputs: Inputs) -> str:
        del inputs
        return (
            "MLM at four masking ratios and CLM are five recipes, which form ten pairs. Lines: 95 % intervals over "
            "fine-tuning seeds."
        )


def _title(name: str) -> str:
    return "mean over tasks" if name == ALL else title_of(name)


FIGURES = (
    _Sizes(
        name="sizes",
        title="Does a smaller model order two recipes as a larger one does?",
        supplementary=True,
        selected=False,
        note="Vertical line: chance level.",
    ),
)
