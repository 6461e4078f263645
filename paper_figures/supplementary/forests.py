"""A finding by dataset as a forest plot: each of its contrasts on every dataset and on their average."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.claims.assessment import Assessment
from analysis.claims.catalogue import FINDINGS
from analysis.claims.frame import known_of, main_of, of_finding
from analysis.claims.pages.dataset_tables import dataset_sentences
from analysis.claims.statements import Finding, comparisons
from analysis.claims.verdicts import FAILS, HOLDS
from analysis.claims.wording import counted_verdict, format_p
from analysis.evidence.contrasts import Contrast
from analysis.palette import VERDICT
from analysis.records import records
from benchmarks.protocol import AVERAGE, TASKS, title_of
from common.errors import NotApplicableError, UserError
from paper_figures.drawing.page import TITLE_SIZE, WIDTH, Sheet, bend, inches
from paper_figures.drawing.style import GREY, INK, LIGHT, WHITE
from paper_figures.figure import FigureInputs, FigureSpec, point_id
from paper_figures.supplementary.findings_figure import details, signed

_EDGE, _GAP, _PAD = 0.12, 0.2, 0.06
_HEAD, _ROW, _TICKS = 0.72, 0.15, 0.22
_APART = 0.5
"""Rows between two contrasts of a column."""
_MARKS = (("o", 3.8), ("D", 4.4))
"""Marker and size of a dataset and of their average."""
_COUNTS = (HOLDS.name, FAILS.name)
_MOST = 20
"""Contrasts that a picture holds; of more, those that say most."""
_COLUMNS = [
    "id", "contrast", "claimed", "unit", "dataset", "effect", "low", "high", "region_low", "region_high", "says",
    "counted", "p_for", "p_against", "q", "q_p", "i_squared", "drawn", "sentences",
]  # fmt: skip


def forest_data(inputs: FigureInputs, finding: Finding) -> pd.DataFrame:
    """Return a row for each contrast and dataset of a finding, and for the contrast's average.

    `says` is the row's own outcome; `counted` is, on an average's row alone, how the verdict counts it (holds, fails,
    open); `drawn` is true of the contrasts with the smallest p, at most `_MOST`.

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
    data = _on_one_task(assessment, finding.id)
    if data.empty:
        data = _across_tasks(assessment, finding.id)
    if data.empty:
        raise UserError(f"{inputs.source.label} lacks the scores that {finding.id} needs: {finding.short}")
    data = data.rename(columns={"outcome": "says"}).reset_index(drop=True)
    mark_of_label = known_of(of_finding(assessment.frame, finding.id)).set_index("label")["mark"]
    marks = data["contrast"].map(mark_of_label[~mark_of_label.index.duplicated()])
    smallest_p = data[["p_for", "p_against"]].min(axis=1).groupby(data["contrast"], sort=False).min()
    return data.assign(
        counted=marks.where(data["dataset"] == AVERAGE, ""),
        drawn=data["contrast"].isin(smallest_p.sort_values(kind="stable").index[:_MOST]),
        sentences=" ".join(dataset_sentences(assessment, finding.id)),
    )[_COLUMNS]


def _has_forest(finding: Finding) -> bool:
    """Return whether a finding compares scores, not only spreads."""
    return any(isinstance(one, Contrast) for one in comparisons(finding.body))


def _on_one_task(assessment: Assessment, finding: str) -> pd.DataFrame:
    """Return each comparison on the datasets of its task; of a contrast and its reverse the one that holds better."""
    effects = assessment.effects_by_dataset(finding)
    if effects.empty:
        return effects
    averages = effects[effects["role"] == "average"]
    pairs = averages.groupby(averages["comparison"].map(_pair), sort=False)
    labels = averages.loc[pairs["p_for"].idxmin(), "label"]
    known = effects[(effects["role"] != "without") & (effects["missing"] == "")]
    shown: pd.DataFrame = pd.concat([known[known["label"] == label] for label in labels])
    return shown.assign(contrast=shown["label"])


def _pair(contrast: Contrast) -> str:
    """Return what a contrast and its reverse have in common; a claimed range has no reverse."""
    terms = sorted(f"{' '.join(term.cell)} {abs(term.weight)}" for term in contrast.terms)
    return "; ".join([*terms, *([f"{contrast.label} {contrast.region}"] if contrast.is_range else [])])


def _across_tasks(assessment: Assessment, finding: str) -> pd.DataFrame:
    """Return each contrast across tasks, on every pair of their datasets and on the tasks' averages."""
    known = known_of(of_finding(assessment.frame_by_dataset, finding))
    known = known.loc[[isinstance(comparison, Contrast) for comparison in known["comparison"]]]
    if known.empty:
        return known
    words = known["label"].str.partition(" [")  # a label ends in its datasets, in brackets
    known = known.assign(contrast=words[0], dataset=words[2].str.rstrip("]"))
    averages = known_of(of_finding(assessment.frame, finding))
    averages = averages.assign(contrast=averages["label"], dataset=AVERAGE)
    # Heterogeneity is that of one task's datasets.
    known = pd.concat([known, averages]).assign(q=math.nan, q_p=math.nan, i_squared=math.nan)
    grouped: pd.DataFrame = pd.concat([rows for _, rows in known.groupby("contrast", sort=False)])
    return grouped


@dataclass(frozen=True, kw_only=True)
class _Contrast:
    """A contrast on every dataset: a title and a row for each."""

    words: tuple[str, ...]
    """What is compared, where it is, and what is claimed of it."""
    task: str
    """The task that it is about; of two the last, of a mean over all of them empty."""
    rows: pd.DataFrame

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Contrast:
        """Return the contrast of these rows of the data."""
        label, claimed = str(rows["contrast"].iloc[0]), str(rows["claimed"].iloc[0])
        task = ""
        if gap := re.search(r"gap on \w+ - gap on (\w+)", label):
            task = gap[1]
        elif on_task := re.search(rf"(?:,? on|,) ({'|'.join(TASKS)})\b", label):
            task = on_task[1]
            label = label.replace(on_task[0], "", 1)  # the column's title says it
        first, *rest = label.split(", ")
        words = [f"-({first})" if claimed == "< 0" else first, *rest]
        words += [] if claimed in ("> 0", "< 0") else [f"claimed {claimed}"]
        return cls(words=tuple(word.replace("-", "\u2212") for word in words), task=task, rows=rows)


def _columns(contrasts: Sequence[_Contrast]) -> list[tuple[str, list[_Contrast]]]:
    """Return the contrasts by task, each task a column; of one task a column each."""
    tasks = sorted({one.task for one in contrasts}, key=["", *TASKS].index)
    if len(tasks) == 1 and 1 < len(contrasts) <= len(TASKS):
        return [(tasks[0], [one]) for one in contrasts]
    return [(task, [one for one in contrasts if one.task == task]) for task in tasks]


def _draw_contrast(ax: Axes, row: float, rows: pd.DataFrame) -> None:
    """Draw a contrast on its datasets from that row of the axes on, over the region that is claimed."""
    first, last = ax.get_xlim()
    ends = max(rows["region_low"].iloc[0], first), min(rows["region_high"].iloc[0], last)
    ax.fill_betweenx([row - 0.5, row + len(rows) - 0.5], *ends, color=LIGHT, linewidth=0)
    numbered = rows.assign(number=rows.index)
    drawn = records(numbered, "number", "dataset", "effect", "low", "high", "says", "counted")
    for place, (number, dataset, effect, low, high, says, counted) in enumerate(drawn):
        color, (marker, size) = VERDICT[says], _MARKS[dataset == AVERAGE]
        ax.plot([low, high], [row + place] * 2, color=color, linewidth=1.2)
        ax.plot([effect], [row + place], marker=marker, markersize=size, markeredgecolor=color,
                markerfacecolor=color if counted in _COUNTS else WHITE, linestyle="none", zorder=3,
                gid=point_id(number))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Forest(FigureSpec):
    """The contrasts of a finding by dataset."""

    of: Finding

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        return forest_data(inputs, self.of)

    def details(self, inputs: FigureInputs) -> str:
        return details(inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        main = main_of(of_finding(inputs.assessment.frame, self.of.id))
        return f"{self.title}: {counted_verdict(main)}"

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Draw the contrasts below each other, in a column for each task, with their datasets' names to the left."""
        drawn = signed(data[data["drawn"]])  # right supports
        contrasts = [_Contrast.of(rows) for _, rows in drawn.groupby("contrast", sort=False)]
        columns = _columns(contrasts)
        # What all contrasts say stands once above the columns, the rest above each: a row more where there is any.
        common = set.intersection(*(set(contrast.words) for contrast in contrasts))
        title_rows = int(any(not common.issuperset(contrast.words) for contrast in contrasts))
        height = _ROW * max(
            sum(len(contrast.rows) + title_rows + _APART for contrast in stack) for _, stack in columns
        )
        shown = pd.concat([contrast.rows for contrast in contrasts])
        ends = shown[["effect", "low", "high"]].to_numpy(dtype=float)
        names_width = max(inches(title_of(name), bold=name == AVERAGE) for name in shown["dataset"]) + _PAD
        column_width = (WIDTH - 2 * _EDGE - _GAP * (len(columns) - 1)) / len(columns)
        sheet = Sheet(caption, body=_HEAD + height, below=_TICKS + 0.1)
        top = sheet.foot + height
        axis_width = column_width - names_width - 0.07
        shared = ", ".join(word for word in contrasts[0].words if word in common)
        sheet.text(_EDGE, top + 0.3, f"{shared or 'Differences'} ({data['unit'].iloc[0]})", color=GREY)
        for column, (task, stack) in enumerate(columns):
            left = _EDGE + column * (column_width + _GAP)
            row = 0.0
            task_title = TASKS[task].title if task else "All tasks"
            sheet.text(left, top + 0.09, task_title, fontsize=TITLE_SIZE, fontweight="bold")
            ax = sheet.axes(left + names_width, sheet.foot, axis_width, height)
            ax.set_ylim(height / _ROW - 0.5, -0.5)
            bend(ax, float(np.nanmin(ends)), float(np.nanmax(ends)), axis_width)
            ax.grid(axis="x", color=LIGHT)
            ax.axvline(0, color=INK, linewidth=0.8)
            for contrast in stack:
                title = ", ".join(word for word in contrast.words if word not in common)
                lines = [title] * title_rows + [title_of(name) for name in contrast.rows["dataset"]]
                _draw_contrast(ax, row + title_rows, contrast.rows)
                for line, text in enumerate(lines):
                    bold = text in (title, title_of(AVERAGE))
                    sheet.text(left, top - _ROW * (row + line + 0.5), text, va="center",
                               fontweight="bold" if bold else "normal",
                               bbox={"color": WHITE, "pad": 0.3} if title_rows and not line else None)  # fmt: skip
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
            q, p, share = first["q"], format_p(first["q_p"]), 100 * first["i_squared"]
            spread = "" if math.isnan(q) else f"; Q {q:.1f} (p {p}), I\u00b2 {share:.0f}\u00a0%"
            parts.append(f"{label} (claimed {first['claimed']}): {each}{spread}.")
        return (
            f"Forest plot of {data['id'].iloc[0]} by dataset. {' '.join(parts)} {data['sentences'].iloc[0]}"
        )


FIGURES = tuple(
    _Forest(
        name=f"forest-{finding.id.lower()}",
        title=f"{finding.id}, {finding.short}",
        of=finding,
        supplementary=True,
        note="Right supports the finding. Diamonds: averages, filled where the verdict counts them as holding or "
        "failing; circles: datasets. Green holds, red fails on its own. Shaded: what is claimed. Axis bent.",
    )
    for finding in FINDINGS.values()
)
"""A figure for each finding."""
