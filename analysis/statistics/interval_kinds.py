"""The kinds of 95 % interval of a mean over seeds.

An interval is added by registering an `Interval` here: scores, captions, claims, the multiverse and the coverage
simulation take it from the registry. Which to use, and what each one's true coverage is: docs/intervals.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scipy import special

from analysis.published_cells import NORMAL_QUANTILE
from analysis.statistics import bounds, estimates, studentised
from analysis.statistics.bounds import LEVEL, Bounds
from analysis.statistics.crossed import crossed_bounds, crossed_estimate
from analysis.statistics.estimates import Estimate, Student, paired_estimate
from analysis.statistics.interval import (
    INTERVALS,
    IndependentTest,
    Interval,
    PairedTest,
    Sample,
    caption_of,
)

__all__ = [
    "CROSSED", "DEFAULT_OF_CELLS", "DEFAULT_OF_RUNS", "DEFAULT_SEED", "HIERARCHICAL", "INTERVALS", "LEVEL", "PAPER",
    "RESAMPLES", "STUDENTISED", "WELCH", "IndependentTest", "Interval", "PairedTest", "Sample", "T",
    "caption_of",
]  # fmt: skip

RESAMPLES = 10_000
DEFAULT_SEED = 20250701
"""Seed of the resampling when none is given; the paper's first day on arXiv."""


def _normal(estimate: Student) -> Student:
    """Return the estimate with normal quantiles instead of Student's."""
    return replace(estimate, df=float("inf"))


def _paired_by_instance(sample: Sample) -> tuple[Student, str]:
    if sample.resampled is None and sample.known_covariance is None:
        return paired_estimate(sample.values), "paired by seed (instances missing)"
    return crossed_estimate(
        sample.values, sample.covariance, float(sample.freedom)
    ), "paired by seed and instance"


WELCH = IndependentTest(
    words="Welch's t tests", name="Welch from printed intervals", estimate=lambda welch: welch, interval="t"
)
"""The test of models that share no seeds, unless an interval has another."""
_BY_INSTANCE = PairedTest(
    words="Student's t on differences within seeds, with the error over seeds and test instances together",
    estimate=_paired_by_instance,
    interval="crossed",
)

PAPER = Interval(
    name="paper",
    words="95 % interval as the paper computes it (1.96 sd/\u221an)",
    bounds=lambda sample: bounds.normal_bounds(sample.values),
    printed_factor=lambda n_seeds: 1.0,
    paired=PairedTest(
        words="the normal distribution on differences within seeds",
        estimate=lambda sample: (_normal(paired_estimate(sample.values)), "paired by seed, normal"),
    ),
    independent=IndependentTest(
        words="normal tests",
        name="normal approximation from printed intervals",
        estimate=_normal,
        interval="paper",
    ),
)

T = Interval(
    name="t",
    words="95 % interval by Student's t",
    bounds=lambda sample: bounds.t_bounds(sample.values),
    printed_factor=lambda n_seeds: float(special.stdtrit(n_seeds - 1, 0.5 + LEVEL / 2)) / NORMAL_QUANTILE,
    paired=PairedTest(
        words="Student's t on differences within seeds",
        estimate=lambda sample: (paired_estimate(sample.values), "paired by seed, t"),
    ),
    independent=WELCH,
)


_LEAST_SEEDS = 4
"""Two or three seeds have 3 or 10 distinct resamples: too few for a tail of 2.5 %."""
_LEAST_STUDENTISED = 5
"""With four seeds its mean width is more than ten times that of Student's (docs/intervals.md)."""


def _over_seeds(
    name: str,
    kind: str,
    of: Callable[[Sample], Bounds],
    estimate: Callable[[Sample], Estimate],
    least_seeds: int = _LEAST_SEEDS,
) -> Interval:
    """Return a bootstrap over seeds, and the test by the same bootstrap of differences within seeds."""
    return Interval(
        name=name,
        words=f"95 % {kind} interval over seeds",
        bounds=lambda sample: of(sample) if sample.values.shape[-1] > 1 else bounds.t_bounds(sample.values),
        is_resampled=True,
        paired=PairedTest(
            words=f"a {kind} over seeds of differences within seeds",
            estimate=lambda sample: (estimate(sample), f"{kind} over paired seeds"),
        ),
        independent=WELCH,
        least_seeds=least_seeds,
        with_fewer=T,
    )


BOOTSTRAP = _over_seeds(
    "bootstrap",
    "percentile bootstrap",
    lambda sample: bounds.percentile_bounds(sample.means, sample.resamples),
    lambda sample: estimates.seed_bootstrap(sample.values, sample.means, sample.resamples),
)
BCA = _over_seeds(
    "bca",
    "BCa bootstrap",
    lambda sample: bounds.bca_bounds(sample.values, sample.means, sample.resamples),
    lambda sample: estimates.seed_bootstrap(sample.values, sample.means, sample.resamples, bca=True),
)
EXPANDED = _over_seeds(
    "expanded",
    "expanded percentile bootstrap",
    lambda sample: bounds.percentile_bounds(
        sample.means, sample.resamples, bounds.expanded_tail(sample.values.shape[-1])
    ),
    lambda sample: estimates.expanded_bootstrap(sample.values, sample.means, sample.resamples),
)
BOOTSTRAP_T = _over_seeds(
    "bootstrap-t",
    "bootstrap-t",
    lambda sample: studentised.equal_tailed_bounds(sample.values, sample.drawn, sample.resamples),
    lambda sample: estimates.studentised_estimate(
        sample.values, sample.drawn, sample.resamples, symmetric=False
    ),
)
STUDENTISED = _over_seeds(
    "studentised",
    "symmetric studentised bootstrap",
    lambda sample: studentised.symmetric_bounds(sample.values, sample.drawn, sample.resamples),
    lambda sample: estimates.studentised_estimate(
        sample.values, sample.drawn, sample.resamples, symmetric=True
    ),
    least_seeds=_LEAST_STUDENTISED,
)

CROSSED = Interval(
    name="crossed",
    words="95 % interval by Student's t, with the error over seeds and test instances together",
    bounds=lambda sample: crossed_bounds(
        sample.values, sample.covariance, sample.freedom, limits=sample.limits
    ),
    needs_instances=True,
    from_covariance=True,
    paired=_BY_INSTANCE,
    independent=WELCH,
)

HIERARCHICAL = Interval(
    name="hierarchical",
    words="95 % percentile bootstrap interval over seeds and test instances",
    bounds=lambda sample: bounds.hierarchical_bounds(sample.over_instances, sample.picks),
    is_resampled=True,
    needs_instances=True,
    paired=_BY_INSTANCE,
    independent=WELCH,
    least_seeds=_LEAST_SEEDS,
    with_fewer=CROSSED,
)

for _interval in (PAPER, T, BOOTSTRAP, BCA, EXPANDED, BOOTSTRAP_T, STUDENTISED, HIERARCHICAL, CROSSED):
    INTERVALS.register(_interval)

DEFAULT_OF_RUNS = STUDENTISED
"""The interval of runs unless another is named: at least 94 % for five normal seeds, and in no shape of the seeds that
was simulated below Student's t (docs/intervals.md)."""
DEFAULT_OF_CELLS = T
"""The interval of published cells unless another is named: the printed one with Student's quantile in place of 1.96."""
