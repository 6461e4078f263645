"""What other seeds would have given: draws of every model's mean scores, for ranks and for which model is best."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from analysis.comparisons.contenders import Contender, Scope, ScopeScore
from analysis.statistics.estimates import Student
from analysis.statistics.interval_kinds import LEVEL, WELCH, Sample
from analysis.statistics.scores_table import Settings
from analysis.statistics.superiority import FEWEST_SEEDS

__all__ = ["RATE_IS_KEPT", "intervals_of_draws", "mean_draws"]

Array = npt.NDArray[np.float64]

RATE_IS_KEPT = (
    "The learning rate that the seeds choose together is kept on every resample of them: that other seeds could choose "
    "another is left out."
)
"""What comparisons have to say under a rule that gives the seeds one rate (docs/intervals.md)."""

_T_DRAWS = 5


def mean_draws(models: Sequence[Contender], scopes: Sequence[Scope], settings: Settings) -> Array:
    """Return draws of the mean scores: (resamples, models, scopes), in percent.

    Runs: a bootstrap over seeds with the tails of Student's t. Models with the same seeds share the resamples, and
    within a seed each is taken relative to their mean, so that what moves them alike cancels; the middle 95 % of the
    draws of that difference are its interval by `settings`, and so are those of the models' mean. Printed cells:
    Student's t around the mean (normal where that is the interval's test), models independent. With instances, over
    resamples of the test instances at once. One seed: no spread.
    """
    drawn = np.empty((settings.resamples, len(models), len(scopes)))
    for column, scope in enumerate(scopes):
        together: dict[tuple[int, ...], list[int]] = {}
        for place, model in enumerate(models):
            score = model.scores[scope]
            drawn[:, place, column] = score.mean
            if score.by_seed is None:
                key = zlib.crc32(f"{model.name}/{scope.task}/{scope.dataset}".encode())
                drawn[:, place, column] += score.error * _of_cell(
                    score, settings, settings.rng(_T_DRAWS, key)
                )
            elif score.count > 1:
                pairs = zip(model.seeds, score.by_seed, strict=True)
                held = tuple(seed for seed, value in pairs if np.isfinite(value))
                together.setdefault(held, []).append(place)
        for held, places in together.items():
            scores = [models[place].scores[scope] for place in places]
            # A key for each scope: a seed's error on one dataset says nothing of its error on another.
            key = zlib.crc32(f"{scope.task}/{scope.dataset}/{list(held)}".encode())
            drawn[:, places, column] += _of_runs(scores, settings, settings.rng(len(held), key))
    return drawn


def intervals_of_draws(
    models: Sequence[Contender], scopes: Sequence[Scope], settings: Settings
) -> Iterator[tuple[int, str]]:
    """Yield seeds and interval behind each score's draws, for a caption (`interval.caption_of`)."""
    for model in models:
        for scope in scopes:
            count = model.scores[scope].count
            printed = (settings.method.independent or WELCH).interval
            yield count, printed if model.is_published else settings.method.of(count).name


def _of_runs(scores: Sequence[ScopeScore], settings: Settings, rng: np.random.Generator) -> Array:
    """Return draws of the errors of models with the same seeds: (resamples, models)."""
    values = np.array([score.present for score in scores])
    common = values.mean(axis=0)
    count = len(common)
    scale = np.sqrt((count - 1) / rng.chisquare(count - 1, settings.resamples) / count / (count - 1))
    if count < FEWEST_SEEDS:  # two or three seeds have 3 or 10 distinct resamples
        picked: Array = rng.standard_normal((settings.resamples, count))
    else:
        picked = rng.multinomial(count, np.full(count, 1 / count), settings.resamples).astype(np.float64)
    weights = picked * scale[:, None]
    errors = np.column_stack([_errors(one, weights, settings) for one in (*(values - common), common)])
    drawn = errors[:, :-1] + errors[:, -1:]
    for place, score in enumerate(scores):
        if score.resampled is not None:
            over_instances = score.resampled[:, np.isfinite(score.resampled).all(axis=0)].mean(axis=1)
            drawn[:, place] += over_instances - over_instances.mean()
    return drawn


def _errors(values: Array, weights: Array, settings: Settings) -> Array:
    """Return the draws of a mean's error whose middle 95 % are its interval; `weights`: (resamples, n_seeds)."""
    errors: Array = weights @ (values - values.mean())
    method = settings.method.of(len(values))
    reached = float(np.quantile(np.abs(errors), LEVEL))
    if method.needs_instances or reached == 0:  # the instances' error is drawn apart
        return errors
    low, high = (float(end) for end in method.bounds(Sample(values=values, pick=settings.picks)))
    stretched: Array = errors * np.where(errors < 0, values.mean() - low, high - values.mean()) / reached
    return stretched


def _of_cell(score: ScopeScore, settings: Settings, rng: np.random.Generator) -> Array:
    """Return draws of a printed cell's error in standard errors."""
    given = Student(effect=score.mean, error=score.error, df=float(score.count - 1))
    df = (settings.method.independent or WELCH).estimate(given).df
    return rng.standard_normal(settings.resamples) if np.isinf(df) else rng.standard_t(df, settings.resamples)
