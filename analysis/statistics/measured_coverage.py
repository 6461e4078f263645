"""The measured coverage of each interval, for captions: `analysis/data/interval_coverage.csv`.

    clm-or-mlm coverage --shapes --trials 23000 --format csv --out analysis/data/interval_coverage.csv

makes the file again (docs/intervals.md).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

__all__ = ["COVERAGE_FILE", "ENOUGH", "SHOWN_SHAPES", "coverage_words", "measured_coverage", "too_narrow"]

COVERAGE_FILE = "interval_coverage.csv"
SHOWN_SHAPES = {"normal": "of the time", "collapse": "if one seed in ten collapses"}
"""The shapes whose coverage captions say, and how."""
ENOUGH = 0.94
"""Coverage with normal seeds below which a nominal 95 % interval is known to be too narrow."""


@cache
def _table() -> dict[tuple[str, str, int], float]:
    path = resources.files("analysis") / "data" / COVERAGE_FILE
    with path.open(encoding="utf-8") as file:
        return {
            (row["interval"], row["shape"], int(row["n_seeds"])): float(row["coverage"])
            for row in csv.DictReader(file)
        }


def measured_coverage(interval: str, shape: str, n_seeds: int) -> tuple[float, int] | None:
    """Return the coverage (0 to 1) and the seeds it was simulated with: as many, or the next fewer number.

    None: nothing was simulated for that interval, or not with so few seeds.
    """
    known = [seeds for name, of, seeds in _table() if (name, of) == (interval, shape) and seeds <= n_seeds]
    if not known:
        return None
    return _table()[interval, shape, max(known)], max(known)


def too_narrow(interval: str, n_seeds: int) -> str:
    """Return `covers 84 %` of an interval that holds the mean of so many normal seeds too seldom, else nothing."""
    known = measured_coverage(interval, "normal", n_seeds)
    return f"covers {100 * known[0]:.0f} %" if known is not None and known[0] < ENOUGH else ""


def coverage_words(interval: str, n_seeds: int) -> str:
    """Return `covers the true mean 95 % of the time in simulations (...)`, or nothing if not known."""
    found = {words: measured_coverage(interval, shape, n_seeds) for shape, words in SHOWN_SHAPES.items()}
    known = {words: one for words, one in found.items() if one is not None}
    if not known:
        return ""
    seeds = next(iter(known.values()))[1]
    first, *others = (f"{100 * share:.0f} % {words}" for words, (share, _) in known.items())
    more = f" ({', '.join(others)})" if others else ""
    return f"covers the true mean {first} in simulations with {seeds} seeds{more}"
