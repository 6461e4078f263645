"""Coverage of the interval of P(A > B) by simulation, all datasets with the same difference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from analysis.statistics.inference import improvement_bounds

Array = npt.NDArray[np.float64]
Shape = Callable[[np.random.Generator, tuple[int, ...]], Array]

SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0)
"""Differences of the two models, in standard deviations of a seed."""
SHAPES: dict[str, Shape] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "Student's t, 3 df": lambda rng, size: rng.standard_t(3, size) / np.sqrt(3),
    "gamma 2, to the left": lambda rng, size: -rng.gamma(2, size=size) / np.sqrt(2),
    "one in ten collapses by 8 sd": lambda rng, size: rng.normal(size=size) - 8 * (rng.random(size) < 0.1),
}


def coverage(
    shape: Shape, shift: float, *, datasets: int, seeds: int, trials: int, rng: np.random.Generator
) -> float:
    """Return the share of comparisons whose interval holds the chance that a run of A is above one of B."""
    pairs = 1_000_000
    truth = float(np.mean(shape(rng, (pairs,)) + shift > shape(rng, (pairs,))))
    known: dict[float, tuple[float, float]] = {}
    held = 0
    for _ in range(trials):
        strata = list(zip(shape(rng, (datasets, seeds)) + shift, shape(rng, (datasets, seeds)), strict=True))
        share = float(np.mean([np.greater.outer(first, second).mean() for first, second in strata]))
        if share not in known:
            known[share] = improvement_bounds(strata)
        held += known[share][0] <= truth <= known[share][1]
    return held / trials
