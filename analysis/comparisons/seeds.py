"""Anybody's seeds: two lists of scores, or two of each dataset, without a runs table and in any unit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.comparisons.differences import AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN
from analysis.precision.design import seeds_needed
from analysis.statistics.estimates import Student, difference_estimate, is_flat, welch_estimate
from analysis.statistics.inference import ALPHA, holm
from common.errors import UserError

Array = npt.NDArray[np.float64]
Seeds = Sequence[float] | Mapping[str, Sequence[float]]
"""Scores by seed, or by dataset the scores by seed."""


def compare_scores(mine: Seeds, baseline: Seeds, *, margin: float = 0.0) -> pd.DataFrame:
    """Return the differences of two models' seeds by Welch's t, a row for each dataset; seeds are not paired.

    Columns: effect (mine minus baseline, in the scores' unit), low, high (95 %), p, p_holm (over the datasets), outcome
    (ahead, behind, equal, open, unknown), p_equal (two one-sided tests against the margin), p_exceeds (probability that
    the difference exceeds the margin: t, flat prior), seeds, seeds_to_find (a model, for a power of 0.8).

    Args:
        mine: one sequence of scores, or a mapping of datasets to sequences; one seed gives the effect alone.
        baseline: the same of the model that it is held against.
        margin: models that differ by less are practically equal; 0: none are called so.

    Raises:
        UserError: different datasets, no scores, a score that is not a finite number, or a margin below 0.
    """
    if not 0 <= margin < math.inf:
        raise UserError(f"margin {margin:g}: give a finite number from 0 on")
    first, second = (_by_dataset(one, name) for one, name in ((mine, "mine"), (baseline, "baseline")))
    if apart := sorted(first.keys() ^ second.keys()):
        raise UserError(
            f"only one of mine and baseline has {', '.join(map(repr, apart))}; give both the same datasets"
        )
    estimates = {name: _welch(first[name], second[name]) for name in first}
    known = [name for name, one in estimates.items() if one is not None]
    raw = {
        name: 2 * min(one.p_above(0), one.p_below(0)) for name, one in estimates.items() if one is not None
    }
    adjusted = dict(zip(known, holm([raw[name] for name in known]), strict=True)) if known else {}
    rows = []
    for name, one in estimates.items():
        effect = float(first[name].mean() - second[name].mean())
        low, high, p_equal, p_exceeds, outcome, needed = *(math.nan,) * 4, UNKNOWN, None
        count = min(len(first[name]), len(second[name]))
        if one is not None:
            low, high = one.interval()
            p_equal = max(one.p_above(-margin), one.p_below(margin)) if margin else math.nan
            p_exceeds, outcome = one.p_below(margin), EQUAL if p_equal <= ALPHA else OPEN
            if adjusted[name] <= ALPHA:
                outcome = AHEAD if effect > 0 else BEHIND
            needed = seeds_needed(max(abs(effect), margin), one.error, count, paired=False)
        rows.append({
            "dataset": name, "effect": effect, "low": low, "high": high, "p": raw.get(name, math.nan),
            "p_holm": adjusted.get(name, math.nan), "outcome": outcome, "p_equal": p_equal, "p_exceeds": p_exceeds,
            "seeds": f"{len(first[name])}/{len(second[name])}", "seeds_to_find": needed,
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("dataset")


def _by_dataset(given: Seeds, name: str) -> dict[str, Array]:
    found = {}
    for dataset, scores in (given if isinstance(given, Mapping) else {"scores": given}).items():
        try:
            found[str(dataset)] = values = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError):
            raise UserError(f"{name}, {dataset}: give a sequence of numbers, a score for each seed") from None
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise UserError(f"{name}, {dataset}: give a sequence of finite numbers, a score for each seed")
    if not found:
        raise UserError(f"{name} is empty; give a score for each seed")
    return found


def _welch(first: Array, second: Array) -> Student | None:
    """Return the difference of means; None where there is one seed alone, or no spread."""
    if min(len(first), len(second)) < 2 or (is_flat(first) and is_flat(second)):
        return None
    if is_flat(first) or is_flat(second):
        means, errors, counts = np.array(
            [(one.mean(), one.std(ddof=1) / math.sqrt(len(one)), len(one)) for one in (first, second)]
        ).T
        return welch_estimate(means, errors, counts, np.array([1.0, -1.0]))
    return difference_estimate(first, second)
