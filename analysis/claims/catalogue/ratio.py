"""Findings about the masking ratio: the share of tokens that MLM masks, 20 to 50 %.

"Prefers higher ratios" is read as a slope: how much the score rises with the ratio, by least squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np

from analysis.claims.catalogue.terms import BELOW, FULL, SIZES
from analysis.claims.statements import (
    AtLeast,
    Finding,
    all_of,
    any_of,
    both_of,
    difference,
    mean_of,
    weighted,
)
from benchmarks.protocol import TASKS
from pretraining.paper_models import RATIOS


def _slope_terms(
    size: str,
    task: str,
    sign: float = 1.0,
    *,
    ratios: Sequence[int] = RATIOS,
    degree: int = 1,
    at: float = 0.0,
) -> list[tuple[float, str, str]]:
    """Return the terms (weight, model, task) whose sum is a slope, in points per 10 % of masking.

    A polynomial is fitted to the scores at several ratios by least squares. Its slope is a weighted sum of the scores,
    whose weights depend on the ratios alone.

    Args:
        size: size of the models.
        task: the task whose averages are the scores.
        sign: factor of every weight: -1 subtracts the slope.
        ratios: masking ratios in per cent.
        degree: degree of the polynomial: 1 a line, 2 a parabola.
        at: the ratio at which the slope is taken; a line has the same slope everywhere.
    """
    # The pseudo-inverse has a row for each coefficient, from the highest power of x down, which says how the
    # coefficient depends on the scores. The last row is the constant's, which has no slope.
    powers = np.arange(degree, 0, -1)
    # x is the ratio in tens of per cent, so that a slope is in points per 10 %.
    tenths = np.array(ratios) / 10
    coefficients = np.linalg.pinv(np.vander(tenths, degree + 1))[:-1]

    # The derivative of x**power at the ratio `at`, for each power.
    derivatives = powers * (at / 10) ** (powers - 1)
    # The slope is the sum of the derivatives, each times its coefficient; (n_ratios,), a weight for each
    # score.
    weights = sign * (derivatives @ coefficients)
    terms = []
    for weight, ratio in zip(weights, ratios, strict=True):
        # Rounded, since the weight of a ratio in the middle is 0 but for binary arithmetic.
        terms.append((float(round(weight, 12)), f"{size}-mlm{ratio}-{FULL}", task))

    return terms


_slopes = partial(weighted, unit="points per 10 % masking")
"""Return the contrast that is the sum of the terms of slopes, which `_slope_terms` gives."""


def _two_lines(size: str, task: str) -> AtLeast:
    """Return the statement that Simonsohn's two-lines test of a U makes, with a break at either inner ratio.

    The score falls along a line up to the break, and rises along another line from there on.
    """
    u_shapes = []
    # With four ratios a line has two or three points; with a break at an outer ratio one line would have one point.
    for place, ratio in enumerate(RATIOS[1:-1], start=1):
        where = f"slope on {task}, {size}, break at {ratio} %"
        # The break belongs to both lines.
        terms_before = _slope_terms(size, task, ratios=RATIOS[: place + 1])
        terms_after = _slope_terms(size, task, ratios=RATIOS[place:])
        falls = _slopes(f"{where}: before", terms_before, **BELOW)
        rises = _slopes(f"{where}: after", terms_after)
        label = f"falls to {ratio} % and rises from there on {task}, {size}"
        u_shapes.append(both_of(label, falls, rises))

    return any_of(f"two lines on {task}, {size}", u_shapes)


def _some_ratio_beaten() -> AtLeast:
    """Return the statement that for every ratio there is a size and a task at which another ratio is better."""
    beaten = []
    for ratio in RATIOS:
        comparisons = []
        for size, task, other in itertools.product(SIZES, TASKS, RATIOS):
            if other != ratio:
                comparison = difference(
                    f"{other} % - {ratio} % on {task}, {size}",
                    f"{size}-mlm{other}-{FULL}",
                    f"{size}-mlm{ratio}-{FULL}",
                    task,
                )
                comparisons.append(comparison)

        # One of the 36 comparisons is enough; its p is corrected for all of them (Bonferroni).
        label = f"{ratio} % is beaten at some size and task"
        beaten.append(any_of(label, comparisons))

    return all_of("every masking ratio is beaten somewhere", beaten)


_SLOPES_BY_SIZE = [
    _slopes(
        f"slope on {task}, {large} - {small}",
        [*_slope_terms(large, task), *_slope_terms(small, task, -1.0)],
    )
    for task in TASKS
    for small, large in itertools.pairwise(SIZES)
]
"""On each task, the slope of a larger size minus that of the next smaller one."""


FINDINGS = (
    Finding(
        id="F5a",
        statement="No masking ratio is best at every size and on every task.",
        where="Figure 3",
        family="ratio",
        body=_some_ratio_beaten(),
        remark="p is adjusted for each ratio's 36 comparisons (3 sizes, 4 tasks, 3 other ratios).",
    ),
    Finding(
        id="F5b",
        statement="Larger models tend to prefer higher masking ratios: the slope of the score on the ratio increases "
        "with size.",
        where="Figure 3",
        family="ratio",
        body=mean_of(
            "mean change of the slope over tasks and steps of size", _SLOPES_BY_SIZE
        ),
        reported=(
            all_of(
                "the slope increases on every task, with every step of size",
                _SLOPES_BY_SIZE,
            ),
            *(
                _slopes(
                    f"slope on {task}, {SIZES[-1]} - {SIZES[0]}",
                    [
                        *_slope_terms(SIZES[-1], task),
                        *_slope_terms(SIZES[0], task, -1.0),
                    ],
                )
                for task in TASKS
            ),
        ),
        remark='We read "tend to" as a claim about the mean over tasks.',
    ),
    Finding(
        id="F5c",
        statement="Retrieval prefers higher masking ratios at every size.",
        where="Figure 3, Table 5",
        family="ratio",
        body=all_of(
            "the slope on IR is positive",
            [
                _slopes(f"slope on IR, {size}", _slope_terms(size, "IR"))
                for size in SIZES
            ],
        ),
    ),
    Finding(
        id="F5d",
        statement="Small models prefer lower masking ratios on token classification and question answering.",
        where="Figure 3",
        family="ratio",
        body=all_of(
            "the slope at 210m is negative",
            [
                _slopes(f"slope on {task}, 210m", _slope_terms("210m", task), **BELOW)
                for task in ("TC", "QA")
            ],
        ),
    ),
    Finding(
        id="F5e",
        statement="At 610M and 1B the score is U-shaped in the masking ratio.",
        where="Figure 3",
        family="ratio",
        body=all_of(
            "the score falls, then rises",
            [
                both_of(
                    f"U on {task}, {size}",
                    _slopes(
                        f"slope at {RATIOS[0]} % on {task}, {size}",
                        _slope_terms(size, task, degree=2, at=RATIOS[0]),
                        **BELOW,
                    ),
                    _slopes(
                        f"slope at {RATIOS[-1]} % on {task}, {size}",
                        _slope_terms(size, task, degree=2, at=RATIOS[-1]),
                    ),
                )
                for size in ("610m", "1b")
                for task in TASKS
            ],
        ),
        reported=(
            all_of(
                "Simonsohn's two lines: a fall to the break and a rise from it",
                [_two_lines(size, task) for size in ("610m", "1b") for task in TASKS],
            ),
        ),
        remark="Lind and Mehlum's test (2010): a parabola through the scores at the four ratios has to fall at the "
        "smallest ratio and rise at the largest; p is the larger of the two. Simonsohn's two-lines test (2018), with a "
        "break at either inner ratio, is outside the verdict.",
    ),
)
