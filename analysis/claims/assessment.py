"""All claims against one source, analysed in one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from analysis.claims.by_dataset import DatasetReading, read_by_dataset
from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import Claim
from analysis.claims.verdicts import FindingOf, Verdict, judge
from analysis.claims.wording import how_tested
from analysis.evidence.evidence import Settings
from analysis.sources import Source

__all__ = ["Assessment", "assess"]


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What one source, analysed in one way, says about every claim."""

    source: Source
    settings: Settings
    finding_of: FindingOf = field(repr=False)
    """What it says about a comparison."""
    verdicts: tuple[Verdict, ...]
    """One for each claim, in the catalogue's order."""

    @cached_property
    def datasets(self) -> dict[str, DatasetReading]:
        """By claim id, the claim read for each dataset instead of task averages."""
        return self.by_dataset(CLAIMS)

    def by_dataset(self, claims: Mapping[str, Claim]) -> dict[str, DatasetReading]:
        """Return claims read for each dataset that the source has."""
        return read_by_dataset(claims, self.finding_of, self.source.datasets_of)

    @property
    def tests(self) -> tuple[str, str, str]:
        """How it was tested: the test with the interval's measured coverage, what it is about, multiplicity."""
        tested = (finding for verdict in self.verdicts for finding in verdict.known)
        return how_tested(self.settings.interval, tested, published=self.source.is_published)


def assess(source: Source, settings: Settings) -> Assessment:
    """Judge every claim.

    Args:
        source: published cells or runs.
        settings: `interval` chooses the test (see `analysis.evidence.intervals`).

    Raises:
        UserError: a selection rule or interval that the source cannot give.
    """
    settings = source.with_interval(settings)
    finding_of = cache(source.evidence(settings).finding)
    return Assessment(
        source=source, settings=settings, finding_of=finding_of, verdicts=tuple(judge(CLAIMS, finding_of)),
    )  # fmt: skip
