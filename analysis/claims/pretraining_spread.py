"""What a finding is worth if pretraining again moves scores, and by how much others saw scores move.

Every model was pretrained once, and models of one trunk share that one pretraining (a trunk is a pretraining from which
several models branch). How much of a trunk's luck its models inherit nobody knows, so the findings are computed for
both ends: they inherit none of it (`SHARED_LUCK["models"]`), or all of it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from importlib import resources

from analysis.claims.catalogue import FINDINGS
from analysis.claims.statements import trunk_of
from analysis.claims.verdicts import ResultOf
from analysis.evidence.contrasts import (
    AnyContrast,
    Result,
    Spread,
    Term,
    contrast_result,
)
from analysis.statistics.estimates import Student, quantile
from common.level import LEVEL


@dataclass(frozen=True, kw_only=True)
class SharedLuck:
    """Which scores a pretraining moves together."""

    name: str
    words: str
    unit: Callable[[Term], Hashable]
    """From a score to its unit: another pretraining moves all scores of one unit by the same amount, and scores of
    different units independently."""


SHARED_LUCK = {
    one.name: one
    for one in (
        SharedLuck(
            name="models",
            words="every model and task varies independently",
            unit=lambda term: (term.model, term.task),
        ),
        SharedLuck(
            name="trunks",
            words="models of one trunk vary together, but tasks vary independently",
            unit=lambda term: (trunk_of(term.model), term.task),
        ),
        SharedLuck(
            name="trunks and tasks",
            words="models of one trunk vary together, and so do all tasks",
            unit=lambda term: trunk_of(term.model),
        ),
    )
}
"""How much of a pretraining's luck scores share, by name: from least to most."""


def trunks() -> dict[str, list[str]]:
    """Return the models that findings compare, by trunk, where a trunk has two or more."""
    names: dict[str, None] = {}
    for finding in FINDINGS.values():
        names |= dict.fromkeys(finding.models)
    by_trunk: dict[str, list[str]] = {}
    for name in names:
        by_trunk.setdefault(trunk_of(name), []).append(name)
    return {trunk: models for trunk, models in by_trunk.items() if len(models) > 1}


def with_pretraining_spread(
    result_of: ResultOf, sd: float, sharing: SharedLuck
) -> ResultOf:
    """Return what a source would say if pretraining again moved scores by a standard deviation of `sd` points.

    A contrast's variance grows by sd^2 times the sum of the squared weights of its units. The weight of a unit is the
    sum of the weights of its scores: 0 for the difference of two models that move together. The degrees of freedom are
    Satterthwaite's, with the added variance as known. They grow with it, so a few seeds could seem to say more than
    without it; therefore no p becomes smaller and no interval narrower than in the source itself.

    Args:
        result_of: what the source says about a comparison.
        sd: standard deviation between pretrainings, in points.
        sharing: which scores a pretraining moves together.

    Returns:
        A function like `result_of`.
    """

    def result(comparison: AnyContrast) -> Result:
        """Return what the source says about a comparison, with the spread added."""
        base = result_of(comparison)
        # How a spread between pretrainings moves a ratio of spreads is not known.
        if isinstance(comparison, Spread) or not base.known:
            return base
        weight_of: dict[Hashable, float] = {}  # by unit
        for term in comparison.terms:
            unit = sharing.unit(term)
            weight_of[unit] = weight_of.get(unit, 0.0) + term.weight

        variance = base.error**2
        # A percentile bootstrap has no error. Half of its interval stands for one, as in a normal distribution.
        if math.isnan(variance):
            half = (base.high - base.low) / 2
            variance = (half / quantile(math.inf, LEVEL)) ** 2
        added = sd**2 * math.fsum(weight**2 for weight in weight_of.values())
        # Weights that cancel leave a remainder of binary arithmetic, which is no variance.
        if added < 1e-12:
            return base
        total = variance + added

        # Satterthwaite: only the seeds' variance is estimated, so it alone limits the degrees of freedom. They
        # are infinite where that variance is 0, where the source's own are (a normal interval), and where these
        # are not known (nan, of a percentile bootstrap).
        df = math.inf
        if variance > 0 and math.isfinite(base.df):
            df = total**2 / (variance**2 / base.df)
        student = Student(effect=base.effect, error=math.sqrt(total), df=df)
        # No kind of interval is given: with the added spread it is none of `analysis.evidence.intervals`.
        wider = contrast_result(
            comparison, student, test=base.test, inputs=base.inputs, seeds=base.seeds
        )

        # With the greater degrees of freedom, or with another distribution than the source's own (a bootstrap
        # has no Student's t), "wider" may come out narrower: of the p's for and against, and of the ends of
        # the 95 % interval, the more cautious one counts. The 90 % interval and the p of "no difference" are
        # those of `wider`.
        p_for = max(base.p_for, wider.p_for)
        p_against = max(base.p_against, wider.p_against)
        low, high = min(base.low, wider.low), max(base.high, wider.high)
        return replace(
            wider,
            instance_share=base.instance_share,
            p_for=p_for,
            p_against=p_against,
            low=low,
            high=high,
        )

    return result


@dataclass(frozen=True, kw_only=True)
class MeasuredSpread:
    """A standard deviation between pretrainings that somebody measured."""

    sd: float
    """The standard deviation, in points."""
    network: str
    parameters: float
    """Parameters of the network, in millions."""
    pretrainings: int
    """How many pretrainings it was measured over."""
    score: str
    """What was scored, such as `GLUE average`."""
    varies: str
    """What differs between the scores: pretraining alone, or fine-tuning too."""
    where: str
    """The source, and the table or file in it."""


def measured_spreads() -> list[MeasuredSpread]:
    """Return the spreads that others measured (`analysis/data/pretraining_spreads.csv`)."""
    path = resources.files("analysis") / "data" / "pretraining_spreads.csv"
    with path.open(encoding="utf-8") as file:
        return [_measured_spread(row) for row in csv.DictReader(file)]


def _measured_spread(row: Mapping[str, str]) -> MeasuredSpread:
    """Return a row of the file of spreads."""
    millions = row["parameters"].removesuffix("M")
    return MeasuredSpread(
        sd=float(row["sd"]),
        network=f"{row['network']} ({row['parameters']})",
        parameters=float(millions),
        pretrainings=int(row["pretrainings"]),
        score=row["score"],
        varies=row["varies"],
        where=f"{row['source']}, {row['where']}",
    )
