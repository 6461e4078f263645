"""What moves a score: pretraining, fine-tuning seed, test instance, dataset; and what more of each would buy.

It needs models that were pretrained more than once (`NAME`, `NAME-s1`, `NAME-s2`), each fine-tuned with several seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.evidence.cells import seed_scores
from analysis.sources import Source
from analysis.statistics.learning_rate_selection import select_runs
from analysis.statistics.variance_components import variance_components
from analysis.store.instances import read_instances
from benchmarks.protocol import AVERAGE, TASKS, is_paired, title_of
from common.errors import UserError
from common.tables import Document, Grid
from pretraining.models import arm_of

__all__ = ["PRETRAINING", "arms_of", "components_document", "components_table"]

Array = npt.NDArray[np.float64]

DATASET, MODEL, PRETRAINING, SEED, INSTANCE = (
    "dataset",
    "model",
    "pretraining",
    "fine-tuning seed",
    "test instance",
)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A component of a score's variance, as the table shows it."""

    words: str
    axes: tuple[str, ...]
    """Of the effects whose variance it is."""
    shared: str = ""
    """The axis over whose levels a score is the mean, so that their number divides the variance."""


_OF_SCORES = (
    _Part(words=PRETRAINING, axes=(MODEL, PRETRAINING)),
    _Part(words=SEED, axes=(MODEL, PRETRAINING, SEED)),
)
_OF_INSTANCES = (
    _Part(words="test set, shared by all models", axes=(INSTANCE,), shared=INSTANCE),
    _Part(words="test set, by model", axes=(MODEL, INSTANCE), shared=INSTANCE),
    _Part(words="test set, by pretraining", axes=(MODEL, PRETRAINING, INSTANCE), shared=INSTANCE),
)
_OF_DATASETS = (_Part(words="dataset, by model", axes=(DATASET, MODEL)),)


def arms_of(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the models that were pretrained more than once, each with the names of its pretrainings."""
    arms: dict[str, list[str]] = {}
    for name in dict.fromkeys(runs["model"]):
        arms.setdefault(arm_of(name)[0], []).append(name)
    return {arm: names for arm, names in arms.items() if len(names) > 1}


def components_table(source: Source) -> pd.DataFrame:
    """Return the standard deviation that each level gives a score, by dataset and task average.

    Of the pretrainings and seeds that all models of a row have: as many pretrainings as the model with the fewest.
    Pretraining and fine-tuning seed are on these test instances; where instances are known, what other instances would
    move is in rows of its own.

    Returns:
        Columns `task, dataset, models` (names), `pretrainings, seeds, component, sd, low, high` (points; 95 %
        interval); empty where no model was pretrained twice and fine-tuned with two seeds.

    Raises:
        UserError: a source without runs.
    """
    runs = source.need_runs("variance")
    arms = arms_of(runs)
    chosen = select_runs(runs[runs["model"].isin([name for names in arms.values() for name in names])])
    return pd.DataFrame(_rows(source, arms, chosen) if len(chosen) else [])


def _rows(source: Source, arms: dict[str, list[str]], chosen: pd.DataFrame) -> Iterator[dict[str, object]]:
    scores = seed_scores(chosen)
    scopes = dict.fromkeys((str(task), str(dataset)) for _, task, dataset in scores.index)
    for task, dataset in sorted(scopes, key=lambda scope: (list(TASKS).index(scope[0]), scope[1] == AVERAGE)):
        members = list(source.datasets_of(task)) if dataset == AVERAGE else [dataset]
        if dataset == AVERAGE and len(members) == 1:
            continue  # the dataset's own rows say it
        here = (scores.index.get_level_values("task") == task) & (
            scores.index.get_level_values("dataset") == dataset
        )
        layout = _Layout.of(arms, scores[here].droplevel(["task", "dataset"]))
        if layout is None:
            continue
        head = {"task": task, "dataset": dataset, **layout.head}
        values, axes = layout.cube(scores, task, dataset), (MODEL, PRETRAINING, SEED)
        yield from _shown(head, _OF_SCORES, values, axes)
        if dataset == AVERAGE:
            single = np.stack([layout.cube(scores, task, name) for name in members])
            yield from _shown(head, _OF_DATASETS, single, (DATASET, *axes))
        elif source.instances is not None and is_paired(dataset):
            wanted = pd.DataFrame(layout.runs(), columns=["model", "seed"])
            rows = wanted.merge(chosen[chosen["dataset"] == dataset], on=["model", "seed"], how="left")
            instances = 100 * read_instances(source.instances, dataset, rows)
            yield from _shown(head, _OF_INSTANCES, instances.reshape(*values.shape, -1), (*axes, INSTANCE))


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Which runs make a balanced design."""

    arms: tuple[tuple[str, ...], ...]
    """For each model the names of its pretrainings, as many of each."""
    seeds: tuple[int, ...]
    """Those that all of them have."""

    @classmethod
    def of(cls, arms: dict[str, list[str]], scores: pd.DataFrame) -> _Layout | None:
        """Return the layout of some scores (models by seeds); None where nothing was pretrained or tuned twice."""
        have = [[name for name in names if name in scores.index] for names in arms.values()]
        have = [names for names in have if len(names) > 1]
        fewest = min(map(len, have), default=0)
        kept = tuple(tuple(names[:fewest]) for names in have)
        both = scores.loc[[name for names in kept for name in names]].dropna(axis=1)
        return cls(arms=kept, seeds=tuple(map(int, both.columns))) if kept and both.shape[1] > 1 else None

    @property
    def head(self) -> dict[str, object]:
        """Which models they are, and how many there are of each level."""
        names = ", ".join(arm_of(names[0])[0] for names in self.arms)
        return {"models": names, "pretrainings": len(self.arms[0]), "seeds": len(self.seeds)}

    def runs(self) -> list[tuple[str, int]]:
        """Return model and seed of every run, seeds fastest."""
        return [(name, seed) for names in self.arms for name in names for seed in self.seeds]

    def cube(self, scores: pd.DataFrame, task: str, dataset: str) -> Array:
        """Return the scores (models, pretrainings, seeds) in percent."""
        rows = scores.loc[[(name, task, dataset) for names in self.arms for name in names], list(self.seeds)]
        found: Array = rows.to_numpy(dtype=np.float64).reshape(len(self.arms), -1, len(self.seeds))
        return found


def _shown(
    head: dict[str, object], parts: Sequence[_Part], values: Array, axes: Sequence[str]
) -> Iterator[dict[str, object]]:
    """Yield a row for each of the parts; an axis of one level, such as a single model, is left out."""
    levels = {axis: count for axis, count in zip(axes, values.shape, strict=True) if count > 1}
    outer = {PRETRAINING: (MODEL,), SEED: (DATASET, MODEL, PRETRAINING)}
    within = {axis: [one for one in outer.get(axis, ()) if one in levels] for axis in levels}
    found = variance_components(values.squeeze(), list(levels), within=within)
    for part in parts:
        if MODEL not in levels and PRETRAINING not in part.axes and MODEL in part.axes:
            continue  # one model has nothing to differ from
        one, over = found[frozenset(part.axes) & frozenset(levels)], levels.get(part.shared, 1)
        points = [math.sqrt(max(0.0, value) / over) for value in (one.variance, one.low, one.high)]
        yield {**head, "component": part.words, **dict(zip(("sd", "low", "high"), points, strict=True))}


def components_document(source: Source) -> Document:
    """Return `components_table`, and the error that more pretrainings and more seeds leave to a difference.

    Raises:
        UserError: nothing to show.
    """
    table = components_table(source)
    if table.empty:
        raise UserError(
            f"{source.label}: no model was pretrained twice and fine-tuned with two seeds; `clm-or-mlm train NAME-s1` "
            "pretrains NAME with another seed"
        )
    rows, buys = [["dataset", "models x pretrainings x seeds", "component", "sd", "95 % interval"]], []
    for key, part in table.groupby(["task", "dataset"], sort=False):
        task, dataset = map(str, key)
        name = title_of(dataset, source.datasets) if dataset != AVERAGE else f"{task} average"
        first = part.iloc[0]
        layout = f"{first['models'].count(',') + 1} x {first['pretrainings']} x {first['seeds']}"
        for row in part.to_dict("records"):
            rows.append([
                name, layout, row["component"], f"{row['sd']:.2f}", f"[{row['low']:.2f}, {row['high']:.2f}]",
            ])  # fmt: skip
        sds = dict(zip(part["component"], part["sd"], strict=True))
        seeds = int(first["seeds"])
        errors = (
            difference_error(sds[PRETRAINING], sds[SEED], *design)
            for design in ((1, seeds), (1, 2 * seeds), (2, seeds))
        )
        buys.append([name, *(f"{error:.2f}" for error in errors)])
    most = int(table["seeds"].max())
    plans = [f"1 x {most}", f"1 x {2 * most}", f"2 x {most}"]
    return Document(
        body=[
            f"What moves a score: standard deviations in points. Source: {source.words}.",
            "",
            Grid(rows, numbers={3}),
            "",
            "Standard error of the difference between two of these models, by pretrainings x fine-tuning seeds per "
            "model:",
            "",
            Grid([["dataset", *plans], *buys], numbers={1, 2, 3}),
            "",
            "The components for the pretraining and for the fine-tuning seed apply only to these test instances. To "
            "plan a study from the components, run `clm-or-mlm design`.",
        ],
        records=table, digits="%.6g",
    )  # fmt: skip


def difference_error(pretraining: float, seed: float, pretrainings: int, seeds: int) -> float:
    """Return the standard error of the difference between two models' means, both with this many of each."""
    return math.sqrt(2 * (pretraining**2 / pretrainings + seed**2 / (pretrainings * seeds)))
