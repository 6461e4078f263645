"""Scores that a Python program has at hand, as sequences or as a frame, compared with each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.comparisons.comparison import compare_table
from analysis.comparisons.comparison_report import records_of
from analysis.comparisons.scores_table import read_scores
from analysis.comparisons.table_options import TableOptions
from analysis.evidence.settings import Settings
from analysis.store.text_table import text_table_of
from common.errors import UserError

_FIRST, _LAST = ("effect", "low", "high"), ("seeds", "p_holm", "outcome")
"""The columns by which a frame of differences begins and ends: at 80 characters pandas prints three and three."""

Seeds = Sequence[float] | Mapping[str, Sequence[float]]
"""Scores by seed, or by dataset the scores by seed."""


def compare_scores(
    mine: Seeds | pd.DataFrame,
    baseline: Seeds | None = None,
    *,
    models: Sequence[str] = (),
    margin: float | None = None,
    metric: str = "",
    columns: Mapping[str, str] | None = None,
    spread: str = "",
    lower_is_better: bool | None = None,
) -> pd.DataFrame:
    """Return the differences between models' scores, a row for each dataset and for their mean; seeds are not paired.

    Of more than two models the differences are those between the best and each other one; Holm's p is over all pairs.
    The columns are those of `compare` with `full`, in the scores' unit; `attrs["read"]` says what was read.

    - `p_equal` is the p of two one-sided tests against the margin.
    - `p_exceeds` is the probability that the difference exceeds the margin (t, flat prior).
    - `interval` is `t` (Welch's) or `pooled`: the bootstrap t, whose pool is the models of a dataset. It takes five
      models with four seeds or more, among them these two.
    - `seeds_to_find` is the number of seeds of each model that find this effect with a power of 0.8.

    Args:
        mine: one sequence of scores, or a mapping of datasets to sequences; or all models' scores as a frame with
            columns model, dataset, seed, score (and task, metric, lr, validation_score if there), with a column for
            each seed, or with mean, sd (or se, ci95, ci95-t) and n. One seed gives the effect alone.
        baseline: the scores of the model that `mine` is compared with, in the same form; None if `mine` is a frame.
        models: only for a frame: the models that are compared; by default all.
        margin: models that differ by less are practically equal, in the scores' unit; None: the findings' margins on
            the paper's datasets and metrics; no other models are called practically equal.
        metric: only for a frame with several metrics of a dataset: the one to compare.
        columns: only for a frame: its titles by what they are for, `{"score": "eval/accuracy"}` (docs/compare.md).
        spread: only for a frame with cells such as "91.2 ± 0.4": what the second number is: sd, se, ci95 or ci95-t.
        lower_is_better: whether the better score is the lower one, as of a loss; None: what the frame says.

    Raises:
        UserError: different datasets, no scores, a score that is not a finite number, scores that cannot be compared,
            a column that is not read and tells them apart, or a margin below 0.

    >>> import clm_or_mlm as cm
    >>> found = cm.compare_scores([71.2, 70.8, 71.9], [69.9, 70.4, 70.1])
    >>> found[["effect", "low", "high", "p_holm", "outcome"]].round(3)
             effect    low  high  p_holm outcome
    dataset
    scores    1.167 -0.007  2.34   0.051    open
    """
    if margin is not None and not 0 <= margin < math.inf:
        raise UserError(f"margin {margin:g}: give a finite number from 0 on")
    if isinstance(mine, pd.DataFrame):
        if baseline is not None:
            raise UserError(
                "a frame holds both models: give it alone, their names as models=(mine, baseline)"
            )
        frame = mine
    else:
        # A missing baseline (None) is refused as an empty one.
        ours, theirs = _rows(mine, "mine"), _rows(baseline, "baseline")
        frame = pd.concat([ours, theirs], ignore_index=True)
        in_only_one = sorted(set(ours["dataset"]) ^ set(theirs["dataset"]))
        if in_only_one:
            raise UserError(
                f"only one of mine and baseline has {', '.join(map(repr, in_only_one))}; give both the same datasets"
            )

        models = ("mine", "baseline")

    # Each role with its title, in the form that --columns takes.
    pairs = tuple(f"{role}={title}" for role, title in (columns or {}).items())
    options = TableOptions(
        columns=pairs, spread=spread, lower_is_better=lower_is_better
    )
    # Refusals call the table `scores`.
    table = read_scores(text_table_of(frame, "scores"), options, metric=metric)
    # These settings name no interval: scores of seeds have the usual one of runs, means Welch's t.
    comparison = compare_table(table, models, Settings(), margin=margin)
    differences = pd.DataFrame(records_of(comparison)).set_index("dataset")

    # pandas prints the first and the last columns of a wide frame: these are the ones that a reader needs.
    others = [name for name in differences if name not in (*_FIRST, *_LAST)]
    differences = differences[[*_FIRST, *others, *_LAST]]
    differences.attrs["read"] = comparison.read
    return differences


def _rows(given: Seeds | None, name: str) -> pd.DataFrame:
    """Return the scores of the model `name` as a frame with columns model, dataset, seed, score.

    A sequence without a dataset gets the dataset `scores`; seeds are numbered from 0.
    """
    # No dataset for None: the refusal at the end says that it is empty.
    by_dataset: Mapping[str, Sequence[float]] = {}
    if isinstance(given, Mapping):
        by_dataset = given
    elif given is not None:
        by_dataset = {"scores": given}

    rows = []
    try:
        for dataset, scores in by_dataset.items():
            for seed, score in enumerate(scores):
                rows.append((name, str(dataset), seed, float(score)))
    except (TypeError, ValueError):
        raise UserError(
            f"{name}: give a sequence of numbers, a score for each seed"
        ) from None

    if not rows:
        raise UserError(f"{name} is empty; give a score for each seed")
    return pd.DataFrame(rows, columns=["model", "dataset", "seed", "score"])
