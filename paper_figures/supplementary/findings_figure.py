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
"""The marker of each outcome; an outcome also has a colour and a word of its own."""

_HEADS = ("", "", "verdict", f"mean, {LEVEL_IN_WORDS}", "Holm p")
_BOLD = (True, False, True, False, False)
"""Whether a column of texts is bold."""
_MEAN_ROLE = "typical"
"""Role of the mean of a finding's comparisons in the data and so in the CSV."""
_CLAIM_HALF, _RANGE_BELOW, _MEAN_ABOVE = 0.42, 0.26, 0.1
"""Within a row, which is 1 high: half the height of the claimed region; how far below and above the middle of the row
the range of the comparisons and their mean are drawn."""
_EDGE, _PAD = 0.12, 0.1
"""Inches of the margins, and of the room between two columns."""
_ROW, _TITLE, _TICKS, _HEAD = 0.2, 0.22, 0.24, 0.5
"""Heights in inches: a row, the title above a block of rows, the labels of the ticks below it, the page's heading."""
_RATIOS, _UNKNOWN = "ratio of sd", ""
_TITLES = {
    "points": "Differences (points)",
    "points per 10 % masking": "Slopes (points per 10 % of masking)",
    _RATIOS: "Ratios of standard deviations",
    _UNKNOWN: "Without a number in this source",
}
"""By unit; in this order from top to bottom, each with an axis of its own if it has a number."""


def findings_data(assessment: Assessment) -> pd.DataFrame:
    """Return the data of the figure: for each finding a row for each of its comparisons, and one for their mean.

    Returns:
        Columns `id, finding, outcome, verdict, holds, role, contrast, unit, effect, low, high, region_low,
        region_high, text, p, p_holm`. `role` is `decisive` for the most adverse comparison, of which every finding has
        one row; `typical` for the mean of the finding's comparisons; `other` for every other comparison.
    """
    rows: list[dict[str, object]] = []
    for name in FINDINGS:
        judged = assessment.judged[name]
        # How many parts of the finding hold, as text; empty if the source knows none.
        holds = f"{judged.holds_in} of {judged.known}" if judged.known else ""
        of_finding = {
            "id": name,
            "finding": judged.finding.short,
            "outcome": judged.outcome,
            "verdict": judged.verdict,
            "holds": holds,
        }
        decisive = of_finding | _point(judged.decisive, "decisive")

        # Only a finding as a whole has p's: they are written into the row of its most adverse comparison.
        if judged.known:
            decisive |= {"p": judged.p_raw, "p_holm": judged.p_holm}
        rows.append(decisive)
        if judged.mean is not None:
            rows.append(of_finding | _point(judged.mean, _MEAN_ROLE))
        for result in judged.known_comparisons:
            if result is not judged.decisive:
                rows.append(of_finding | _point(result, "other"))

    return pd.DataFrame(rows)


def _point(result: Result, role: str) -> dict[str, object]:
    """Return the columns of a row that are about its comparison: its effect with interval, and the claimed region.

    The finding claims that the effect is in this region, from `region_low` to `region_high`, of which one is infinite
    if the claim has only one end. The p's are nan.
    """
    comparison = result.comparison
    return {
        "role": role,
        "contrast": result.label,
        "unit": result.unit,
        "effect": result.effect,
        "low": result.low,
        "high": result.high,
        "region_low": comparison.low,
        "region_high": comparison.high,
        "text": format_effect(result),
        "p": math.nan,
        "p_holm": math.nan,
    }


@dataclass(frozen=True, kw_only=True)
class _Claims(FigureSpec):
    """The forest plot: one row per finding, one axis per unit, linear near no effect and then bent."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        return findings_data(inputs.assessment)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return how many findings hold, as a sentence."""
        # Every finding has one decisive row.
        outcomes = list(data.loc[data["role"] == "decisive", "outcome"])
        return (
            f"{outcomes.count(HOLDS.name)} of {len(outcomes)} findings hold as stated"
        )

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page: blocks of findings by unit, a line of texts and a row of an axis for each finding."""
        # The blocks of rows.
        shown = towards_support(data)
        decisive = shown[shown["role"] == "decisive"]
        # Points, slopes and ratios have no common axis: each unit is a block of rows. So are findings without a number.
        units = decisive["unit"].where(decisive["effect"].notna(), _UNKNOWN)
        blocks = []
        for unit in _TITLES:
            rows = decisive[units == unit]
            if len(rows):
                blocks.append((unit, rows))

        # `_TITLES` has all units that findings are stated in.
        assert sum(len(rows) for _, rows in blocks) == len(decisive)

        # The page, as high as all blocks together.
        block_heights = []
        for unit, rows in blocks:
            ticks_height = 0.0 if unit == _UNKNOWN else _TICKS
            block_heights.append(_TITLE + _ROW * len(rows) + ticks_height)

        sheet = Sheet(caption, body=_HEAD + sum(block_heights), below=0.14)

        # The columns. The texts of each finding, by the index of its decisive row: one for each column of texts, as in
        # `_HEADS`.
        # The mean is read from `data`, not from `shown`: as a text it is not turned towards support.
        texts_of = {}
        for number, row in decisive.iterrows():
            mean, p_holm = _mean(data, row["id"]), format_p(row["p_holm"])
            texts_of[number] = (row["id"], row["finding"], row["verdict"], mean, p_holm)

        # A column of texts is as wide as its widest text, in inches.
        widths = []
        columns_of_texts = zip(_HEADS, *texts_of.values(), strict=True)
        for texts, is_bold in zip(columns_of_texts, _BOLD, strict=True):
            widths.append(max(inches(text, bold=is_bold) for text in texts))
        ids, findings, verdicts, means, ps = widths

        # From left to right: id, finding, axis, verdict, mean and p. The axis takes the rest of the page. The rooms
        # between these six, below, are 6.4 `_PAD` together: the last column may reach 0.4 `_PAD` into the margin.
        axis = WIDTH - 2 * _EDGE - ids - findings - verdicts - means - ps - 6 * _PAD
        left = _EDGE + ids + findings + 2 * _PAD

        # Between the axis and the verdict is room for a mark.
        verdict_x = left + axis + 2.4 * _PAD
        mean_x = verdict_x + verdicts + _PAD
        p_x = verdict_x + verdicts + means + 2 * _PAD
        columns = (_EDGE, _EDGE + ids + _PAD, verdict_x, mean_x, p_x)

        # Draw, from here on downwards; `top` is the upper edge of what comes next.
        top = sheet.height - _HEAD
        for x, text in zip(columns, _HEADS, strict=True):
            sheet.text(x, top + 0.04, text, color=GREY)
        for unit, rows in blocks:
            title_y = top - _TITLE + 0.07
            sheet.text(
                _EDGE, title_y, _TITLES[unit], fontsize=TITLE_SIZE, fontweight="bold"
            )
            top -= _TITLE
            bottom = top - _ROW * len(rows)
            if unit != _UNKNOWN:
                ax = sheet.axes(left, bottom, axis, top - bottom)
                _draw_block(ax, rows, shown, axis)

            for place, (number, outcome) in enumerate(rows["outcome"].items()):
                y = top - _ROW * (place + 0.5)
                _write_row(sheet, y, columns, texts_of[number], outcome)
                # The mark stands left of the verdict, in the room that the axis leaves: a finding without a number on
                # the axis also has it.
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

            # Only the last block may have no axis, and so no labels of ticks.
            top = bottom - _TICKS

        return sheet.finish(heading)

    def describe(self, data: pd.DataFrame) -> str:
        """Return the sentences of the alt text: how many findings have which outcome, then each finding's verdict."""
        decisive = data[data["role"] == "decisive"]
        counts = Counter(decisive["outcome"])
        # In the order of `OUTCOMES`, without those that no finding has.
        outcomes = [name for name in OUTCOMES if counts[name]]
        tally = ", ".join(f"{counts[name]} {name}" for name in outcomes)
        lines = [f"Forest plot of {len(decisive)} findings: {tally}."]
        for record in decisive.to_dict("records"):
            finding = f"{record['id']}, {record['finding']}"
            verdict = f"{record['verdict']}{_counts(record)}"
            lines.append(f"{finding}: {verdict}, most adverse {record['text']}.")
        return " ".join(lines)


def _write_row(
    sheet: Sheet, y: float, columns: Sequence[float], texts: Sequence[str], outcome: str
) -> None:
    """Write the texts of a finding in a line, the verdict in its colour.

    Args:
        sheet: the page.
        y: the height of the line.
        columns: the left edge of each column.
        texts: the text of each column: id, finding, verdict, mean, p.
        outcome: the finding's outcome, which has a colour.
    """
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
    """Return the data with effects, intervals and claimed regions turned so that farther right supports the claim more.

    A claim that the effect is below a number becomes one that it is above a number: differences change their sign,
    ratios are inverted. All other claims stay as they are.
    """
    # Such a claim's region has an upper end, and no lower end.
    is_turned = np.isneginf(data["region_low"]) & np.isfinite(data["region_high"])
    # For each column, the column that its new values come from: the upper end of an interval becomes the lower one.
    turned_from = {
        "effect": "effect",
        "low": "high",
        "high": "low",
        "region_low": "region_high",
    }
    result = data.copy()
    for is_ratio in (False, True):
        is_of_unit = (data["unit"] == _RATIOS) == is_ratio
        rows = is_turned & is_of_unit
        for column, other in turned_from.items():
            values = data.loc[rows, other]
            result.loc[rows, column] = 1 / values if is_ratio else -values

    result.loc[is_turned, "region_high"] = math.inf
    return result


def _main(data: pd.DataFrame, number: Hashable) -> pd.Series:
    """Return the row of a finding's mean, or without a mean the row of its most adverse comparison.

    Args:
        data: the rows of all findings.
        number: the index of the finding's most adverse comparison.
    """
    adverse = data[data.index == number]
    is_of_finding = data["id"].isin(adverse["id"])
    mean = data[is_of_finding & (data["role"] == _MEAN_ROLE)]
    # A mean in another unit than the block's axis cannot be drawn on it.
    mean = mean[mean["effect"].notna() & mean["unit"].isin(adverse["unit"])]
    rows = adverse if mean.empty else mean
    # A finding has one mean at most, and one most adverse comparison.
    [(_, main)] = rows.iterrows()
    return main


def _mean(data: pd.DataFrame, finding: str) -> str:
    """Return a finding's mean with its interval as the command `claims` prints it; a dash if it has no mean."""
    is_mean = (data["id"] == finding) & (data["role"] == _MEAN_ROLE)
    texts = list(data.loc[is_mean, "text"])
    text = texts[0] if texts else "-"
    # U+2212 is the minus sign.
    return text.replace("-", "\u2212")


def _face(outcome: str) -> str:
    """Return the colour inside a mark: filled only for findings that hold, which the title counts."""
    return VERDICT[outcome] if outcome == HOLDS.name else WHITE


def _draw_block(ax: Axes, rows: pd.DataFrame, data: pd.DataFrame, wide: float) -> None:
    """Draw the findings of one unit, a row each; `rows` holds the most adverse comparison of each finding.

    In a row the claimed region is shaded; above its middle is the mean with its interval, below it the comparisons and
    their range.

    Args:
        ax: the axes of the block.
        rows: the most adverse comparisons, all in one unit.
        data: the rows of all findings, turned by `towards_support`.
        wide: width of the axes, in inches.
    """
    unit = rows["unit"].iloc[0]
    ratios = unit == _RATIOS
    # A row has its middle at 0, 1, 2 and so on, counted from the top.
    ax.set_ylim(len(rows) - 0.5, -0.5)
    of_unit = data[data["unit"] == unit]
    values = of_unit[["effect", "low", "high"]].to_numpy(dtype=float)

    # Not empty: each of `rows` has an effect.
    values = values[np.isfinite(values)]
    # A ratio's interval may reach 0, which a logarithmic axis does not.
    if ratios:
        values = values[values > 0]
    bend(ax, float(values.min()), float(values.max()), wide, ratios=ratios)
    low, high = ax.get_xlim()
    ax.grid(visible=False)
    for row, (number, adverse) in enumerate(rows.iterrows()):
        # Where the claimed region is infinite, it is shaded up to the end of the axis.
        shaded_from = max(adverse["region_low"], low)
        shaded_to = min(adverse["region_high"], high)
        heights = [row - _CLAIM_HALF, row + _CLAIM_HALF]
        ax.fill_betweenx(heights, shaded_from, shaded_to, color=LIGHT, linewidth=0)
        is_of_finding = data["id"] == adverse["id"]
        is_comparison = (data["role"] != _MEAN_ROLE) & data["effect"].notna()
        effects = data.loc[is_of_finding & is_comparison, "effect"]
        main = _main(data, number)
        color = VERDICT[adverse["outcome"]]

        # The name of a row is its index.
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
        row: the finding's place on the y axis, which points down.
        effects: the effects of the comparisons, by the index of their rows in the data.
        colored: the index of the most adverse comparison, with its colour.
        large: the index of the row that has a large mark (`_draw_mean`), and so no small one.
    """
    y = row + _RANGE_BELOW
    ax.plot([effects.min(), effects.max()], [y] * 2, color=GREY, linewidth=0.6)
    # A mean has a row of its own, which is not among the comparisons.
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
