"""The findings as a forest plot: for each finding the comparison its verdict hangs on, the others behind it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.claims.assessment import Assessment
from analysis.claims.verdicts import GRADES
from analysis.claims.wording import format_effect, format_p
from analysis.evidence.contrasts import Result
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet, bend, inches
from paper_figures.drawing.style import GREY, INK, LIGHT
from paper_figures.figure import FigureInputs, FigureSpec, point_id
from paper_figures.words import selection_sentence

__all__ = ["COLORS", "FIGURES", "MARKERS", "details", "findings_data", "point"]

_LOOKS = {
    "supported": ("#1f7a5c", "o"),
    "supported before adjustment": ("#3a7f66", "p"),
    "mixed": ("#6a51a3", "D"),
    "contradicted": ("#b3261e", "X"),
    "contradicted before adjustment": ("#b54b3b", "x"),
    "partly supported": ("#2c6fa6", "s"),
    "undecided": ("#9a6b00", "v"),
    "not decidable from this source": ("#6f6f6f", "|"),
}
COLORS = {name: _LOOKS[name][0] for name in GRADES}
"""Of each grade; every one has a mark and a word of its own too."""
MARKERS = {name: _LOOKS[name][1] for name in GRADES}

_HEADS = ("", "", "grade", "most adverse, 95 %", "Holm p")
_EDGE, _PAD = 0.1, 0.1
_ROW, _TITLE, _TICKS, _HEAD = 0.2, 0.22, 0.24, 0.5
_RATIOS = "ratio of sd"
_TITLES = {
    "points": "Differences (points)",
    "points per 10 % masking": "Slopes (points per 10 % of masking)",
    _RATIOS: "Ratios of standard deviations",
}
"""By unit; in this order from top to bottom, each with an axis of its own."""


def findings_data(assessment: Assessment) -> pd.DataFrame:
    """Return what is drawn.

    Returns:
        Columns `id, finding, verdict, holds, role, contrast, unit, effect, low, high, region_low,
        region_high, p, p_holm`;
        `role` being `decisive` (one row a finding, the most adverse comparison), `typical` (their mean) or `other`.
    """
    rows: list[dict[str, object]] = []
    for verdict in assessment.verdicts:
        holds = f"{verdict.tree.hold} of {len(verdict.tree.units)}" if verdict.known else ""
        base = {
            "id": verdict.finding.id,
            "finding": verdict.finding.short,
            "verdict": verdict.verdict,
            "holds": holds,
        }
        none = {"p": math.nan, "p_holm": math.nan}
        numbers = {"p": verdict.p, "p_holm": verdict.p_adjusted} if verdict.known else none
        rows.append(base | {"role": "decisive"} | point(verdict.decisive) | numbers)
        if verdict.typical is not None:
            rows.append(base | {"role": "typical"} | point(verdict.typical) | none)
        others = (result for result in verdict.known if result is not verdict.decisive)
        rows += [base | {"role": "other"} | point(result) | none for result in others]
    return pd.DataFrame(rows)


def point(result: Result) -> dict[str, object]:
    """Return what is drawn of a comparison: its effect with interval, and the claimed region."""
    comparison = result.comparison
    return {
        "contrast": comparison.label, "unit": comparison.unit, "effect": result.effect, "low": result.low,
        "high": result.high, "region_low": comparison.ends[0], "region_high": comparison.ends[1],
        "text": format_effect(result),
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Claims(FigureSpec):
    """The forest plot: one row per finding, one axis per unit, linear near no effect and then bent."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        return findings_data(inputs.assessment)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        decisive = data[data["role"] == "decisive"]
        blocks = [(unit, rows) for unit in _TITLES if len(rows := decisive[decisive["unit"] == unit])]
        assert sum(len(rows) for _, rows in blocks) == len(decisive)
        body = _HEAD + sum(_TITLE + _ROW * len(rows) + _TICKS for _, rows in blocks)
        sheet = Sheet(caption, body=body, below=0.14)
        lines = {
            at: (row["id"], row["finding"], GRADES[row["verdict"]].short, row["text"].replace("-", "\u2212"),
                 format_p(row["p_holm"]))
            for at, row in decisive.iterrows()
        }  # fmt: skip
        bold = (True, False, True, False, False)
        ids, names, words, numbers, ps = (
            max(inches(text, bold=of) for text in column)
            for column, of in zip(zip(_HEADS, *lines.values(), strict=True), bold, strict=True)
        )
        axis = WIDTH - 2 * _EDGE - ids - names - words - numbers - ps - 6 * _PAD
        left = _EDGE + ids + names + 2 * _PAD
        columns = [_EDGE, _EDGE + ids + _PAD, left + axis + 2.4 * _PAD]
        columns += [columns[2] + words + _PAD, columns[2] + words + numbers + 2 * _PAD]
        top = sheet.height - _HEAD
        for x, text in zip(columns, _HEADS, strict=True):
            sheet.text(x, top + 0.04, text, color=GREY)
        for unit, rows in blocks:
            sheet.text(_EDGE, top - _TITLE + 0.07, _TITLES[unit], fontsize=TITLE_SIZE, fontweight="bold")
            top -= _TITLE
            low = top - _ROW * len(rows)
            ax = sheet.axes(left, low, axis, top - low)
            _draw_block(ax, rows, data[data["unit"] == unit], axis)
            for place, (at, verdict) in enumerate(rows["verdict"].items()):
                y = top - _ROW * (place + 0.5)
                inks = (INK, INK, COLORS[verdict], INK, GREY)
                for x, text, ink, of in zip(columns, lines[at], inks, bold, strict=True):
                    sheet.text(x, y, text, va="center", color=ink, fontweight="bold" if of else "normal")
                # The mark of the grade, before its word: rows without a number have it too.
                sheet.figure.add_artist(
                    Line2D([(left + axis + 1.3 * _PAD) / WIDTH], [y / sheet.height], linestyle="none",
                           marker=MARKERS[verdict], color=COLORS[verdict], markersize=4.6,
                           transform=sheet.figure.transFigure)
                )  # fmt: skip
            top = low - _TICKS
        sheet.write_heading(heading)
        sheet.write_caption()
        return sheet.figure

    def describe(self, data: pd.DataFrame) -> str:
        decisive = data[data["role"] == "decisive"]
        counts = Counter(decisive["verdict"])
        tally = ", ".join(f"{counts[name]} {name}" for name in GRADES if counts[name])
        lines = [
            f"{record['id']}, {record['finding']}: {record['verdict']}"
            f"{', holds in at least ' + record['holds'] if record['holds'] else ''}, most adverse {record['text']}."
            for record in decisive.to_dict("records")
        ]
        return f"Forest plot of {len(decisive)} findings: {tally}. " + " ".join(lines)


def details(inputs: FigureInputs) -> str:
    """Return how the findings were tested, for the caption of a figure of them."""
    return " ".join((selection_sentence(inputs), *inputs.assessment.tests)).lstrip()


def _draw_block(ax: Axes, rows: pd.DataFrame, data: pd.DataFrame, wide: float) -> None:
    """Draw the findings of one unit: claimed region, the most adverse comparison, their mean, the others."""
    ratios = rows["unit"].iloc[0] == _RATIOS
    ax.set_ylim(len(rows) - 0.5, -0.5)
    bend(ax, _axis_end(data, ratios=ratios), wide, ratios=ratios)
    low, high = ax.get_xlim()
    ax.grid(visible=False)
    for row, record in enumerate(rows.to_dict("index").items()):
        at, found = record
        start, end = max(found["region_low"], low), min(found["region_high"], high)
        ax.fill_betweenx([row - 0.42, row + 0.42], start, end, color=LIGHT, linewidth=0)
        same = data[data["id"] == found["id"]]
        for other, effect in same.loc[same["role"] == "other", "effect"].items():
            ax.add_line(Line2D([effect], [row + 0.3], marker=".", markersize=2.4, markeredgewidth=0, color=GREY,
                               alpha=0.6, gid=point_id(other)))  # fmt: skip
        for mean, typical in same[same["role"] == "typical"].iterrows():
            ax.plot([typical["low"], typical["high"]], [row + 0.12] * 2, color=INK, linewidth=0.9)
            ax.plot([typical["effect"]], [row + 0.12], marker="d", markersize=3.2, color=INK, markeredgewidth=0,
                    gid=point_id(mean))  # fmt: skip
        if math.isfinite(found["effect"]):
            color = COLORS[found["verdict"]]
            ax.plot([found["low"], found["high"]], [row - 0.14] * 2, color=color, linewidth=1.4)
            ax.plot([found["effect"]], [row - 0.14], marker=MARKERS[found["verdict"]], markersize=4.6, color=color,
                    linestyle="none", zorder=3, gid=point_id(at))  # fmt: skip
    ax.axvline(1.0 if ratios else 0.0, color=INK, linewidth=0.8, zorder=1)


def _axis_end(data: pd.DataFrame, *, ratios: bool) -> float:
    """Return how far an axis reaches on either side of no effect; of ratios a factor."""
    ends = data[["effect", "low", "high"]].to_numpy(dtype=float)
    ends = ends[np.isfinite(ends) & ((ends > 0) | (not ratios))]
    if ratios:
        return max(2.0, 1.15 * float(np.exp(np.abs(np.log(ends)).max()))) if len(ends) else 2.0
    return 1.15 * max(1.0, float(np.abs(ends).max(initial=0.0)))


FIGURES = (
    _Claims(
        name="claims",
        title="Which findings survive a test",
        supplementary=True,
        note="Coloured mark: the most adverse comparison, with its interval; small diamond: the mean of all "
        "comparisons, signed so that positive supports the finding; shaded: the claimed region; small dots: its other "
        "comparisons. Axes for differences are linear near 0 and logarithmic further out; axes for ratios are "
        "logarithmic. Rules for the verdicts: docs/claims.md.",
    ),
)
