"""The models of a comparison (contestants): what they have scores on, and the contrasts between them.

A score is over a place: a dataset, a task's datasets (its average), or all tasks. A cell is one model on one dataset or
average.
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
    """The place as tables print it. It is known, and need not be given, for the paper's datasets and for averages."""

    def __post_init__(self) -> None:
        if self.title:
            return
        title = "all tasks" if self.task == ALL else f"{self.task} average"
        if self.is_dataset:
            title = title_of(self.dataset)
        # The way to set a field of a frozen dataclass.
        object.__setattr__(self, "title", title)

    @property
    def is_dataset(self) -> bool:
        """Whether it is one dataset."""
        return self.dataset != AVERAGE


OVERALL = Place(ALL, AVERAGE)
"""The mean of the task averages."""


def places_in_order(places: Iterable[Place]) -> list[Place]:
    """Return the places, each once: the datasets of a task, then its average, task by task; all tasks last."""
    distinct = set(places)
    # A table of scores may have tasks that are not the paper's.
    other_tasks = {place.task for place in distinct} - {*TASKS, ALL}
    tasks = [*TASKS, *sorted(other_tasks), ALL]
    # The paper's datasets in the paper's order, then others by name.
    datasets = in_order(place.dataset for place in distinct if place.is_dataset)
    datasets_then_average = [*datasets, AVERAGE]

    def rank(place: Place) -> tuple[int, int]:
        rank_in_task = datasets_then_average.index(place.dataset)
        return tasks.index(place.task), rank_in_task

    return sorted(distinct, key=rank)


def widest(places: Iterable[Place]) -> Place | None:
    """Return the widest place, of equally wide ones the first; None without any.

    All tasks are wider than a task's average, and that is wider than a dataset.
    """

    def width(place: Place) -> int:
        if place == OVERALL:
            return 2
        return 0 if place.is_dataset else 1

    # Of equal keys, `max` takes the first.
    return max(places, key=width, default=None)


@dataclass(frozen=True, kw_only=True)
class Contestants:
    """Models that are compared with each other."""

    models: tuple[str, ...]
    """Their names."""
    printed: frozenset[str]
    """The models whose scores are the paper's printed cells."""
    evidence: Evidence
    """The scores, which answer contrasts."""
    places: Mapping[str, tuple[Place, ...]]
    """By model the places that it has scores on: task by task the datasets and the average; all tasks last."""
    tasks: tuple[str, ...]
    """The tasks that the mean over all tasks is over: those of which every model has all datasets."""
    floors: Mapping[str, float] = field(default_factory=dict)
    """By dataset, where it is known, the floor: the percent that a model scores without reading its input."""
    points: Mapping[str, float] | None = None
    """Only for a table of scores: by dataset how large one point (1 % of the best possible score) is in the table's
    unit, where that is known. None: the scores are runs' or printed cells, in percent."""
    parts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Only for a table of scores: by model the cells (task, dataset) whose mean is its score over all datasets. Without
    an entry, the mean over all is that of the averages of `tasks`."""
    lower_is_better: bool = False
    """Whether the better score is the lower one, as of a loss."""

    def point(self, place: Place) -> float | None:
        """Return how large a point is in the unit of a score: 1 in percent; None where the unit is not known."""
        return 1.0 if self.points is None else self.points.get(place.dataset)

    @property
    def is_table(self) -> bool:
        """Whether the scores are a table's, in its own unit."""
        return self.points is not None

    @property
    def in_points(self) -> bool:
        """Whether all scores are in percent, so that differences are in points."""
        return all(
            self.point(place) == 1
            for of_model in self.places.values()
            for place in of_model
        )

    def shared(self, *models: str) -> list[Place]:
        """Return the places on which each of these models has a score; no names stand for all models."""
        scored = [set(self.places[name]) for name in models or self.models]
        return places_in_order(set.intersection(*scored))

    def difference(self, first: str, second: str, place: Place) -> Contrast:
        """Return the contrast that is the first model minus the second."""
        terms = (*self._terms(1.0, first, place), *self._terms(-1.0, second, place))
        return Contrast(label=f"{first} minus {second} on {place.title}", terms=terms)

    def mean(self, model: str, place: Place) -> float:
        """Return a model's score, the mean over its seeds, in percent or in a table's own unit."""
        weighted_means = []
        for term in self._terms(1.0, model, place):
            mean, _, _ = self.evidence.summary(term.cell)
            weighted_means.append(term.weight * mean)
        return math.fsum(weighted_means)

    def spread(self, model: str, place: Place) -> float:
        """Return the standard deviation of a model's score over seeds, in the unit of the score; nan of one seed."""
        # A part of a sum is its scores that vary together: a cell, or cells that share pretrainings.
        weighted_sds = []
        for part in self.evidence.parts(self._terms(1.0, model, place)):
            # A standard error times the root of the number of seeds is a standard deviation.
            sd = part.error * math.sqrt(part.seeds)
            weighted_sds.append(part.weight * sd)
        # The parts are independent, so that their variances add up.
        return math.hypot(*weighted_sds)

    def at_limit(
        self, model: str, place: Place, parts: Sequence[Place], margin: float
    ) -> bool:
        """Return whether a score's interval comes within a margin of a limit: of its floor, of 0 or of 100 %.

        Two models at a limit score alike because neither can do the task, or because both can do all of it; that does
        not show that they are equally good. True also where there is no interval, since the score may be at a limit;
        False where the unit is not known, since its limits are not known.

        Args:
            model: its name.
            place: what the score is over.
            parts: the datasets that the place is over.
            margin: half-width of the region of practical equivalence, in the unit of the score.
        """
        point = self.point(place)
        if point is None:
            return False
        score = self.evidence.estimate(self._terms(1.0, model, place))
        if score is None:
            return True
        low, high = score.estimate.interval()

        # The floor of a mean over datasets is the mean of their floors. Where none is known, it is 0, the
        # least score. The mean over a table's datasets has no parts here, and so a floor of 0.
        floors = [self.floors.get(part.dataset, 0.0) for part in parts]
        floor = sum(floors) / max(1, len(floors))
        _, ceiling = LIMITS  # the least and the largest score, in percent
        is_low = low <= floor * point + margin
        is_high = high >= ceiling * point - margin
        return is_low or is_high

    def seeds(self, model: str, place: Place) -> int:
        """Return the number of seeds behind a score; of a mean, the smallest number of seeds of its parts."""
        counts = []
        for term in self._terms(1.0, model, place):
            _, _, count = self.evidence.summary(term.cell)
            counts.append(count)
        return min(counts)

    def cells(self, places: Iterable[Place]) -> int | None:
        """Return the number of cells in the smallest pool of errors on some places, for a caption; None without pools.

        The pooled bootstrap draws from one pool for each dataset, which has the errors of all models.
        """
        terms: list[Term] = []
        for place in places:
            # The pool of a dataset is the same for every model: the first stands for all.
            terms += self._terms(1.0, self.models[0], place)
        if not terms:
            return None
        # The number is 0 where one of the scores has no pool.
        return self.evidence.pools.cells(terms) or None

    def datasets(self, place: Place, places: Sequence[Place]) -> list[Place]:
        """Return those of `places` that are datasets which the score on `place` is over.

        A dataset is over itself. An average is over the paper's datasets; a dataset of the user's own is in none.
        """
        if place.is_dataset:
            return [place]
        tasks = self.tasks if place.task == ALL else (place.task,)
        of_tasks = [other for other in places if other.task in tasks]
        # This leaves out averages as well, whose `dataset` is `average`.
        return [other for other in of_tasks if other.dataset in DATASETS]

    def _terms(self, weight: float, model: str, place: Place) -> list[Term]:
        """Return a model's score times `weight` as terms: a score is one, a mean has one for each of its parts."""
        parts: Sequence[tuple[str, str]] = [(place.task, place.dataset)]
        # Tasks weigh the same in the mean over all tasks, however many datasets they have. Only models of a
        # table of scores have an entry in `self.parts`: their mean is over datasets.
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
    """Return the models that are named; a model without runs in the source has the paper's printed cells.

    Args:
        source: runs or the published cells; scores of small studies or by other metrics never mix with the paper's.
        names: names or shell patterns (`610m-*`), which stand for the models of the source that match.
        settings: selection rule and interval.

    Raises:
        UserError: fewer than two models, a model that nothing has scores of, or an interval that the source cannot
            give.
    """
    with_runs, printed = _known_models(source)
    models = _chosen(source, names, with_runs, printed)
    if len(models) < 2:
        chosen = f"only {models[0]}" if models else "no model"
        raise UserError(f"a comparison needs at least two models; {chosen} was given")

    refuse_alike(source.label, "model", models)
    # Printed cells alone cannot give every kind of interval; this refuses the others.
    if all(name not in with_runs for name in models):
        settings.method.need_cells()

    # Printed cells stand beside runs only where both are scores of one kind (`Source.comparable`).
    evidence = source.evidence(settings, printed=source.comparable)
    # By model the places that it has scores on.
    scored: dict[str, list[Place]] = {name: [] for name in models}
    for model, task, dataset in evidence:  # its cells
        if model in scored:
            # The source has the titles of its datasets, also of the user's own. Without a title, `Place`
            # makes one.
            title = ""
            if dataset != AVERAGE and dataset in source.datasets:
                title = source.datasets[dataset].title
            scored[model].append(Place(task, dataset, title))

    # The tasks whose average every model has.
    tasks = []
    for task in TASKS:
        average = Place(task, AVERAGE)
        if all(average in scored[name] for name in models):
            tasks.append(task)

    # The mean over one task would only repeat that task's average.
    over_all = [OVERALL] if len(tasks) > 1 else []
    places = {}
    for name, of_model in scored.items():
        places[name] = tuple(places_in_order([*of_model, *over_all]))
    return Contestants(
        models=tuple(models),
        # Of these models those without runs; the list `printed` has all models that the paper prints.
        printed=frozenset(models) - set(with_runs),
        evidence=evidence,
        places=places,
        tasks=tuple(tasks),
        floors=_floors(source),
    )


def _known_models(source: Source) -> tuple[list[str], list[str]]:
    """Return the models that have runs in a source, and those that the paper prints.

    The second list is empty where the source's scores are not comparable to the paper's.
    """
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

    The pooled bootstrap takes the shape of errors from all models of the table, not only from those that are compared.
    The mean over the datasets that all models have is unweighted. If a model has the same seeds on each dataset, its
    mean is taken within a seed, since one training may have been scored on all of them; else its cells count as
    independent.

    Args:
        table: the table.
        names: names or shell patterns of models; none stand for all models.
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

    # The mean over the datasets that all models have.
    shared = places_in_order(set.intersection(*map(set, scored.values())))
    # The (task, dataset) pairs that the mean over all is over; empty where the models have no such mean.
    averaged: list[tuple[str, str]] = []
    if len(shared) > 1 and _is_in_one_unit(table, shared):
        averaged = [(place.task, place.dataset) for place in shared]
    evidence = (
        _of_summaries(rows, settings)
        if table.is_summary
        else _of_seeds(rows, averaged, settings)
    )
    points = _points_of(table)

    # A point of the mean is known where all of its datasets have the same point. The mean's place has the
    # dataset `AVERAGE`, under which `Contestants.point` looks for it.
    points_of_shared = {points.get(place.dataset) for place in shared}
    if len(points_of_shared) == 1 and None not in points_of_shared:
        points[AVERAGE] = points[shared[0].dataset]

    # By model the cells whose mean is its score over all datasets: the cell of that mean or the cells of the
    # datasets.
    parts: dict[str, Sequence[tuple[str, str]]] = {}
    places = {}
    for model, of_model in scored.items():
        if averaged:
            of_model.append(replace(OVERALL, title=f"mean of {len(shared)} datasets"))
            # `_of_seeds` has added a cell with the mean of each model whose mean is taken within seeds.
            is_within_seeds = (model, ALL, AVERAGE) in evidence
            parts[model] = [(ALL, AVERAGE)] if is_within_seeds else averaged
        places[model] = tuple(places_in_order(of_model))

    return Contestants(
        models=models,
        printed=frozenset(),
        evidence=evidence,
        places=places,
        tasks=(),  # no mean over task averages: `parts` says what the mean over all is over
        # A table has no floors itself. The paper's are for the paper's datasets, by the paper's metrics.
        floors=_floors(PUBLISHED),
        points=points,
        parts=parts,
        lower_is_better=table.lower_is_better,
    )


def _of_seeds(
    rows: pd.DataFrame, averaged: Sequence[tuple[str, str]], settings: Settings
) -> Evidence:
    """Return scores by seed as evidence, with the mean over datasets of each model that has the same seeds on all.

    Args:
        rows: a row for each seed (`ScoresTable.rows`).
        averaged: the (task, dataset) pairs that the mean is over; none: there is no mean.
        settings: interval, resamples and seed.
    """
    by_seed = rows.pivot(index=CELL, columns="seed", values="test_score")
    # Seeds in one order, so that no number depends on the order of the rows.
    by_seed = by_seed[seeds_in_order(by_seed.columns)]

    # Half of the last digit that is written: rounding alone may have moved a score by so much.
    half_digits: dict[Cell, float] = {}
    # Scores of a cell may be written with different numbers of digits, such as 91.4 and 91.42: the most
    # digits count.
    finest = rows.groupby(CELL, as_index=False)[["half_digit"]].min().dropna()
    for model, task, dataset, half in records(finest, *CELL, "half_digit"):
        half_digits[model, task, dataset] = half
    _add_means(by_seed, half_digits, averaged)
    return Evidence(settings, values=by_seed, half_digits=half_digits)


def _add_means(
    by_seed: pd.DataFrame,
    half_digits: dict[Cell, float],
    averaged: Sequence[tuple[str, str]],
) -> None:
    """Add to the scores a cell with the mean over datasets of each model whose mean is taken within seeds.

    Args:
        by_seed: the scores, a row for each cell and a column for each seed; gets the rows of the means.
        half_digits: by cell half of the last digit of its scores; gets that of the means.
        averaged: the (task, dataset) pairs that the mean is over.
    """
    for model, means in _within_seeds(by_seed, averaged).items():
        mean_cell = (model, ALL, AVERAGE)
        by_seed.loc[mean_cell, :] = means
        # A rounding that is not known counts as 0. Roundings are independent, so that their squares add up.
        halves = [half_digits.get((model, *pair), 0.0) for pair in averaged]
        half_digits[mean_cell] = math.hypot(*halves) / len(averaged)


def _of_summaries(rows: pd.DataFrame, settings: Settings) -> Evidence:
    """Return means with their errors as evidence; their interval is Welch's t unless the settings name another."""
    summaries = {}
    columns = (*CELL, "mean", "error", "n")
    for model, task, dataset, mean, error, count in records(rows, *columns):
        # Half the width of the interval that a paper would print.
        half = NORMAL_QUANTILE * error
        summary = Summary(mean, error, int(count), half)
        summaries[model, task, dataset] = summary
    # As for the paper's printed cells, which are also means with errors.
    interval = settings.interval or DEFAULT_OF_CELLS.name
    return Evidence(replace(settings, interval=interval), summaries=summaries)


def _within_seeds(
    by_seed: pd.DataFrame, averaged: Sequence[tuple[str, str]]
) -> dict[str, pd.Series]:
    """Return for each model that has the same seeds on all of some datasets the mean over these datasets at each seed.

    Args:
        by_seed: the scores, a row for each cell and a column for each seed; nan where a cell lacks a seed.
        averaged: the (task, dataset) pairs that the mean is over; none: no model has a mean.
    """
    means: dict[str, pd.Series] = {}
    if not averaged:
        return means
    for model in by_seed.index.unique("model"):
        cells = [(model, *pair) for pair in averaged]
        if not all(cell in by_seed.index for cell in cells):
            continue
        scores = by_seed.loc[cells]
        has_score = scores.notna()

        # Each seed has a score on all of the datasets or on none of them.
        is_all_or_none = has_score.all() == has_score.any()
        if is_all_or_none.all():
            # A seed of other models, on which this model has no score at all, has no mean: nan.
            means[model] = scores.mean(skipna=False)

    return means


def _is_in_one_unit(table: ScoresTable, places: Sequence[Place]) -> bool:
    """Return whether the scores on some datasets seem to be in one unit, so that they have a mean.

    Scores of at most 1 on one dataset, and far above 1 on another, are fractions and per cent.
    """
    datasets = table.rows["dataset"]
    is_on_places = datasets.isin([place.dataset for place in places])
    largest = table.scores[is_on_places].abs().groupby(datasets).max()  # by dataset
    # Fractions on some dataset, and on another a score that is more than `OTHER_UNIT` times as large as any
    # fraction.
    has_fractions = largest.min() <= 1
    has_per_cent = largest.max() / OTHER_UNIT > 1
    return not (has_fractions and has_per_cent)


def _points_of(table: ScoresTable) -> dict[str, float]:
    """Return by dataset how large a point is in a table's unit, where that is known.

    It is known for datasets of the paper with the paper's metric: 1 for scores in percent, or 0.01 where no score is
    above 1, so that they are fractions. The result is empty where scores are below 0 or above 100.
    """
    rows = table.rows
    has_papers_metric = []  # of each row
    for dataset, task, metric in records(rows, "dataset", "task", "metric"):
        if dataset not in DATASETS:
            has_papers_metric.append(False)
            continue
        # A table may give the beginning of a metric's name, such as `ndcg` for NDCG@10. A table that names no
        # metric has the paper's: every name starts with an empty text.
        papers_metric = TASKS[task].metric.lower()
        has_papers_metric.append(papers_metric.startswith(metric.lower()))

    scores = table.scores[has_papers_metric]
    lowest, highest = LIMITS
    # Without any such score, the least and the largest are nan, for which no comparison is true.
    if not lowest <= scores.min() <= scores.max() <= highest:
        return {}
    point = 1.0 if scores.max() > 1 else 1 / highest  # `highest` is 100
    return dict.fromkeys(rows["dataset"][has_papers_metric], point)


def _models_of_table(rows: pd.DataFrame, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the models that match names or shell patterns, each once; no names stand for all models.

    Raises:
        UserError: a name that matches nothing, or fewer than two models.
    """
    # Sorted, so that the order of the rows does not matter.
    known = sorted(set(rows["model"]))
    chosen: dict[str, None] = {}
    for name in wanted or ["*"]:
        # A model's name may have * or [ in it: a name that is known is no pattern.
        matching = [name] if name in known else fnmatch.filter(known, name)
        if not matching:
            raise UserError(
                f"there are no scores of {name!r}; the models are {first_of(known, 8)}{nearest(name, known)}"
            )
        chosen |= dict.fromkeys(matching)

    if len(chosen) < 2:
        raise UserError(
            f"a comparison needs two models or more, not {len(chosen)}; the models are {first_of(known, 8)}"
        )

    return tuple(chosen)


def _floors(source: Source) -> dict[str, float]:
    """Return by dataset, where it is known, the percent that a model scores without reading its input.

    For a sequence classification with n classes whose floor the source does not know, it is that of guessing: 100 / n.
    """
    # The floors of other metrics than the paper's have not been computed.
    if source.protocol != PAPER:
        return {}
    of_guessing = {}
    for name, dataset in source.datasets.items():
        n_classes = dataset.labels or 0  # None for retrieval, which has no classes
        if dataset.task == "SC" and n_classes > 1:
            of_guessing[name] = 100 / n_classes
    # A floor that the source knows replaces that of guessing.
    return of_guessing | source.floors


def _chosen(
    source: Source, names: Sequence[str], with_runs: list[str], printed: list[str]
) -> list[str]:
    """Return the models that are named, each once, in the order of the names.

    Args:
        source: where the scores come from.
        names: names or shell patterns. A pattern stands for the models with runs that match, the paper's before
            others; if no model has runs, for the printed models.
        with_runs: models that have runs in the source.
        printed: models that the paper prints.

    Raises:
        UserError: a name or pattern that matches nothing.
    """
    # From the name that a small study gives a model to the name of the paper's model that it stands for.
    stand_ins = {} if source.stand_ins is None else source.stand_ins.models
    chosen: dict[str, None] = {}
    papers = [name for name in MODELS if name in with_runs]
    own = [name for name in with_runs if name not in MODELS]
    matched_by_patterns = [*papers, *own] or printed
    for name_or_pattern in names:
        name = stand_ins.get(name_or_pattern, name_or_pattern)
        if name in with_runs or name in printed:
            chosen[name] = None
            continue

        matching = fnmatch.filter(matched_by_patterns, name)
        if not matching:
            known = [*with_runs, *printed, *stand_ins]
            raise _unknown_model(source, name_or_pattern, known)

        chosen |= dict.fromkeys(matching)

    return list(chosen)


def _unknown_model(source: Source, name: str, known: Sequence[str]) -> UserError:
    """Return the error for a name that is not a model of a source: with the nearest name, or how to list all models."""
    lacking = "the paper has no cells"
    if source.runs is not None:
        lacking = f"{source.label} has no runs"
    hint = nearest(name, known)
    if not hint:
        command = shlex.join(("clm-or-mlm", "scores", *source.options))
        hint = f"; `{command}` lists the models"
        # `source.runs` is None for the published cells; `source.store` is the run store that was read, None for
        # a runs table in a file.
        if source.runs is None:
            hint += "; --source takes runs of your own"
        elif source.store is None:
            hint += "; --add-model adds your own"

    return UserError(f"{lacking} of {name!r}{hint}")
