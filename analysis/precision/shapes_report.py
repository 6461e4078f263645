"""The coverages by shape as text, Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from analysis.precision.shapes import SHAPES
from analysis.statistics.estimates import LEVEL
from common.tables import Document, Grid

__all__ = ["ShapesReport", "shapes_document"]


@dataclass(frozen=True, kw_only=True)
class ShapesReport:
    """Coverages by shape, and what they were simulated with."""

    frame: pd.DataFrame
    """As `analysis.precision.shapes.simulate_shapes` returns them."""
    trials: int
    """Simulated cells of each shape and number of seeds."""


def shapes_document(report: ShapesReport) -> Document:
    """Return a table of coverages for each shape, and one of widths for normal seeds."""
    error = (LEVEL * (1 - LEVEL) / report.trials) ** 0.5
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals over seeds; {report.trials:,} cells each (standard error "
        f"{100 * error:.1f}). In parentheses: too few seeds, so the value is that of its stand-in."
    ]
    for name in dict.fromkeys(report.frame["shape"]):
        part = report.frame[(report.frame["shape"] == name) & report.frame["width"].notna()]
        body += ["", f"{name}: {SHAPES[name].words}.", "", Grid(_rows(part, _coverage))]
    part = report.frame[report.frame["width"].isna()]
    body += ["", "Intervals over seeds and test instances, normal seeds: the mean over both.", ""]
    body.append(Grid(_rows(part, _coverage)))
    part = report.frame[(report.frame["shape"] == "normal") & report.frame["width"].notna()]
    body += [
        "",
        "Median width over that of t, normal seeds; after the slash the mean width over that of t.",
        "",
    ]
    body.append(Grid(_rows(part, lambda row: f"{row['width']:.2f}/{row['mean_width']:.2f}")))
    return Document(body=body, records=report.frame, digits="%.6g")


def _rows(part: pd.DataFrame, text: Callable[[dict[str, object]], str]) -> list[list[str]]:
    kinds = list(dict.fromkeys(part["interval"]))
    rows = [["seeds", *kinds]]
    for count, of_count in part.groupby("n_seeds"):
        by_kind = {
            row["interval"]: {str(k): v for k, v in row.items()} for row in of_count.to_dict("records")
        }
        rows.append([str(count), *(text(by_kind[kind]) for kind in kinds)])
    return rows


def _coverage(row: dict[str, object]) -> str:
    share = f"{100 * float(str(row['coverage'])):.1f}"
    return share if row["used"] == row["interval"] else f"({share})"
