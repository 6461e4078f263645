"""The findings as a forest plot: for each finding the mean of its comparisons, their range, its verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FINDINGS
from analysis.claims.verdicts import HOLDS, IN_PART, OUTCOMES
from analysis.claims.wording import format_effect, format_p
from analysis.evidence.contrasts import Result
from analysis.palette import VERDICT
from common.level import LEVEL_IN_WORDS
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet, bend, inches
from paper_figures.drawing.style import GREY, INK, LIGHT, WHITE
from paper_figures.figure import FigureInputs, FigureSpec, point_id
from paper_figures.words import selection_sentence

MARKERS = dict(zip(OUTCOMES, ("o", "X", "s", "v"), strict=True))
"""Of each outcome, which has a colour and a word of its own too."""

_HEADS = ("", "", "verdict", f"mean, {LEVEL_IN_WORDS}", "Holm p")
_BOLD = (True, False, True, False, False)
"""Whether a column of texts is bold."""
_MEAN_ROLE = "typical"
"""Role of the mean of a finding's comparisons in the data and so in the CSV."""
_CLAIM_HALF, _RANGE_BELOW, _MEAN_ABOVE = 0.42, 0.26, 0.1
"""Within a row, which is 1 high: half the height of the claimed region; how far below and above the middle of the row
the range of the comparisons and their mean are drawn."""
_EDGE, _PAD = 0.12, 0.1
_ROW, _TITLE, _TICKS, _HEAD = 0.2, 0.22, 0.24, 0.5
_RATIOS, _UNKNOWN = "ratio of sd", ""
_TITLES = {
    "points": "Differences (points)",
    "points per 10 % masking": "Slopes (points per 10 % of masking)",
    _RATIOS: "Ratios of standard deviations",
    _UNKNOWN: "Without a number in this source",
}
"""By unit; in this order from top to bottom, each with an axis of its own if it has a number."""


def findings_data(assessment: Assessment) -> pd.DataFrame:
    """Return what is drawn.

    Returns:
        Columns `id, finding, outcome, verdict, holds, role, contrast, unit, effect, low, high, region_low,
        region_high, p, p_holm`;
        `role` being `decisive` (one row a finding, the most adverse comparison), `typical` (the mean of the finding's
        comparisons) or `other`.
    """
    drawn: list[dict[str, object]] = []
    for name in FINDINGS:
        main = assessment.judged[name]
        holds = f"{main.holds_in} of {main.known}" if main.known else ""
        base = {
            "id": name,
            "finding": main.finding.short,
            "outcome": main.outcome,
            "verdict": main.verdict,
            "holds": holds,
        }
        drawn.append(base | _point(main.decisive, "decisive"))
        if main.known:
            drawn[-1] |= {"p": main.p_raw, "p_holm": main.p_holm}
        if main.mean is not None:
            drawn.append(base | _point(main.mean, _MEAN_ROLE))
        for result in main.known_comparisons:
            if result is not main.decisive:
                drawn.append(base | _point(result, "other"))
    return pd.DataFrame(drawn)


def _point(result: Result, role: str) -> dict[str, object]:
    """Return what is drawn of a comparison: its effect with interval, and the claimed region."""
    claimed = result.comparison
    point: dict[str, object] = {"role": role, "contrast": result.label}
    point |= {"unit": result.unit, "effect": result.effect}
    point |= {"low": result.low, "high": result.high}
    point |= {"region_low": claimed.low, "region_high": claimed.high}
    point["text"] = format_effect(result)
    # Only a finding as a whole has p's: they are written into the row of its most adverse comparison.
    return point | {"p": math.nan, "p_holm": math.nan}


@dataclass(frozen=True, kw_only=True)
class _Claims(FigureSpec):
    """The forest plot: one row per finding, one axis per unit, linear near no effect and then bent."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        return findings_data(inputs.assessment)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        outcomes = list(data.loc[data["role"] == "decisive", "outcome"])
        return (
            f"{outcomes.count(HOLDS.name)} of {len(outcomes)} findings hold as stated"
        )

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        shown = towards_support(data)
        decisive = shown[shown["role"] == "decisive"]
        # Points, slopes and ratios have no common axis.
        units = decisive["unit"].where(decisive["effect"].notna(), _UNKNOWN)
        blocks = []
        for unit in _TITLES:
            rows = decisive[units == unit]
            if len(rows):
                blocks.append((unit, rows))
        assert sum(len(rows) for _, rows in blocks) == len(decisive)
        block_heights = []
        for unit, rows in blocks:
            ticks_height = 0.0 if unit == _UNKNOWN else _TICKS
            block_heights.append(_TITLE + _ROW * len(rows) + ticks_height)
        sheet = Sheet(caption, body=_HEAD + sum(block_heights), below=0.14)
        lines = {}
        for number, row in decisive.iterrows():
            mean, p_holm = _mean(data, row["id"]), format_p(row["p_holm"])
            lines[number] = (row["id"], row["finding"], row["verdict"], mean, p_holm)
        # Widths of the columns of text, in inches; the axis, left of the verdict, takes the rest of the page.
        widths = []
        texts_of_columns = zip(_HEADS, *lines.values(), strict=True)
        for texts, is_bold in zip(texts_of_columns, _BOLD, strict=True):
            widths.append(max(inches(text, bold=is_bold) for text in texts))
        ids, names, words, numbers, ps = widths
        axis = WIDTH - 2 * _EDGE - ids - names - words - numbers - ps - 6 * _PAD
        left = _EDGE + ids + names + 2 * _PAD
        of_verdict = left + axis + 2.4 * _PAD
        of_mean = of_verdict + words + _PAD
        of_p = of_verdict + words + numbers + 2 * _PAD
        columns = (_EDGE, _EDGE + ids + _PAD, of_verdict, of_mean, of_p)
        top = sheet.height - _HEAD
        for x, text in zip(columns, _HEADS, strict=True):
            sheet.text(x, top + 0.04, text, color=GREY)
        for unit, rows in blocks:
            title_y = top - _TITLE + 0.07
            sheet.text(
                _EDGE, title_y, _TITLES[unit], fontsize=TITLE_SIZE, fontweight="bold"
            )
            top -= _TITLE
            low = top - _ROW * len(rows)
            if unit != _UNKNOWN:
                _draw_block(sheet.axes(left, low, axis, top - low), rows, shown, axis)
            for place, (number, outcome) in enumerate(rows["outcome"].items()):
                y = top - _ROW * (place + 0.5)
                _write_row(sheet, y, columns, lines[number], outcome)
                # The mark stands left of the verdict, so that a finding without a number on the axis has it too.
                mark = Line2D(
                    [(left + axis + 1.3 * _PAD) / WIDTH],
                    [y / sheet.height],
                    linestyle="none",
                    marker=MARKERS[outcome],
                    color=VERDICT[outcome],
                    markersize=4.6,
                    markerfacecolor=_face(outcome),
                    transform=sheet.figure.transFigure,
                )
                sheet.figure.add_artist(mark)
            top = low - _TICKS
        return sheet.finish(heading)

    def describe(self, data: pd.DataFrame) -> str:
        decisive = data[data["role"] == "decisive"]
        counts = Counter(decisive["outcome"])
        found = [name for name in OUTCOMES if counts[name]]
        tally = ", ".join(f"{counts[name]} {name}" for name in found)
        lines = [f"Forest plot of {len(decisive)} findings: {tally}."]
        for record in decisive.to_dict("records"):
            finding = f"{record['id']}, {record['finding']}"
            verdict = f"{record['verdict']}{_counts(record)}"
            lines.append(f"{finding}: {verdict}, most adverse {record['text']}.")
        return " ".join(lines)


def _write_row(
    sheet: Sheet, y: float, columns: Sequence[float], texts: Sequence[str], outcome: str
) -> None:
    """Write the texts of a finding, the verdict in its colour."""
    inks = (INK, INK, VERDICT[outcome], INK, GREY)
    for x, text, ink, is_bold in zip(columns, texts, inks, _BOLD, strict=True):
        weight = "bold" if is_bold else "normal"
        sheet.text(x, y, text, va="center", color=ink, fontweight=weight)


def _counts(record: Mapping[Hashable, Any]) -> str:
    """Return how many parts hold, as words; empty where the verdict says it, or where nothing is known."""
    if record["outcome"] == IN_PART.name or not record["holds"]:
        return ""
    return f", holds in at least {record['holds']}"


def details(inputs: FigureInputs) -> str:
    """Return how the findings were tested, for the caption of a figure of them."""
    return " ".join((selection_sentence(inputs), *inputs.assessment.tests)).lstrip()


def towards_support(data: pd.DataFrame) -> pd.DataFrame:
    """Return effects, intervals and regions turned so that right supports the claim.

    A claim below a number becomes one above: differences change their sign, ratios are inverted.
    """
    turned = np.isneginf(data["region_low"]) & np.isfinite(data["region_high"])
    # Turning a side exchanges the ends of an interval.
    turned_from = {
        "effect": "effect",
        "low": "high",
        "high": "low",
        "region_low": "region_high",
    }
    result = data.copy()
    for unit_is_ratio in (False, True):
        is_of_unit = (data["unit"] == _RATIOS) == unit_is_ratio
        rows = turned & is_of_unit
        for column, other in turned_from.items():
            values = data.loc[rows, other]
            result.loc[rows, column] = 1 / values if unit_is_ratio else -values
    result.loc[turned, "region_high"] = math.inf
    return result


def _main(data: pd.DataFrame, number: Hashable) -> pd.Series:
    """Return the row of a finding's mean, or without a mean the row of its most adverse comparison.

    `number` is the index of the most adverse comparison.
    """
    adverse = data[data.index == number]
    mean = data[data["id"].isin(adverse["id"]) & (data["role"] == _MEAN_ROLE)]
    # A mean in another unit than the block's axis cannot be drawn on it.
    mean = mean[mean["effect"].notna() & mean["unit"].isin(adverse["unit"])]
    rows = adverse if mean.empty else mean
    [(_, main)] = rows.iterrows()
    return main


def _mean(data: pd.DataFrame, finding: str) -> str:
    """Return a finding's mean with its interval as `claims` prints it."""
    texts = data.loc[(data["id"] == finding) & (data["role"] == _MEAN_ROLE), "text"]
    return next(iter(texts), "-").replace("-", "\u2212")


def _face(outcome: str) -> str:
    """Return the colour inside a mark: filled only for findings that hold, which the title counts."""
    return VERDICT[outcome] if outcome == HOLDS.name else WHITE


def _draw_block(ax: Axes, rows: pd.DataFrame, data: pd.DataFrame, wide: float) -> None:
    """Draw the findings of one unit, a row each; `rows` holds the most adverse comparison of each finding.

    In a row the claimed region is shaded; above its middle is the mean with its interval, below it the comparisons and
    their range.
    """
    unit = rows["unit"].iloc[0]
    ratios = unit == _RATIOS
    ax.set_ylim(len(rows) - 0.5, -0.5)
    of_unit = data[data["unit"] == unit]
    ends = of_unit[["effect", "low", "high"]].to_numpy(dtype=float)
    ends = ends[np.isfinite(ends)]
    # A ratio's interval may reach 0, which a logarithmic axis does not.
    if ratios:
        ends = ends[ends > 0]
    bend(ax, float(ends.min()), float(ends.max()), wide, ratios=ratios)
    low, high = ax.get_xlim()
    ax.grid(visible=False)
    for row, (number, adverse) in enumerate(rows.iterrows()):
        # A claim without an end is shaded up to the end of the axis.
        claimed = max(adverse["region_low"], low), min(adverse["region_high"], high)
        heights = [row - _CLAIM_HALF, row + _CLAIM_HALF]
        ax.fill_betweenx(heights, *claimed, color=LIGHT, linewidth=0)
        is_of_finding = data["id"] == adverse["id"]
        is_comparison = (data["role"] != _MEAN_ROLE) & data["effect"].notna()
        effects = data.loc[is_of_finding & is_comparison, "effect"]
        main = _main(data, number)
        color = VERDICT[adverse["outcome"]]
        _draw_range(ax, row, effects, {number: color}, large=main.name)
        _draw_mean(ax, row, main, adverse["outcome"])
    no_effect = 1.0 if ratios else 0.0
    ax.axvline(no_effect, color=INK, linewidth=0.8, zorder=1)


def _draw_range(
    ax: Axes,
    row: int,
    effects: pd.Series,
    colored: Mapping[Hashable, str],
    *,
    large: Hashable,
) -> None:
    """Draw the range of a finding's comparisons, and a small mark for each.

    Args:
        ax: the axes.
        row: its place on the y axis.
        effects: of the comparisons, by their rows in the data.
        colored: the row of the most adverse comparison, with its colour.
        large: the row that has a large mark (`_draw_mean`), and so no small one.
    """
    y = row + _RANGE_BELOW
    ax.plot([effects.min(), effects.max()], [y] * 2, color=GREY, linewidth=0.6)
    for number, effect in effects.drop(index=large, errors="ignore").items():
        size, ink = 1.6, GREY
        if number in colored:
            size, ink = 3.0, colored[number]
        ax.plot(
            [effect],
            [y],
            marker="o",
            markersize=size,
            markeredgewidth=0,
            color=ink,
            linestyle="none",
            gid=point_id(number),
        )


def _draw_mean(ax: Axes, row: int, main: pd.Series, outcome: str) -> None:
    """Draw the large mark of a finding with its interval; `main` as `_main` returns it."""
    y = row - _MEAN_ABOVE
    color = VERDICT[outcome]
    ax.plot([main["low"], main["high"]], [y] * 2, color=color, linewidth=1.4)
    ax.plot(
        [main["effect"]],
        [y],
        marker=MARKERS[outcome],
        markersize=5,
        color=color,
        markerfacecolor=_face(outcome),
        linestyle="none",
        zorder=3,
        gid=point_id(main.name),
    )


FIGURES = (
    _Claims(
        name="claims",
        title="Findings",
        supplementary=True,
        note="Right supports the finding. Large mark, filled where it holds: the mean of its comparisons (without one, "
        f"the most adverse), with its {LEVEL_IN_WORDS} interval; thin line: their range, the most adverse in "
        "colour; shaded: the claim. Axes bent.",
    ),
)
