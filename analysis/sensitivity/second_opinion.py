"""A Bayesian second opinion on the claims: how probable is each, on these datasets and over datasets like them?

Every contrast has a posterior. On these datasets: Student's around the estimate, under a flat prior. Over datasets
(Corani et al. 2017): a task's datasets are random effects, and the posterior is that of the mean over such datasets,
under a flat prior of the mean and half a Cauchy distribution of the spread, whose median is a number of margins; a
contrast of several tasks is the sum of independent ones. Parts of a claim are combined as independent, which they are
not quite: models are shared between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from analysis.claims.assessment import Opinion
from analysis.claims.catalogue import CLAIMS
from analysis.claims.catalogue.terms import MARGINS
from analysis.claims.statements import AtLeast, Claim, Node
from analysis.evidence.contrasts import AnyContrast, Finding, Spread
from analysis.evidence.evidence import Settings
from analysis.sensitivity.changes import on_datasets
from analysis.sensitivity.evidence import with_errors
from analysis.sensitivity.pretraining import FindingOf
from analysis.sources import Source
from analysis.statistics.bayesian import PRIOR_SCALE, posterior_of_mean, share_below
from analysis.statistics.estimates import Student
from benchmarks.protocol import AVERAGE, datasets_of
from common.progress import progress

__all__ = ["SCALES", "opinion_curve", "opinions_on", "second_opinions"]

SCALES = (1.0, PRIOR_SCALE, 16.0, 64.0)
"""Medians of the prior of the spread between datasets that are shown, in margins."""

Array = npt.NDArray[np.float64]


def opinions_on(source: Source, settings: Settings) -> dict[str, Opinion]:
    """Return the second opinion on every claim, by id, from Student's errors where the interval has no others."""
    return {one.id: one for one in second_opinions(with_errors(source, settings)[0])}


def second_opinions(finding_of: FindingOf, claims: Mapping[str, Claim] = CLAIMS) -> list[Opinion]:
    """Return the posterior probability of every claim under the prior of `PRIOR_SCALE`."""
    return opinion_curve(finding_of, claims, scales=(PRIOR_SCALE,))[PRIOR_SCALE]


def opinion_curve(
    finding_of: FindingOf, claims: Mapping[str, Claim] = CLAIMS, *, scales: Sequence[float] = SCALES
) -> dict[float, list[Opinion]]:
    """Return the posterior probability of every claim by the scale of the prior of the spread between datasets.

    Args:
        finding_of: what the source says about a comparison, with Student's errors.
        claims: by id.
        scales: medians of the prior, in margins.
    """
    over_datasets = cache(lambda comparison: _over_datasets(comparison, finding_of, scales))
    opinions: dict[float, list[Opinion]] = {scale: [] for scale in scales}
    for name, claim in progress(claims.items(), "second opinion", unit="claim"):
        here = _probability(claim.body, lambda comparison: _here(finding_of(comparison)))
        for place, scale in enumerate(scales):
            over = _probability(claim.body, partial(_at, over_datasets, place))
            opinions[scale].append(Opinion(id=name, here=here, over_datasets=over))
    return opinions


def _probability(node: Node, of: Callable[[AnyContrast], float]) -> float:
    """Return the chance that a statement holds, its parts as independent."""
    if not isinstance(node, AtLeast):
        return of(node)
    counts = np.ones(1)  # chance of 0, 1, ... parts that hold
    for part in node.parts:
        chance = _probability(part, of)
        counts = np.convolve(counts, [1 - chance, chance])
    return float(counts[node.count :].sum())


def _at(of: Callable[[AnyContrast], list[float]], place: int, comparison: AnyContrast) -> float:
    return of(comparison)[place]


def _here(finding: Finding) -> float:
    comparison = finding.comparison
    if not finding.known or isinstance(comparison, Spread) or not finding.error > 0:
        return math.nan
    student = Student(effect=finding.effect, error=finding.error, df=finding.df)
    return max(0.0, (1 - student.p_above(comparison.low)) + (1 - student.p_below(comparison.high)) - 1)


def _over_datasets(comparison: AnyContrast, finding_of: FindingOf, scales: Sequence[float]) -> list[float]:
    """Return the probability of a comparison under each prior."""
    unknown = [math.nan] * len(scales)
    if isinstance(comparison, Spread):
        return unknown
    parts = []
    for task in dict.fromkeys(term.task for term in comparison.terms):
        own = tuple(term for term in comparison.terms if term.task == task)
        if any(term.dataset != AVERAGE for term in own):
            return unknown
        of_task = replace(comparison, terms=own)
        found = [finding_of(on_datasets(task, [name])(of_task)) for name in datasets_of(task)]
        if not all(one.known and one.error > 0 for one in found):
            return unknown
        students = [Student(effect=one.effect, error=one.error, df=one.df) for one in found]
        parts.append(posterior_of_mean(students, MARGINS[task], scales))
    chances = []
    for place in range(len(scales)):
        values, weight = parts[0][0], parts[0][1][place]
        for more, their_weights in parts[1:]:
            values, weight = _sum_of(values, weight, more, their_weights[place])
        chances.append(
            share_below(values, weight, comparison.high) - share_below(values, weight, comparison.low)
        )
    return chances


def _sum_of(values: Array, weight: Array, others: Array, their_weight: Array) -> tuple[Array, Array]:
    """Return the distribution of the sum of two independent quantities on grids, on 401 of its own quantiles."""
    sums = np.add.outer(values, others).ravel()
    order = np.argsort(sums)
    shares = np.outer(weight, their_weight).ravel()[order].cumsum()
    kept = np.interp((np.arange(401) + 0.5) / 401, shares, sums[order])
    return kept, np.full(401, 1 / 401)
