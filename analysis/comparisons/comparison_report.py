"""A comparison as text, Markdown, CSV, JSON and LaTeX: its tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.claims.wording import format_p
from analysis.comparisons.comparison import Comparison
from analysis.comparisons.differences import AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN, Difference
from analysis.comparisons.field import OVERALL, Scope
from analysis.comparisons.ranking import Ranking
from analysis.evidence.intervals import INTERVALS, caption_of
from analysis.statistics.inference import stratified_words, superiority_words
from common.tables import Document, Grid, signed

__all__ = [
    "about", "comparison_document", "difference_tables", "footer", "outcome_words", "ranking_sentences", "records_of",
]  # fmt: skip


def comparison_document(result: Comparison) -> Document:
    """Return the comparison: for two models every scope, for many the ranking and the first's lead."""
    body: list[str | Grid] = [about(result), ""]
    if result.ranking is not None:
        sentences = ranking_sentences(result.ranking)
        caption = " ".join([about(result), *sentences])
        ranking = Grid(ranking_rows(result.ranking), caption=caption, label="ranking", stubs=2)
        body += [ranking, "", *sentences, ""]
    for place, (title, rows) in enumerate(difference_tables(result)):
        caption = " ".join([about(result), title, *footer(result)] if place == 0 else [title])
        grid = Grid(rows, caption=caption, label=f"compare{place or ''}")
        body += [*([title, ""] if title else []), grid, ""]
    records = records_of(result)
    return Document(
        body=[*body, *footer(result)],
        records=pd.DataFrame(records),
        digits="%.10g",
        data={
            "source": result.source,
            "models": [
                {"name": name, "from": "published cells" if name in result.field.printed else "runs"}
                for name in result.field.models
            ],
            "settings": asdict(result.settings),
            "differences": records,
            "ranking": None if result.ranking is None else _plain_ranking(result.ranking),
            "notes": list(result.notes),
        },
    )


def records_of(result: Comparison) -> list[dict[str, Any]]:
    """Return a row for each difference, with the names of columns."""
    return [_record(one, result.is_pair) for one in result.differences]


def _record(one: Difference, is_pair: bool) -> dict[str, Any]:
    found = one.result
    row: dict[str, Any] = {
        "first": one.first, "second": one.second, "task": one.scope.task, "dataset": one.scope.dataset,
        "effect": found.effect, "low": found.low, "high": found.high, "p": found.p_zero, "p_holm": one.p_holm,
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
        "datasets": [scope.dataset for scope in ranking.datasets],
        "ranked": [asdict(row) for row in ranking.ranked],
        "groups": [list(group) for group in ranking.groups],
        "friedman_p": ranking.friedman_p,
        "critical_difference": ranking.critical_difference,
    }


def outcome_words(one: Difference) -> str:
    """Return what can be said: which model is ahead, that they are practically equal, or that it is open."""
    words = {
        AHEAD: f"{one.first} ahead",
        BEHIND: f"{one.second} ahead",
        EQUAL: "practically equal",
        OPEN: "open",
        UNKNOWN: one.result.missing,
    }
    return words[one.outcome]


def about(result: Comparison) -> str:
    """Return what is compared, in a sentence."""
    if result.is_pair:
        first, second = result.field.models
        better = f"{first} minus {second}, in points; positive: {first} is better."
        return f"{better} Source: {result.source}."
    return f"{len(result.field.models)} models. Source: {result.source}."


def _interval(low: float, high: float, show: Callable[[float], str] = signed) -> str:
    return "-" if math.isnan(low) else f"[{show(low)}, {show(high)}]"


def _two(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def difference_tables(result: Comparison) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each table of differences under its title."""
    if result.is_pair:
        yield "", _pair_rows(result)
        return
    first = result.field.models[0] if result.ranking is None else result.ranking.ranked[0].model
    for scope in dict.fromkeys(one.scope for one in result.differences if not one.scope.is_dataset):
        rows = _against(result, first, scope)
        if len(rows) > 1:
            words = f"{first} (A) minus each of the other models (B), {scope.title}; Holm over all pairs of models:"
            yield words, rows
            if scope == OVERALL:
                return


def _pair_rows(result: Comparison) -> list[list[str]]:
    field = result.field
    first, second = field.models
    rows = [
        ["", "A", "B", "A - B", "95 % interval", "p", "Holm", "P(A > B)", "margin", "outcome", "seeds", "needed"]
    ]  # fmt: skip
    for one in result.differences:
        found = one.result
        needed = "-" if one.seeds_to_find is None else f"{one.seeds_to_find:,}"
        chance = _two(one.superiority)
        if not math.isnan(one.superiority_low):
            chance += f" {_interval(one.superiority_low, one.superiority_high, _two)}"
        rows.append(
            [
                one.scope.title, f"{field.mean(first, one.scope):.2f}", f"{field.mean(second, one.scope):.2f}",
                signed(found.effect), _interval(found.low, found.high), format_p(found.p_zero), format_p(one.p_holm),
                chance, f"±{one.margin:.3g}",
                {AHEAD: "A ahead", BEHIND: "B ahead"}.get(one.outcome) or outcome_words(one),
                "/".join(map(str, found.seeds)), needed,
            ]
        )  # fmt: skip
    return rows


def _against(result: Comparison, first: str, scope: Scope) -> list[list[str]]:
    rows = [["model", "difference", "95 % interval", "p", "Holm", "P(A > B)", "outcome"]]
    for one in result.differences:
        if one.scope != scope or first not in (one.first, one.second):
            continue
        turned = one.second == first
        found = one.result
        low, high = (-found.high, -found.low) if turned else (found.low, found.high)
        chance = 1 - one.superiority if turned else one.superiority
        rows.append(
            [
                one.first if turned else one.second, signed(-found.effect if turned else found.effect),
                _interval(low, high), format_p(found.p_zero), format_p(one.p_holm), _two(chance), outcome_words(one),
            ]
        )  # fmt: skip
    return rows


def ranking_rows(ranking: Ranking) -> list[list[str]]:
    """Return the ranking's table."""
    rows = [["", "model", "mean rank", "95 % interval", "P(first)", "IQM", "95 % interval"]]
    for place, one in enumerate(ranking.ranked, start=1):
        rows.append(
            [
                str(place), one.model, _two(one.mean_rank), _interval(one.rank_low, one.rank_high, _two),
                _two(one.p_first), signed(one.iqm), _interval(one.iqm_low, one.iqm_high),
            ]
        )  # fmt: skip
    return rows


def ranking_sentences(ranking: Ranking) -> list[str]:
    """Return what the ranking is over, Friedman's test, and which models are not distinguished."""
    count = len(ranking.datasets)
    sentences = [
        f"Mean rank is over the {count} datasets that all models have. Its interval and P(first) come from draws of "
        f"every mean; the middle 95 % of a mean's draws form its {caption_of(ranking.intervals)}. IQM: interquartile "
        f"mean of runs, minus the models' mean on the dataset; {stratified_words('iqm')}."
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


def footer(result: Comparison) -> list[str]:
    """Return how it was done and what limits it, a line each."""
    known = [one.result for one in result.differences if one.result.known]
    seen = {(min(one.seeds), one.interval) for one in known}
    names = ", ".join(name for name in INTERVALS if name in {name for _, name in seen})
    lines = (
        [f"Intervals for differences ({names}): {caption_of(seen, '; for a single mean, it ')}."]
        if seen
        else []
    )
    if result.is_pair:
        printed = ", assuming normal scores where only the cell is known" if result.field.printed else ""
        shown = not all(math.isnan(one.superiority_low) for one in result.differences)
        interval = f" {superiority_words()}." if shown else ""
        lines += [
            "p: two-sided. Holm: over the datasets, and separately over the tasks; not applied to the mean over all "
            f"tasks. P(A > B): the chance that a run of A scores above one of B{printed}.{interval}",
            "Outcome: A or B ahead if Holm's p is at most 0.05; practically equal if, by two one-sided tests, the "
            "difference is smaller than the margin; otherwise open. Needed: seeds per model to detect a difference "
            "this large, or as large as the margin if that is larger, in 80 of 100 studies.",
        ]
    once = [name for name in result.field.models if name not in result.replicates]
    if result.replicates:
        lines.append(
            f"{', '.join(result.replicates)}: several pretrainings as one arm. Its seeds are pretrainings, each the "
            "mean of its fine-tuning seeds, and its spread is over pretrainings."
        )
    if once:
        which = "Each model" if not result.replicates else "Each of " * (len(once) > 1) + ", ".join(once)
        lines.append(f"{which} was pretrained once, so the results do not generalise to other pretrainings.")
    return [*lines, *result.notes]
