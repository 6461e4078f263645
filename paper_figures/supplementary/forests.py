"""A finding by dataset as a forest plot: each of its contrasts on every dataset and on their average."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from analysis.palette import VERDICT
from analysis.records import records
from benchmarks.protocol import AVERAGE, TASKS, title_of
from common.errors import NotApplicableError, UserError
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet, bend, inches
from paper_figures.drawing.style import GREY, INK, LIGHT, WHITE
from paper_figures.figure import FigureInputs, FigureSpec, point_id
from paper_figures.supplementary.findings_figure import details, point, signed, words_of

__all__ = ["FIGURES", "forest_data"]

_EDGE, _GAP, _PAD = 0.12, 0.2, 0.06
_HEAD, _ROW, _TICKS = 0.72, 0.15, 0.22
_APART = 0.5
"""Rows between two contrasts of a column."""
_MARKS = (("o", 3.8), ("D", 4.4))
"""Marker and size of a dataset and of their average."""
_MOST = 20
"""Contrasts that a picture holds; of more, those that say most."""
_COLUMNS = [
    "id", "contrast", "claimed", "unit", "dataset", "effect", "low", "high", "region_low", "region_high", "says",
    "p_for", "p_against", "q", "q_p", "i_squared", "drawn", "sentences",
]  # fmt: skip


def forest_data(inputs: FigureInputs, finding: Finding) -> pd.DataFrame:
    """Return a row for each contrast and dataset of a finding.

    Raises:
        NotApplicableError: the finding is about spreads.
        UserError: the source knows no dataset of it.
    """
    if not _has_forest(finding):
        without = " and ".join(name for name, one in FINDINGS.items() if not _has_forest(one))
        raise NotApplicableError(
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


@dataclass(frozen=True, kw_only=True)
class _Contrast:
    """A contrast on every dataset: a title and a row for each."""

    words: tuple[str, ...]
    """What is compared, where it is, and what is claimed of it."""
    task: str
    """The task that it is about; of several the last."""
    rows: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Contrast:
        """Return the contrast of these rows of the data, signed so that right supports."""
        label, claimed, task = str(rows["contrast"].iloc[0]), str(rows["claimed"].iloc[0]), ""
        if gap := re.search(r"gap on \w+ - gap on (\w+)", label):
            task = gap[1]
        elif found := re.search(rf"(?:,? on|,) ({'|'.join(TASKS)})\b", label):
            task, label = found[1], label.replace(found[0], "", 1)
        first, *rest = label.split(", ")
        words = [f"-({first})" if claimed == "< 0" else first, *rest]
        words += [] if claimed in ("> 0", "< 0") else [f"claimed {claimed}"]
        return cls(words=tuple(word.replace("-", "\u2212") for word in words), task=task, rows=signed(rows))


def _columns(contrasts: Sequence[_Contrast]) -> list[tuple[str, list[_Contrast]]]:
    """Return the contrasts by task, each task a column; of one task a column each."""
    tasks = sorted({one.task for one in contrasts}, key=list(TASKS).index)
    if len(tasks) == 1 and 1 < len(contrasts) <= len(TASKS):
        return [(tasks[0], [one]) for one in contrasts]
    return [(task, [one for one in contrasts if one.task == task]) for task in tasks]


def _draw_contrast(ax: Axes, row: float, rows: pd.DataFrame) -> None:
    """Draw a contrast on its datasets from that row of the axes on, over the region that is claimed."""
    first, last = ax.get_xlim()
    ends = max(rows["region_low"].iloc[0], first), min(rows["region_high"].iloc[0], last)
    ax.fill_betweenx([row - 0.5, row + len(rows) - 0.5], *ends, color=LIGHT, linewidth=0)
    for place, (at, found) in enumerate(rows.iterrows()):
        color, (marker, size) = VERDICT[found["says"]], _MARKS[found["dataset"] == AVERAGE]
        ax.plot([found["low"], found["high"]], [row + place] * 2, color=color, linewidth=1.2)
        ax.plot([found["effect"]], [row + place], marker=marker, markersize=size, markeredgecolor=color,
                markerfacecolor=WHITE if found["says"] == "open" else color, linestyle="none", zorder=3,
                gid=point_id(at))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Forest(FigureSpec):
    """The contrasts of a finding by dataset."""

    of: Finding

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        return forest_data(inputs, self.of)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        [verdict] = [one for one in inputs.assessment.verdicts if one.finding.id == self.of.id]
        return f"{self.title}: {words_of(verdict)}"

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        contrasts = [_Contrast.of(rows) for _, rows in data[data["drawn"]].groupby("contrast", sort=False)]
        columns = _columns(contrasts)
        common = set.intersection(*(set(one.words) for one in contrasts))
        titled = any(not common.issuperset(one.words) for one in contrasts)
        tall = _ROW * max(sum(len(one.rows) + titled + _APART for one in stack) for _, stack in columns)
        shown = pd.concat([one.rows for one in contrasts])
        ends = shown[["effect", "low", "high"]].to_numpy(dtype=float)
        names = max(inches(title_of(name), bold=name == AVERAGE) for name in shown["dataset"]) + _PAD
        each = (WIDTH - 2 * _EDGE - _GAP * (len(columns) - 1)) / len(columns)
        sheet = Sheet(caption, body=_HEAD + tall, below=_TICKS + 0.1)
        top, axis = sheet.foot + tall, each - names - 0.07
        shared = ", ".join(word for word in contrasts[0].words if word in common)
        sheet.text(_EDGE, top + 0.3, f"{shared or 'Differences'} ({data['unit'].iloc[0]})", color=GREY)
        for column, (task, stack) in enumerate(columns):
            left, row = _EDGE + column * (each + _GAP), 0.0
            sheet.text(left, top + 0.09, TASKS[task].title, fontsize=TITLE_SIZE, fontweight="bold")
            ax = sheet.axes(left + names, sheet.foot, axis, tall)
            ax.set_ylim(tall / _ROW - 0.5, -0.5)
            bend(ax, float(np.nanmin(ends)), float(np.nanmax(ends)), axis)
            ax.grid(axis="x", color=LIGHT)
            ax.axvline(0, color=INK, linewidth=0.8)
            for one in stack:
                title = ", ".join(word for word in one.words if word not in common)
                lines = [title] * titled + [title_of(name) for name in one.rows["dataset"]]
                _draw_contrast(ax, row + titled, one.rows)
                for line, text in enumerate(lines):
                    bold = text in (title, title_of(AVERAGE))
                    sheet.text(left, top - _ROW * (row + line + 0.5), text, va="center",
                               fontweight="bold" if bold else "normal",
                               bbox={"color": WHITE, "pad": 0.3} if titled and not line else None)  # fmt: skip
                row += len(lines) + _APART
        return sheet.finish(heading)

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
        title=f"{finding.id}, {finding.short}",
        of=finding,
        supplementary=True,
        note="Right supports the finding. Diamonds: task averages, which decide; circles: datasets. Green holds, red "
        "fails on its own; hollow: open. Shaded: what is claimed. Axis bent.",
    )
    for finding in FINDINGS.values()
)
"""A figure for each finding."""
