"""All claims against one source: the verdicts, and the mixed model's second opinion where there are runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from analysis.claims.by_dataset import DatasetReading, FindingOf, read_by_dataset
from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import Claim
from analysis.claims.verdicts import Verdict, judge, judge_claim
from analysis.claims.wording import how_tested
from analysis.evidence.evidence import Settings
from analysis.sources import Source

__all__ = ["Assessment", "Opinion", "assess"]


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """How probable a claim is by the Bayesian second opinion; nan where the source does not say."""

    id: str
    here: float
    """On these datasets."""
    over_datasets: float
    """Of the means over datasets like them."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What one source, analysed in one way, says about every claim."""

    source: Source
    settings: Settings
    finding_of: FindingOf = field(repr=False)
    """What it says about a comparison."""
    verdicts: tuple[Verdict, ...]
    """One for each claim, in the catalogue's order."""
    mixed: Mapping[str, Verdict]
    """By claim id, the verdict of the mixed-effects model alone (F1-F4, with runs)."""
    opinions: Mapping[str, Opinion] = field(default_factory=dict)
    """By claim id the Bayesian second opinion, where it was asked for (`analysis.sensitivity.second_opinion`)."""

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


def assess(source: Source, settings: Settings, *, second_opinion: bool = True) -> Assessment:
    """Judge every claim.

    Args:
        source: published cells or runs.
        settings: `interval` chooses the test (see `analysis.evidence.intervals`).
        second_opinion: fit the mixed-effects models too, when there are runs.

    Raises:
        UserError: a selection rule or interval that the source cannot give.
    """
    settings = source.with_interval(settings)
    runs, finding_of = source.runs, cache(source.evidence(settings).finding)
    mixed: dict[str, Verdict] = {}
    # One dataset a family leaves the mixed model nothing to be random over.
    if second_opinion and runs is not None and source.stand_ins is None:
        from analysis.claims.mixed_model import MixedEvidence

        claims = [claim for claim in CLAIMS.values() if claim.mixed]
        opinion = MixedEvidence(
            runs, settings.selection, {model for claim in claims for model in claim.models}
        )
        mixed = {claim.id: judge_claim(claim, opinion.finding) for claim in claims}
    return Assessment(
        source=source, settings=settings, finding_of=finding_of, verdicts=tuple(judge(CLAIMS, finding_of)),
        mixed=mixed,
    )  # fmt: skip
