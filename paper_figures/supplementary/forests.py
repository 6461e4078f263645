"""A finding by dataset as a forest plot: each of its contrasts on every dataset and on their average."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.claims.by_dataset import Heterogeneity
from analysis.claims.catalogue import FINDINGS
from analysis.claims.pages.dataset_tables import dataset_sentences
from analysis.claims.statements import Finding, comparisons
from analysis.claims.verdicts import Verdict
from analysis.claims.wording import format_p, says
from analysis.evidence.contrasts import Contrast, Result
from analysis.records import records
from benchmarks.protocol import AVERAGE, title_of
from common.errors import UserError
from paper_figures.drawing.page import WIDTH, Sheet, bend, inches
from paper_figures.drawing.style import CLM, INK, LIGHT, MLM
from paper_figures.figure import FigureInputs, FigureSpec
from paper_figures.supplementary.findings_figure import details, point

__all__ = ["FIGURES", "forest_data"]

_EDGE, _GAP, _PAD = 0.1, 0.3, 0.12
_HEAD, _ROW, _TITLE, _TICKS, _BELOW = 0.34, 0.17, 0.16, 0.22, 0.1
_LEAST_REACH = 1.0
"""Points to either side of zero where no effect differs from it."""
_LEAST_AXIS = 0.7
_MOST = 20
"""Contrasts that a picture holds; of more, those that say most."""
_COLUMNS = [
    "id", "contrast", "claimed", "unit", "dataset", "effect", "low", "high", "region_low", "region_high", "says",
    "p_for", "p_against", "q", "q_p", "i_squared", "drawn", "sentences",
]  # fmt: skip


def forest_data(inputs: FigureInputs, finding: Finding) -> pd.DataFrame:
    """Return a row for each contrast and dataset of a finding.

    Raises:
        UserError: the finding is about spreads, or the source knows no dataset of it.
    """
    if not _has_forest(finding):
        without = " and ".join(name for name, one in FINDINGS.items() if not _has_forest(one))
        raise UserError(
            f"{finding.id} compares ratios of standard deviations, so it has no forest plot (every finding but "
            f"{without} has one); clm-or-mlm claims {finding.id} --explain prints the ratios"
        )
    assessment = inputs.assessment
    found = assessment.datasets[finding.id]
    groups = list(_contrasts(found.contrasts)) or list(_pairs(found.verdict))
    if not groups:
        raise UserError(f"{inputs.source.label} lacks the scores that {finding.id} needs: {finding.short}")
    data = pd.DataFrame([row for group in groups for row in group], columns=_COLUMNS)
    least = data[["p_for", "p_against"]].min(axis=1).groupby(data["contrast"], sort=False).min()
    return data.assign(
        id=finding.id,
        drawn=data["contrast"].isin(least.sort_values(kind="stable").index[:_MOST]),
        sentences=" ".join(dataset_sentences(found)),
    )


def _has_forest(finding: Finding) -> bool:
    return any(isinstance(one, Contrast) for one in comparisons(finding.body))


def _contrasts(contrasts: tuple[Heterogeneity, ...]) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of each contrast on one task; of a contrast and its reverse the one that holds better."""
    better: dict[frozenset[tuple[str, float]], Heterogeneity] = {}
    for one in contrasts:
        terms = one.average.comparison.terms if isinstance(one.average.comparison, Contrast) else ()
        key = frozenset((" ".join(term.cell), abs(term.weight)) for term in terms)
        region = one.average.comparison.region
        key |= (
            {(f"{one.average.comparison.label} {region}", 0.0)} if one.average.comparison.is_range else set()
        )
        if key not in better or one.average.p_for < better[key].average.p_for:
            better[key] = one
    for one in better.values():
        spread = {"q": one.between.q, "q_p": one.between.p, "i_squared": one.between.i_squared}
        found = [_row(result, name) | spread for name, result in one.single.items()]
        if one.average.known:
            found.append(_row(one.average, AVERAGE) | spread)
        yield [row | {"contrast": one.average.comparison.label} for row in found]


def _pairs(verdict: Verdict) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of each contrast across tasks, one for each pair of their datasets."""
    groups: dict[str, list[dict[str, object]]] = {}
    for result in verdict.known:
        label, _, where = result.comparison.label.partition(" [")
        if isinstance(result.comparison, Contrast):
            row = _row(result, where.rstrip("]")) | dict.fromkeys(("q", "q_p", "i_squared"), math.nan)
            groups.setdefault(label, []).append(row | {"contrast": label})
    yield from groups.values()


def _row(result: Result, dataset: str) -> dict[str, object]:
    return point(result) | {
        "claimed": result.comparison.region, "dataset": dataset, "says": says(result), "p_for": result.p_for,
        "p_against": result.p_against,
    }  # fmt: skip


def _spread(q: float, p: float, i_squared: float) -> str:
    if math.isnan(q):
        return ""
    return f"Q {q:.1f} (p {format_p(p)}), I\u00b2 {i_squared:.0%}".replace("%", "\u00a0%")


class _Row(NamedTuple):
    """A dataset, or the average of them."""

    dataset: str
    effect: float
    low: float
    high: float
    says: str
    region_low: float
    region_high: float

    @property
    def name(self) -> str:
        return title_of(self.dataset)

    @property
    def is_average(self) -> bool:
        return self.dataset == AVERAGE

    @property
    def numbers(self) -> str:
        """The effect with its interval."""
        interval = "" if math.isnan(self.low) else f" [{self.low:+.2f}, {self.high:+.2f}]"
        return f"{self.effect:+.2f}{interval}".replace("-", "\u2212")


@dataclass(frozen=True, kw_only=True)
class _Contrast:
    """A contrast on every dataset, with an axis of its own; lengths are inches."""

    title: str
    note: str
    rows: Sequence[_Row]

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Contrast:
        """Return the contrast of these rows of the data."""
        first = rows.iloc[0]
        return cls(
            title=f"{first['contrast']}, claimed {first['claimed']}".replace("-", "\u2212"),
            note=_spread(first["q"], first["q_p"], first["i_squared"]),
            rows=[_Row(*row) for row in records(rows, *_Row._fields)],
        )

    @property
    def head(self) -> float:
        """Above the rows."""
        return _TITLE + _TITLE * bool(self.note) + 0.04

    @property
    def height(self) -> float:
        return self.head + _ROW * len(self.rows) + _TICKS + _BELOW


def _stacks(contrasts: Sequence[_Contrast]) -> list[Sequence[_Contrast]]:
    """Return the contrasts in two columns of about one height, in order; in one where a title is too wide."""
    half = (WIDTH - 2 * _EDGE - _GAP) / 2
    wide = any(inches(one.title, bold=True) > half or inches(one.note) > half for one in contrasts)
    if wide or len(contrasts) == 1:
        return [contrasts]
    share, filled, first = sum(one.height for one in contrasts) / 2, contrasts[0].height, 1
    while first < len(contrasts) and filled + contrasts[first].height / 2 <= share:
        filled += contrasts[first].height
        first += 1
    return [contrasts[:first], contrasts[first:]]


def _draw_rows(ax: Axes, rows: Sequence[_Row], reach: float, wide: float) -> None:
    ax.set_ylim(len(rows) - 0.5, -0.5)
    bend(ax, reach, wide)
    ax.grid(axis="x", color=LIGHT)
    ax.axvline(0, color=INK, linewidth=0.8)
    for place, row in enumerate(rows):
        color = MLM.color if row.effect >= 0 else CLM.color
        ends = max(row.region_low, -reach), min(row.region_high, reach)
        ax.fill_betweenx([place - 0.5, place + 0.5], *ends, color=LIGHT, linewidth=0)
        if not math.isnan(row.low):
            ax.plot([row.low, row.high], [place, place], color=color, linewidth=1.4)
        marker, size = ("D", 18) if row.is_average else ("o", 16)
        face = "white" if row.says == "open" else color
        ax.scatter([row.effect], [place], s=size, facecolor=face, edgecolor=color, marker=marker, zorder=3)


_NOTE = (
    "Circles: datasets; diamonds: their average, which decides the verdict. Filled: holds or fails on its own at 5 %; "
    "hollow: open. Shaded: the claimed region. Q and I\u00b2: how much datasets differ beyond sampling error (p of Q "
    f"from the chi-squared distribution). At most {_MOST} contrasts are drawn, the most decisive; the CSV has all. "
    "The axis is linear near 0 and logarithmic further out."
)


@dataclass(frozen=True, kw_only=True)
class _Forest(FigureSpec):
    """The contrasts of a finding by dataset."""

    finding: Finding

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        return forest_data(inputs, self.finding)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        drawn = data[data["drawn"]]
        stacks = _stacks([_Contrast.of(rows) for _, rows in drawn.groupby("contrast", sort=False)])
        said = f"{data['sentences'].iloc[0]} {caption}" if caption else ""
        body = _HEAD + max(sum(one.height for one in stack) for stack in stacks)
        sheet = Sheet(said, body=body, below=0.24, spacing=0.13)
        rows = [row for stack in stacks for one in stack for row in one.rows]
        names = max(inches(row.name, bold=row.is_average) for row in rows)
        numbers = max(inches(row.numbers, bold=row.is_average) for row in rows)
        each = (WIDTH - 2 * _EDGE - _GAP * (len(stacks) - 1)) / len(stacks)
        axis = max(_LEAST_AXIS, each - (names + numbers + 2 * _PAD))
        ends = drawn[["effect", "low", "high", "region_low", "region_high"]].to_numpy(dtype=float)
        reach = 1.15 * float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0)) or _LEAST_REACH
        for column, stack in enumerate(stacks):
            left, top = _EDGE + column * (each + _GAP), sheet.height - _HEAD
            for one in stack:
                sheet.text(left, top - _TITLE + 0.04, one.title, fontweight="bold")
                sheet.text(left, top - 2 * _TITLE + 0.04, one.note)
                top -= one.head
                for place, row in enumerate(one.rows):
                    y, weight = top - _ROW * (place + 0.5), "bold" if row.is_average else "normal"
                    style = {"va": "center", "color": INK, "fontweight": weight}
                    sheet.text(left, y, row.name, **style)
                    sheet.text(left + names + axis + 2 * _PAD, y, row.numbers, **style)
                low = top - _ROW * len(one.rows)
                _draw_rows(sheet.axes(left + names + _PAD, low, axis, top - low), one.rows, reach, axis)
                top = low - _TICKS - _BELOW
        sheet.text(_EDGE, sheet.height - 0.2, heading, fontsize=8.6, fontweight="bold")
        sheet.write_caption()
        return sheet.figure

    def describe(self, data: pd.DataFrame) -> str:
        parts = []
        for label, rows in data.groupby("contrast", sort=False):
            first = rows.iloc[0]
            each = ", ".join(
                f"{title_of(dataset)} {effect:+.2f} [{low:+.2f}, {high:+.2f}] {says}"
                for dataset, effect, low, high, says in records(
                    rows, "dataset", "effect", "low", "high", "says"
                )
            )
            spread = _spread(first["q"], first["q_p"], first["i_squared"])
            parts.append(f"{label} (claimed {first['claimed']}): {each}{f'; {spread}' if spread else ''}.")
        return (
            f"Forest plot of {data['id'].iloc[0]} by dataset. {' '.join(parts)} {data['sentences'].iloc[0]}"
        )


FIGURES = tuple(
    _Forest(
        name=f"forest-{finding.id.lower()}",
        title=f"{finding.id} by dataset: {finding.short}",
        finding=finding,
        supplementary=True,
        note=_NOTE,
    )
    for finding in FINDINGS.values()
)
"""A figure for each finding."""
