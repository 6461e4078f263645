"""Findings under other assumptions: seeds of two models correlated, pretraining seeds that differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from analysis.claims.evidence import Finding, PublishedEvidence, RunEvidence, contrast_finding
from analysis.claims.statements import Comparison, Contrast, Spread
from analysis.published_cells import NORMAL_QUANTILE, published_values
from analysis.rows import records
from analysis.sources import Source
from analysis.statistics.estimates import Student
from analysis.statistics.scores import Settings

__all__ = ["FindingOf", "correlated", "evidence_of", "with_pretraining_spread"]

FindingOf = Callable[[Comparison], Finding]

SMALLEST_HALF_WIDTH = 0.005
_SLACK = 0.05


def evidence_of(source: Source, settings: Settings) -> FindingOf:
    """Return what the source says about a comparison."""
    if source.runs is None:
        return PublishedEvidence(settings.interval).finding
    return RunEvidence(source.runs, settings, instances=source.instances).finding


def correlated(finding_of: FindingOf, rho: float) -> FindingOf:
    """Return the findings from printed cells if the seeds of two models were correlated on the same scores.

    The tables do not say how a seed moves two models together; `finding_of` takes them as independent (rho 0). Where so
    many models cannot all be correlated so negatively, the most negative correlation that they can have is taken.
    """
    values = published_values()
    errors = {
        key: max(half, SMALLEST_HALF_WIDTH) / NORMAL_QUANTILE
        for *key_parts, half in records(values, "model", "task", "dataset", "ci95")
        if (key := tuple(key_parts))
    }

    def finding(comparison: Comparison) -> Finding:
        base = finding_of(comparison)
        if isinstance(comparison, Spread) or not base.known or rho == 0:
            return base
        models = Counter((term.task, term.dataset) for term in comparison.terms)
        variance = math.fsum((term.weight * errors[term.cell]) ** 2 for term in comparison.terms)
        for place, one in enumerate(comparison.terms):
            for other in comparison.terms[place + 1 :]:
                if (one.task, one.dataset) == (other.task, other.dataset):
                    least = -1 / (models[one.task, one.dataset] - 1) + _SLACK
                    shared = max(rho, least) * errors[one.cell] * errors[other.cell]
                    variance += 2 * one.weight * other.weight * shared
        return _again(base, comparison, max(variance, 1e-12), base.df)

    return finding


def with_pretraining_spread(finding_of: FindingOf, sd: float) -> FindingOf:
    """Return the findings if pretraining a model again moved each of its task scores by `sd` points.

    The movements are taken as independent between models and tasks: variance sd^2 for each model and task of a
    contrast, times its weight squared. Satterthwaite's degrees of freedom, the added variance taken as known.
    """

    def finding(comparison: Comparison) -> Finding:
        base = finding_of(comparison)
        if isinstance(comparison, Spread) or not base.known or sd == 0:
            return base
        weights: dict[tuple[str, str], float] = {}
        for term in comparison.terms:
            weights[term.model, term.task] = weights.get((term.model, term.task), 0.0) + term.weight
        own = base.error**2
        variance = own + sd**2 * math.fsum(weight**2 for weight in weights.values())
        df = math.inf if own == 0 else variance**2 / (own**2 / base.df)
        return _again(base, comparison, variance, df)

    return finding


def _again(base: Finding, comparison: Contrast, variance: float, df: float) -> Finding:
    estimate = Student(effect=base.effect, error=math.sqrt(variance), df=df)
    made = contrast_finding(comparison, estimate, test=base.test, inputs=base.inputs, seeds=base.seeds)
    return replace(made, instance_share=base.instance_share)
