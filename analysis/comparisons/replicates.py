"""Several pretrainings of one model as one arm, so that a difference is about other pretrainings too."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

import pandas as pd

from analysis.statistics.crossed import MEMBERS
from analysis.statistics.learning_rate_selection import select_runs
from common.errors import UserError
from pretraining.model_names import arm_of

__all__ = ["with_arms"]


def with_arms(runs: pd.DataFrame, patterns: Sequence[str], selection: str) -> pd.DataFrame:
    """Return the runs with an arm for each pattern, named by it, in place of the models that match.

    An arm's pretrainings are what its scores vary over: each counts once, by the mean over its fine-tuning seeds at the
    chosen learning rates. So the standard error holds what pretrainings differ by and what their seeds leave, with one
    degree of freedom fewer than there are pretrainings, however many seeds each has. Two arms have no seeds in common.

    Args:
        runs: a runs table.
        patterns: models, each with its other pretrainings (`NAME` with `NAME-s1`, `NAME-s2`), or shell patterns.
        selection: rule that chooses learning rates; one of `learning_rate_selection.SELECTIONS`.

    Returns:
        A runs table; the column `MEMBERS` says of which runs a pretraining's row is the mean.

    Raises:
        UserError: fewer than two models match, or a model is in two arms.
    """
    chosen = select_runs(runs, selection)
    names = list(dict.fromkeys(runs["model"]))
    kept, parts, first = runs, [], int(runs["seed"].max()) + 1
    for pattern in patterns:
        members = [name for name in names if pattern == arm_of(name)[0] or fnmatch.fnmatchcase(name, pattern)]
        if len(members) < 2:
            raise UserError(
                f"--replicates {pattern} matches {', '.join(members) or 'no model'}, but an arm needs at least two "
                "pretrainings; give a name without its ending (NAME stands for NAME, NAME-s1 and NAME-s2) or a pattern "
                "such as 'mine-s*' (names outside the released scheme also need --add-model)"
            )
        taken = [name for name in members if name not in set(kept["model"])]
        if taken:
            raise UserError(f"--replicates {pattern}: already in another arm: {', '.join(taken)}")
        kept = kept[~kept["model"].isin(members)]
        places = {name: first + place for place, name in enumerate(members)}
        first += len(members)
        rows = chosen[chosen["model"].isin(members)]
        cells = rows.groupby(["model", "task", "dataset"], as_index=False, observed=True)
        means = cells[["validation_score", "test_score"]].mean()
        runs_of = rows[["model", "lr", "seed"]].apply(tuple, axis=1)
        keys = [rows[name] for name in ("model", "task", "dataset")]
        means[MEMBERS] = runs_of.groupby(keys, observed=True).agg(list).to_numpy()
        sizes = rows.drop_duplicates(["model", "task", "dataset"])
        arm = sizes.drop(columns=["validation_score", "test_score"]).merge(means)
        parts.append(arm.assign(seed=arm["model"].map(places), model=pattern))
    return pd.concat([kept, *parts], ignore_index=True)
