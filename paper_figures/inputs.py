"""What figures are drawn from: a source of scores, how runs become scores, training logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import AVERAGE

if TYPE_CHECKING:
    from analysis.claims.assessment import Assessment
    from analysis.claims.verdicts import Verdict

__all__ = ["Inputs"]


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Where a figure's numbers come from."""

    source: Source
    """Scores, and the runs behind them where there are any."""
    settings: Settings = field(default_factory=Settings)
    """How runs become scores; without an interval the source's default."""
    logs: Path | None = None
    """Folder of training logs; Figure 12 reads it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", self.source.settled(self.settings))

    @property
    def name(self) -> str:
        """The source by its content (`Source.name`)."""
        return self.source.name

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts by claim, filled as figures need them for their titles."""
        return {}

    @cached_property
    def assessment(self) -> Assessment:
        """The claims judged against the source."""
        from analysis.claims.assessment import assess  # statistics that most figures do not need

        return assess(self.source, self.settings, second_opinion=False)

    @cached_property
    def averages(self) -> pd.DataFrame:
        """The task averages of the source's scores."""
        scores = self.source.scores(self.settings)
        return scores[scores["dataset"] == AVERAGE].assign(source=self.name)
