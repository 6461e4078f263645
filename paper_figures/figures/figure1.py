"""Figure 1: the two result panels of the overview, sequence classification (SC) at 610M (Tables 10 and 14).

The first panel shows models from scratch by their share of CLM, the second models before and after continued
pretraining (CPT). Above each panel stand the pretrainings that it compares, as bars.
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
    collect_points,
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
    """Return the point of a model of the full budget at its share of CLM, as in Figure 6; None for other models."""
    return at_610m(model) if model.steps == BUDGET else None


@dataclass(frozen=True, kw_only=True)
class _Overview(FigureSpec):
    """Accuracy against the share of CLM, and before and after CPT."""

    def collect(self, inputs: FigureInputs) -> pd.DataFrame:
        """Return the rows of both panels; a model may be in both."""
        shares = collect_points(self, position_by_share, inputs)
        # An own model may continue a base model of the paper that is not in this figure: that one is drawn as well.
        base_and_cpt = collect_points(self, before_and_after, inputs, any_of_paper=True)
        cpt = continued_only(base_and_cpt, STARTS, inputs.source.study_models)
        parts = []
        for panel, rows in ((_SHARE, shares), (_CPT, cpt)):
            # `collect_points` returns all four tasks, each as a panel of its name.
            of_task = rows[rows["panel"] == "SC"]
            if len(of_task):
                parts.append(of_task.assign(panel=panel))

        # Without any part, an empty frame that still has the columns which `refuse_empty` reads.
        data = pd.concat(parts, ignore_index=True) if parts else shares[:0]
        return refuse_empty(self, data, inputs)

    def finding(self, data: pd.DataFrame, inputs: FigureInputs) -> str:
        """Return by how much 25 % CLM is above MLM alone, and the CLM start above the MLM start, in accuracy."""
        means = {}
        for panel, series, x, mean in records(data, "panel", "series", "x", "mean"):
            means[panel, series, x] = mean

        # Points, as (panel, series, x).
        mixed = (_SHARE, "42K steps", 25.0)
        mlm_alone = (_SHARE, "42K steps", 0.0)
        clm_start = (_CPT, "CLM start", "CPT")
        mlm_start = (_CPT, "MLM start", "CPT")
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

        # U+2212 is the minus sign.
        return "; ".join(parts).replace("-", "\u2212")

    def draw(self, data: pd.DataFrame, heading: str, caption: str) -> Figure:
        """Return the page of both panels."""
        shares = data[data["panel"] == _SHARE]
        cpt = data[data["panel"] == _CPT]
        # In Figure 6 the darkest look of the three budgets is that of 42K steps as well.
        looks_of_shares = looks_of(shares["series"], {"42K steps": RAMP_PURPLE[-1]})

        # Without a point, the panel has the paper's looks, so that the page is laid out as it is with points.
        looks_of_cpt = looks_of(cpt["series"], STARTS) or STARTS
        drawing, axes = make_page(
            heading=heading,
            panels=_PANELS,
            x_label="",
            caption=caption,
            look=looks_of_cpt,
            # Names of the second panel have their room right of it. Own models add series to the first panel, whose
            # names are written into the gap between the two.
            gap=1.0,
            named=1,
        )

        # Both panels show one metric: with one range their values align.
        bounds = score_bounds(data)
        expected = expected_points(self.models, position_by_share)
        draw_lines(
            axes[_SHARE], shares, looks_of_shares, expected=expected, bounds=bounds
        )
        draw_groups(axes[_CPT], cpt, looks_of_cpt, groups=BASE_AND_CPT, bounds=bounds)
        panels = ((_SHARE, shares, looks_of_shares), (_CPT, cpt, looks_of_cpt))
        for panel, rows, looks in panels:
            # The title of a panel of one series says what the series is.
            if len(rows) and len(looks) > 1:
                write_names(axes[panel], rows, looks)

        return drawing

    def describe(self, data: pd.DataFrame) -> str:
        """Return the sentences of the alt text on both panels; nothing on a panel without points."""
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
