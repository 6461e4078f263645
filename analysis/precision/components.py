"""What moves a score: pretraining, fine-tuning seed, test instance, dataset; and what more of each would buy.

It needs models that were pretrained more than once (`NAME`, `NAME-s1`, `NAME-s2`), each fine-tuned with several seeds.

The components are those of one model for all levels, by the moments of a balanced design (Searle, Casella and McCulloch
1992, chapter 4): where none is negative they are those of restricted maximum likelihood. statsmodels' MixedLM takes
130 ms of CPU time where this takes 0.2 (12 data sets, 5 pretrainings, 5 seeds), and has no room for thousands of
instances crossed with seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from analysis.evidence.cells import seed_scores
from analysis.sources import Source
from analysis.statistics.estimates import LEVEL
from analysis.statistics.learning_rate_selection import select_runs
from analysis.store.instances import read_instances
from benchmarks.protocol import AVERAGE, TASKS, is_paired, title_of
from common.tables import Grid
from pretraining.models import arm_of

Array = npt.NDArray[np.float64]
VarianceTerm = frozenset[str]
"""The axes whose levels have an effect in common: {pretraining}, or {data set, pretraining} for their interaction."""

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
    """The axes of the effects whose variance it is."""
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
    runs = source.need_runs("sensitivity")
    arms = arms_of(runs)
    chosen = select_runs(runs[runs["model"].isin([name for names in arms.values() for name in names])])
    return pd.DataFrame(_table_rows(source, arms, chosen) if len(chosen) else [])


def _table_rows(
    source: Source, arms: dict[str, list[str]], chosen: pd.DataFrame
) -> Iterator[dict[str, object]]:
    """Yield the table's rows, from the chosen runs of models that were pretrained more than once.

    Each dataset and task average has the components of pretraining and seed; an average also that of the dataset, a
    dataset with instances also those of the test set.
    """
    scores = seed_scores(chosen)
    scopes = dict.fromkeys((str(task), str(dataset)) for _, task, dataset in scores.index)
    for task, dataset in sorted(scopes, key=lambda scope: (list(TASKS).index(scope[0]), scope[1] == AVERAGE)):
        members = list(source.datasets_of(task)) if dataset == AVERAGE else [dataset]
        if dataset == AVERAGE and len(members) == 1:
            continue  # the dataset's own rows say it
        scope_scores = scores.query("task == @task and dataset == @dataset")
        layout = _Layout.of(arms, scope_scores.droplevel(["task", "dataset"]))
        if layout is None:
            continue  # fewer than two pretrainings, or than two seeds in common
        head = {"task": task, "dataset": dataset, **layout.head}
        values, axes = layout.array(scores, task, dataset), (MODEL, PRETRAINING, SEED)
        yield from _component_rows(head, _OF_SCORES, values, axes)
        if dataset == AVERAGE:
            by_dataset = np.stack([layout.array(scores, task, name) for name in members])
            yield from _component_rows(head, _OF_DATASETS, by_dataset, (DATASET, *axes))
        elif source.instances is not None and is_paired(dataset):
            # In the layout's order, so that the instances of all runs can be reshaped to its axes.
            ordered = pd.DataFrame(layout.runs(), columns=["model", "seed"])
            runs = ordered.merge(chosen[chosen["dataset"] == dataset], on=["model", "seed"], how="left")
            instances = 100 * read_instances(source.instances, dataset, runs)
            yield from _component_rows(
                head, _OF_INSTANCES, instances.reshape(*values.shape, -1), (*axes, INSTANCE)
            )


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Which runs make a balanced design."""

    arms: tuple[tuple[str, ...], ...]
    """For each model the names of its pretrainings, as many of each."""
    seeds: tuple[int, ...]
    """The seeds that all of them have."""

    @classmethod
    def of(cls, arms: dict[str, list[str]], scores: pd.DataFrame) -> _Layout | None:
        """Return the layout of some scores (models by seeds); None where nothing was pretrained or tuned twice."""
        scored = [[name for name in names if name in scores.index] for names in arms.values()]
        scored = [names for names in scored if len(names) > 1]
        fewest = min(map(len, scored), default=0)
        kept = tuple(tuple(names[:fewest]) for names in scored)
        # Only seeds that every pretraining has.
        complete = scores.loc[[name for names in kept for name in names]].dropna(axis=1)
        if not kept or complete.shape[1] < 2:
            return None
        return cls(arms=kept, seeds=tuple(map(int, complete.columns)))

    @property
    def head(self) -> dict[str, object]:
        """Which models they are, and how many there are of each level."""
        names = ", ".join(arm_of(names[0])[0] for names in self.arms)
        return {"models": names, "pretrainings": len(self.arms[0]), "seeds": len(self.seeds)}

    def runs(self) -> list[tuple[str, int]]:
        """Return model and seed of every run, seeds fastest."""
        return [(name, seed) for names in self.arms for name in names for seed in self.seeds]

    def array(self, scores: pd.DataFrame, task: str, dataset: str) -> Array:
        """Return the scores (models, pretrainings, seeds) in percent."""
        rows = scores.loc[[(name, task, dataset) for names in self.arms for name in names], list(self.seeds)]
        values: Array = rows.to_numpy(dtype=np.float64).reshape(len(self.arms), -1, len(self.seeds))
        return values


def _component_rows(
    head: dict[str, object], parts: Sequence[_Part], values: Array, axes: Sequence[str]
) -> Iterator[dict[str, object]]:
    """Yield a row for each of the parts; an axis of one level, such as a single model, is left out.

    Args:
        head: the fields that all rows have.
        parts: the components to show.
        values: the scores.
        axes: what the axes of `values` are.
    """
    levels = {axis: count for axis, count in zip(axes, values.shape, strict=True) if count > 1}
    outer = {PRETRAINING: (MODEL,), SEED: (DATASET, MODEL, PRETRAINING)}
    within = {axis: [one for one in outer.get(axis, ()) if one in levels] for axis in levels}
    components = variance_components(values.squeeze(), list(levels), within=within)
    for part in parts:
        if MODEL not in levels and PRETRAINING not in part.axes and MODEL in part.axes:
            continue  # one model has nothing to differ from
        component = components[frozenset(part.axes) & frozenset(levels)]
        averaged = levels.get(part.shared, 1)
        sd, low, high = (
            math.sqrt(max(0.0, variance) / averaged)
            for variance in (component.variance, component.low, component.high)
        )
        yield {**head, "component": part.words, "sd": sd, "low": low, "high": high}


def components_body(table: pd.DataFrame, source: Source) -> list[str | Grid]:
    """Return the printed page of a `components_table`: the components, and the errors of three designs.

    An error is that of the difference between two models: with one pretraining and the seeds there are (the most that a
    row has), with twice the seeds, and with two pretrainings.
    """
    rows = [["dataset", "models x pretrainings x seeds", "component", "sd", "95 % interval"]]
    error_rows = []
    seeds = int(table["seeds"].max())
    designs = ((1, seeds), (1, 2 * seeds), (2, seeds))
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
        errors = (difference_error(sds[PRETRAINING], sds[SEED], *design) for design in designs)
        error_rows.append([name, *(f"{error:.2f}" for error in errors)])
    headings = [f"{pretrainings} x {seeds_each}" for pretrainings, seeds_each in designs]
    return [
        "What moves a score: standard deviations in points. Those for the pretraining and for the fine-tuning seed "
        "apply only to these test instances:",
        "",
        Grid(rows, numbers={3}),
        "",
        "Standard error of the difference between two of these models, by pretrainings x fine-tuning seeds per model "
        "(`clm-or-mlm design` plans a study):",
        "",
        Grid([["dataset", *headings], *error_rows], numbers={1, 2, 3}),
    ]


def difference_error(pretraining: float, seed: float, pretrainings: int, seeds: int) -> float:
    """Return the standard error of the difference between two models' means, both with this many of each."""
    return math.sqrt(2 * (pretraining**2 / pretrainings + seed**2 / (pretrainings * seeds)))


@dataclass(frozen=True, kw_only=True)
class Component:
    """A variance, in squared units of the scores."""

    variance: float
    """Unbiased, so that it can be below 0 where there is none."""
    low: float
    """The lower end of its interval, at least 0."""
    high: float
    df: int
    """Degrees of freedom of its mean square."""


def variance_components(
    values: npt.ArrayLike,
    axes: Sequence[str],
    *,
    within: Mapping[str, Sequence[str]],
) -> dict[VarianceTerm, Component]:
    """Return the variance of every random effect of a balanced design.

    Axes are crossed unless one is `within` others: fine-tuning seeds within pretrainings, for the runs of two
    pretrainings have nothing in common but a number; instances within data sets, and crossed with pretrainings, which
    are all judged on them. The effect of the full set of axes is the residual.

    Intervals are the modified large-sample ones of a sum of mean squares (Graybill and Wang 1980): they hold the
    variance of 3, 5 or 10 simulated pretrainings in 94 to 97 % (test_components.py).

    Args:
        values: an axis for each of `axes`, two levels or more.
        axes: their names.
        within: for an axis the axes that its levels are within.

    Raises:
        ValueError: an axis of one level, or a value that is missing.
    """
    cube = np.asarray(values, dtype=np.float64)
    if min(cube.shape) < 2 or not np.isfinite(cube).all():
        raise ValueError("variance components need two levels or more of every axis, none missing")
    levels = dict(zip(axes, cube.shape, strict=True))
    terms = [
        VarianceTerm(chosen)
        for count in range(1, len(axes) + 1)
        for chosen in combinations(axes, count)
        if all(set(within.get(name, ())) <= set(chosen) for name in chosen)
    ]
    # Terms come smallest first: an effect is what its axes' means have beyond all terms that it contains.
    effects: dict[VarianceTerm, Array] = {}
    freedom: dict[VarianceTerm, int] = {}
    for term in terms:
        contained = [smaller for smaller in effects if smaller < term]
        other_axes = tuple(number for number, name in enumerate(axes) if name not in term)
        means = cube.mean(axis=other_axes, keepdims=True)
        effects[term] = means - cube.mean() - sum(effects[smaller] for smaller in contained)
        freedom[term] = (
            math.prod(levels[name] for name in term) - 1 - sum(freedom[smaller] for smaller in contained)
        )
    squares = np.array([
        cube.size / effects[term].size * float((effects[term] ** 2).sum()) / freedom[term] for term in terms
    ])  # fmt: skip
    # A mean square expects the variance of every term that its own is part of, as often as its levels repeat.
    expected = np.array([
        [cube.size / math.prod(levels[name] for name in larger) * (term <= larger) for larger in terms]
        for term in terms
    ])  # fmt: skip
    # A row for each variance, whose sum it is: every mean square times its weight, which may be below 0.
    weighted = np.linalg.inv(expected) * squares
    limits = _relative_limits(np.array([freedom[term] for term in terms]))
    down, up = (np.sqrt(((weighted * np.where(weighted > 0, *pair)) ** 2).sum(axis=1)) for pair in limits)
    return {
        term: Component(
            variance=float(variance), low=max(0.0, float(variance - below)), high=max(0.0, float(variance + above)),
            df=freedom[term],
        )
        for term, variance, below, above in zip(terms, weighted.sum(axis=1), down, up, strict=True)
    }  # fmt: skip


def _relative_limits(df: npt.NDArray[np.int64]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return how far, relative to themselves, mean squares move a variance down, and how far up.

    Each is a pair: for mean squares that are added, and for those that are subtracted.
    """
    tail = (1 - LEVEL) / 2
    less: Array = 1 - df / special.chdtri(df, tail)
    more: Array = df / special.chdtri(df, 1 - tail) - 1
    return (less, more), (more, less)
