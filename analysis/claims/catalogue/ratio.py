"""Claims about the masking ratio."""

from __future__ import annotations

import itertools
import math

from analysis.claims.catalogue.terms import ALL, FULL, SIZES
from analysis.claims.statements import AtLeast, Claim, all_of, any_of, difference, weighted
from pretraining.study import RATIOS

__all__ = ["CLAIMS"]


def _slope(size: str, task: str, sign: float = 1.0) -> list[tuple[float, str, str]]:
    """Least-squares slope on the ratio, in points for 10 percentage points of masking."""
    middle = sum(RATIOS) / len(RATIOS)
    squares = sum((ratio - middle) ** 2 for ratio in RATIOS)
    return [(sign * 10 * (ratio - middle) / squares, f"{size}-mlm{ratio}-{FULL}", task) for ratio in RATIOS]


def _curvature(size: str, task: str) -> list[tuple[float, str, str]]:
    """Least-squares quadratic coefficient: points for the square of 10 percentage points of masking."""
    weights = (0.25, -0.25, -0.25, 0.25)
    return [(w, f"{size}-mlm{ratio}-{FULL}", task) for w, ratio in zip(weights, RATIOS, strict=True)]


def _some_ratio_beaten() -> AtLeast:
    """For every ratio there is a size and a task at which another ratio is better."""
    return all_of(
        "every masking ratio is beaten somewhere",
        [
            any_of(
                f"{ratio} % is beaten at some size and task",
                [
                    difference(
                        f"{other} % - {ratio} % on {task}, {size}",
                        f"{size}-mlm{other}-{FULL}",
                        f"{size}-mlm{ratio}-{FULL}",
                        task,
                    )
                    for size in SIZES
                    for task in ALL
                    for other in RATIOS
                    if other != ratio
                ],
            )
            for ratio in RATIOS
        ],
    )


_SLOPE = "points per 10 % masking"


_BEND = "points per (10 % masking)^2"


CLAIMS = (
    Claim(
        id="F5a",
        short="no ratio is best everywhere",
        statement="No masking ratio is best at every size and on every task.",
        where="Figure 3",
        family="ratio",
        body=_some_ratio_beaten(),
        remark="For every ratio one size and task is sought where another ratio is better; each search is "
        "over 36 comparisons and pays for all of them.",
    ),
    Claim(
        id="F5b",
        short="larger models prefer higher ratios",
        statement="Larger models prefer higher masking ratios: the slope of the score on the ratio increases "
        "with size.",
        where="Figure 3",
        family="ratio",
        body=all_of(
            "the slope increases with size",
            [
                weighted(
                    f"slope on {task}, {large} - {small}",
                    [*_slope(large, task), *_slope(small, task, -1.0)],
                    unit=_SLOPE,
                )
                for task in ALL
                for small, large in itertools.pairwise(SIZES)
            ],
        ),
        reported=tuple(
            weighted(
                f"slope on {task}, {SIZES[-1]} - {SIZES[0]}",
                [*_slope(SIZES[-1], task), *_slope(SIZES[0], task, -1.0)],
                unit=_SLOPE,
            )
            for task in ALL
        ),
        remark="Read for each task; the reported contrasts compare the largest with the smallest size only.",
    ),
    Claim(
        id="F5c",
        short="IR prefers higher ratios",
        statement="Retrieval prefers higher masking ratios at every size.",
        where="Figure 3, Table 5",
        family="ratio",
        body=all_of(
            "the slope on IR is positive",
            [weighted(f"slope on IR, {size}", _slope(size, "IR"), unit=_SLOPE) for size in SIZES],
        ),
    ),
    Claim(
        id="F5d",
        short="small models prefer lower ratios on TC, QA",
        statement="Small models prefer lower masking ratios on token classification and question answering.",
        where="Figure 3",
        family="ratio",
        body=all_of(
            "the slope at 210m is negative",
            [
                weighted(f"slope on {task}, 210m", _slope("210m", task), low=-math.inf, high=0.0, unit=_SLOPE)
                for task in ("TC", "QA")
            ],
        ),
    ),
    Claim(
        id="F5e",
        short="610M and 1B are U-shaped",
        statement="At 610M and 1B the score is U-shaped in the masking ratio.",
        where="Figure 3",
        family="ratio",
        body=all_of(
            "the quadratic term is positive",
            [
                weighted(f"curvature on {task}, {size}", _curvature(size, task), unit=_BEND)
                for size in ("610m", "1b")
                for task in ALL
            ],
        ),
        remark="A positive quadratic term over four ratios; with the vertex inside the range it is a U.",
    ),
)
