"""What a source says about one contrast or ratio of spreads."""

from __future__ import annotations

from dataclasses import dataclass, field

from analysis.evidence.contrasts import Comparison, Contrast
from analysis.statistics.estimates import Estimate, Student
from analysis.statistics.inference import region_p

__all__ = ["Finding", "contrast_finding"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a source says about one contrast or spread."""

    comparison: Comparison
    effect: float = float("nan")
    low: float = float("nan")
    """Of the 95 % interval."""
    high: float = float("nan")
    inner_low: float = float("nan")
    """Of the 90 % interval, which goes with two one-sided tests."""
    inner_high: float = float("nan")
    p_for: float = 1.0
    p_against: float = 1.0
    p_zero: float = float("nan")
    """Two-sided p of "no difference" (for a spread: of the Brown-Forsythe test)."""
    df: float = float("nan")
    error: float = float("nan")
    """Standard error."""
    seeds: tuple[int, ...] = ()
    """Seeds used: how many, once when all scores have the same, else for each score."""
    within_seeds: bool = False
    """Whether the contrast was taken within each of `seeds`."""
    test: str = ""
    """The test, in words."""
    interval: str = ""
    """Kind of the interval; one of `intervals.INTERVALS`, empty for what has a kind of its own."""
    inputs: tuple[str, ...] = field(default=())
    """The numbers that enter, one line a score."""
    missing: str = ""
    """Why the source does not decide it; empty when it does."""
    instance_share: float = 0.0
    """Share of the squared error that comes from the test instances."""

    @property
    def known(self) -> bool:
        """Whether the source decides anything."""
        return not self.missing

    @property
    def outside(self) -> bool:
        """Whether the 95 % interval is wholly outside the claimed region."""
        low, high = self.comparison.ends
        return self.known and (self.high < low or self.low > high)


def contrast_finding(
    comparison: Contrast,
    estimate: Estimate,
    *,
    test: str,
    inputs: tuple[str, ...],
    seeds: tuple[int, ...],
    interval: str = "",
    within_seeds: bool = False,
) -> Finding:
    """Return the finding of an estimated contrast."""
    p_for, p_against = region_p(estimate, comparison.low, comparison.high)
    low, high = estimate.interval()
    inner_low, inner_high = estimate.interval(0.90)
    return Finding(
        comparison=comparison, effect=estimate.effect, low=low, high=high, inner_low=inner_low, inner_high=inner_high,
        p_for=p_for, p_against=p_against,
        p_zero=min(1.0, 2 * min(estimate.p_above(0.0), estimate.p_below(0.0))),
        df=estimate.df, error=estimate.error, seeds=seeds if len(set(seeds)) > 1 else seeds[:1], test=test,
        interval=interval, within_seeds=within_seeds, inputs=inputs,
        instance_share=estimate.instance_share if isinstance(estimate, Student) else 0.0,
    )  # fmt: skip
