"""A comparison as text, Markdown, CSV, JSON and LaTeX: its tables and sentences.

Of two models, A is the first and B the second. Of many models, A is the best and B each other one in turn. A place is
what a score is over (`analysis.comparisons.contestants.Place`): a dataset, a task's average, or all tasks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.claims.wording import format_p
from analysis.comparisons.comparison import Comparison
from analysis.comparisons.contestants import Place, places_in_order
from analysis.comparisons.differences import (
    AHEAD,
    BEHIND,
    EQUAL,
    OPEN,
    UNKNOWN,
    Difference,
)
from analysis.evidence.intervals import INTERVALS, POOLED, caption_of
from analysis.palette import SIGN
from analysis.statistics.nested_spreads import NestedSpreads, SpreadEstimate
from common.level import ALPHA, LEVEL_IN_WORDS
from common.plain_text import first_of
from common.tables import Grid, TableDocument, signed

_MORE = frozenset({"p", "margin", "seeds", "needed"})
"""Columns that only `--full` shows, so that a table fits a terminal of 80 columns."""

_SPREADS = ("sd pretraining", "sd fine-tuning")
"""Columns that a table has only if models are arms, which are several pretrainings of one model."""

_UNKNOWN = SpreadEstimate(sd=math.nan, low=math.nan, high=math.nan)
"""The spread where it was not computed."""

_MOST_NAMED = 4
"""How many datasets or models a sentence names at most; of more datasets it says on how many."""

_COLOURS = {"A ahead": SIGN["+"], "B ahead": SIGN["-"]}
"""The colour of a cell, by the words that it begins with."""


def comparison_document(comparison: Comparison, *, full: bool = False) -> TableDocument:
    """Return the comparison as a document.

    Two models are compared on every place; many are listed in their order, each with its difference to the first.

    Args:
        comparison: what was compared, and the result.
        full: whether tables have all columns and, of many models, a table for each average. Without it they have the
            columns that an answer needs, and many models have one table, over all tasks.
    """
    # For people: the answer, what is compared, the tables, what limits it.
    body: list[str | Grid] = []
    answer = in_a_sentence(comparison) if comparison.is_pair else _best(comparison)
    if answer:
        body += [answer, ""]  # an empty line after it
    body += [about(comparison), ""]
    for number, (title, rows) in enumerate(difference_tables(comparison, full=full)):
        caption = title
        # Only the first caption of several says what all tables have in common.
        if number == 0:
            caption = _first_caption(comparison, title)
        # The only table of two models has no title.
        if title:
            body += [title, ""]
        label = f"compare{number or ''}"  # of LaTeX: compare, compare1, compare2...
        body += [_grid(rows, caption=caption, label=label, full=full), ""]

    body += footer(comparison, full=full)
    # For programs: a row for each difference, and everything else beside these rows in JSON.
    records = records_of(comparison)
    models = [_model_record(comparison, name) for name in comparison.contestants.models]
    data = {
        "source": comparison.source,
        "models": models,
        "settings": asdict(comparison.settings),
        "differences": records,
        "notes": list(comparison.notes),
        "floors": comparison.floors,
        "metrics": comparison.metrics,
        "read": comparison.read,
    }
    frame = pd.DataFrame(records)
    return TableDocument(body=body, records=frame, digits="%.10g", data=data)


def _first_caption(comparison: Comparison, title: str) -> str:
    """Return the caption of the first table in LaTeX: what is compared, what bold means, title and footer."""
    in_bold = "the model that is ahead"
    if not comparison.is_pair:
        in_bold = "the best mean, and those that are not shown to be worse"
    sentences = (about(comparison), f"Bold: {in_bold}.", title, *footer(comparison))
    return " ".join(sentences)


def _grid(rows: list[list[str]], *, caption: str, label: str, full: bool) -> Grid:
    """Return a table of differences as it is shown: without `full`, the columns of `_MORE` are left out.

    `rows` begin with the row of the columns' titles.
    """
    shown_columns = []
    for column, title in enumerate(rows[0]):
        if full or title not in _MORE:
            shown_columns.append(column)
    cells = [[row[column] for column in shown_columns] for row in rows]
    return Grid(
        cells, caption=caption, label=label, bold=_bold(cells), colours=_COLOURS
    )


def _model_record(comparison: Comparison, model: str) -> dict[str, Any]:
    """Return a model's name, where its scores are from, and their mean over the widest place that all models have."""
    contestants = comparison.contestants
    origin = "published cells" if model in contestants.printed else "runs"
    if contestants.is_table:
        origin = "table"
    mean = None
    if comparison.over is not None:
        mean = contestants.mean(model, comparison.over)
    return {"name": model, "from": origin, "mean": mean}


def records_of(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each difference: the names of columns, each with its value."""
    return [_record(comparison, difference) for difference in comparison.differences]


def _record(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    """Return a difference's row; the keys are the columns of the CSV, in their order."""
    result = difference.result
    place = difference.place
    contestants = comparison.contestants
    names = {
        "first": difference.first,
        "second": difference.second,
        "task": place.task,
        "dataset": place.dataset,
    }
    numbers = {
        "effect": result.effect,
        "effect_in_sd": difference.standardised,
        "low": result.low,
        "high": result.high,
        "p": result.p_zero,
        "p_holm": difference.p_holm,
        "margin": difference.margin,
        # The result is about the claim that the difference is within the margin.
        "p_equal": result.p_for if result.known else math.nan,
    }
    test = {
        "outcome": difference.outcome,
        "test": result.test,
        "interval": result.interval,
        "seeds": "/".join(map(str, result.seeds)),
        "seeds_to_find": difference.seeds_to_find,
        "seeds_still": difference.seeds_still,
        "p_exceeds": difference.p_exceeds,
    }
    means = {
        "mean_first": contestants.mean(difference.first, place),
        "mean_second": contestants.mean(difference.second, place),
    }
    record: dict[str, Any] = names | numbers | test | means
    if comparison.replicates:
        record |= _spread_columns(difference.spreads)
    return record | {"missing": result.missing}


def _spread_columns(spreads: NestedSpreads | None) -> dict[str, float]:
    """Return by column the standard deviations over pretrainings and seeds, each with the ends of its interval."""
    if spreads is None:
        spreads = NestedSpreads(pretrainings=_UNKNOWN, seeds=_UNKNOWN)
    estimates = {"pretraining": spreads.pretrainings, "fine_tuning": spreads.seeds}
    columns: dict[str, float] = {}
    for name, spread in estimates.items():
        columns[f"sd_{name}"] = spread.sd
        columns[f"sd_{name}_low"] = spread.low
        columns[f"sd_{name}_high"] = spread.high
    return columns


def _spread_cells(comparison: Comparison, difference: Difference) -> list[str]:
    """Return the cells of a row in the columns `_SPREADS`; none where no models are arms."""
    if not comparison.replicates:
        return []
    if difference.spreads is None:
        return ["-", "-"]
    both = (difference.spreads.pretrainings, difference.spreads.seeds)
    return [f"{spread.sd:.2f} [{spread.low:.2f}, {spread.high:.2f}]" for spread in both]


def _outcome(difference: Difference) -> str:
    """Return the outcome in words: which model is ahead, that they are practically equal, or that it is open.

    Where no test was possible it is the reason.
    """
    words = {
        AHEAD: "A ahead",
        BEHIND: "B ahead",
        EQUAL: "practically equal",
        UNKNOWN: difference.result.missing,
    }
    # OPEN has no other words: it is printed as it is.
    return words.get(difference.outcome, difference.outcome)


def about(comparison: Comparison) -> str:
    """Return what is compared, in a sentence."""
    contestants = comparison.contestants
    better, best = "above", "highest"
    if contestants.lower_is_better:
        better, best = "below", "lowest"
    if comparison.is_pair:
        first, second = contestants.models
        unit = "Points" if contestants.in_points else "In the unit of the scores"
        models = f"A: {first}. B: {second}. {unit}; {better} 0, A is better."
    elif comparison.over is None:
        models = f"{len(contestants.models)} models."
    else:
        order = f"{best} {_mean_of(comparison.over)} first"
        models = f"{len(contestants.models)} models, {order}."

    # `read` and `metrics` are whole sentences, on a table of scores and on the user's own datasets; they are
    # empty for other comparisons.
    sentences = (
        models,
        comparison.read,
        comparison.metrics,
        f"Source: {comparison.source}.",
    )
    return " ".join(filter(None, sentences))


def _best(comparison: Comparison) -> str:
    """Return a sentence on how the first of many models compares with the others on the widest place that all have.

    That is all tasks where it can be. The sentence is empty where the models have no place in common.
    """
    if comparison.over is None:
        return ""
    leader = comparison.contestants.models[0]  # they are in the order of their means

    # Of many models, differences are those between the first and each other one, on every place that both
    # have: here they are taken on the widest.
    others_by_outcome: dict[str, list[str]] = {}
    missing = ""  # why the first of those without a test has none
    for difference in comparison.differences:
        if difference.place == comparison.over and difference.first == leader:
            others = others_by_outcome.setdefault(difference.outcome, [])
            others.append(difference.second)
            missing = missing or difference.result.missing

    # The leader has the best mean, so that no other model is ahead of it.
    words = {
        AHEAD: "ahead of",
        EQUAL: "practically equal to",
        OPEN: "open against",
        UNKNOWN: f"not tested ({missing}) against",
    }
    clauses = []
    for outcome, how in words.items():
        if outcome in others_by_outcome:
            others = others_by_outcome[outcome]
            clauses.append(f"{how} {first_of(others, _MOST_NAMED)}")

    if not clauses:
        return ""
    return f"{leader} has the best {_mean_of(comparison.over)}: {'; '.join(clauses)}."


def _mean_of(place: Place) -> str:
    """Return the words for the mean over a place: `mean over all tasks`."""
    # The place of a table's mean has it in its title: `mean of 3 datasets`.
    return place.title if "mean" in place.title else f"mean over {place.title}"


def in_a_sentence(comparison: Comparison) -> str:
    """Return the answer about two models: which is ahead over all tasks, and on which tasks that is clear or open.

    Only a model whose lead is shown is called ahead. Where there is no mean over all tasks, a task's average or a
    dataset takes its place.
    """
    # Two models have one difference on each place; this is the one on the widest.
    [whole] = [one for one in comparison.differences if one.place == comparison.over]
    # Several datasets without any mean: none of them can stand for all. Where they are few, the first clause
    # is about the first of them, and the other clauses name the others.
    if whole.place.is_dataset and len(comparison.differences) > _MOST_NAMED:
        return _counts(comparison)

    # The first clause: by how much one model is ahead of the other on the widest place.
    leader, other = whole.first, whole.second
    leader_ahead, other_ahead = AHEAD, BEHIND  # outcomes are said of the first model
    effect, low, high = whole.result.effect, whole.result.low, whole.result.high

    # The model that is ahead is the subject of the sentence; where none is, the sign stays as in the table.
    if whole.outcome == BEHIND:
        leader, other = other, leader
        leader_ahead, other_ahead = BEHIND, AHEAD
        effect, low, high = -effect, -high, -low  # a reversed sign swaps the ends

    by = _by(comparison, effect, low, high)
    on = _on(comparison, whole.place)
    words_unless_ahead = {
        EQUAL: "Practically equal",
        OPEN: "Open",
        UNKNOWN: f"Not tested ({whole.result.missing})",
    }

    # None where a model is ahead.
    unsure = words_unless_ahead.get(whole.outcome)
    clauses = [f"{leader} is ahead by {by} {on}"]
    if unsure:
        clauses = [f"{unsure} {on}: {leader} minus {other} is {by}"]

    # The other clauses: on which parts that is so, or not. The parts are averages where there are any.
    averages = [one for one in comparison.differences if not one.place.is_dataset]
    # A table of scores has only one average, the mean over all datasets: then the datasets are listed.
    has_averages = len(averages) > 1
    listed = averages if has_averages else comparison.differences
    parts = [one for one in listed if one is not whole]
    untested = "not tested"
    reasons = {one.result.missing for one in parts if one.outcome == UNKNOWN}

    # One reason for all parts that are not tested, which the first clause has not said yet.
    if len(reasons) == 1 and whole.outcome != UNKNOWN:
        untested += f" ({reasons.pop()})"

    # The parts have a clause for each outcome, in this order. Where no model is the subject of the sentence, a clause
    # has to name its own.
    words = {
        leader_ahead: f"{leader} is ahead" if unsure else "ahead",
        other_ahead: f"{other} is ahead" if unsure else "behind",
        EQUAL: "practically equal",
        OPEN: "open",
        UNKNOWN: untested,
    }

    # Averages are few, and are named. Of many datasets only the number is given.
    is_counted = not has_averages and len(parts) > _MOST_NAMED
    clauses += _clauses_of_parts(parts, words, is_counted=is_counted)
    return f"{'; '.join(clauses)}."


def _by(comparison: Comparison, effect: float, low: float, high: float) -> str:
    """Return a difference with its interval, where there is one, and unit: `+1.20 [+0.50, +1.90] points`."""
    by = _signed(comparison, effect)
    if not math.isnan(low):
        by += f" {_interval(comparison, low, high)}"
    if comparison.contestants.in_points:
        by += " points"
    return by


def _on(comparison: Comparison, place: Place) -> str:
    """Return what a difference is over: `over all tasks`, `on the mean of 3 datasets`.

    A retrieval set of the user's own has its number of test queries.
    """
    on = f"over {place.title}"
    if "mean" in place.title:
        on = f"on the {place.title}"
    count = comparison.queries.get(place.dataset)
    if count:
        on += f" ({count:,} test queries)"
    return on


def _clauses_of_parts(
    parts: Sequence[Difference], words: Mapping[str, str], *, is_counted: bool
) -> list[str]:
    """Return a clause for each outcome that some parts have, in the order of `words`: `ahead on SC, TC`.

    Args:
        parts: differences on averages, or on datasets.
        words: by outcome what is said of it.
        is_counted: whether a clause gives the number of datasets in place of their names.
    """
    clauses = []
    for outcome, word in words.items():
        titles = []
        for part in parts:
            if part.outcome == outcome:
                titles.append(part.place.title.removesuffix(" average"))

        if not titles:
            continue
        where = ", ".join(titles)
        if is_counted:
            where = f"{len(titles)} of {len(parts)} datasets"
        clauses.append(f"{word} on {where}")

    return clauses


def _counts(comparison: Comparison) -> str:
    """Return a sentence with the number of datasets on which each of two models is ahead, or that are not decided."""
    first, second = comparison.contestants.models
    counts = Counter(difference.outcome for difference in comparison.differences)
    reasons = [
        one.result.missing for one in comparison.differences if one.outcome == UNKNOWN
    ]
    words = {
        AHEAD: f"{first} is ahead",
        BEHIND: f"{second} is ahead",
        EQUAL: "practically equal",
        OPEN: "open",
        UNKNOWN: f"not tested ({', '.join(dict.fromkeys(reasons))})",
    }
    clauses = []
    for outcome, word in words.items():
        if counts[outcome]:
            clauses.append(f"{word} on {counts[outcome]}")

    return f"Of {len(comparison.differences)} datasets: {'; '.join(clauses)}."


def _signed(comparison: Comparison, value: float) -> str:
    """Return a difference with its sign: in points with two decimals, else with four digits."""
    return signed(value) if comparison.contestants.in_points else f"{value:+#.4g}"


def _mean(comparison: Comparison, model: str, place: Place) -> str:
    """Return a mean, in percent with two decimals, else with five digits."""
    mean = comparison.contestants.mean(model, place)
    return f"{mean:.2f}" if comparison.contestants.in_points else f"{mean:#.5g}"


def _interval(comparison: Comparison, low: float, high: float) -> str:
    """Return an interval in brackets; `-` where there is none."""
    if math.isnan(low):
        return "-"
    return f"[{_signed(comparison, low)}, {_signed(comparison, high)}]"


def difference_tables(
    comparison: Comparison, *, full: bool = True
) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield title and rows of each table of differences.

    Two models have one table. Many models have one over the widest place or, with `full`, one for each average.
    """
    if comparison.is_pair:
        yield "", _pair_rows(comparison)
        return
    first = comparison.contestants.models[0]
    for place in _tabled_places(comparison, full=full):
        words = f"{first} (A) minus each of the other models (B), {place.title}; Holm over all pairs of models:"
        yield words, _against(comparison, place)


def _tabled_places(comparison: Comparison, *, full: bool) -> list[Place]:
    """Return the places that a comparison of many models has a table for.

    With `full` these are all averages (of a table of scores also all datasets), otherwise only the widest place. If the
    widest place is a dataset, they are all places, with `full` or without.
    """
    # The widest place that all models have, as a list of one; empty where they have none in common. It is
    # added to other places so that it has a table in any case; each place is listed once.
    widest_place = [] if comparison.over is None else [comparison.over]
    places = [difference.place for difference in comparison.differences]
    if full and comparison.contestants.is_table:
        return places_in_order(places)

    # A study with one dataset of a task has no averages: its datasets are the answer.
    if any(place.is_dataset for place in widest_place):
        return places_in_order([*places, *widest_place])
    averages = [place for place in places if not place.is_dataset]
    averages_in_order = places_in_order([*averages, *widest_place])
    if full:
        return averages_in_order

    # Without a place in common, the last in order is the widest that the first model shares with another. The
    # list is empty where there are no averages at all.
    return widest_place or averages_in_order[-1:]


def _bold(rows: list[list[str]]) -> set[tuple[int, int]]:
    """Return the cells (row, column) in bold.

    Of two models it is the mean of the one that is ahead, of many each mean that is not shown to be worse.

    Args:
        rows: of a table, the first with the columns' titles. The means of A and B are in the columns 1 and 2, those of
            many models in column 1.
    """
    head = rows[0]
    # One for each row. For the row of titles it is the title of the column, which is not an outcome.
    outcomes = [row[head.index("outcome")] for row in rows]
    is_pair = head[1] == "A"

    # By outcome the column of the mean that is bold; other outcomes have none.
    if is_pair:
        column_of = {"A ahead": 1, "B ahead": 2}
    elif "B ahead" in outcomes:
        # Where other models are ahead of the first, it is not the best on this place: only those others are bold.
        column_of = {"B ahead": 1}
    else:
        # The row of the first model itself has an empty outcome.
        column_of = dict.fromkeys(("", "open", "practically equal"), 1)

    cells = set()
    for row, outcome in enumerate(outcomes):
        if outcome in column_of:
            cells.add((row, column_of[outcome]))

    return cells


def _pair_rows(comparison: Comparison) -> list[list[str]]:
    """Return the rows of the table of two models: the columns' titles, then a row for each dataset and mean."""
    contestants = comparison.contestants
    head = [
        "",
        "A",
        "B",
        "A - B",
        f"{LEVEL_IN_WORDS} interval",
        "p",
        "p (Holm)",
        "margin",
        "outcome",
        "seeds",
        "needed",
    ]
    if comparison.replicates:
        head += _SPREADS
    rows = [head]
    for difference in comparison.differences:
        place = difference.place
        means = [_mean(comparison, model, place) for model in contestants.models]
        seeds = "/".join(map(str, difference.result.seeds))
        needed = "-"
        if difference.seeds_to_find is not None:
            needed = f"{difference.seeds_to_find:,}"
        row = [place.title, *means, *_test_cells(comparison, difference)]
        row += [f"±{difference.margin:.3g}", _outcome(difference), seeds, needed]
        rows.append(row + _spread_cells(comparison, difference))

    return rows


def _test_cells(comparison: Comparison, difference: Difference) -> list[str]:
    """Return the cells with the difference, its interval and its p's."""
    result = difference.result
    return [
        _signed(comparison, result.effect),
        _interval(comparison, result.low, result.high),
        format_p(result.p_zero),
        format_p(difference.p_holm),
    ]


def _against(comparison: Comparison, place: Place) -> list[list[str]]:
    """Return the rows of the table that compares the first model with each other one on a dataset or mean.

    They are the columns' titles, the first model with only its mean, and a row for each other model.
    """
    first = comparison.contestants.models[0]
    head = [
        "",
        "mean",
        "A - B",
        f"{LEVEL_IN_WORDS} interval",
        "p",
        "p (Holm)",
        "outcome",
    ]
    if comparison.replicates:
        head += _SPREADS
    # The first model has a name and a mean; its other cells are empty.
    blank = [""] * (len(head) - 2)
    rows = [head, [first, _mean(comparison, first, place), *blank]]
    for difference in comparison.differences:
        if difference.place == place:
            row = [difference.second, _mean(comparison, difference.second, place)]
            row += [*_test_cells(comparison, difference), _outcome(difference)]
            rows.append(row + _spread_cells(comparison, difference))

    return rows


def footer(comparison: Comparison, *, full: bool = True) -> list[str]:
    """Return lines on how the comparison was done and what limits it; without `full`, only on the columns shown."""
    # How intervals were made, and how often they cover the truth. That depends on the kind of interval, on
    # the fewest seeds of either model and, of a pooled bootstrap, on the number of cells in its pool
    # (`caption_of`).
    seeds_and_kinds = set()
    places_of_pools = []
    for difference in comparison.differences:
        result = difference.result
        if not result.known:
            continue
        seeds_and_kinds.add((min(result.seeds), result.interval))
        if result.interval == POOLED.name:
            places_of_pools.append(difference.place)

    kinds = {kind for _, kind in seeds_and_kinds}
    lines = []
    if seeds_and_kinds:
        # Number of cells in the smallest pool; None where no interval is of the pooled bootstrap.
        cells = comparison.contestants.cells(places_of_pools)
        # The second argument links an interval to its coverage.
        words = caption_of(seeds_and_kinds, "; for a single mean, it ", cells)
        names = ", ".join(name for name in INTERVALS if name in kinds)
        lines.append(f"Intervals for differences ({names}): {words}.")

    # What the columns p, outcome and needed are; of many models the titles of the tables say it.
    if comparison.is_pair:
        tasks = (
            ", and separately over the tasks; not applied to the mean over all tasks"
        )
        if comparison.contestants.is_table:
            tasks = "; not applied to their mean"
        lines.append(
            f"p: two-sided, after Holm's adjustment over the datasets{tasks}. A or B is ahead if it is at "
            f"most {ALPHA}; practically equal: by two one-sided tests, the difference is smaller than the margin; "
            "otherwise open."
        )
        if full:
            lines.append(
                "Needed: seeds per model to detect a difference this large, or as large as the margin if that is "
                "larger, in 80 of 100 studies."
            )

    # What the results are about: other pretrainings, other test instances. The notes come last, with what a model
    # scores without reading its input (the floors).
    lines += _pretraining_lines(comparison)
    # Only a kind that needs the scores of single instances allows for another sample of these.
    if any(not INTERVALS[kind].needs_instances for kind in kinds):
        lines.append(
            "The intervals take the test instances as given; another sample of them moves scores as well."
        )

    return [*lines, *comparison.notes, *filter(None, [comparison.floors])]


def _pretraining_lines(comparison: Comparison) -> list[str]:
    """Return lines on which models are several pretrainings, which are one of several, and which were pretrained once.

    Lines on the columns of arms are among them.
    """
    lines = []
    if comparison.repeats:
        lines.append(
            f"{', '.join(comparison.repeats)}: one of several pretrainings; `--replicates` compares over all of them."
        )

    if comparison.replicates:
        lines.append(
            f"{', '.join(comparison.replicates)}: several pretrainings as one arm. Its seeds are pretrainings, each "
            "the mean of its fine-tuning seeds, and its spread is over pretrainings."
        )
        lines.append(
            f"{', '.join(_SPREADS)}: standard deviations between pretrainings, and between the fine-tuning seeds of "
            f"one, with {LEVEL_IN_WORDS} intervals, pooled over the arms in a row."
        )

    repeated = {*comparison.replicates, *comparison.repeats}
    once = [name for name in comparison.contestants.models if name not in repeated]
    # The seeds of a table may be pretrainings, so that nothing can be said of how often its models were pretrained.
    if not once or comparison.contestants.is_table:
        return lines
    which = ", ".join(once)
    if not repeated:
        which = "Each model"
    elif len(once) > 1:
        which = f"Each of {which}"

    lines.append(
        f"{which} was pretrained once, so the results do not generalise to other pretrainings."
    )
    return lines
