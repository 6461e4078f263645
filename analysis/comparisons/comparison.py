"""A comparison of two models or many, whole: what was compared, what came out, what a reader has to know."""

from __future__ import annotations

import fnmatch
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.claims.owners import owned_pairs
from analysis.claims.statements import trunk_of
from analysis.comparisons.arm_spreads import ArmScores
from analysis.comparisons.contestants import (
    ALL,
    OVERALL,
    Contestants,
    Place,
    contestants_of,
    contestants_of_table,
    places_in_order,
    widest,
)
from analysis.comparisons.differences import Difference, against, compare_pair
from analysis.comparisons.scores_table import ScoresTable
from analysis.evidence.settings import Settings
from analysis.records import records
from analysis.sources import PUBLISHED, Source, arms_of
from analysis.statistics.crossed import run_key
from analysis.statistics.estimates import few_against_many
from analysis.statistics.learning_rate_selection import CELL, MEMBERS, select_runs
from benchmarks.protocol import AVERAGE, DATASETS, in_order
from common.errors import UserError
from pretraining.models import arm_of


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Models held against each other."""

    source: str
    """Where the scores come from, with what has to be said of them first."""
    contestants: Contestants
    """Two in the order given; many from the highest to the lowest mean over `over`."""
    over: Place | None
    """The widest scope that all models have: all tasks where it can be; None where they have none in common."""
    differences: tuple[Difference, ...]
    """Of two models on every scope that both have; of many, those of the first and each other one."""
    notes: tuple[str, ...]
    """What limits the comparison, a sentence each."""
    settings: Settings
    floors: str = ""
    """What is scored without a look at the input, in a sentence."""
    metrics: str = ""
    """Those of datasets of one's own, in a sentence; empty where there are none."""
    read: str = ""
    """What was read of a table of scores, in a sentence."""
    queries: Mapping[str, int] = field(default_factory=dict)
    """Test queries of retrieval sets of one's own, by dataset."""
    replicates: tuple[str, ...] = ()
    """The models that are arms of several pretrainings."""
    repeats: tuple[str, ...] = ()
    """Other models that were pretrained several times, of which one pretraining is compared."""

    @property
    def is_pair(self) -> bool:
        """Whether there are two models, so that every detail is there."""
        return len(self.contestants.models) == 2


def compare(
    source: Source,
    names: Sequence[str],
    settings: Settings,
    *,
    replicates: Sequence[str] = (),
    margin: float | None = None,
) -> Comparison:
    """Compare two models or more.

    Args:
        source: runs (of the study, of one's own) or the published cells; a model without runs in the source takes its
            printed cells.
        names: of models, or shell patterns.
        settings: selection rule, interval, resamples and seed.
        replicates: shell patterns of models that are pretrainings of one arm (`with_arms`); the arms are compared with
            the models, and with each other.
        margin: of practical equivalence in points; None: the findings' margins by task.

    Raises:
        UserError: an unknown model, fewer than two, nothing in common, or no test for the interval.
    """
    # Taken before runs become arms: the words count the runs of the source.
    words = source.words
    by_pretraining: ArmScores | None = None
    if replicates:
        runs = source.need_runs("--replicates")
        arms = arms_in(runs, replicates)
        by_pretraining = ArmScores.of(runs, arms, settings.selection)
        source = replace(source, runs=with_arms(runs, arms, settings.selection))
        names = [*names, *replicates]
    contestants = contestants_of(source, names, settings)
    found = _compared(contestants, settings, margin=margin, label=source.label)
    if by_pretraining is not None:
        differences = []
        for one in found.differences:
            pair = (one.first, one.second)
            spreads = by_pretraining.spreads(pair, one.place, contestants.tasks)
            differences.append(replace(one, spreads=spreads))
        found = replace(
            found, differences=tuple(differences), replicates=tuple(replicates)
        )
    places = [one.place for one in found.differences]
    datasets = in_order({place.dataset for place in places if place.is_dataset})
    floors = source.floors_in_words(datasets)
    metrics = source.own_metrics(datasets)
    arms_left = {} if source.runs is None else arms_of(source.runs)
    repeats = [name for name in contestants.models if arm_of(name)[0] in arms_left]
    return replace(
        found,
        source=words,
        repeats=tuple(repeats),
        floors=floors,
        metrics=metrics,
        queries=source.own_queries(),
    )


def compare_table(
    table: ScoresTable,
    names: Sequence[str],
    settings: Settings,
    *,
    margin: float | None = None,
) -> Comparison:
    """Compare models of a table of scores, in its own unit.

    Args:
        table: as `analysis.comparisons.scores_table.read_scores` returns it.
        names: models, or shell patterns; none: all.
        settings: interval, resamples and seed.
        margin: of practical equivalence in the scores' unit; None: the findings' where task and unit are known, else
            none.

    Raises:
        UserError: fewer than two models, nothing in common, or an interval that needs more than scores.
    """
    contestants = contestants_of_table(table, names, settings)
    found = _compared(contestants, settings, margin=margin, label=table.where)
    places = [one.place for one in found.differences if one.place.is_dataset]
    in_known_unit = [place.dataset for place in places if contestants.point(place)]
    floors = PUBLISHED.floors_in_words(in_order(in_known_unit))
    notes = (*found.notes, *_table_notes(table, contestants))
    return replace(found, read=table.read, notes=notes, floors=floors)


def _compared(
    contestants: Contestants, settings: Settings, *, margin: float | None, label: str
) -> Comparison:
    """Return the comparison without floors, metrics and other words that come from the source."""
    over = widest(contestants.shared())
    if len(contestants.models) == 2:
        first, second = contestants.models
        if over is None:
            raise UserError(
                f"{first} and {second} have no dataset in common in {label}"
            )
        differences = compare_pair(contestants, first, second, margin=margin)
    else:
        if over is not None:
            ordered = sorted(
                contestants.models,
                key=lambda model: contestants.mean(model, over),
                reverse=not contestants.lower_is_better,
            )
            contestants = replace(contestants, models=tuple(ordered))
        differences = against(contestants, contestants.models[0], margin=margin)
    notes = tuple(_notes(label, contestants, differences, settings))
    return Comparison(
        source=label,
        contestants=contestants,
        over=over,
        differences=tuple(differences),
        notes=notes,
        settings=settings,
    )


def arms_in(runs: pd.DataFrame, patterns: Sequence[str]) -> dict[str, list[str]]:
    """Return for each pattern the models of a runs table that are its pretrainings.

    Args:
        runs: a runs table.
        patterns: models, each with its other pretrainings (`NAME` with `NAME-s1`, `NAME-s2`), or shell patterns.

    Raises:
        UserError: fewer than two models match, or a model is in two arms.
    """
    names = list(dict.fromkeys(runs["model"]))
    arms: dict[str, list[str]] = {}
    in_an_arm: set[str] = set()
    for pattern in patterns:
        members = [
            name
            for name in names
            if pattern == arm_of(name)[0] or fnmatch.fnmatchcase(name, pattern)
        ]
        if len(members) < 2:
            raise UserError(
                f"--replicates {pattern} matches {', '.join(members) or 'no model'}, but an arm needs at least two "
                "pretrainings; give a name without its ending (NAME stands for NAME, NAME-s1 and NAME-s2) or a pattern "
                "such as 'mine-s*' (names outside the released scheme also need --add-model)"
            )
        on_trunk = Counter(map(trunk_of, members))
        twice = [name for name in members if on_trunk[trunk_of(name)] > 1]
        if twice:
            raise UserError(
                f"--replicates {pattern}: {', '.join(twice):.200} come from one pretraining, of which an "
                "arm takes one model"
            )
        in_another = [name for name in members if name in in_an_arm]
        if in_another:
            raise UserError(
                f"--replicates {pattern}: already in another arm: {', '.join(in_another)}"
            )
        arms[pattern] = members
        in_an_arm.update(members)
    return arms


def with_arms(
    runs: pd.DataFrame, arms: Mapping[str, Sequence[str]], selection: str
) -> pd.DataFrame:
    """Return the runs with each arm under its name in place of its pretrainings.

    An arm's pretrainings are what its scores vary over: each counts once, by the mean over its fine-tuning seeds at the
    chosen learning rates. So the standard error holds what pretrainings differ by and what their seeds leave, with one
    degree of freedom fewer than there are pretrainings, however many seeds each has. A pretraining has one seed on all
    tasks, and so do models that are cut from one trunk of it, as far as names say so: `Evidence` takes what shares a
    pretraining within it.

    Args:
        runs: a runs table.
        arms: by name the models that are its pretrainings, in no other arm.
        selection: rule that chooses learning rates; one of `learning_rate_selection.SELECTIONS`.

    Returns:
        A runs table; the column `MEMBERS` says of which runs a pretraining's row is the mean.
    """
    chosen = select_runs(runs, selection)
    kept = runs
    parts = []
    # A pretraining gets a seed that no fine-tuning has; models of one trunk share a pretraining, and so its seed.
    seed_of_trunk: dict[str, int] = {}
    next_seed = int(runs["seed"].max()) + 1
    for arm_name, members in arms.items():
        kept = kept[~kept["model"].isin(members)]
        seed_of = {}
        for name in members:
            new_seed = next_seed + len(seed_of_trunk)
            seed_of[name] = seed_of_trunk.setdefault(trunk_of(name), new_seed)
        arm = _pretrainings(chosen[chosen["model"].isin(members)])
        parts.append(arm.assign(seed=arm["model"].map(seed_of), model=arm_name))
    return pd.concat([kept, *parts], ignore_index=True)


def _pretrainings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each model and dataset of some runs: the mean over the seeds, and the runs that it is over."""
    scores = ["validation_score", "test_score"]
    of_cells = rows.groupby(CELL, as_index=False, observed=True)
    means = of_cells[scores].mean()
    runs_of: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
    keys = records(rows, *run_key(rows))
    for cell, key in zip(records(rows, *CELL), keys, strict=True):
        runs_of.setdefault(cell, []).append(key)
    members = [runs_of[cell] for cell in records(means, *CELL)]
    means[MEMBERS] = pd.Series(members, dtype=object)
    # Columns that are not averaged, such as `n_test`, are equal in all runs of a cell: any run gives them.
    one_run_each = rows.drop_duplicates(CELL)
    others = one_run_each.drop(columns=scores)
    return others.merge(means)


def source_of_arms(source: Source, selection: str) -> Source:
    """Return a source of the models that were pretrained several times, each as an arm (`with_arms`).

    Raises:
        UserError: no model was pretrained several times, or the source has no runs.
    """
    runs = source.need_runs("--replicates")
    arms = arms_of(runs)
    if not arms:
        raise UserError(
            f"--replicates: no model of {source.label} was pretrained twice (NAME, NAME-s1, NAME-s2)"
        )
    members = itertools.chain.from_iterable(arms.values())
    kept = runs[runs["model"].isin(set(members))]
    return replace(source, runs=with_arms(kept, arms, selection))


def _notes(
    label: str,
    contestants: Contestants,
    differences: Sequence[Difference],
    settings: Settings,
) -> Iterator[str]:
    """Yield what limits the comparison, a sentence each."""
    printed = [name for name in contestants.models if name in contestants.printed]
    if printed and len(printed) < len(contestants.models):
        yield (
            f"{', '.join(printed)}: no runs in {label}, so the paper's printed cells are used, and differences "
            "are tested by Welch's t test."
        )
    held_anywhere = itertools.chain.from_iterable(contestants.places.values())
    everywhere = places_in_order(held_anywhere)
    for model, held in contestants.places.items():
        absent = []
        for place in everywhere:
            if place.is_dataset and place not in held:
                absent.append(place.title)
        if absent:
            yield (
                f"{model} has no score on {', '.join(absent)}, so it is not compared there or on their averages."
            )
    is_of_paper = any(place.dataset in DATASETS for place in everywhere)
    # A table has no averages of tasks.
    has_averages = is_of_paper and not contestants.is_table
    if has_averages and OVERALL not in contestants.shared():
        yield "No difference over all tasks: it needs two tasks for which every model has all datasets."
    yield from _seed_notes(contestants, everywhere, settings)
    yield from _copy_notes(contestants)
    on_parts = [one for one in differences if one.place.task != ALL]
    uneven = [one for one in on_parts if few_against_many(one.result.seeds)]
    if uneven:
        where = _titles_of(uneven)
        yield (
            f"On {where}, two or three seeds are held against many, where Welch's t leads falsely too often: its "
            "degrees of freedom are those of the smaller sample."
        )
    if len(contestants.models) == 2 and not contestants.is_table:
        yield from _counted_notes(contestants)
    at_limit = [one for one in differences if one.at_limit]
    if at_limit:
        where = _titles_of(at_limit)
        yield (
            f"On {where}, models that score alike are not called practically equal: one of them is within the margin "
            "of 0, of 100 or of what a model gets without its input."
        )
    if not contestants.shared():
        yield "The models are in no order: no dataset is common to all of them."
    if settings.method.needs_instances and printed:
        yield "Printed cells say nothing about test instances, so comparisons with them apply only to other seeds."


def _copy_notes(contestants: Contestants) -> Iterator[str]:
    """Yield which models have equal scores on a dataset, one sentence for each such dataset."""
    values = contestants.evidence.values
    compared = values[values.index.get_level_values(0).isin(contestants.models)]
    for (_, dataset), on_dataset in compared.groupby(level=[1, 2], observed=True):
        # Models that give one answer to everything have the same score at every seed, but are not copies.
        varied = on_dataset[on_dataset.nunique(axis=1) > 1]
        is_copy = varied.duplicated(keep=False)
        copies = varied.index[is_copy].get_level_values(0)
        if len(copies) and dataset != AVERAGE:
            yield (
                f"On {dataset}, {', '.join(copies)} have the same scores, seed by seed: is one a copy?"
            )


def _titles_of(differences: Sequence[Difference]) -> str:
    """Return the titles of the datasets and averages that differences are on, each once."""
    return ", ".join(dict.fromkeys(one.place.title for one in differences))


def _counted_notes(contestants: Contestants) -> Iterator[str]:
    """Yield for each finding that tests these models what it counts: more is tested with it, so it may show less."""
    outcomes_of: dict[tuple[str, int], dict[str, list[str]]] = {}
    pairs = owned_pairs(contestants.models, contestants.evidence.result)
    for (task, _models), pair in pairs.items():
        words = f"{pair.ahead} ahead on" if pair.ahead else "open on"
        outcomes = outcomes_of.setdefault((pair.finding, pair.tested), {})
        outcomes.setdefault(words, []).append(task)
    for (finding, tested), outcomes in outcomes_of.items():
        clauses = []
        for words, tasks in outcomes.items():
            clauses.append(f"{words} {', '.join(tasks)}")
        listed = "; ".join(clauses)
        yield (
            f'{finding} counts the same averages among {tested} comparisons ("clear" on pages and in figures): '
            f"{listed}."
        )


def _table_notes(table: ScoresTable, contestants: Contestants) -> Iterator[str]:
    """Yield what limits a comparison of a table's scores, a sentence each."""
    shared = contestants.shared()
    if OVERALL not in shared:
        if len(shared) > 1:
            yield "No mean over datasets: some have scores up to 1, others far above."
        return
    # This place equals OVERALL, but has the title that the table gave it.
    mean = shared[shared.index(OVERALL)]
    within = []
    for model in contestants.models:
        if contestants.parts[model] == [(ALL, AVERAGE)]:
            within.append(model)
    how = "over datasets as independent cells"
    if len(within) == len(contestants.models):
        how = "within each seed, since all datasets have the same seeds"
    elif within:
        how += f", but of {', '.join(within)} within each seed"
    yield f"The {mean.title} is unweighted and taken {how}."


def _seed_notes(
    contestants: Contestants, places: Sequence[Place], settings: Settings
) -> Iterator[str]:
    """Yield a sentence for each way in which seeds are few or unequal, with where it is so."""
    single: dict[str, list[str]] = {}
    unequal: dict[str, list[str]] = {}
    for place in places:
        if place.dataset == AVERAGE:
            continue
        counts = {}
        for name in contestants.models:
            if place not in contestants.places[name]:
                continue
            count = contestants.seeds(name, place)
            if count == 1:
                single.setdefault(name, []).append(place.title)
            else:
                counts[name] = count
        usual = max(counts.values(), default=0)
        fewer = [f"{name} {count}" for name, count in counts.items() if count < usual]
        if fewer:
            words = f"fewer seeds than the others' {usual}: {', '.join(fewer)}"
            unequal.setdefault(words, []).append(place.title)
    outcome = "so the difference has no interval or p"
    if settings.method.needs_instances:
        outcome = "taken as it is: its interval is over test instances alone"
    for name, where in single.items():
        yield f"{name} has one seed on {', '.join(where)}, {outcome}."
    for words, where in unequal.items():
        yield f"On {', '.join(where)}, {words}."
