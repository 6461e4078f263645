"""All findings against one source, analysed in one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property

from analysis.claims.by_dataset import (
    DatasetEffects,
    effects_by_dataset,
    finding_by_dataset,
)
from analysis.claims.catalogue import FINDINGS, STATEMENTS
from analysis.claims.judged import JudgedFinding, judge
from analysis.claims.verdicts import ResultOf
from analysis.claims.wording import how_tested
from analysis.evidence.settings import Settings
from analysis.sources import Source

SPLIT = 25
"""The percentage of CLM of the answer: the paper's best split."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What one source, analysed in one way, says about every finding."""

    source: Source
    settings: Settings
    result_of: ResultOf = field(repr=False)
    """What the source says about a comparison."""

    @cached_property
    def judged(self) -> dict[str, JudgedFinding]:
        """What answers the paper's question, and the findings, by id."""
        return judge(STATEMENTS.values(), self.result_of)

    @cached_property
    def judged_by_dataset(self) -> dict[str, JudgedFinding]:
        """The same with a part for each dataset that the source has, in place of a part for a task."""
        by_dataset = [
            finding_by_dataset(finding, self.source.datasets_of)
            for finding in STATEMENTS.values()
        ]
        return judge(by_dataset, self.result_of)

    @cached_property
    def effects_by_dataset(self) -> Callable[[str], list[DatasetEffects]]:
        """A function from a finding's id to its comparisons on each dataset (`analysis.claims.by_dataset`).

        It remembers what it has computed, since several sentences are about the same effects.
        """

        def effects_of(finding: str) -> list[DatasetEffects]:
            statement = STATEMENTS[finding]
            return effects_by_dataset(
                statement, self.result_of, self.source.datasets_of
            )

        return cache(effects_of)

    @property
    def tests(self) -> tuple[str, str, str]:
        """Three sentences on how findings were tested.

        1. Which test was used, and how often its interval covered the truth in simulations.
        2. Which other scores the results are about: other seeds, test instances or pretrainings.
        3. Which findings the p's are adjusted over.
        """
        tested = [
            result
            for finding in FINDINGS
            for result in self.judged[finding].known_comparisons
        ]
        return how_tested(self.source, self.settings.interval, tested)


def assess(source: Source, settings: Settings) -> Assessment:
    """Return every finding as judged by a source; the verdicts are computed when they are first read.

    Args:
        source: published cells or runs.
        settings: `interval` chooses the test (see `analysis.evidence.intervals`).

    Raises:
        UserError: a selection rule or interval that the source cannot give.
    """
    # Where the settings name no interval, the usual one of the source is taken.
    settings = source.with_interval(settings)
    return Assessment(
        source=source,
        settings=settings,
        # Findings share comparisons; the cache computes each comparison once.
        result_of=cache(source.evidence(settings).result),
    )
