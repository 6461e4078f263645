"""Findings under other assumptions: seeds of two models correlated, pretraining seeds that differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy import special

from analysis.claims.catalogue import CLAIMS
from analysis.claims.evidence import Finding, PublishedEvidence, RunEvidence, contrast_finding
from analysis.claims.inference import region_p
from analysis.claims.statements import Comparison, Contrast, Spread, comparisons
from analysis.published_cells import NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.sources import Source
from analysis.statistics.estimates import Estimate, Student, Studentised
from analysis.statistics.interval_kinds import T
from analysis.statistics.scores_table import Settings

__all__ = [
    "FindingOf", "Moved", "correlated", "evidence_of", "known_contrasts", "with_errors", "with_pretraining_spread",
]  # fmt: skip

FindingOf = Callable[[Comparison], Finding]

SMALLEST_HALF_WIDTH = 0.005
_SLACK = 0.05


def evidence_of(source: Source, settings: Settings) -> FindingOf:
    """Return what the source says about a comparison, with the estimates behind it."""
    if source.runs is None:
        return PublishedEvidence(settings.interval).finding
    return RunEvidence(source.runs, settings, instances=source.instances, keep_estimates=True).finding


def with_errors(source: Source, settings: Settings) -> tuple[FindingOf, str]:
    """Return the evidence by the interval of `settings`, or by Student's t where that has no standard errors, said so.

    A spread between pretraining seeds is added to a standard error, and a posterior is made of one.
    """
    found = cache(evidence_of(source, settings))
    if all(math.isfinite(one.error) for one in known_contrasts(found)):
        return found, ""
    words = (
        f"{settings.interval} has no standard errors: overturning and second opinion start from Student's t."
    )
    return cache(evidence_of(source, replace(settings, interval=T.name))), words


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
        error = math.sqrt(max(variance, 1e-12))
        return _from(base, comparison, Student(effect=base.effect, error=error, df=base.df))

    return finding


def with_pretraining_spread(finding_of: FindingOf, sd: float) -> FindingOf:
    """Return the findings if pretraining a model again moved each of its task scores by `sd` points.

    The movements are taken as independent between models and tasks: variance sd^2 for each model and task of a
    contrast, times its weight squared. Student's errors get Satterthwaite's degrees of freedom, the added variance
    taken as known; a studentised one is the sum of its own distribution and a normal one (`Moved`).
    """

    def finding(comparison: Comparison) -> Finding:
        base = finding_of(comparison)
        if isinstance(comparison, Spread) or not base.known or sd == 0:
            return base
        weights: dict[tuple[str, str], float] = {}
        for term in comparison.terms:
            weights[term.model, term.task] = weights.get((term.model, term.task), 0.0) + term.weight
        own, added = base.error**2, sd**2 * math.fsum(weight**2 for weight in weights.values())
        normal = own == 0 or math.isinf(base.df)
        df = math.inf if normal else (own + added) ** 2 / (own**2 / base.df)
        moved = Student(effect=base.effect, error=math.sqrt(own + added), df=df)
        if isinstance(base.estimate, Studentised) and own > 0:
            p_for, p_against = region_p(
                Moved(base=base.estimate, sd=math.sqrt(added), least=moved), comparison.low, comparison.high
            )
            return replace(_from(base, comparison, moved), p_for=p_for, p_against=p_against)
        return _from(base, comparison, moved)

    return finding


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A studentised estimate whose effect was moved by a normal error as well."""

    base: Studentised
    sd: float
    """Of the normal error."""
    least: Student
    """Student's estimate with the two variances together, below which no p falls."""

    def p_above(self, bound: float) -> float:
        """One-sided p of "the effect is at most `bound`"."""
        return self._tail(self.base.effect - bound, 1)

    def p_below(self, bound: float) -> float:
        """One-sided p of "the effect is at least `bound`"."""
        return self._tail(bound - self.base.effect, -1)

    def _tail(self, distance: float, sign: int) -> float:
        """Return the one-sided p; arguments as `Studentised`'s."""
        base = self.base
        student = self.least.p_above(self.least.effect - distance)
        total = int(base.counts.sum())
        if total == 0:
            return student
        errors = base.error * base.ratios
        ways = (errors, -errors) if base.symmetric else (sign * errors,)
        beyond = float(
            np.mean([base.counts @ special.ndtr((way - distance) / self.sd) / total for way in ways])
        )
        if not base.symmetric:
            return beyond
        return max(beyond, student) if distance > 0 else min(beyond, student)


def _from(base: Finding, comparison: Contrast, estimate: Estimate) -> Finding:
    made = contrast_finding(comparison, estimate, test=base.test, inputs=base.inputs, seeds=base.seeds)
    return replace(made, instance_share=base.instance_share)
