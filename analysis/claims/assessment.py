"""All claims against one source: the verdicts, and the mixed model's second opinion where there are runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from analysis.claims.by_dataset import DatasetReading, read_by_dataset
from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import PublishedEvidence, RunEvidence
from analysis.claims.statements import Contrast, comparisons
from analysis.claims.verdicts import Verdict, judge, judge_claim
from analysis.claims.wording import how_tested
from analysis.sources import PUBLISHED, Source
from analysis.statistics.scores_table import Settings
from analysis.store.stand_ins import averaged_datasets

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

    source: str
    settings: Settings
    verdicts: tuple[Verdict, ...]
    """One for each claim, in the catalogue's order."""
    mixed: dict[str, Verdict]
    """By claim id, the verdict of the mixed-effects model alone (F1-F4, with runs)."""
    datasets: dict[str, DatasetReading]
    """By claim id, the claim read for each dataset instead of task averages."""
    opinions: Mapping[str, Opinion] = field(default_factory=dict)
    """By claim id the Bayesian second opinion, where it was asked for (`analysis.sensitivity.second_opinion`)."""
    own_words: str = ""
    """What has to be said first: `Source.own_words`."""
    options: tuple[str, ...] = ()
    """The command-line options that open the source again: `Source.options`."""

    @property
    def tests(self) -> tuple[str, str, str]:
        """How it was tested: the test with the interval's measured coverage, what it is about, multiplicity."""
        seeds = {count for verdict in self.verdicts for finding in verdict.known for count in finding.seeds}
        return how_tested(self.settings.interval, published=self.published, seeds=seeds)

    @property
    def published(self) -> bool:
        """Whether the source is the paper's printed cells."""
        return self.source == PUBLISHED.label


def assess(
    source: Source, settings: Settings, *, second_opinion: bool = True, datasets: bool = True
) -> Assessment:
    """Judge every claim.

    Args:
        source: published cells or runs.
        settings: `interval` chooses the test (see `evidence.RunEvidence`).
        datasets: read the claims by dataset too.
        second_opinion: fit the mixed-effects models too, when there are runs.

    Raises:
        UserError: a selection rule or interval that the source cannot give.
    """
    settings = source.settled(settings)
    if source.runs is None:
        cells = cache(PublishedEvidence(settings.interval).finding)
        return Assessment(
            source=source.label, settings=settings, verdicts=tuple(judge(CLAIMS, cells)), mixed={},
            datasets=read_by_dataset(CLAIMS, cells) if datasets else {}, options=source.options,
        )  # fmt: skip
    runs = source.runs
    finding_of = cache(RunEvidence(runs, settings, instances=source.instances).finding)
    verdicts = judge(CLAIMS, finding_of)
    mixed: dict[str, Verdict] = {}
    # One dataset a family leaves the mixed model nothing to be random over.
    if second_opinion and source.stand_ins is None:
        from analysis.claims.mixed_model import MixedEvidence

        claims = [claim for claim in CLAIMS.values() if claim.mixed]
        models = {
            term.model
            for claim in claims
            for comparison in comparisons(claim.body)
            if isinstance(comparison, Contrast)
            for term in comparison.terms
        }
        opinion = MixedEvidence(source.runs, settings.selection, models)
        mixed = {claim.id: judge_claim(claim, opinion.finding) for claim in claims}
    return Assessment(
        source=source.label,
        settings=settings,
        verdicts=tuple(verdicts),
        mixed=mixed,
        datasets=read_by_dataset(CLAIMS, finding_of, lambda task: averaged_datasets(runs, task))
        if datasets
        else {},
        own_words=source.own_words,
        options=source.options,
    )
