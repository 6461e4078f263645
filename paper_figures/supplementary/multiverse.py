"""Every verdict under every analysis, as a grid; below it what the selection rule does to the MLM-CLM gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import cycle

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.claims.catalogue import CLAIMS
from analysis.claims.grades import GRADES, UNDECIDABLE
from analysis.records import records
from analysis.sensitivity.forks import GRID, Multiverse, explore
from analysis.sources import standard_of
from analysis.statistics.learning_rate_selection import SELECTIONS
from benchmarks.protocol import title_of
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet, inches, wrapped
from paper_figures.drawing.style import GREY, INK, LIGHT, PAPER
from paper_figures.figure import FigureSpec, Inputs, point_id
from paper_figures.supplementary.claims import COLORS

__all__ = ["FIGURES"]

_EDGE, _PAD = 0.1, 0.1
_ROW, _HEAD, _LINE = 0.2, 0.36, 0.14
_GAP_ROW, _GAP_HEAD, _GAP_TICKS = 0.24, 0.34, 0.26
_WIDEST = 1.25
"""Inches of a column at most."""
_SHARE = "supporting"
_GAPS = "MLM \u2212 CLM (points) by rule for the learning rate; hollow: one of the two is a published cell"
_LEGEND = " ".join(
    f"{grade.symbol}\u00a0{grade.short}\u00a0\u00a0".replace(" ", "\u00a0") for grade in GRADES.values()
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers of the selection rules in their order; they begin again when there are more."""


@dataclass(frozen=True, kw_only=True)
class _Multiverse(FigureSpec):
    """The grid of verdicts and, with runs of MLM or CLM, their gap by dataset and selection rule."""

    def collect(self, inputs: Inputs) -> Multiverse:
        standard = standard_of(inputs.source) if inputs.source.comparable else None
        return explore(inputs.source, inputs.settings, standard=standard, grid_only=True)

    def tabulate(self, data: Multiverse) -> pd.DataFrame:
        """Return what is drawn: one row per claim and analysis, with the claim's share of supporting analyses."""
        columns = ["id", *GRID, "verdict", "effect", "low", "high", "p", "p_adjusted"]
        grid = data.grid[columns].reset_index(drop=True)
        return grid.assign(share_supporting=[data.supporting[name][1] for name in grid["id"]])

    def draw(self, data: Multiverse, heading: str, caption: str) -> Figure:
        verdicts, gaps = self.tabulate(data), data.gaps
        names = [name for name in CLAIMS if name in set(verdicts["id"])]
        analyses = list(records(verdicts, *GRID))
        keys = list(dict.fromkeys(analyses))
        pairs = list(dict.fromkeys(records(gaps, "size", "dataset")))
        several = len({key[0] for key in keys}) > 1
        labels = [" / ".join(key if several else key[1:]) for key in keys]
        ids = max(inches(name, bold=True) for name in names)
        left = _EDGE + ids + max(inches(CLAIMS[name].short) for name in names) + 2 * _PAD
        cell = min(_WIDEST, (WIDTH - left - inches(_SHARE) - 2 * _PAD) / len(keys))
        spelled = cell >= max(inches(grade.short) for grade in GRADES.values()) + 0.06
        turned = cell < max(map(inches, labels)) + 0.06
        legend = [] if spelled else wrapped(_LEGEND, WIDTH - 2 * _EDGE)
        above = _HEAD + _LINE * len(legend) + (max(map(inches, labels)) if turned else 0.1)
        below = _GAP_HEAD + _GAP_ROW * len(pairs) + _GAP_TICKS if pairs else 0.0
        sheet = Sheet(caption, body=above + 0.1 + _ROW * len(names) + 0.12 + below, below=0.12)
        base = below + sheet.foot + 0.06
        top, right = base + _ROW * len(names), left + cell * len(keys) + _PAD
        grid = sheet.axes(left, base, cell * len(keys), _ROW * len(names))
        grid.set_xlim(-0.5, len(keys) - 0.5)
        grid.set_ylim(len(names) - 0.5, -0.5)
        grid.grid(visible=False)
        for side in grid.spines.values():
            side.set_visible(False)
        grid.set_yticks([])
        grid.xaxis.tick_top()
        grid.set_xticks(range(len(keys)), labels, rotation=90 if turned else 0)
        grid.tick_params(axis="x", length=0, pad=2)
        for at, name, key, verdict in zip(
            verdicts.index, verdicts["id"], analyses, verdicts["verdict"], strict=True
        ):
            row, column = names.index(name), keys.index(key)
            known = verdict != UNDECIDABLE.name
            color = COLORS[verdict] if known else LIGHT
            grid.add_patch(
                Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, color=color, linewidth=0, gid=point_id(at))
            )
            word = GRADES[verdict].short if spelled else GRADES[verdict].symbol
            grid.text(column, row + 0.03, word, ha="center", va="center", color=PAPER if known else GREY)
        shares = dict(records(verdicts, "id", "share_supporting"))
        for row, name in enumerate(names):
            middle = base + _ROW * (len(names) - 0.5 - row)
            supporting = "\u2013" if math.isnan(shares[name]) else f"{shares[name]:.0%}"
            sheet.text(_EDGE, middle, name, va="center", color=INK, fontweight="bold")
            sheet.text(_EDGE + ids + _PAD, middle, CLAIMS[name].short, va="center", color=INK)
            sheet.text(right, middle, supporting, va="center", color=INK)
        sheet.text(right, top + 0.05, _SHARE, color=GREY)
        sheet.write_heading(heading)
        for row, line in enumerate(legend):
            sheet.text(_EDGE, sheet.height - _HEAD - _LINE * row, line, color=GREY)
        if pairs:
            _draw_gaps(sheet, gaps, pairs, left)
        sheet.write_caption()
        return sheet.figure

    def describe(self, data: Multiverse) -> str:
        verdicts, gaps = self.tabulate(data), data.gaps
        count = len(set(records(verdicts, *GRID)))
        lines = [f"Grid of verdicts, one row per finding and one column per analysis; {count} analyses."]
        for name, share in dict(records(verdicts, "id", "share_supporting")).items():
            if not math.isnan(share):
                lines.append(f"{name}: {share:.0%} of the analyses that decide it support it.")
        for size, name in dict.fromkeys(records(gaps, "size", "dataset")):
            rows = gaps[(gaps["size"] == size) & (gaps["dataset"] == name)]
            by_rule = ", ".join(f"{rule} {gap:+.2f}" for rule, gap in records(rows, "selection", "gap"))
            lines.append(f"MLM-CLM gap on {title_of(name)} at {size} by rule: {by_rule}.")
        return " ".join(lines)


def _draw_gaps(sheet: Sheet, gaps: pd.DataFrame, pairs: list[tuple[str, str]], left: float) -> None:
    """Draw MLM - CLM by dataset and rule below the grid."""
    bottom, tall = sheet.foot + _GAP_TICKS, _GAP_ROW * len(pairs)
    ax = sheet.axes(left, bottom, 3.2, tall)
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.grid(axis="x", color=LIGHT)
    ax.grid(axis="y", visible=False)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_yticks(range(len(pairs)), [f"{title_of(name)}, {size.upper()}" for size, name in pairs])
    for rank, (rule, marker) in enumerate(zip(SELECTIONS, cycle(_MARKERS))):
        rows = gaps[gaps["selection"] == rule]
        whole = rows["mlm_from"].str.startswith("runs") & rows["clm_from"].str.startswith("runs")
        offset = 0.56 * rank / max(1, len(SELECTIONS) - 1) - 0.28
        ax.scatter(
            rows["gap"], [pairs.index(pair) + offset for pair in records(rows, "size", "dataset")], marker=marker,
            s=11, c=[INK if known else PAPER for known in whole], edgecolors=INK, linewidths=0.7, label=rule, zorder=3,
        )  # fmt: skip
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handletextpad=0.2)
    sheet.text(_EDGE, bottom + tall + 0.1, _GAPS, fontsize=TITLE_SIZE, fontweight="bold")


FIGURES = (
    _Multiverse(
        name="multiverse",
        title="Does the answer depend on the analyst?",
        supplementary=True,
        note="Each column is one analysis: a learning-rate rule and an interval. With runs, F1-F4 also have a "
        "mixed-effects model. Supporting: the share of the analyses that support a claim, among those able to test it. "
        "p-values are Holm-adjusted within an analysis, not across analyses (docs/claims.md).",
    ),
)
