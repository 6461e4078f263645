"""How runs become scores: the selection rule, the interval, and the resampling behind it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from analysis.evidence.intervals import DEFAULT_OF_RUNS, INTERVALS, Interval
from analysis.statistics.learning_rate_selection import SELECTIONS, Selection
from analysis.statistics.resampling import Resampling
from common.errors import UserError

__all__ = ["DEFAULT_SEED", "RESAMPLES", "Settings"]

RESAMPLES = 10_000
DEFAULT_SEED = 20250701
"""Seed of the resampling when none is given; the paper's first day on arXiv."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How runs become scores."""

    selection: str = "seed"
    """Rule that chooses the learning rate; one of `learning_rate_selection.SELECTIONS`."""
    interval: str = ""
    """Kind of 95 % interval; one of `intervals.INTERVALS`, or empty for the default of the source, which for runs is
    `intervals.DEFAULT_OF_RUNS`."""
    resamples: int = RESAMPLES
    """Resamples of the bootstraps."""
    seed: int = DEFAULT_SEED
    """Seed of the bootstraps' generators."""

    def __post_init__(self) -> None:
        _ = self.rule, self.method  # refuses unknown names
        if self.resamples < 100:
            raise UserError(f"{self.resamples} resamples are too few for a 95 % interval; use at least 100")
        if self.seed < 0:
            raise UserError(f"--seed {self.seed}: the seed must be 0 or a positive whole number")

    @property
    def rule(self) -> Selection:
        """The selection rule."""
        return SELECTIONS[self.selection]

    @property
    def method(self) -> Interval:
        """The interval."""
        return INTERVALS[self.interval] if self.interval else DEFAULT_OF_RUNS

    def options(self, usual: Settings) -> list[str]:
        """Return the command-line options that turn the usual settings into these."""
        names = (one.name for one in fields(self) if getattr(self, one.name) != getattr(usual, one.name))
        return [word for name in names for word in (f"--{name}", str(getattr(self, name)))]

    @property
    def resampling(self) -> Resampling:
        """The resamples and their generators."""
        return Resampling(resamples=self.resamples, seed=self.seed)
