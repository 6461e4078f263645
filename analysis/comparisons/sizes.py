"""Does small predict large? How often a smaller model's order of two recipes is the larger model's, by dataset.

The recipes are those that every size was pretrained with: four masking ratios and CLM (Tables 2 to 5). Their ten pairs
are ordered at each size by their mean scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.evidence.evidence import DEFAULT_SEED, Settings
from analysis.sources import Source
from analysis.statistics.estimates import LEVEL
from benchmarks.protocol import TASKS, title_of
from common.errors import UserError
from common.tables import Document, Grid
from pretraining.model_names import TABLES
from pretraining.paper_settings import SHAPES

__all__ = ["ALL", "FEW", "kept_decisions", "sizes_document", "sizes_table"]

Array = npt.NDArray[np.float64]

ALL = "all"
"""The mean over tasks, of each its datasets, in the column `dataset`."""
FEW = 3
"""Datasets of the smaller set."""
DRAWS = 4_000


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Means, standard errors and seeds of the recipes: (sizes, recipes, datasets)."""

    sizes: tuple[str, ...]
    recipes: tuple[str, ...]
    datasets: tuple[str, ...]
    means: Array
    errors: Array
    seeds: Array
    weights: Array
    """(datasets,) of the mean over tasks."""

    def pairs(self, values: Array, power: int = 1, sign: int = -1) -> Array:
        """Return first and second recipe of all pairs put together: (..., sizes, pairs, datasets and their mean).

        Args:
            values: (..., sizes, recipes, datasets).
            power: of the weights in the mean over tasks: 1 for means, 2 for variances.
            sign: of the second recipe.
        """
        whole = np.concatenate([values, (values @ self.weights**power)[..., None]], axis=-1)
        first, second = np.triu_indices(len(self.recipes), 1)
        found: Array = whole[..., first, :] + sign * whole[..., second, :]
        return found

    def decided(self) -> npt.NDArray[np.bool_]:
        """Return which pairs differ by Welch's t test at the level of 0.05: (sizes, pairs, datasets and their mean)."""
        squares = self.pairs(self.errors**2, 2, 1)
        df = squares**2 / self.pairs(self.errors**4 / (self.seeds - 1), 4, 1)
        found: npt.NDArray[np.bool_] = np.abs(self.pairs(self.means)) > special.stdtrit(df, 0.975) * np.sqrt(
            squares
        )
        return found


def _cells(source: Source) -> _Cells:
    evidence = source.evidence(Settings())
    recipes = tuple(dict.fromkeys(name.split("-", 1)[1] for name in TABLES[2]))
    datasets = {
        name: task
        for task in TASKS
        for name in source.datasets_of(task)
        if all((f"{size}-{recipe}", task, name) in evidence for size in SHAPES for recipe in recipes)
    }
    if not datasets:
        raise UserError(
            f"{source.label}: no dataset has scores of {', '.join(recipes)} at every size; use --source published"
        )
    scores = evidence.summary
    found = np.array([
        [[scores((f"{size}-{recipe}", task, name)) for name, task in datasets.items()] for recipe in recipes]
        for size in SHAPES
    ])  # fmt: skip
    counts = pd.Series(list(datasets.values())).value_counts()
    weights = np.array([1 / (len(counts) * counts[task]) for task in datasets.values()])
    return _Cells(
        sizes=tuple(SHAPES), recipes=recipes, datasets=tuple(datasets), means=found[..., 0], errors=found[..., 1],
        seeds=found[..., 2], weights=weights,
    )  # fmt: skip


def sizes_table(source: Source) -> pd.DataFrame:
    """Return how often a smaller size orders two recipes as a larger one does.

    Returns:
        Columns `dataset` (`all`: the mean over tasks), `small, large` (sizes), `pairs`, `kept` (share of pairs in the
        same order), `low, high` (its 95 % interval over fine-tuning seeds: cells drawn again from Student's t),
        `decided` (pairs that differ at the larger size, p < 0.05), `decided_kept` (of them, in the same order).

    Raises:
        UserError: a dataset with all recipes at all sizes is missing.
    """
    cells = _cells(source)
    rng = np.random.default_rng(DEFAULT_SEED)
    noise = rng.standard_t(np.maximum(cells.seeds - 1, 1), (DRAWS, *cells.means.shape)) * np.nan_to_num(
        cells.errors
    )
    orders = np.sign(cells.pairs(cells.means))
    drawn = np.sign(cells.pairs(cells.means + noise))
    decided = cells.decided()
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    rows = []
    for small, large in combinations(range(len(cells.sizes)), 2):
        same = orders[small] == orders[large]
        shares = (drawn[:, small] == drawn[:, large]).mean(axis=1)
        low, high = np.quantile(shares, tails, axis=0)
        for place, name in enumerate((*cells.datasets, ALL)):
            clear = decided[large, :, place]
            rows.append({
                "dataset": name, "small": cells.sizes[small], "large": cells.sizes[large], "pairs": len(clear),
                "kept": same[:, place].mean(), "low": low[place], "high": high[place],
                "decided": int(clear.sum()), "decided_kept": int(same[clear, place].sum()),
            })  # fmt: skip
    return pd.DataFrame(rows)


def kept_decisions(source: Source) -> pd.DataFrame:
    """Return how many decisions each set of three datasets keeps: pairs of recipes that differ over all datasets.

    Returns:
        Columns `datasets` (names), `kept, decisions` (over all sizes); those that keep most come first.
    """
    cells = _cells(source)
    differences, decided = cells.pairs(cells.means), cells.decided()[..., -1]
    rows = []
    for chosen in combinations(range(len(cells.datasets)), FEW):
        same = np.sign(differences[..., list(chosen)].mean(axis=-1)) == np.sign(differences[..., -1])
        rows.append({
            "datasets": ", ".join(cells.datasets[place] for place in chosen),
            "kept": (same & decided).sum(), "decisions": decided.sum(),
        })  # fmt: skip
    return pd.DataFrame(rows).sort_values("kept", ascending=False, kind="stable", ignore_index=True)


def sizes_document(source: Source) -> Document:
    """Return `sizes_table`, one row per dataset, and the three datasets that keep most decisions."""
    table = sizes_table(source)
    steps = list(dict.fromkeys(zip(table["small"], table["large"], strict=True)))
    rows = [["dataset", *(f"{small} to {large}" for small, large in steps), "kept of decided"]]
    for name, part in table.groupby("dataset", sort=False):
        shown = [f"{row.kept:.0%} [{row.low:.0%}, {row.high:.0%}]" for row in part.itertuples()]
        clear = ", ".join(f"{row.decided_kept} of {row.decided}" for row in part.itertuples())
        title = "mean over tasks" if name == ALL else title_of(str(name), source.datasets)
        rows.append([title, *shown, clear])
    return Document(
        body=[
            f"Share of {table['pairs'].iloc[0]} pairs of recipes that a smaller model orders as the larger one does; "
            f"scores: {source.words}.",
            "Brackets: 95 % intervals over fine-tuning seeds, for these pretrainings and datasets.",
            "Decided: pairs that differ at the larger size (p < 0.05). Kept: decided pairs that the smaller size",
            "orders the same way.",
            "",
            Grid(rows, numbers=range(1, len(rows[0]))),
            "",
            *_words_of_few(kept_decisions(source), source),
        ],
        records=table, digits="%.6g",
    )  # fmt: skip


def _words_of_few(sets: pd.DataFrame, source: Source) -> list[str]:
    """Return what three datasets keep, and how many sets of three do."""
    total = int(sets["decisions"].iloc[0])
    if not total:
        return ["By the mean over tasks, no pair of recipes is decided."]
    best, enough = sets.iloc[0], int((sets["kept"] >= 0.9 * total).sum())
    titles = [title_of(name, source.datasets) for name in str(best["datasets"]).split(", ")]
    return [
        f"By the mean over tasks, {total} pairs are decided (all sizes together). {', '.join(titles[:-1])} and",
        f"{titles[-1]} alone order {best['kept']} of the {total} the same way. Of {len(sets)} sets of three datasets,",
        f"{enough} order at least nine in ten of these pairs the same way.",
    ]
