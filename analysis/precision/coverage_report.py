"""The simulated coverages as text, Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from analysis.precision import coverage
from analysis.statistics.estimates import LEVEL
from benchmarks.protocol import AVERAGE, DATASETS, Dataset, title_of
from common.tables import Document, Grid

__all__ = ["CoverageReport", "coverage_document"]

_TITLES = {
    "seeds": "The mean over seeds on these test instances:",
    "seeds and instances": "The mean over seeds and test instances:",
}


@dataclass(frozen=True, kw_only=True)
class CoverageReport:
    """Coverages, and what they were simulated with."""

    frame: pd.DataFrame
    """As `analysis.precision.coverage.simulate` returns them."""
    source: str
    """Where the variances come from."""
    trials: int
    """Simulated cells a dataset."""
    datasets: Mapping[str, Dataset] = field(default_factory=lambda: DATASETS, repr=False)
    """Those that are known."""


def coverage_document(report: CoverageReport) -> Document:
    """Return the coverages as two tables, one a target, in percent."""
    error = (LEVEL * (1 - LEVEL) / report.trials) ** 0.5
    body: list[str | Grid] = [
        f"Coverage in % of nominal 95 % intervals of five-seed cells, variances from {report.source}; "
        f"{report.trials} trials a dataset (standard error {100 * error:.1f}).",
    ]
    for target in coverage.TARGETS:
        part = report.frame[report.frame["target"] == target]
        rows = [["dataset", "test set", "sd seeds", "sd test set", *coverage.KINDS]]
        for row in part.to_dict("records"):
            single = row["dataset"] != AVERAGE
            rows.append(
                [
                    title_of(row["dataset"], report.datasets) if single else "mean",
                    f"{int(row['n_test'])}" if single else "",
                    f"{row['seed_sd']:.2f}" if single else "",
                    f"{row['instance_sd']:.2f}" if single else "",
                    *(f"{100 * row[kind]:.1f}" for kind in coverage.KINDS),
                ]
            )
        body += ["", _TITLES[target], "", Grid(rows)]
    return Document(body=body, records=report.frame, digits="%.6g")
