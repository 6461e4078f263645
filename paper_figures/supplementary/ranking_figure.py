"""Models by mean rank over the datasets that all have, and which of them Nemenyi's test does not tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from analysis.comparisons.comparison import compare
from common.errors import UserError
from paper_figures.drawing.page import WIDTH, Sheet, inches
from paper_figures.drawing.style import GREY, INK, LIGHT, PAPER
from paper_figures.figure import FigureInputs, FigureSpec, point_id
from pretraining.models import FIGURES as STUDY_FIGURES
from pretraining.models import MODELS

__all__ = ["FIGURES"]

_USUAL = tuple(
    name for name in STUDY_FIGURES[6] if MODELS[name].steps == max(MODELS[n].steps for n in STUDY_FIGURES[6])
)
_EDGE, _HEAD, _ROW, _FOOT, _BARS = 0.12, 0.46, 0.2, 0.4, 1.1


@dataclass(frozen=True, kw_only=True)
class _Ranking(FigureSpec):
    """A row a model, the best at the top and to the right; a bar joins models that are not distinguished."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        held = set(inputs.averages["model"])
        names = inputs.ranked or tuple(name for name in _USUAL if name in held)
        if len(names) < 2 and not any("*" in name for name in names):
            raise UserError(
                f"a ranking needs three models or more; name them with --model (given: {len(names)})"
            )
        found = compare(inputs.source, names, inputs.settings).ranking
        if found is None or math.isnan(found.critical_difference):
            raise UserError(
                "a ranking needs three models or more with two datasets that all of them have; name others with --model"
            )
        rows = [
            [one.model, one.mean_rank, one.rank_low, one.rank_high,
             " ".join(str(number) for number, group in enumerate(found.groups, 1) if one.model in group),
             found.critical_difference, len(found.datasets)]
            for one in found.ranked
        ]  # fmt: skip
        columns = [
            "model",
            "mean_rank",
            "rank_low",
            "rank_high",
            "groups",
            "critical_difference",
            "n_datasets",
        ]
        return pd.DataFrame(rows, columns=columns)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        del inputs
        first = data["groups"].iloc[0].split()
        level = [
            name
            for name, groups in zip(data["model"], data["groups"], strict=True)
            if first and first[0] in groups.split()
        ]
        tied = f"; {len(level) - 1} of {len(data) - 1} others not distinguished from it" if level else ""
        return f"{data['model'].iloc[0]} ranks first over {data['n_datasets'].iloc[0]} datasets{tied}"

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        tall = _ROW * len(data)
        sheet = Sheet(caption, body=_HEAD + tall + _FOOT)
        names = max(map(inches, data["model"])) + 0.1
        foot = sheet.foot + _FOOT
        ax = sheet.axes(_EDGE + names, foot, WIDTH - 2 * _EDGE - names - _BARS, tall)
        ax.set_ylim(len(data) - 0.5, -0.5)
        ax.set_xlim(len(data) + 0.2, 0.8)
        ax.set_xticks(range(1, len(data) + 1))
        ax.set_yticks([])
        ax.grid(axis="x", color=LIGHT)
        sheet.text(_EDGE + names, sheet.foot + 0.08, "Mean rank (1: best)", color=GREY)
        for row, one in enumerate(data.to_dict("records")):
            sheet.text(_EDGE, foot + tall - _ROW * (row + 0.5), one["model"], va="center")
            ax.plot([one["rank_low"], one["rank_high"]], [row, row], color=INK, linewidth=0.8)
            ax.plot([one["mean_rank"]], [row], marker="o", markersize=4.4, markerfacecolor=PAPER, markeredgecolor=INK,
                    linestyle="none", gid=point_id(row))  # fmt: skip
        bars = sheet.axes(WIDTH - _EDGE - _BARS + 0.1, foot, _BARS - 0.1, tall)
        bars.set_ylim(ax.get_ylim())
        bars.axis("off")
        numbers = sorted({number for groups in data["groups"] for number in groups.split()}, key=int)
        bars.set_xlim(0, max(6, len(numbers) + 1))
        for place, number in enumerate(numbers, 1):
            rows = [row for row, groups in enumerate(data["groups"]) if number in groups.split()]
            bars.plot([place, place], [rows[0] - 0.25, rows[-1] + 0.25], color=GREY, linewidth=2.4)
        return sheet.finish(heading)

    def describe(self, data: pd.DataFrame) -> str:
        ranks = [
            f"{one['model']} {one['mean_rank']:.2f} [{one['rank_low']:.2f}, {one['rank_high']:.2f}]"
            + (f" (bars {one['groups']})" if one["groups"] else "")
            for one in data.to_dict("records")
        ]
        return (
            f"Mean ranks over {data['n_datasets'].iloc[0]} datasets, with 95 % intervals: {', '.join(ranks)}. "
            f"Nemenyi's critical difference: {data['critical_difference'].iloc[0]:.2f}. Models of one bar are not "
            "distinguished."
        )


FIGURES = (
    _Ranking(
        name="ranking",
        title="Models by mean rank",
        supplementary=True,
        note="Line: 95 % interval of the mean rank. A bar joins models closer than Nemenyi's critical difference.",
    ),
)
