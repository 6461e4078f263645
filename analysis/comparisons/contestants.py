"""The models of a comparison: what they have scores on, and the contrasts between them.

A score is over a dataset, a task's datasets, or all tasks.
"""

from __future__ import annotations

import fnmatch
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.comparisons.scores_table import (
    OTHER_UNIT,
    ScoresTable,
    refuse_alike,
    seeds_in_order,
)
from analysis.evidence.cells import Summary
from analysis.evidence.contrasts import Cell, Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.intervals import DEFAULT_OF_CELLS
from analysis.evidence.settings import Settings
from analysis.published_cells import NORMAL_QUANTILE, published_values
from analysis.records import records
from analysis.sources import PUBLISHED, Source
from analysis.statistics.estimates import LIMITS
from analysis.statistics.learning_rate_selection import CELL
from benchmarks.protocol import AVERAGE, DATASETS, PAPER, TASKS, in_order, title_of
from common.errors import UserError, nearest
from common.plain_text import first_of
from pretraining.paper_models import MODELS

ALL = "all"
"""The `task` of the mean over tasks."""


@dataclass(frozen=True, order=True)
class Place:
    """What a score is over: a dataset, a task's datasets, or all tasks."""

    task: str
    dataset: str
    title: str = field(default="", compare=False)
    """As tables print it; of one of the paper's datasets, and of averages, it need not be given."""

    def __post_init__(self) -> None:
        if self.title:
            return
        title = "all tasks" if self.task == ALL else f"{self.task} average"
        if self.is_dataset:
            title = title_of(self.dataset)
        object.__setattr__(self, "title", title)

    @property
    def is_dataset(self) -> bool:
        """Whether it is one dataset."""
        return self.dataset != AVERAGE


OVERALL = Place(ALL, AVERAGE)
"""The mean of the task averages."""


def places_in_order(places: Iterable[Place]) -> list[Place]:
    """Return scopes, each once: the datasets of a task, then its average, task by task; all tasks last."""
    distinct = set(places)
    other_tasks = {place.task for place in distinct} - {*TASKS, ALL}
    tasks = [*TASKS, *sorted(other_tasks), ALL]
    datasets = in_order(place.dataset for place in distinct if place.is_dataset)
    names = [*datasets, AVERAGE]

    def rank(place: Place) -> tuple[int, int]:
        return tasks.index(place.task), names.index(place.dataset)

    return sorted(distinct, key=rank)


def widest(places: Iterable[Place]) -> Place | None:
    """Return the first of the widest scopes: all tasks, else a task's average, else a dataset; None of no scopes."""

    def width(place: Place) -> int:
        if place == OVERALL:
            return 2
        return 0 if place.is_dataset else 1

    return max(places, key=width, default=None)


@dataclass(frozen=True, kw_only=True)
class Contestants:
    """Models held against each other."""

    models: tuple[str, ...]
    printed: frozenset[str]
    """The models whose scores are the paper's printed cells."""
    evidence: Evidence
    places: Mapping[str, tuple[Place, ...]]
    """By model what it has scores on, by task: its datasets, its average; all tasks last."""
    tasks: tuple[str, ...]
    """The tasks of which every model has all datasets: those that the mean over all tasks is over."""
    floors: Mapping[str, float] = field(default_factory=dict)
    """By dataset, where it is known, the percent that a model gets that reads no input."""
    points: Mapping[str, float] | None = None
    """By dataset what a point is in a table's own unit, where that is known; None: all scores are in percent."""
    parts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """By model the tasks and datasets that the mean over all is over, where these are not the averages of `tasks`."""
    lower_is_better: bool = False

    def point(self, place: Place) -> float | None:
        """Return what a point is in the unit of a score: 1 in percent; None where nobody knows the unit."""
        return 1.0 if self.points is None else self.points.get(place.dataset)

    @property
    def is_table(self) -> bool:
        """Whether the scores are a table's, in its own unit."""
        return self.points is not None

    @property
    def in_points(self) -> bool:
        """Whether all scores are in percent, so that differences are in points."""
        return all(
            self.point(place) == 1 for held in self.places.values() for place in held
        )

    def shared(self, *models: str) -> list[Place]:
        """Return the scopes that some models, or all, have."""
        scored = [set(self.places[name]) for name in models or self.models]
        return places_in_order(set.intersection(*scored))

    def difference(self, first: str, second: str, place: Place) -> Contrast:
        """Return the contrast that is the first model minus the second."""
        terms = (*self._terms(1.0, first, place), *self._terms(-1.0, second, place))
        return Contrast(label=f"{first} minus {second} on {place.title}", terms=terms)

    def mean(self, model: str, place: Place) -> float:
        """Return the score in percent."""
        parts = []
        for term in self._terms(1.0, model, place):
            mean, _, _ = self.evidence.summary(term.cell)
            parts.append(term.weight * mean)
        return math.fsum(parts)

    def spread(self, model: str, place: Place) -> float:
        """Return the standard deviation of the score over seeds, in points; nan of one seed."""
        spreads = []
        for part in self.evidence.parts(self._terms(1.0, model, place)):
            # A standard error times the root of the number of seeds is a standard deviation.
            sd = part.error * math.sqrt(part.seeds)
            spreads.append(part.weight * sd)
        return math.hypot(*spreads)

    def at_limit(
        self, model: str, place: Place, parts: Sequence[Place], margin: float
    ) -> bool:
        """Return whether a score's interval comes within a margin of its floor, of 0 or of 100.

        True also where there is no interval, since the score may be at a limit; False in an unknown unit.

        Args:
            model: its name.
            place: what the score is over.
            parts: the datasets of the place.
            margin: in points.
        """
        point = self.point(place)
        if point is None:
            return False
        score = self.evidence.estimate(self._terms(1.0, model, place))
        if score is None:
            return True
        low, high = score.estimate.interval()
        # Two models at a floor score alike because neither does the task, not because they do it equally well.
        floors = [self.floors.get(part.dataset, 0.0) for part in parts]
        floor = sum(floors) / max(1, len(floors))
        _, ceiling = LIMITS
        is_low = low <= floor * point + margin
        is_high = high >= ceiling * point - margin
        return is_low or is_high

    def seeds(self, model: str, place: Place) -> int:
        """Return the number of seeds behind a score."""
        counts = []
        for term in self._terms(1.0, model, place):
            _, _, count = self.evidence.summary(term.cell)
            counts.append(count)
        return min(counts)

    def cells(self, places: Iterable[Place]) -> int | None:
        """Return how many cells the smallest pool of errors has on some places, for a caption; None without a pool."""
        terms: list[Term] = []
        for place in places:
            terms += self._terms(1.0, self.models[0], place)
        if not terms:
            return None
        return self.evidence.pools.cells(terms) or None

    def datasets(self, place: Place, places: Sequence[Place]) -> list[Place]:
        """Return the datasets of `places` that a scope is over; an average is over the paper's."""
        if place.is_dataset:
            return [place]
        tasks = self.tasks if place.task == ALL else (place.task,)
        of_tasks = [one for one in places if one.task in tasks]
        return [one for one in of_tasks if one.dataset in DATASETS]

    def _terms(self, weight: float, model: str, place: Place) -> list[Term]:
        """Return a model's score as terms, one for each part of a mean; their weights add up to `weight`."""
        parts: Sequence[tuple[str, str]] = [(place.task, place.dataset)]
        # Tasks weigh the same, however many datasets they have.
        if place.task == ALL:
            parts = self.parts.get(model) or [(task, AVERAGE) for task in self.tasks]
        share = weight / len(parts)
        terms = []
        for task, dataset in parts:
            terms.append(Term(weight=share, model=model, task=task, dataset=dataset))
        return terms


def contestants_of(
    source: Source, names: Sequence[str], settings: Settings
) -> Contestants:
    """Return the models named, each from its runs in the source or, without any, from the paper's cells.

    Args:
        source: runs or the published cells; small studies and other metrics never mix with the paper's cells.
        names: names or shell patterns (`610m-*`), which take the models of the source.
        settings: selection rule and interval.

    Raises:
        UserError: fewer than two models, one that has scores nowhere, or an interval that the source cannot give.
    """
    with_runs, printed = _known_models(source)
    models = _chosen(source, names, with_runs, printed)
    if len(models) < 2:
        chosen = f"only {models[0]}" if models else "no model"
        raise UserError(f"a comparison needs at least two models; {chosen} was given")
    refuse_alike(source.label, "model", models)
    if all(name not in with_runs for name in models):
        settings.method.need_cells()
    evidence = source.evidence(settings, printed=source.comparable)
    scored: dict[str, list[Place]] = {name: [] for name in models}
    for model, task, dataset in evidence:
        if model in scored:
            title = ""
            if dataset != AVERAGE and dataset in source.datasets:
                title = source.datasets[dataset].title
            scored[model].append(Place(task, dataset, title))
    tasks = []
    for task in TASKS:
        average = Place(task, AVERAGE)
        if all(average in scored[name] for name in models):
            tasks.append(task)
    # The mean over one task is that task's average.
    over_all = [OVERALL] if len(tasks) > 1 else []
    places = {}
    for name, scopes in scored.items():
        places[name] = tuple(places_in_order([*scopes, *over_all]))
    return Contestants(
        models=tuple(models),
        printed=frozenset(models) - set(with_runs),
        evidence=evidence,
        places=places,
        tasks=tuple(tasks),
        floors=_floors(source),
    )


def _known_models(source: Source) -> tuple[list[str], list[str]]:
    """Return the models that have runs in a source, and those that the paper prints, if scores are comparable."""
    with_runs: list[str] = []
    if source.runs is not None:
        with_runs = list(dict.fromkeys(source.runs["model"]))
    printed: list[str] = []
    if source.comparable:
        printed = list(dict.fromkeys(published_values()["model"]))
    return with_runs, printed


def contestants_of_table(
    table: ScoresTable, names: Sequence[str], settings: Settings
) -> Contestants:
    """Return models of a table of scores, in its own unit.

    The errors of all models of the table are pooled for their shape, not only of those that are compared. The mean
    over the datasets that all models have is unweighted. If a model has the same seeds on each dataset, its mean is
    taken within a seed, since one training may have been scored on all of them; else its cells count as independent.

    Args:
        table: its scores.
        names: names or shell patterns; none: all models.
        settings: interval, resamples and seed.

    Raises:
        UserError: fewer than two models, or an interval that needs more than scores.
    """
    rows = table.rows
    models = _models_of_table(rows, names)
    scored: dict[str, list[Place]] = {model: [] for model in models}
    for model, task, dataset in records(rows.drop_duplicates(CELL), *CELL):
        if model in scored:
            scored[model].append(Place(task, dataset))
    shared = places_in_order(set.intersection(*map(set, scored.values())))
    # The datasets that the mean is over; empty where the models have no such mean.
    averaged: list[tuple[str, str]] = []
    if len(shared) > 1 and _is_in_one_unit(table, shared):
        averaged = [(place.task, place.dataset) for place in shared]
    evidence = (
        _of_summaries(rows, settings)
        if table.is_summary
        else _of_seeds(rows, averaged, settings)
    )
    points = _points_of(table)
    of_shared = {points.get(place.dataset) for place in shared}
    if len(of_shared) == 1 and None not in of_shared:
        points[AVERAGE] = points[shared[0].dataset]
    parts: dict[str, Sequence[tuple[str, str]]] = {}
    places = {}
    for model, of_model in scored.items():
        if averaged:
            of_model.append(replace(OVERALL, title=f"mean of {len(shared)} datasets"))
            is_within = (model, ALL, AVERAGE) in evidence
            parts[model] = [(ALL, AVERAGE)] if is_within else averaged
        places[model] = tuple(places_in_order(of_model))
    return Contestants(
        models=models,
        printed=frozenset(),
        evidence=evidence,
        places=places,
        tasks=(),
        floors=_floors(PUBLISHED),
        points=points,
        parts=parts,
        lower_is_better=table.lower_is_better,
    )


def _of_seeds(
    rows: pd.DataFrame, averaged: Sequence[tuple[str, str]], settings: Settings
) -> Evidence:
    """Return scores by seed as evidence, with the mean over datasets of each model that has the same seeds on all."""
    wide = rows.pivot(index=CELL, columns="seed", values="test_score")
    # Seeds in one order, so that no number depends on the order of the rows.
    wide = wide[seeds_in_order(wide.columns)]
    half_digits: dict[Cell, float] = {}
    # A cell is known as finely as its most finely written score.
    finest = rows.groupby(CELL, as_index=False)[["half_digit"]].min().dropna()
    for model, task, dataset, half in records(finest, *CELL, "half_digit"):
        half_digits[model, task, dataset] = half
    _add_means(wide, half_digits, averaged)
    return Evidence(settings, values=wide, half_digits=half_digits)


def _add_means(
    wide: pd.DataFrame,
    half_digits: dict[Cell, float],
    averaged: Sequence[tuple[str, str]],
) -> None:
    """Add the mean over the datasets to the scores, and its rounding to the half digits, where it is within seeds."""
    for model, means in _within_seeds(wide, averaged).items():
        mean = (model, ALL, AVERAGE)
        wide.loc[mean, :] = means
        # A rounding that is not known counts as 0. Roundings are independent, so that their squares add up.
        halves = [half_digits.get((model, *cell), 0.0) for cell in averaged]
        half_digits[mean] = math.hypot(*halves) / len(averaged)


def _of_summaries(rows: pd.DataFrame, settings: Settings) -> Evidence:
    """Return means with their errors as evidence; their interval is Welch's t unless the settings name another."""
    summaries = {}
    columns = (*CELL, "mean", "error", "n")
    for model, task, dataset, mean, error, count in records(rows, *columns):
        half = NORMAL_QUANTILE * error
        summary = Summary(mean, error, int(count), half)
        summaries[model, task, dataset] = summary
    interval = settings.interval or DEFAULT_OF_CELLS.name
    return Evidence(replace(settings, interval=interval), summaries=summaries)


def _within_seeds(
    wide: pd.DataFrame, cells: Sequence[tuple[str, str]]
) -> dict[str, pd.Series]:
    """Return by model the mean over some datasets within each seed, if the model has the same seeds on all of them."""
    means: dict[str, pd.Series] = {}
    if not cells:
        return means
    for model in wide.index.unique("model"):
        keys = [(model, *cell) for cell in cells]
        if not all(key in wide.index for key in keys):
            continue
        scores = wide.loc[keys]
        has_seed = scores.notna()
        # Each seed is on all datasets or on none.
        is_everywhere = has_seed.all() == has_seed.any()
        if is_everywhere.all():
            means[model] = scores.mean(skipna=False)
    return means


def _is_in_one_unit(table: ScoresTable, places: Sequence[Place]) -> bool:
    """Return whether scores are in one unit: not at most 1 on one dataset and far above 1 on another."""
    datasets = table.rows["dataset"]
    known = datasets.isin([place.dataset for place in places])
    largest = table.scores[known].abs().groupby(datasets).max()
    return not largest.min() <= 1 < largest.max() / OTHER_UNIT


def _points_of(table: ScoresTable) -> dict[str, float]:
    """Return how large a point is in the scores of each dataset of the paper: 1, or 0.01 where no score is above 1.

    Only datasets with the paper's metric are in it; it is empty where scores are below 0 or above 100.
    """
    rows = table.rows
    is_papers = []
    for dataset, task, metric in records(rows, "dataset", "task", "metric"):
        if dataset not in DATASETS:
            is_papers.append(False)
            continue
        # A table that names no metric has the paper's: every name starts with an empty text.
        papers_metric = TASKS[task].metric.lower()
        is_papers.append(papers_metric.startswith(metric.lower()))
    scores = table.scores[is_papers]
    lowest, highest = LIMITS
    if not lowest <= scores.min() <= scores.max() <= highest:
        return {}
    point = 1.0 if scores.max() > 1 else 1 / highest
    return dict.fromkeys(rows["dataset"][is_papers], point)


def _models_of_table(rows: pd.DataFrame, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the models that match names or shell patterns, or all models; the order of the rows does not matter."""
    known = sorted(set(rows["model"]))
    found: dict[str, None] = {}
    for name in wanted or ["*"]:
        matching = [name] if name in known else fnmatch.filter(known, name)
        if not matching:
            raise UserError(
                f"there are no scores of {name!r}; the models are {first_of(known, 8)}{nearest(name, known)}"
            )
        found |= dict.fromkeys(matching)
    if len(found) < 2:
        raise UserError(
            f"a comparison needs two models or more, not {len(found)}; the models are {first_of(known, 8)}"
        )
    return tuple(found)


def _floors(source: Source) -> dict[str, float]:
    """Return the floors by dataset; of classes whose frequencies are not known, the accuracy of guessing."""
    if source.protocol != PAPER:
        return {}
    floors = {}
    for name, dataset in source.datasets.items():
        count = dataset.labels or 0
        if dataset.task == "SC" and count > 1:
            floors[name] = 100 / count
    return floors | source.floors


def _chosen(
    source: Source, names: Sequence[str], with_runs: list[str], printed: list[str]
) -> list[str]:
    """Return the models named, each once; a pattern takes models with runs or, if none has runs, printed models.

    Raises:
        UserError: a name or pattern that matches nothing.
    """
    stand_ins = {} if source.stand_ins is None else source.stand_ins.models
    chosen: dict[str, None] = {}
    papers = [name for name in MODELS if name in with_runs]
    own = [name for name in with_runs if name not in MODELS]
    pool = [*papers, *own] or printed
    for name_or_pattern in names:
        name = stand_ins.get(name_or_pattern, name_or_pattern)
        if name in with_runs or name in printed:
            chosen[name] = None
            continue
        matching = fnmatch.filter(pool, name)
        if not matching:
            known = [*with_runs, *printed, *stand_ins]
            raise _unknown_model(source, name_or_pattern, known)
        chosen |= dict.fromkeys(matching)
    return list(chosen)


def _unknown_model(source: Source, name: str, known: Sequence[str]) -> UserError:
    """Return the error for a name that is not a model of a source: with the nearest name, or how to list all models."""
    where = "the paper has no cells"
    if source.runs is not None:
        where = f"{source.label} has no runs"
    hint = nearest(name, known)
    if not hint:
        command = shlex.join(("clm-or-mlm", "scores", *source.options))
        hint = f"; `{command}` lists the models"
        if source.runs is None:
            hint += "; --source takes runs of your own"
        elif source.store is None:
            hint += "; --add-model adds your own"
    return UserError(f"{where} of {name!r}{hint}")
