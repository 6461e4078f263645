"""The coverages by shape as text, Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from analysis.formats import Table, frame_csv, frame_json, text_formats
from analysis.precision.shapes import SHAPES
from analysis.statistics.interval_kinds import LEVEL
from common.text_tables import plain_table

__all__ = ["FORMATS", "ShapesReport", "shapes_text"]


@dataclass(frozen=True, kw_only=True)
class ShapesReport:
    """Coverages by shape, and what they were simulated with."""

    frame: pd.DataFrame
    """As `analysis.precision.shapes.simulate_shapes` returns them."""
    trials: int
    """Simulated cells of each shape and number of seeds."""


def shapes_text(report: ShapesReport, table: Table = plain_table) -> str:
    """Return a table of coverages for each shape, and one of widths for normal seeds."""
    error = (LEVEL * (1 - LEVEL) / report.trials) ** 0.5
    lines = [
        f"Coverage in % of nominal 95 % intervals over seeds; {report.trials:,} cells each (standard error "
        f"{100 * error:.1f}). In parentheses: too few seeds, so the value is that of its stand-in."
    ]
    for name in dict.fromkeys(report.frame["shape"]):
        part = report.frame[(report.frame["shape"] == name) & report.frame["width"].notna()]
        lines += ["", f"{name}: {SHAPES[name].words}.", "", *table(_grid(part, _coverage))]
    part = report.frame[report.frame["width"].isna()]
    lines += ["", "Intervals over seeds and test instances, normal seeds: the mean over both.", ""]
    lines += table(_grid(part, _coverage))
    part = report.frame[(report.frame["shape"] == "normal") & report.frame["width"].notna()]
    lines += [
        "",
        "Median width over that of t, normal seeds; after the slash the mean width over that of t.",
        "",
    ]
    lines += table(_grid(part, lambda row: f"{row['width']:.2f}/{row['mean_width']:.2f}"))
    return "\n".join(lines) + "\n"


def _grid(part: pd.DataFrame, text: Callable[[dict[str, object]], str]) -> list[list[str]]:
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


FORMATS = text_formats(
    shapes_text, csv=lambda report: frame_csv(report.frame), json=lambda report: frame_json(report.frame)
)
"""How coverages by shape are printed."""
