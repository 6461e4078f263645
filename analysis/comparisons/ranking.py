"""Many models at once: mean ranks with their stability, Friedman's test, Nemenyi's critical difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from analysis.comparisons.contestants import Contestants, Place
from analysis.statistics.inference import ALPHA

__all__ = ["Ranked", "Ranking", "critical_difference", "rank_models"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A model's place."""

    model: str
    mean_rank: float
    """Mean of its ranks over the datasets; 1 is best."""
    rank_low: float
    """Lower end of the 95 % interval of the mean rank over other seeds."""
    rank_high: float
    p_first: float
    """The chance that its mean rank is the best."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Models from best to worst."""

    ranked: tuple[Ranked, ...]
    datasets: tuple[Place, ...]
    """The datasets that all models have."""
    friedman_p: float
    """p of Friedman's test that all models rank alike; nan with fewer than three models or two datasets."""
    critical_difference: float
    """Nemenyi's: mean ranks further apart than this differ at the level of 0.05."""
    intervals: frozenset[tuple[int, str]] = frozenset()
    """Numbers of seeds and the intervals that the draws behind the ranks are by."""
    cells: int | None = None
    """Models in the smallest pool of errors."""

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The largest runs of models whose mean ranks are within the critical difference."""
        found: list[tuple[str, ...]] = []
        end = 0
        for start, one in enumerate(self.ranked):
            within = [
                other.model
                for other in self.ranked[start:]
                if other.mean_rank - one.mean_rank <= self.critical_difference
            ]
            if start + len(within) > end and len(within) > 1:
                found.append(tuple(within))
            end = max(end, start + len(within))
        return tuple(found)


def critical_difference(models: int, datasets: int) -> float:
    """Return Nemenyi's critical difference of mean ranks (Demsar 2006)."""
    quantile = float(stats.studentized_range.isf(ALPHA, models, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(models * (models + 1) / (6 * datasets))


def rank_models(contestants: Contestants, places: Sequence[Place]) -> Ranking:
    """Rank the models over datasets that all of them have.

    Args:
        contestants: three models or more.
        places: the datasets; at least one.
    """
    means = np.array([[contestants.mean(model, place) for place in places] for model in contestants.models])
    ranks = mean_ranks(means[None])[0]
    levels = [contestants.level(model, place) for model in contestants.models for place in places]
    drawn = mean_ranks(contestants.evidence.draws(levels).reshape(-1, *means.shape))
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    best = drawn == drawn.min(axis=1, keepdims=True)  # ties share a draw
    p_first = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    several = len(contestants.models) >= 3 and len(places) >= 2
    friedman = float(stats.friedmanchisquare(*means).pvalue) if several else math.nan
    rows = [
        Ranked(
            model=model, mean_rank=float(ranks[place]), rank_low=float(low[place]), rank_high=float(high[place]),
            p_first=float(p_first[place]),
        )
        for place, model in enumerate(contestants.models)
    ]  # fmt: skip
    return Ranking(
        ranked=tuple(sorted(rows, key=lambda row: row.mean_rank)),
        datasets=tuple(places),
        friedman_p=friedman,
        critical_difference=critical_difference(len(contestants.models), len(places))
        if several
        else math.nan,
        intervals=frozenset(contestants.intervals(places)),
        cells=contestants.cells(places),
    )


def mean_ranks(scores: Array) -> Array:
    """Return the mean over datasets of the rank, 1 for the highest, ties shared.

    Args:
        scores: (..., models, datasets).

    Returns:
        (..., models).
    """
    total = np.zeros(scores.shape[:-1])
    for column in range(scores.shape[-1]):
        total += stats.rankdata(-scores[..., column], axis=-1)
    mean: Array = total / scores.shape[-1]
    return mean
