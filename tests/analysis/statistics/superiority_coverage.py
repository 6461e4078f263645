"""Coverage of the interval of P(A > B) by simulation: python -m tests.analysis.statistics.superiority_coverage

Five seeds a model, 10,000 comparisons (standard error at most 0.002), all datasets with the same difference:

seeds                          datasets   0 sd   1 sd   2 sd   3 sd   4 sd
normal                                1  94.3%  95.6%  95.1%  95.3%  95.3%
normal                                3  94.6%  95.4%  97.1%  97.4%  96.5%
normal                               12  94.8%  95.3%  96.0%  97.2%  97.2%
Student's t, 3 df                     1  94.1%  96.3%  95.8%  92.9%  95.7%
Student's t, 3 df                     3  94.8%  94.6%  94.7%  95.5%  92.3%
Student's t, 3 df                    12  95.2%  95.1%  94.1%  95.5%  94.0%
gamma 2, to the left                  1  94.5%  95.5%  95.4%  93.2%  95.6%
gamma 2, to the left                  3  94.7%  95.6%  95.6%  95.3%  91.3%
gamma 2, to the left                 12  94.9%  95.1%  95.0%  95.3%  94.1%
one in ten collapses by 8 sd          1  94.1%  96.5%  95.4%  91.3%  92.3%
one in ten collapses by 8 sd          3  94.8%  94.4%  93.6%  94.5%  94.1%
one in ten collapses by 8 sd         12  95.0%  94.2%  94.2%  91.6%  91.2%
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from analysis.statistics.superiority import improvement_bounds

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


def main() -> None:
    """Print the table above."""
    print(f"{'seeds':30s} {'datasets':>8s}", *(f"{shift:g} sd".rjust(6) for shift in SHIFTS))
    for name, shape in SHAPES.items():
        for datasets in (1, 3, 12):
            rng = np.random.default_rng(20061231)
            found = [
                coverage(shape, shift, datasets=datasets, seeds=5, trials=10_000, rng=rng) for shift in SHIFTS
            ]
            print(f"{name:30s} {datasets:8d}", *(f"{share:6.1%}" for share in found))


if __name__ == "__main__":
    main()
