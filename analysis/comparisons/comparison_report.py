"""A comparison as text, Markdown, CSV, JSON and LaTeX: its tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.claims.wording import format_p
from analysis.comparisons.comparison import Comparison, leader
from analysis.comparisons.contestants import OVERALL, Place
from analysis.comparisons.differences import AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN, Difference
from analysis.comparisons.ranking import Ranking
from analysis.evidence.intervals import INTERVALS, POOLED, caption_of
from analysis.palette import SIGN
from analysis.statistics.inference import superiority_words
from common.tables import Grid, TableDocument, signed

__all__ = [
    "about", "comparison_document", "difference_tables", "footer", "in_a_sentence", "ranking_sentences", "records_of",
]  # fmt: skip


_MORE = frozenset({"p", "P(A > B)", "margin", "seeds", "needed"})
"""Columns that only `--full` shows, so that a table fits a terminal of 80 columns."""

_COLOURS = {"A ahead": SIGN["+"], "B ahead": SIGN["-"]}


def comparison_document(comparison: Comparison, *, full: bool = False) -> TableDocument:
    """Return the comparison: for two models every place, for many the ranking and the first's lead.

    Without `full`, tables have the columns that an answer needs, and the lead of the first model is over all tasks.
    """
    body: list[str | Grid] = [*([in_a_sentence(comparison), ""] if comparison.is_pair else [])]
    body += [about(comparison), ""]
    if comparison.ranking is not None:
        sentences = ranking_sentences(comparison.ranking)
        caption = " ".join([about(comparison), *sentences])
        ranking = Grid(ranking_rows(comparison.ranking), caption=caption, label="ranking", stubs=2)
        body += [ranking, "", *sentences, ""]
    tables = list(difference_tables(comparison))
    for place, (title, rows) in enumerate(tables if full else tables[-1:]):
        caption = " ".join([about(comparison), title, *footer(comparison)] if place == 0 else [title])
        shown = _shown(rows, full=full)
        grid = Grid(shown, caption=caption, label=f"compare{place or ''}", colours=_COLOURS)
        body += [*([title, ""] if title else []), grid, ""]
    records = records_of(comparison)
    return TableDocument(
        body=[*body, *footer(comparison, full=full)],
        records=pd.DataFrame(records),
        digits="%.10g",
        data={
            "source": comparison.source,
            "models": [
                {
                    "name": name,
                    "from": "published cells" if name in comparison.contestants.printed else "runs",
                }
                for name in comparison.contestants.models
            ],
            "settings": asdict(comparison.settings),
            "differences": records,
            "ranking": None if comparison.ranking is None else _plain_ranking(comparison.ranking),
            "notes": list(comparison.notes),
        },
    )


def _shown(rows: list[list[str]], *, full: bool) -> list[list[str]]:
    """Return the columns to show."""
    wanted = [place for place, title in enumerate(rows[0]) if full or title not in _MORE]
    return [[row[place] for place in wanted] for row in rows]


def records_of(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for each difference, with the names of columns."""
    return [_record(one, comparison.is_pair) for one in comparison.differences]


def _record(one: Difference, is_pair: bool) -> dict[str, Any]:
    found = one.result
    row: dict[str, Any] = {
        "first": one.first, "second": one.second, "task": one.place.task, "dataset": one.place.dataset,
        "effect": found.effect, "effect_in_sd": one.standardised, "low": found.low, "high": found.high,
        "p": found.p_zero, "p_holm": one.p_holm,
        "superiority": one.superiority, "superiority_low": one.superiority_low,
        "superiority_high": one.superiority_high, "margin": one.margin,
        "p_equal": found.p_for if found.known else math.nan, "outcome": one.outcome, "test": found.test,
        "interval": found.interval, "seeds": "/".join(map(str, found.seeds)),
    }  # fmt: skip
    if is_pair:
        row |= {"seeds_to_find": one.seeds_to_find, "seeds_still": one.seeds_still}
    return row | {"missing": found.missing}


def _plain_ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "datasets": [place.dataset for place in ranking.datasets],
        "ranked": [asdict(row) for row in ranking.ranked],
        "groups": [list(group) for group in ranking.groups],
        "friedman_p": ranking.friedman_p,
        "critical_difference": ranking.critical_difference,
    }


def _outcome(one: Difference) -> str:
    """Return what can be said: which model is ahead, that they are practically equal, or that it is open."""
    words = {AHEAD: "A ahead", BEHIND: "B ahead", EQUAL: "practically equal", UNKNOWN: one.result.missing}
    return words.get(one.outcome, one.outcome)


def about(comparison: Comparison) -> str:
    """Return what is compared, in a sentence."""
    if comparison.is_pair:
        first, second = comparison.contestants.models
        return f"A: {first}. B: {second}. Points; above 0, A is better. Source: {comparison.source}."
    return f"{len(comparison.contestants.models)} models. Source: {comparison.source}."


def in_a_sentence(comparison: Comparison) -> str:
    """Return the answer about two models: which is ahead over all tasks, and on which tasks that is clear or open.

    Only a model whose lead is shown is called ahead. Where there is no mean over all tasks, a task's average or a
    dataset takes its place.
    """
    whole = max(comparison.differences, key=lambda one: (one.place == OVERALL, not one.place.is_dataset))
    found, lead, other, clear, behind = whole.result, whole.first, whole.second, AHEAD, BEHIND
    effect, low, high = found.effect, found.low, found.high
    if effect < 0:
        lead, other, clear, behind = other, lead, BEHIND, AHEAD
        effect, low, high = -effect, -high, -low
    ends = "" if math.isnan(low) else f" {_interval(low, high)}"
    by, on = f"{signed(effect)}{ends} points", f"over {whole.place.title}"
    unsure = {EQUAL: "Practically equal", OPEN: "Open", UNKNOWN: f"Not tested ({found.missing})"}
    seen = unsure.get(whole.outcome)
    said = [f"{seen} {on}: {lead} minus {other} is {by}" if seen else f"{lead} is ahead by {by} {on}"]
    averages = [one for one in comparison.differences if not one.place.is_dataset]
    parts = [one for one in averages or comparison.differences if one is not whole]
    words = {
        clear: f"{lead} is ahead" if seen else "clear", behind: f"{other} is ahead" if seen else "behind",
        EQUAL: "practically equal", OPEN: "open", UNKNOWN: "not tested",
    }  # fmt: skip
    for outcome, word in words.items():
        if where := [one.place.title.removesuffix(" average") for one in parts if one.outcome == outcome]:
            said.append(f"{word} on {', '.join(where)}")
    return f"{'; '.join(said)}."


def _interval(low: float, high: float, show: Callable[[float], str] = signed) -> str:
    return "-" if math.isnan(low) else f"[{show(low)}, {show(high)}]"


def _two(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def difference_tables(comparison: Comparison) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each table of differences under its title."""
    if comparison.is_pair:
        yield "", _pair_rows(comparison)
        return
    first = leader(comparison.contestants, comparison.ranking)
    for place in dict.fromkeys(one.place for one in comparison.differences if not one.place.is_dataset):
        rows = _against(comparison, place)
        if len(rows) > 1:
            words = f"{first} (A) minus each of the other models (B), {place.title}; Holm over all pairs of models:"
            yield words, rows
            if place == OVERALL:
                return


def _pair_rows(comparison: Comparison) -> list[list[str]]:
    contestants = comparison.contestants
    first, second = contestants.models
    rows = [
        ["", "A", "B", "A - B", "95 % interval", "p", "p (Holm)", "P(A > B)", "margin", "outcome", "seeds", "needed"]
    ]  # fmt: skip
    for one in comparison.differences:
        found = one.result
        needed = "-" if one.seeds_to_find is None else f"{one.seeds_to_find:,}"
        chance = _two(one.superiority)
        if not math.isnan(one.superiority_low):
            chance += f" {_interval(one.superiority_low, one.superiority_high, _two)}"
        rows.append(
            [
                one.place.title, *(f"{contestants.mean(model, one.place):.2f}" for model in (first, second)),
                signed(found.effect), _interval(found.low, found.high), format_p(found.p_zero), format_p(one.p_holm),
                chance, f"±{one.margin:.3g}",
                _outcome(one),
                "/".join(map(str, found.seeds)), needed,
            ]
        )  # fmt: skip
    return rows


def _against(comparison: Comparison, place: Place) -> list[list[str]]:
    rows = [["B", "A - B", "95 % interval", "p", "p (Holm)", "P(A > B)", "outcome"]]
    for one in comparison.differences:
        if one.place == place:
            found = one.result
            rows.append(
                [
                    one.second, signed(found.effect), _interval(found.low, found.high), format_p(found.p_zero),
                    format_p(one.p_holm), _two(one.superiority), _outcome(one),
                ]
            )  # fmt: skip
    return rows


def ranking_rows(ranking: Ranking) -> list[list[str]]:
    """Return the ranking's table."""
    rows = [["", "model", "mean rank", "95 % interval", "P(first)"]]
    for place, one in enumerate(ranking.ranked, start=1):
        rows.append(
            [
                str(place), one.model, _two(one.mean_rank), _interval(one.rank_low, one.rank_high, _two),
                _two(one.p_first),
            ]
        )  # fmt: skip
    return rows


def ranking_sentences(ranking: Ranking) -> list[str]:
    """Return what the ranking is over, Friedman's test, and which models are not distinguished."""
    count, intervals = len(ranking.datasets), caption_of(ranking.intervals, n_cells=ranking.cells)
    sentences = [
        f"Mean rank is over the {count} datasets that all models have. Its interval and P(first) come from draws of "
        f"every mean; the middle 95 % of a mean's draws form its {intervals}."
    ]
    if not math.isnan(ranking.critical_difference):
        sentences.append(
            f"Friedman's test of equal ranks: p {format_p(ranking.friedman_p)}. Nemenyi's critical difference of mean "
            f"ranks: {ranking.critical_difference:.2f}."
        )
        groups = [f"{group[0]} to {group[-1]} ({len(group)})" for group in ranking.groups]
        sentences.append(
            f"Models whose mean ranks differ by less are not distinguished: {'; '.join(groups)}."
            if groups
            else "No two models' mean ranks differ by less."
        )
    return sentences


def footer(comparison: Comparison, *, full: bool = True) -> list[str]:
    """Return how it was done and what limits it, a line each; without `full` of the columns that are shown then."""
    known = [one for one in comparison.differences if one.result.known]
    seen = {(min(one.result.seeds), one.result.interval) for one in known}
    cells = comparison.contestants.cells(one.place for one in known if one.result.interval == POOLED.name)
    names = ", ".join(name for name in INTERVALS if name in {name for _, name in seen})
    lines = (
        [f"Intervals for differences ({names}): {caption_of(seen, '; for a single mean, it ', cells)}."]
        if seen
        else []
    )
    if comparison.is_pair:
        printed = (
            ", assuming normal scores where only the cell is known" if comparison.contestants.printed else ""
        )
        shown = not all(math.isnan(one.superiority_low) for one in comparison.differences)
        interval = f" {superiority_words()}." if shown else ""
        lines.append(
            "p: two-sided, after Holm's adjustment over the datasets, and separately over the tasks; not applied to "
            "the mean over all tasks. A or B is ahead if it is at most 0.05; practically equal: by two one-sided "
            "tests, the difference is smaller than the margin; otherwise open."
        )
        if full:
            lines.append(
                f"P(A > B): the chance that a run of A scores above one of B{printed}.{interval} Needed: seeds per "
                "model to detect a difference this large, or as large as the margin if that is larger, in 80 of 100 "
                "studies."
            )
    once = [name for name in comparison.contestants.models if name not in comparison.replicates]
    if comparison.replicates:
        lines.append(
            f"{', '.join(comparison.replicates)}: several pretrainings as one arm. Its seeds are pretrainings, each "
            "the mean of its fine-tuning seeds, and its spread is over pretrainings."
        )
    if once:
        which = "Each model" if not comparison.replicates else "Each of " * (len(once) > 1) + ", ".join(once)
        lines.append(f"{which} was pretrained once, so the results do not generalise to other pretrainings.")
    return [*lines, *comparison.notes]
