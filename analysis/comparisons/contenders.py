"""The models of a comparison: their scores on every dataset, task and over all, by seed where there are runs."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from analysis.published_cells import N_SEEDS, NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.sources import Source
from analysis.statistics.bounds import standard_error
from analysis.statistics.scores_table import Settings, resampled_seed_scores, seed_scores
from analysis.store.stand_ins import averaged_datasets
from benchmarks.protocol import AVERAGE, TASKS, in_order, title_of
from common.errors import UserError, nearest
from pretraining.model_names import MODELS

__all__ = [
    "ALL",
    "OVERALL",
    "Contender",
    "Scope",
    "ScopeScore",
    "contenders",
    "published_score",
    "scopes_in_order",
    "score_of",
]

Array = npt.NDArray[np.float64]

ALL = "all"
"""The `task` of the mean over tasks."""

SMALLEST_HALF_WIDTH = 0.005
"""A printed interval of 0.00 stands for anything below this; the largest of it is taken."""


@dataclass(frozen=True, order=True)
class Scope:
    """What a score is over: a dataset, a task's datasets, or all tasks."""

    task: str
    dataset: str
    title: str = field(default="", compare=False)
    """As tables print it; of one of the paper's datasets, and of averages, it need not be given."""

    def __post_init__(self) -> None:
        average = "all tasks" if self.task == ALL else f"{self.task} average"
        usual = title_of(self.dataset) if self.is_dataset else average
        object.__setattr__(self, "title", self.title or usual)

    @property
    def is_dataset(self) -> bool:
        """Whether it is one dataset."""
        return self.dataset != AVERAGE


OVERALL = Scope(ALL, AVERAGE)
"""The mean of the task averages."""


def scopes_in_order(scopes: Iterable[Scope]) -> list[Scope]:
    """Return scopes, each once, by task: its datasets, its average; all tasks last."""
    given = set(scopes)
    tasks = [*TASKS, ALL]
    names = [*in_order(one.dataset for one in given if one.is_dataset), AVERAGE]
    return sorted(given, key=lambda one: (tasks.index(one.task), names.index(one.dataset)))


@dataclass(frozen=True, kw_only=True)
class ScopeScore:
    """A model's score on a scope, in percent."""

    mean: float
    error: float
    """Standard error over seeds; nan with one seed."""
    count: int
    """Seeds."""
    by_seed: Array | None = None
    """(n_seeds,) over the seeds of all contenders, nan where this one has none; None for a printed cell."""
    resampled: Array | None = None
    """(resamples, n_seeds) the same on resamples of the test instances, where they are known."""

    @property
    def present(self) -> Array:
        """The scores of the seeds that there are."""
        assert self.by_seed is not None
        return self.by_seed[np.isfinite(self.by_seed)]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A model with its scores."""

    name: str
    is_published: bool
    """Whether its scores are the paper's printed cells."""
    scores: Mapping[Scope, ScopeScore]
    seeds: tuple[int, ...] = ()
    """The seeds that `by_seed` is over."""
    overall_tasks: tuple[str, ...] = ()
    """The tasks that its score on `OVERALL` is the mean of: those that all contenders have."""


def contenders(source: Source, names: Sequence[str], settings: Settings) -> tuple[Contender, ...]:
    """Return the models named, each from the source's runs or, where it has none of it, from the paper's cells.

    Args:
        source: runs or the published cells; small studies and other metrics never mix with the paper's cells.
        names: names or shell patterns (`610m-*`), which take the models of the source.
        settings: selection rule and interval; an interval that needs instances brings them.

    Raises:
        UserError: fewer than two models, or one that has scores nowhere.
    """
    known = [] if source.runs is None else list(dict.fromkeys(source.runs["model"]))
    printed = list(dict.fromkeys(published_values()["model"])) if source.comparable else []
    chosen = _chosen(source, names, known, printed)
    if len(chosen) < 2:
        given = f"only {chosen[0]}" if chosen else "no model"
        raise UserError(f"a comparison is between two models or more; {given} was named")
    own = [name for name in chosen if name in known]
    made = _from_runs(source, own, settings) if own else {}
    made |= {name: _from_cells(name) for name in chosen if name not in known}
    tasks = [task for task in TASKS if all(Scope(task, AVERAGE) in made[name].scores for name in chosen)]
    return tuple(_with_overall(made[name], tasks) for name in chosen)


def _chosen(source: Source, names: Sequence[str], known: list[str], printed: list[str]) -> list[str]:
    places = {} if source.stand_ins is None else source.stand_ins.models
    chosen: dict[str, None] = {}
    pool = [name for name in MODELS if name in known] + [name for name in known if name not in MODELS]
    pool = pool or printed
    for given in names:
        name = places.get(given, given)
        if name in known or name in printed:
            chosen[name] = None
            continue
        matching = fnmatch.filter(pool, name)
        if not matching:
            where = f"{source.label} has no runs" if source.runs is not None else "the paper has no cells"
            more = "; a model of your own is taken with --add-model" if source.runs is not None else ""
            raise UserError(f"{where} of {given!r}{nearest(given, [*known, *printed, *places])}{more}")
        chosen |= dict.fromkeys(matching)
    return list(chosen)


def published_score(mean: float, half: float) -> ScopeScore:
    """Return the score of a printed cell, whose half-width is 1.96 standard errors of five seeds."""
    return ScopeScore(mean=mean, error=max(half, SMALLEST_HALF_WIDTH) / NORMAL_QUANTILE, count=N_SEEDS)


def _from_cells(name: str) -> Contender:
    cells = published_values()
    cells = cells[cells["model"] == name]
    scores = {
        Scope(task, dataset): published_score(mean, half)
        for task, dataset, mean, half in records(cells, "task", "dataset", "mean", "ci95")
    }
    return Contender(name=name, is_published=True, scores=scores)


def _from_runs(source: Source, names: Sequence[str], settings: Settings) -> dict[str, Contender]:
    runs = source.need_runs("a comparison by seed")
    runs = runs[runs["model"].isin(names)]
    values = seed_scores(runs, settings.selection)
    seeds = tuple(int(seed) for seed in values.columns)
    instances = settings.method.need_instances(source.instances)
    resampled = None if instances is None else resampled_seed_scores(runs, settings, instances)
    scores: dict[str, dict[Scope, ScopeScore]] = {name: {} for name in names}
    for (model, task, dataset), row in zip(values.index, values.to_numpy(), strict=True):
        parts = None
        if resampled is not None:
            datasets = averaged_datasets(runs, task) if dataset == AVERAGE else (dataset,)
            parts = _resampled(resampled, model, datasets, seeds, settings.resamples)
        title = "" if dataset == AVERAGE else source.datasets[dataset].title
        scores[model][Scope(task, dataset, title)] = score_of(row, parts)
    return {
        name: Contender(name=name, is_published=False, scores=scores[name], seeds=seeds) for name in names
    }


def score_of(by_seed: Array, resampled: Array | None = None) -> ScopeScore:
    """Return the score of a row of seeds, nan where there is none."""
    present = by_seed[np.isfinite(by_seed)]
    error = float(standard_error(present)) if len(present) > 1 else math.nan
    return ScopeScore(
        mean=float(present.mean()), error=error, count=len(present), by_seed=by_seed, resampled=resampled
    )


def _resampled(
    of: Mapping[tuple[str, str, int], Array],
    model: str,
    datasets: Iterable[str],
    seeds: Sequence[int],
    resamples: int,
) -> Array:
    missing = np.full(resamples, np.nan)
    parts = [[of.get((model, name, seed), missing) for seed in seeds] for name in datasets]
    mean: Array = 100 * np.mean(parts, axis=0).T
    return mean


def _with_overall(model: Contender, tasks: Sequence[str]) -> Contender:
    """Add the mean of the task averages that all contenders have; without two tasks there is none."""
    if len(tasks) < 2:
        return model
    parts = [model.scores[Scope(task, AVERAGE)] for task in tasks]
    if model.is_published:
        # The tables do not say how a seed's errors on the four tasks go together.
        error = math.sqrt(math.fsum(part.error**2 for part in parts)) / len(parts)
        mean = math.fsum(part.mean for part in parts) / len(parts)
        whole = ScopeScore(mean=mean, error=error, count=N_SEEDS)
    else:
        rows: Array = np.array([part.by_seed for part in parts]).mean(axis=0)
        if not np.isfinite(rows).any():
            return model
        grids = [part.resampled for part in parts if part.resampled is not None]
        whole = score_of(rows, np.mean(grids, axis=0) if len(grids) == len(parts) else None)
    return Contender(
        name=model.name,
        is_published=model.is_published,
        scores={**model.scores, OVERALL: whole},
        seeds=model.seeds,
        overall_tasks=tuple(tasks),
    )
