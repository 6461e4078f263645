"""Which learning rate counts: from a cell's 30 runs to one run for each seed.

`seed`, the published rule: for each seed the rate with that seed's best validation score on the dataset itself
(for the retrieval datasets too). Recomputed from released runs it gives the published digits; the two others
do not, and are here to show how much the rule matters:
`mean`: one rate a cell, by the mean validation score over seeds;
`pooled`: one rate a model and task, by the mean validation score over the task's datasets and seeds.
"""

from __future__ import annotations

import pandas as pd

from common.errors import UserError, nearest

__all__ = ["SELECTIONS", "SELECTION_WORDS", "select_runs"]

SELECTION_WORDS = {
    "seed": "learning rate chosen for each seed by its validation score",
    "mean": "one learning rate for a model and dataset, by the mean validation score",
    "pooled": "one learning rate for a model and task, by the mean validation score",
}
"""Each rule, as captions say it."""
SELECTIONS = tuple(SELECTION_WORDS)

_CELL = ["model", "task", "dataset"]


def select_runs(runs: pd.DataFrame, selection: str = "seed") -> pd.DataFrame:
    """Return the runs whose learning rate is chosen, at most one for each (model, dataset, seed).

    Ties go to the smallest rate. `mean` and `pooled` compare only rates that have as many runs as the rate with
    the most, so that a rate with one lucky seed cannot win; a seed without a run at the chosen rate is absent.

    Args:
        runs: a runs table (see `analysis.store.runs_table`).
        selection: one of `SELECTIONS`.

    Returns:
        Rows of `runs`, sorted by model, task, dataset, seed.

    Raises:
        UserError: unknown rule.
    """
    if selection == "seed":
        chosen = _best(runs, [*_CELL, "seed"], "validation_score")
    elif selection == "mean":
        chosen = runs.merge(_best_rate(runs, _CELL), on=[*_CELL, "lr"])
    elif selection == "pooled":
        chosen = runs.merge(_best_rate(runs, _CELL[:2]), on=[*_CELL[:2], "lr"])
    else:
        raise UserError(
            f"unknown selection {selection!r}{nearest(selection, SELECTIONS)}; one of {', '.join(SELECTIONS)}"
        )
    return chosen.sort_values([*_CELL, "seed"], ignore_index=True)


def _best(rows: pd.DataFrame, by: list[str], score: str) -> pd.DataFrame:
    ordered = rows.sort_values([*by, score, "lr"], ascending=[True] * len(by) + [False, True], kind="stable")
    return ordered.drop_duplicates(by)


def _best_rate(runs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    rates = runs.groupby([*by, "lr"], as_index=False)["validation_score"].agg(["mean", "count"])
    most = rates.groupby(by)["count"].transform("max")
    return _best(rates[rates["count"] == most], by, "mean")[[*by, "lr"]]
