"""The tables and sentences of a comparison, as rows of texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from analysis.claims.wording import format_p
from analysis.comparisons.comparison import Comparison
from analysis.comparisons.differences import AHEAD, BEHIND, EQUAL, OPEN, UNKNOWN, Difference
from analysis.comparisons.ranking import Ranking
from analysis.comparisons.scopes import OVERALL, Scope
from analysis.evidence.intervals import INTERVALS, caption_of
from analysis.statistics.superiority import stratified_words, superiority_words
from common.tables import signed

__all__ = [
    "about", "difference_tables", "footer", "outcome_words", "ranking_rows", "ranking_sentences",
]  # fmt: skip


def outcome_words(one: Difference) -> str:
    """Return what can be said: which model is ahead, that they are practically equal, or that it is open."""
    words = {
        AHEAD: f"{one.first} ahead",
        BEHIND: f"{one.second} ahead",
        EQUAL: "practically equal",
        OPEN: "open",
        UNKNOWN: one.missing,
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
        opinions = [one for one in result.differences if one.across is not None]
        if opinions:
            title = (
                "Second opinion (Bayesian, datasets as random effects): how likely are the mean over similar datasets "
                "and the difference on a further dataset to be below, in or above the region?"
            )
            yield title, _opinion_rows(opinions)
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
        [
            "",
            "A",
            "B",
            "A - B",
            "95 % interval",
            "p",
            "Holm",
            "P(A > B)",
            "in region",
            "outcome",
            "seeds",
            "needed",
        ]
    ]
    for one in result.differences:
        needed = "-" if one.seeds_to_find is None else f"{one.seeds_to_find:,}"
        chance = _two(one.superiority)
        if not math.isnan(one.superiority_low):
            chance += f" {_interval(one.superiority_low, one.superiority_high, _two)}"
        rows.append(
            [
                one.scope.title, f"{field.mean(first, one.scope):.2f}", f"{field.mean(second, one.scope):.2f}",
                signed(one.effect), _interval(one.low, one.high), format_p(one.p), format_p(one.p_holm), chance,
                "-" if one.posterior is None else f"{one.posterior.within:.0%} (±{one.margin:.3g})",
                {AHEAD: "A ahead", BEHIND: "B ahead"}.get(one.outcome) or outcome_words(one),
                "/".join(map(str, one.seeds)), needed,
            ]
        )  # fmt: skip
    return rows


def _opinion_rows(opinions: list[Difference]) -> list[list[str]]:
    rows = [["", "datasets", "mean below", "in", "above", "next below", "in", "above"]]
    for one in opinions:
        assert one.across is not None
        regions = (one.across.mean, one.across.next_dataset)
        shares = [
            f"{share:.0%}" for region in regions for share in (region.below, region.within, region.above)
        ]
        rows.append([one.scope.title, str(one.across.n_datasets), *shares])
    return rows


def _against(result: Comparison, first: str, scope: Scope) -> list[list[str]]:
    rows = [["model", "difference", "95 % interval", "p", "Holm", "P(A > B)", "outcome"]]
    for one in result.differences:
        if one.scope != scope or first not in (one.first, one.second):
            continue
        turned = one.second == first
        low, high = (-one.high, -one.low) if turned else (one.low, one.high)
        chance = 1 - one.superiority if turned else one.superiority
        rows.append(
            [
                one.first if turned else one.second, signed(-one.effect if turned else one.effect),
                _interval(low, high), format_p(one.p), format_p(one.p_holm), _two(chance), outcome_words(one),
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
    seen = {(min(one.seeds), one.interval) for one in result.differences if not one.missing}
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
            "In region: posterior probability (flat prior) that the difference is within the margin shown. Outcome: "
            "A or B ahead if Holm's p is at most 0.05; practically equal by two one-sided tests against the region; "
            "otherwise open. Needed: seeds per model to detect a difference this large, or as large as the margin if "
            "that is larger, in 80 of 100 studies.",
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
