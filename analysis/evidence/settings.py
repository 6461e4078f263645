"""How runs become scores, as options of the command line and in Python; imports no NumPy, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from cyclopts import Parameter

from analysis.evidence.intervals import DEFAULT_OF_RUNS, INTERVALS, Interval
from analysis.statistics.learning_rate_selection import SELECTIONS, Selection
from common.cli import shared_options
from common.errors import UserError
from common.level import LEVEL_IN_WORDS

RESAMPLES = 10_000
DEFAULT_SEED = 20250701
"""Seed of the resampling when none is given; the paper's first day on arXiv."""


@shared_options("from runs to scores")
@dataclass(frozen=True, kw_only=True)
class Settings:
    """How runs become scores; each field is also an option of the command line."""

    selection: Annotated[str, Parameter(choices=tuple(SELECTIONS))] = "seed"
    """how runs choose a learning rate (`help sources`)"""
    interval: Annotated[
        str, Parameter(choices=tuple(INTERVALS), show_default=False)
    ] = ""
    """kind of 95 % interval (`help sources`)"""
    resamples: int = RESAMPLES
    """number of bootstrap resamples"""
    seed: int = DEFAULT_SEED
    """random seed of the bootstrap"""

    def __post_init__(self) -> None:
        # Looked up only to refuse unknown names.
        _ = SELECTIONS[self.selection]
        _ = self.method
        # Of fewer than 100 resamples, 2.5 % at either end are two draws at most.
        if self.resamples < 100:
            raise UserError(
                f"{self.resamples} resamples are too few for a {LEVEL_IN_WORDS} interval; use at least 100"
            )
        if self.seed < 0:
            raise UserError(
                f"--seed {self.seed}: the seed must be 0 or a positive whole number"
            )

    @property
    def rule(self) -> Selection:
        """The selection rule."""
        return SELECTIONS[self.selection]

    @property
    def method(self) -> Interval:
        """The interval, or the default of runs where none is named."""
        return INTERVALS[self.interval] if self.interval else DEFAULT_OF_RUNS

    def options(self, usual: Settings) -> list[str]:
        """Return the command-line options of the settings that differ from the usual ones."""
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != getattr(usual, field.name):
                words += [f"--{field.name}", str(value)]
        return words
