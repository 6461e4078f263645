"""Figure 1: the two result panels of the overview, sequence classification at 610M (Tables 10 and 14).

Above each panel stand the schedules that it compares, as bars.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from analysis.records import records
from benchmarks.protocol import TASKS
from paper_figures.drawing.marks import (
    draw_groups,
    draw_lines,
    score_bounds,
    write_names,
)
from paper_figures.drawing.page import Panel, make_page
from paper_figures.drawing.style import RAMP_PURPLE, looks_of
from paper_figures.figure import FigureInputs, FigureSpec
from paper_figures.figures.figures2_11 import (
    BASE_AND_CPT,
    BUDGET,
    STARTS,
    at_610m,
    before_and_after,
)
from paper_figures.figures.task_figures import (
    AxisPosition,
    collect,
    continued_only,
    describe_points,
    expected_points,
    refuse_empty,
)
from pretraining.models import Model
from pretraining.paper_models import FIGURE_MODELS

_SHARE, _CPT = "SC: CLM share", "SC: CPT"
_UNIT = f"SC: {TASKS['SC'].metric} (%)"
_PANELS = (
    Panel(
        name=_SHARE,
        title="From scratch: CLM share of 42K steps (%)",
        unit=_UNIT,
        schedules=(
            ("MLM alone", (("MLM", 42),)),
            ("CLM, then MLM", (("CLM", 10.5), ("MLM", 31.5))),
        ),
    ),
    Panel(
        name=_CPT,
        title="Continued: 22K further steps of MLM",
        unit=_UNIT,
        schedules=(
            ("MLM start", (("MLM", 42), ("MLM (CPT)", 22))),
            ("CLM start", (("CLM", 42), ("MLM (CPT)", 22))),
        ),
    ),
)


def position_by_share(model: Model) -> AxisPosition | None:
    """Return the point of a model of the full budget by its share of CLM, as in Figure 6."""
    return at_610m(model) if model.steps == BUDGET else None


@dataclass(frozen=True, kw_only=True)
class _Overview(FigureSpec):
    """Accuracy against the share of CLM, and before and after CPT."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        shares = collect(self, position_by_share, inputs)
        starts = collect(self, before_and_after, inputs, others=True)
        cpt = continued_only(starts, STARTS, inputs.source.study_models)
        parts = []
        for panel, rows in ((_SHARE, shares), (_CPT, cpt)):
            of_task = rows[rows["panel"] == "SC"]
            if len(of_task):
                parts.append(of_task.assign(panel=panel))
        # Without any part, an empty frame that still has the columns which `refuse_empty` reads.
        data = pd.concat(parts, ignore_index=True) if parts else shares[:0]
        return refuse_empty(self, data, inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return by how much 25 % CLM and the CLM start are above MLM on accuracy."""
        means = {}
        for panel, series, x, mean in records(data, "panel", "series", "x", "mean"):
            means[panel, series, x] = mean
        mixed, mlm_alone = (_SHARE, "42K steps", 25.0), (_SHARE, "42K steps", 0.0)
        clm_start, mlm_start = (_CPT, "CLM start", "CPT"), (_CPT, "MLM start", "CPT")
        pairs = {
            "25 % CLM minus MLM alone": (mixed, mlm_alone),
            "CLM start minus MLM start": (clm_start, mlm_start),
        }
        parts = []
        for name, (first, second) in pairs.items():
            # A source may have only one of the two comparisons.
            if first in means and second in means:
                gap = means[first] - means[second]
                parts.append(f"{name}: {gap:+.2f} points")
        return "; ".join(parts).replace("-", "\u2212")

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        shares = data[data["panel"] == _SHARE]
        cpt = data[data["panel"] == _CPT]
        line = looks_of(shares["series"], {"42K steps": RAMP_PURPLE[-1]})
        look = looks_of(cpt["series"], STARTS) or STARTS
        drawing, axes = make_page(
            heading=heading,
            panels=_PANELS,
            x_label="",
            caption=caption,
            look=look,
            gap=1.0,
            named=1,
        )
        # Both panels show one metric: with one range their values align.
        bounds = score_bounds(data)
        expected = expected_points(self.models, position_by_share)
        draw_lines(axes[_SHARE], shares, line, expected=expected, bounds=bounds)
        draw_groups(axes[_CPT], cpt, look, groups=BASE_AND_CPT, bounds=bounds)
        for panel, rows, looks in ((_SHARE, shares, line), (_CPT, cpt, look)):
            if len(rows) and len(looks) > 1:
                write_names(axes[panel], rows, looks)
        return drawing

    def describe(self, data: pd.DataFrame) -> str:
        shares = data[data["panel"] == _SHARE]
        cpt = data[data["panel"] == _CPT]
        line = "A line against the share of CLM in 42K steps"
        parts = (
            "Two panels of accuracy (%) on sequence classification.",
            describe_points(shares, "{:g} % CLM", panel=line),
            describe_points(cpt, "{}", panel="Points before and after CPT"),
        )
        return " ".join(filter(None, parts))


FIGURES = (
    _Overview(
        name="1",
        title="MLM with and without CLM before it, on sequence classification",
        models=FIGURE_MODELS[1],
        tables="Tables 10 and 14",
        note="610M, masking ratio 40 %.",
    ),
)
