"""The simulated coverages, by dataset and by shape, as text, Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from analysis.precision import coverage
from analysis.precision.shapes import SHAPES
from analysis.statistics.estimates import LEVEL
from benchmarks.protocol import AVERAGE, DATASETS, Dataset, title_of
from common.tables import Document, Grid

__all__ = ["coverage_document", "shapes_document"]

_TITLES = {
    "seeds": "The mean over seeds on these test instances:",
    "seeds and instances": "The mean over seeds and test instances:",
}


def coverage_document(
    frame: pd.DataFrame, trials: int, source: str, datasets: Mapping[str, Dataset] = DATASETS
) -> Document:
    """Return the coverages of `simulate` as two tables, one a target, in percent; `source` is that of the variances."""
    error = (LEVEL * (1 - LEVEL) / trials) ** 0.5
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals of five-seed cells, variances from {source}; "
        f"{trials} trials a dataset (standard error {100 * error:.1f}).",
    ]
    for target in coverage.TARGETS:
        part = frame[frame["target"] == target]
        rows = [["dataset", "test set", "sd seeds", "sd test set", *coverage.KINDS]]
        for row in part.to_dict("records"):
            single = row["dataset"] != AVERAGE
            rows.append(
                [
                    title_of(row["dataset"], datasets) if single else "mean",
                    f"{int(row['n_test'])}" if single else "",
                    f"{row['seed_sd']:.2f}" if single else "",
                    f"{row['instance_sd']:.2f}" if single else "",
                    *(f"{100 * row[kind]:.1f}" for kind in coverage.KINDS),
                ]
            )
        body += ["", _TITLES[target], "", Grid(rows)]
    return Document(body=body, records=frame, digits="%.6g")


def shapes_document(frame: pd.DataFrame, trials: int) -> Document:
    """Return a table of the coverages of `simulate_shapes` for each shape, and one of widths for normal seeds."""
    error = (LEVEL * (1 - LEVEL) / trials) ** 0.5
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals over seeds; {trials:,} cells each (standard error "
        f"{100 * error:.1f}). In parentheses: too few seeds, so the value is that of its stand-in."
    ]
    for name in dict.fromkeys(frame["shape"]):
        part = frame[(frame["shape"] == name) & frame["width"].notna()]
        body += ["", f"{name}: {SHAPES[name].words}.", "", Grid(_rows(part, _coverage))]
    part = frame[frame["width"].isna()]
    body += ["", "Intervals over seeds and test instances, normal seeds: the mean over both.", ""]
    body.append(Grid(_rows(part, _coverage)))
    part = frame[(frame["shape"] == "normal") & frame["width"].notna()]
    body += [
        "",
        "Median width over that of t, normal seeds; after the slash the mean width over that of t.",
        "",
    ]
    body.append(Grid(_rows(part, lambda row: f"{row['width']:.2f}/{row['mean_width']:.2f}")))
    return Document(body=body, records=frame, digits="%.6g")


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
