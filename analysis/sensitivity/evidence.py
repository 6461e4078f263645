"""What a source says about a comparison, also if the seeds of two models were correlated."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import cache

from analysis.claims.catalogue import CLAIMS
from analysis.claims.statements import comparisons
from analysis.evidence.cells import SMALLEST_HALF_WIDTH
from analysis.evidence.contrasts import AnyContrast, Contrast, Finding, Spread, contrast_finding
from analysis.evidence.evidence import Settings
from analysis.evidence.intervals import T
from analysis.published_cells import NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.sensitivity.pretraining import FindingOf
from analysis.sources import Source
from analysis.statistics.estimates import Student

__all__ = ["correlated", "evidence_of", "known_contrasts", "with_errors"]

_SLACK = 0.05


def evidence_of(source: Source, settings: Settings) -> FindingOf:
    """Return what the source says about a comparison."""
    return cache(source.evidence(settings).finding)


def with_errors(source: Source, settings: Settings) -> tuple[FindingOf, str]:
    """Return the evidence by the interval of `settings`, or by Student's t where that has no standard errors, said so.

    A spread between pretrainings is added to a standard error, and a posterior is made of one.
    """
    found = evidence_of(source, settings)
    if all(math.isfinite(one.error) for one in known_contrasts(found)):
        return found, ""
    words = f"{settings.interval} gives no standard errors, so overturning and second opinion start from Student's t."
    return evidence_of(source, replace(settings, interval=T.name)), words


def known_contrasts(found: FindingOf) -> list[Finding]:
    """Return the findings on the contrasts of all claims that are known."""
    contrasts = (
        one for claim in CLAIMS.values() for one in comparisons(claim.body) if isinstance(one, Contrast)
    )
    return [known for one in contrasts if (known := found(one)).known]


def correlated(finding_of: FindingOf, rho: float) -> FindingOf:
    """Return the findings from printed cells if the seeds of two models were correlated on the same scores.

    The tables do not say how a seed moves two models together; `finding_of` takes them as independent (rho 0). Where so
    many models cannot all be correlated so negatively, the most negative correlation that they can have is taken.
    """
    if rho == 0:
        return finding_of
    errors = {
        (model, task, dataset): max(half, SMALLEST_HALF_WIDTH) / NORMAL_QUANTILE
        for model, task, dataset, half in records(published_values(), "model", "task", "dataset", "ci95")
    }

    def finding(comparison: AnyContrast) -> Finding:
        base = finding_of(comparison)
        if isinstance(comparison, Spread) or not base.known:
            return base
        models = Counter((term.task, term.dataset) for term in comparison.terms)
        variance = math.fsum((term.weight * errors[term.cell]) ** 2 for term in comparison.terms)
        for place, one in enumerate(comparison.terms):
            for other in comparison.terms[place + 1 :]:
                if (one.task, one.dataset) == (other.task, other.dataset):
                    least = -1 / (models[one.task, one.dataset] - 1) + _SLACK
                    shared = max(rho, least) * errors[one.cell] * errors[other.cell]
                    variance += 2 * one.weight * other.weight * shared
        student = Student(effect=base.effect, error=math.sqrt(max(variance, 1e-12)), df=base.df)
        return contrast_finding(comparison, student, test=base.test, inputs=base.inputs, seeds=base.seeds)

    return cache(finding)
