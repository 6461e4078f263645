"""What other seeds would have given: draws of every model's mean scores, for ranks and for which model is best."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.comparisons.contenders import Contender, Scope, ScopeScore
from analysis.statistics.resampling import draw_picks, resampled_means
from analysis.statistics.scores import Settings

__all__ = ["FEWEST_SEEDS", "mean_draws"]

Array = npt.NDArray[np.float64]

_T_DRAWS = 5
FEWEST_SEEDS = 4
"""Seeds below which nothing is bootstrapped over them."""


def mean_draws(models: Sequence[Contender], scopes: Sequence[Scope], settings: Settings) -> Array:
    """Return draws of the mean scores: (resamples, models, scopes), in percent.

    Runs: a bootstrap over seeds, expanded by sqrt(n / (n - 1)) so that its spread is that of the standard error; below
    `FEWEST_SEEDS` draws of Student's t, since a bootstrap of two or three seeds shows too little. Models with the same
    seeds share the resamples, so that what moves them alike cancels. With instances, over resamples of the test
    instances at once. Printed cells: Student's t around the mean, models independent. One seed: no spread.
    """
    drawn = np.empty((settings.resamples, len(models), len(scopes)))
    for place, model in enumerate(models):
        for column, scope in enumerate(scopes):
            drawn[:, place, column] = _draws(model, scope, model.scores[scope], settings)
    return drawn


def _draws(model: Contender, scope: Scope, score: ScopeScore, settings: Settings) -> Array:
    if score.by_seed is None:
        key = zlib.crc32(f"{model.name}/{scope.task}/{scope.dataset}".encode())
        t = settings.rng(_T_DRAWS, key).standard_t(score.count - 1, settings.resamples)
        return score.mean + score.error * t
    if score.count < 2:
        return np.full(settings.resamples, score.mean)
    # A key for each scope: a seed's error on one dataset says nothing of its error on another.
    held = [seed for seed, value in zip(model.seeds, score.by_seed, strict=True) if np.isfinite(value)]
    rng = settings.rng(score.count, zlib.crc32(f"{scope.task}/{scope.dataset}/{held}".encode()))
    if score.count < FEWEST_SEEDS:
        expanded = score.mean + _student_deviations(score.present, settings.resamples, rng)
    else:
        means = resampled_means(score.present, draw_picks(score.count, settings.resamples, rng))
        expanded = score.mean + (means - score.mean) * np.sqrt(score.count / (score.count - 1))
    if score.resampled is None:
        return expanded
    over_instances = score.resampled[:, np.isfinite(score.resampled).all(axis=0)].mean(axis=1)
    both: Array = expanded + over_instances - over_instances.mean()
    return both


def _student_deviations(values: Array, resamples: int, rng: np.random.Generator) -> Array:
    """Return draws of the mean's error by Student's t, n - 1 degrees of freedom; alike for alike deviations."""
    count = len(values)
    normal = rng.standard_normal((resamples, count)) @ (values - values.mean()) / np.sqrt(count * (count - 1))
    deviations: Array = normal * np.sqrt((count - 1) / rng.chisquare(count - 1, resamples))
    return deviations
