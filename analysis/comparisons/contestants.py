"""The models of a comparison: what they have scores on, and the contrasts between them.

A score is over a dataset, a task's datasets, or all tasks.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from analysis.evidence.contrasts import Contrast, Term
from analysis.evidence.evidence import Evidence
from analysis.evidence.settings import Settings
from analysis.published_cells import published_values
from analysis.sources import Source
from analysis.statistics.estimates import LIMITS
from benchmarks.protocol import AVERAGE, DATASETS, PAPER, TASKS, in_order, title_of
from common.errors import UserError, nearest
from pretraining.models import MODELS

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
        average = "all tasks" if self.task == ALL else f"{self.task} average"
        usual = title_of(self.dataset) if self.is_dataset else average
        object.__setattr__(self, "title", self.title or usual)

    @property
    def is_dataset(self) -> bool:
        """Whether it is one dataset."""
        return self.dataset != AVERAGE


OVERALL = Place(ALL, AVERAGE)
"""The mean of the task averages."""


def places_in_order(places: Iterable[Place]) -> list[Place]:
    """Return scopes, each once, by task: its datasets, its average; all tasks last."""
    distinct = set(places)
    tasks = [*TASKS, ALL]
    names = [*in_order(one.dataset for one in distinct if one.is_dataset), AVERAGE]
    return sorted(
        distinct, key=lambda one: (tasks.index(one.task), names.index(one.dataset))
    )


def widest(places: Iterable[Place]) -> Place | None:
    """Return the first of the widest scopes: all tasks, else a task's average, else a dataset; None of no scopes."""
    return max(
        places, key=lambda one: (one == OVERALL, not one.is_dataset), default=None
    )


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

    def shared(self, *models: str) -> list[Place]:
        """Return the scopes that some models, or all, have."""
        common = set.intersection(
            *(set(self.places[name]) for name in models or self.models)
        )
        return places_in_order(common)

    def difference(self, first: str, second: str, place: Place) -> Contrast:
        """Return the contrast that is the first model minus the second."""
        terms = (*self._terms(1.0, first, place), *self._terms(-1.0, second, place))
        return Contrast(label=f"{first} minus {second} on {place.title}", terms=terms)

    def mean(self, model: str, place: Place) -> float:
        """Return the score in percent."""
        terms = self._terms(1.0, model, place)
        return math.fsum(
            term.weight * self.evidence.summary(term.cell)[0] for term in terms
        )

    def spread(self, model: str, place: Place) -> float:
        """Return the standard deviation of the score over seeds, in points; nan of one seed."""
        parts = (
            (term.weight, *self.evidence.summary(term.cell))
            for term in self._terms(1.0, model, place)
        )
        # A standard error times the root of the number of seeds is a standard deviation.
        return math.hypot(
            *(weight * error * math.sqrt(seeds) for weight, _, error, seeds in parts)
        )

    def at_limit(
        self, model: str, place: Place, parts: Sequence[Place], margin: float
    ) -> bool:
        """Return whether a score's interval comes within a margin of its floor, of 0 or of 100.

        Where there is no interval it may: True.

        Args:
            model: its name.
            place: what the score is over.
            parts: the datasets of the place.
            margin: in points.
        """
        score = self.evidence.estimate(self._terms(1.0, model, place))
        if score is None:
            return True
        low, high = score.estimate.interval()
        floor = sum(self.floors.get(one.dataset, 0.0) for one in parts) / max(
            1, len(parts)
        )
        return low <= floor + margin or high >= LIMITS[1] - margin

    def seeds(self, model: str, place: Place) -> int:
        """Return the number of seeds behind a score."""
        return min(
            self.evidence.summary(term.cell)[2]
            for term in self._terms(1.0, model, place)
        )

    def cells(self, places: Iterable[Place]) -> int | None:
        """Return how many models the smallest pool of errors has on some places, for a caption."""
        terms = [
            term for place in places for term in self._terms(1.0, self.models[0], place)
        ]
        return self.evidence.pools.cells(terms) or None if terms else None

    def datasets(self, place: Place, places: Sequence[Place]) -> list[Place]:
        """Return the datasets of `places` that a scope is over; an average is over the paper's."""
        if place.is_dataset:
            return [place]
        tasks = self.tasks if place.task == ALL else (place.task,)
        return [
            one
            for one in places
            if one.is_dataset and one.task in tasks and one.dataset in DATASETS
        ]

    def _terms(self, weight: float, model: str, place: Place) -> list[Term]:
        """Return a model's score as terms whose weights add up to `weight`; over all tasks one for each task."""
        if place.task != ALL:
            return [
                Term(weight=weight, model=model, task=place.task, dataset=place.dataset)
            ]
        return [
            Term(weight=weight / len(self.tasks), model=model, task=task)
            for task in self.tasks
        ]


def contestants_of(
    source: Source, names: Sequence[str], settings: Settings
) -> Contestants:
    """Return the models named, each from the source's runs or, where it has none of it, from the paper's cells.

    Args:
        source: runs or the published cells; small studies and other metrics never mix with the paper's cells.
        names: names or shell patterns (`610m-*`), which take the models of the source.
        settings: selection rule and interval.

    Raises:
        UserError: fewer than two models, one that has scores nowhere, or an interval that the source cannot give.
    """
    with_runs = [] if source.runs is None else list(dict.fromkeys(source.runs["model"]))
    printed = (
        list(dict.fromkeys(published_values()["model"])) if source.comparable else []
    )
    models = _chosen(source, names, with_runs, printed)
    if len(models) < 2:
        chosen = f"only {models[0]}" if models else "no model"
        raise UserError(f"a comparison needs at least two models; {chosen} was given")
    if all(name not in with_runs for name in models):
        settings.method.need_cells()
    evidence = source.evidence(settings, printed=source.comparable)
    held: dict[str, list[Place]] = {name: [] for name in models}
    for model, task, dataset in evidence:
        if model in held:
            has_title = dataset != AVERAGE and dataset in source.datasets
            held[model].append(
                Place(
                    task, dataset, source.datasets[dataset].title if has_title else ""
                )
            )
    tasks = tuple(
        task
        for task in TASKS
        if all(Place(task, AVERAGE) in held[name] for name in models)
    )
    places = {
        name: tuple(places_in_order([*scopes, *([OVERALL] if len(tasks) > 1 else [])]))
        for name, scopes in held.items()
    }
    return Contestants(
        models=tuple(models),
        printed=frozenset(set(models) - set(with_runs)),
        evidence=evidence,
        places=places,
        tasks=tasks,
        floors=_floors(source),
    )


def _floors(source: Source) -> dict[str, float]:
    """Return the floors, and of classes whose frequencies are not known what guessing gets."""
    classes = {
        name: one.labels or 0
        for name, one in source.datasets.items()
        if one.task == "SC"
    }
    chance = {name: 100 / count for name, count in classes.items() if count > 1}
    return {**chance, **source.floors} if source.protocol == PAPER else {}


def _chosen(
    source: Source, names: Sequence[str], with_runs: list[str], printed: list[str]
) -> list[str]:
    """Return the models named, each once; patterns take those with runs, or, without any, those that are printed.

    Raises:
        UserError: a name or pattern that matches nothing.
    """
    stand_ins = {} if source.stand_ins is None else source.stand_ins.models
    chosen: dict[str, None] = {}
    pool = [name for name in MODELS if name in with_runs] + [
        name for name in with_runs if name not in MODELS
    ]
    pool = pool or printed
    for name_or_pattern in names:
        name = stand_ins.get(name_or_pattern, name_or_pattern)
        if name in with_runs or name in printed:
            chosen[name] = None
            continue
        matching = fnmatch.filter(pool, name)
        if not matching:
            where = (
                f"{source.label} has no runs"
                if source.runs is not None
                else "the paper has no cells"
            )
            hint = nearest(name_or_pattern, [*with_runs, *printed, *stand_ins])
            if not hint:
                hint = f"; `{' '.join(('clm-or-mlm scores', *source.options))}` lists the models"
                if source.runs is None:
                    hint += "; --source takes runs of your own"
                elif source.store is None:
                    hint += "; --add-model adds your own"
            raise UserError(f"{where} of {name_or_pattern!r}{hint}")
        chosen |= dict.fromkeys(matching)
    return list(chosen)
