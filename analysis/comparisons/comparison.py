"""A whole comparison of two models or many: what was compared, what came out, what a reader has to know.

With `replicates`, models that were pretrained several times are compared as arms: an arm is one model, whose seeds are
its pretrainings, each the mean of its fine-tuning seeds.
"""

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
    """Models that are compared with each other, and the result."""

    source: str
    """Where the scores come from, with what has to be said of them first."""
    contestants: Contestants
    """The models: two in the order given; many from the best to the worst mean over the place `over`."""
    over: Place | None
    """The widest place that all models have scores on: all tasks where it can be; None where they have none in
    common."""
    differences: tuple[Difference, ...]
    """Of two models those on every place that both have; of many those between the first and each other one."""
    notes: tuple[str, ...]
    """What limits the comparison, a sentence each."""
    settings: Settings
    floors: str = ""
    """A sentence on what a model scores without reading its input."""
    metrics: str = ""
    """A sentence on the metrics of the user's own datasets; empty where there are none."""
    read: str = ""
    """A sentence on what was read of a table of scores; empty for other sources."""
    queries: Mapping[str, int] = field(default_factory=dict)
    """By dataset the number of test queries of the user's own retrieval sets."""
    replicates: tuple[str, ...] = ()
    """The models that are arms of several pretrainings."""
    repeats: tuple[str, ...] = ()
    """Other models that were pretrained several times, of which one pretraining is compared."""

    @property
    def is_pair(self) -> bool:
        """Whether there are two models, of which every detail is printed."""
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
        source: runs (the study's or the user's own) or the published cells; a model without runs in the source takes
            its printed cells.
        names: names of models, or shell patterns.
        settings: selection rule, interval, resamples and seed.
        replicates: names or shell patterns, each of which stands for the pretrainings of one arm (`arms_in`); the arms
            are compared with the models, and with each other.
        margin: half-width of the region of practical equivalence, in points; None: the findings' margins by task.

    Raises:
        UserError: an unknown model, fewer than two, nothing in common, or no test for the interval.
    """
    # Made before runs become arms: these words count the runs of the source.
    source_words = source.words
    by_pretraining: ArmScores | None = None
    # Each arm becomes a model of the source. It is called by its pattern, which is therefore one of the names
    # to compare.
    if replicates:
        runs = source.need_runs("--replicates")
        arms = arms_in(runs, replicates)
        by_pretraining = ArmScores.of(runs, arms, settings.selection)
        source = replace(source, runs=with_arms(runs, arms, settings.selection))
        names = [*names, *replicates]

    # The comparison, to which arms add the spreads between and within pretrainings.
    contestants = contestants_of(source, names, settings)
    result = _compared(contestants, settings, margin=margin, label=source.label)
    if by_pretraining is not None:
        differences = []
        for difference in result.differences:
            pair = (difference.first, difference.second)
            spreads = by_pretraining.spreads(pair, difference.place, contestants.tasks)
            differences.append(replace(difference, spreads=spreads))

        result = replace(
            result, differences=tuple(differences), replicates=tuple(replicates)
        )

    # What only the source can say of the datasets that were compared: what a model scores on them without
    # reading its input (the floors), and the metrics of the user's own datasets.
    places = [difference.place for difference in result.differences]
    datasets = in_order({place.dataset for place in places if place.is_dataset})
    floors = source.floors_in_words(datasets)
    metrics = source.own_metrics(datasets)

    # Models with several pretrainings in the source that were not made an arm: only one of these is compared.
    # In `source`, rows of the arms have replaced their pretrainings, so that no arm is among these models.
    arms_left = {} if source.runs is None else arms_of(source.runs)
    repeats = []
    for name in contestants.models:
        arm, _ = arm_of(name)  # the name without the ending of a pretraining
        if arm in arms_left:
            repeats.append(name)

    # Up to here `source` of the result is the source's label.
    return replace(
        result,
        source=source_words,
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
        table: the table as `analysis.comparisons.scores_table.read_scores` returns it.
        names: names of models, or shell patterns; none stand for all models.
        settings: interval, resamples and seed.
        margin: half-width of the region of practical equivalence, in the scores' unit; None: the findings' where task
            and unit are known, else there is no such region.

    Raises:
        UserError: fewer than two models, nothing in common, or an interval that needs more than scores.
    """
    contestants = contestants_of_table(table, names, settings)
    result = _compared(contestants, settings, margin=margin, label=table.where)
    # A floor is what a model scores on a dataset without reading its input. The paper's floors are for its
    # own datasets and metrics. `Contestants.point` is how large 1 % of the best possible score is in the
    # table's unit; it is None where that is not known, as for other datasets and metrics.
    in_known_unit = []
    for difference in result.differences:
        place = difference.place
        if place.is_dataset and contestants.point(place):
            in_known_unit.append(place.dataset)
    floors = PUBLISHED.floors_in_words(in_order(in_known_unit))
    notes = (*result.notes, *_table_notes(table, contestants))
    return replace(result, read=table.read, notes=notes, floors=floors)


def _compared(
    contestants: Contestants, settings: Settings, *, margin: float | None, label: str
) -> Comparison:
    """Return the comparison without floors, metrics and other words that come from the source.

    Args:
        contestants: the models.
        settings: how scores and intervals were made.
        margin: half-width of the region of practical equivalence; None: the findings' margins.
        label: name of the source in sentences.
    """
    # The widest place (a mean over tasks or datasets, else a dataset) on which all models have scores; None: none.
    over = widest(contestants.shared())
    if len(contestants.models) == 2:
        first, second = contestants.models
        if over is None:
            raise UserError(
                f"{first} and {second} have no dataset in common in {label}"
            )
        differences = compare_pair(contestants, first, second, margin=margin)
    else:
        # Without a place in common there is no order: the models stay as they were given.
        if over is not None:
            ordered = sorted(
                contestants.models,
                key=lambda model: contestants.mean(model, over),
                reverse=not contestants.lower_is_better,
            )
            contestants = replace(contestants, models=tuple(ordered))

        # The first model is the best one; without an order, the first one given.
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
    """Return the arms that patterns stand for: by pattern the names of its pretrainings.

    Args:
        runs: a runs table.
        patterns: each is a name, which stands for all pretrainings of that model (`NAME`, `NAME-s1`, `NAME-s2`), or a
            shell pattern that pretrainings match.

    Raises:
        UserError: fewer than two models match a pattern, two of them branch from one pretraining, or a model is in two
            arms.
    """
    names = list(dict.fromkeys(runs["model"]))
    arms: dict[str, list[str]] = {}
    in_an_arm: set[str] = set()
    for pattern in patterns:
        members = []
        for name in names:
            model, _ = arm_of(name)  # the name without the ending of a pretraining
            if model == pattern or fnmatch.fnmatchcase(name, pattern):
                members.append(name)

        if len(members) < 2:
            raise UserError(
                f"--replicates {pattern} matches {', '.join(members) or 'no model'}, but an arm needs at least two "
                "pretrainings; give a name without its ending (NAME stands for NAME, NAME-s1 and NAME-s2) or a pattern "
                "such as 'mine-s*' (names outside the released scheme also need --add-model)"
            )

        # Models that branch from one trunk share its pretraining, so that they are no independent repetitions.
        members_of = Counter(map(trunk_of, members))
        on_one_trunk = [name for name in members if members_of[trunk_of(name)] > 1]
        if on_one_trunk:
            raise UserError(
                f"--replicates {pattern}: {', '.join(on_one_trunk):.200} come from one pretraining, of which an "
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
    """Return a runs table in which the runs of an arm's pretrainings are replaced by rows of the arm.

    A pretraining has one row on each dataset: the mean over its fine-tuning seeds at the chosen learning rates. In the
    column `seed`, the row has a number that stands for the pretraining. So the spread over an arm's "seeds" is the
    spread over its pretrainings, with one degree of freedom fewer than there are pretrainings, however many fine-tuning
    seeds each has. It includes the part of the spread over fine-tuning seeds that is left in their means.

    A pretraining has the same number on all tasks. Models that branch from one trunk share a pretraining, and so its
    number, as far as their names say so. By these numbers `Evidence` knows which scores share a pretraining.

    Args:
        runs: a runs table.
        arms: by name of the arm the models that are its pretrainings; a model is in one arm at most.
        selection: rule that chooses learning rates; one of `learning_rate_selection.SELECTIONS`.

    Returns:
        A runs table; the column `MEMBERS` says of which runs a pretraining's row is the mean.
    """
    selected = select_runs(runs, selection)
    # The runs of models in no arm, at all learning rates: among these the rule chooses when scores are read.
    others = runs
    rows_of_arms = []

    # Numbers of pretrainings are higher than all fine-tuning seeds, so that the two cannot be mistaken for each other.
    number_of_trunk: dict[str, int] = {}
    first_number = int(runs["seed"].max()) + 1
    for arm_name, members in arms.items():
        others = others[~others["model"].isin(members)]
        number_of = {}
        for name in members:
            next_number = first_number + len(number_of_trunk)
            # A trunk that has a number keeps it.
            number_of[name] = number_of_trunk.setdefault(trunk_of(name), next_number)

        rows = _pretrainings(selected[selected["model"].isin(members)])
        rows = rows.assign(seed=rows["model"].map(number_of), model=arm_name)
        rows_of_arms.append(rows)

    return pd.concat([others, *rows_of_arms], ignore_index=True)


def _pretrainings(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each model and dataset of some runs: the mean over the seeds, and the runs that it is over."""
    scores = ["validation_score", "test_score"]
    by_cell = runs.groupby(CELL, as_index=False, observed=True)
    means = by_cell[scores].mean()

    # By cell (model, task, dataset) the keys of its runs, by which the scores of their test instances are found.
    keys_of: dict[tuple[str, ...], list[tuple[object, ...]]] = {}
    keys = records(runs, *run_key(runs))
    for cell, key in zip(records(runs, *CELL), keys, strict=True):
        keys_of.setdefault(cell, []).append(key)
    members = [keys_of[cell] for cell in records(means, *CELL)]
    means[MEMBERS] = pd.Series(members, dtype=object)

    # Columns that are not averaged, such as `n_test`, are equal in all runs of a cell: any run gives them.
    one_run_each = runs.drop_duplicates(CELL)
    other_columns = one_run_each.drop(columns=scores)
    return other_columns.merge(means)  # on the columns of the cell


def source_of_arms(source: Source, selection: str) -> Source:
    """Return a source that has only the models that were pretrained several times, each as an arm (`with_arms`).

    Raises:
        UserError: no model was pretrained several times, or the source has no runs.
    """
    runs = source.need_runs("--replicates")
    arms = arms_of(runs)
    if not arms:
        raise UserError(
            f"--replicates: no model of {source.label} was pretrained twice (NAME, NAME-s1, NAME-s2)"
        )
    pretrainings = set(itertools.chain.from_iterable(arms.values()))
    runs_of_arms = runs[runs["model"].isin(pretrainings)]
    return replace(source, runs=with_arms(runs_of_arms, arms, selection))


def _notes(
    label: str,
    contestants: Contestants,
    differences: Sequence[Difference],
    settings: Settings,
) -> Iterator[str]:
    """Yield what limits the comparison, a sentence each."""
    # Models of which the paper prints cells, beside models with runs. `contestants.printed` is a set of such
    # models; here they are in the order of the comparison.
    printed = [name for name in contestants.models if name in contestants.printed]
    if printed and len(printed) < len(contestants.models):
        yield (
            f"{', '.join(printed)}: no runs in {label}, so the paper's printed cells are used, and differences "
            "are tested by Welch's t test."
        )

    # What some models have no scores on.
    places_of_models = itertools.chain.from_iterable(contestants.places.values())
    all_places = places_in_order(places_of_models)
    for model, of_model in contestants.places.items():
        absent = []
        for place in all_places:
            if place.is_dataset and place not in of_model:
                absent.append(place.title)

        if absent:
            yield (
                f"{model} has no score on {', '.join(absent)}, so it is not compared there or on their averages."
            )

    is_of_paper = any(place.dataset in DATASETS for place in all_places)
    # Only the paper's tasks have averages; a table of scores has none.
    has_averages = is_of_paper and not contestants.is_table
    if has_averages and OVERALL not in contestants.shared():
        yield "No difference over all tasks: it needs two tasks for which every model has all datasets."

    # Seeds: single ones, fewer than others have, the same scores twice, few against many.
    yield from _seed_notes(contestants, all_places, settings)
    yield from _copy_notes(contestants)

    # The mean over all tasks has as few seeds as one of its parts, and that part is named in its place.
    on_parts = [one for one in differences if one.place.task != ALL]
    uneven = [one for one in on_parts if few_against_many(one.result.seeds)]
    if uneven:
        where = _titles_of(uneven)
        yield (
            f"On {where}, two or three seeds are held against many, where Welch's t leads falsely too often: its "
            "degrees of freedom are those of the smaller sample."
        )

    # How the differences are to be understood. Findings are about the paper's models and averages, not about
    # a table's.
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
    # A row for each (model, task, dataset), a column for each seed.
    by_seed = contestants.evidence.values
    compared = by_seed[by_seed.index.get_level_values(0).isin(contestants.models)]
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
    """Yield a sentence for each finding that counts the difference of these models, with its outcomes by task.

    A finding corrects for more tests than a comparison of two models does, so that it may show less.
    """
    # By finding and its number of tests: by outcome ("NAME ahead on", "open on") the tasks.
    tasks_of: dict[tuple[str, int], dict[str, list[str]]] = {}
    pairs = owned_pairs(contestants.models, contestants.evidence.result)
    for (task, _models), pair in pairs.items():
        outcome = f"{pair.ahead} ahead on" if pair.ahead else "open on"
        of_finding = tasks_of.setdefault((pair.finding, pair.tested), {})
        of_finding.setdefault(outcome, []).append(task)

    for (finding, tested), of_finding in tasks_of.items():
        clauses = []
        for outcome, tasks in of_finding.items():
            clauses.append(f"{outcome} {', '.join(tasks)}")
        listed = "; ".join(clauses)
        yield (
            f'{finding} counts the same averages among {tested} comparisons ("clear" on pages and in figures): '
            f"{listed}."
        )


def _table_notes(table: ScoresTable, contestants: Contestants) -> Iterator[str]:
    """Yield how the mean over a table's datasets was taken, or why there is none, in a sentence."""
    shared = contestants.shared()
    if OVERALL not in shared:
        # The mean of one dataset is the dataset, and needs no sentence.
        if len(shared) > 1:
            yield "No mean over datasets: some have scores up to 1, others far above."
        return

    # This place equals OVERALL, but has a title with the number of datasets.
    mean = shared[shared.index(OVERALL)]
    # The models whose mean was taken within each seed. `parts` has the cells that a model's mean is over: a
    # mean within seeds is a cell of its own, and its only part.
    within_seeds = []
    for model in contestants.models:
        if contestants.parts[model] == [(ALL, AVERAGE)]:
            within_seeds.append(model)

    how = "over datasets as independent cells"
    if len(within_seeds) == len(contestants.models):
        how = "within each seed, since all datasets have the same seeds"
    elif within_seeds:
        how += f", but of {', '.join(within_seeds)} within each seed"

    yield f"The {mean.title} is unweighted and taken {how}."


def _seed_notes(
    contestants: Contestants, places: Sequence[Place], settings: Settings
) -> Iterator[str]:
    """Yield the models that have one seed, then those with fewer seeds than others, each with the datasets."""
    # By model the datasets on which it has one seed.
    single: dict[str, list[str]] = {}
    # By what is said of models the datasets where it is so: a sentence for all datasets with the same
    # numbers.
    unequal: dict[str, list[str]] = {}
    for place in places:
        if not place.is_dataset:
            continue
        counts = {}
        for name in contestants.models:
            if place not in contestants.places[name]:
                continue
            count = contestants.seeds(name, place)
            # A model with one seed has a sentence of its own, and is not named among those with fewer.
            if count == 1:
                single.setdefault(name, []).append(place.title)
            else:
                counts[name] = count

        most = max(counts.values(), default=0)
        fewer = [f"{name} {count}" for name, count in counts.items() if count < most]
        if fewer:
            words = f"fewer seeds than the others' {most}: {', '.join(fewer)}"
            unequal.setdefault(words, []).append(place.title)

    consequence = "so the difference has no interval or p"
    # Intervals over test instances need no second seed.
    if settings.method.needs_instances:
        consequence = "taken as it is: its interval is over test instances alone"
    for name, datasets in single.items():
        yield f"{name} has one seed on {', '.join(datasets)}, {consequence}."
    for words, datasets in unequal.items():
        yield f"On {', '.join(datasets)}, {words}."
