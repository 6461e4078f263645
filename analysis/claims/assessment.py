"""All findings against one source, analysed in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from analysis.claims.by_dataset import DatasetReading, read_by_dataset
from analysis.claims.catalogue import ANSWERS, FINDINGS
from analysis.claims.statements import Finding
from analysis.claims.verdicts import ResultOf, Verdict, judge
from analysis.claims.wording import how_tested
from analysis.evidence.evidence import Settings
from analysis.sources import Source

__all__ = ["SPLIT", "Assessment", "assess"]

SPLIT = 25
"""The percentage of CLM of the answer: the paper's best split."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What one source, analysed in one way, says about every finding."""

    source: Source
    settings: Settings
    result_of: ResultOf = field(repr=False)
    """What it says about a comparison."""
    verdicts: tuple[Verdict, ...]
    """One for each finding, in the catalogue's order."""

    @cached_property
    def answers(self) -> dict[int, Verdict]:
        """By percent of CLM, the verdict on the statement that answers the paper's question."""
        return dict(
            zip(ANSWERS, judge({one.id: one for one in ANSWERS.values()}, self.result_of), strict=True)
        )

    @property
    def rows(self) -> tuple[Verdict, ...]:
        """The verdict on the answer, and after it those on the findings."""
        return (self.answers[SPLIT], *self.verdicts)

    @cached_property
    def datasets(self) -> dict[str, DatasetReading]:
        """By id, each finding and answer read for each dataset instead of task averages."""
        return self.by_dataset({one.id: one for one in (*ANSWERS.values(), *FINDINGS.values())})

    def by_dataset(self, findings: Mapping[str, Finding]) -> dict[str, DatasetReading]:
        """Return findings read for each dataset that the source has."""
        return read_by_dataset(findings, self.result_of, self.source.datasets_of)

    @property
    def tests(self) -> tuple[str, str, str]:
        """How it was tested: the test with the interval's measured coverage, what it is about, multiplicity."""
        tested = (result for verdict in self.verdicts for result in verdict.known)
        return how_tested(self.settings.interval, tested, published=self.source.is_published)


def assess(source: Source, settings: Settings) -> Assessment:
    """Judge every finding.

    Args:
        source: published cells or runs.
        settings: `interval` chooses the test (see `analysis.evidence.intervals`).

    Raises:
        UserError: a selection rule or interval that the source cannot give.
    """
    settings = source.with_interval(settings)
    result_of = cache(source.evidence(settings).result)
    return Assessment(
        source=source, settings=settings, result_of=result_of, verdicts=tuple(judge(FINDINGS, result_of)),
    )  # fmt: skip
