"""A comparison as text, Markdown, CSV, JSON and LaTeX."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.comparisons.comparison import Comparison
from analysis.comparisons.differences import Difference
from analysis.comparisons.forest import forest_lines
from analysis.comparisons.ranking import Ranking
from analysis.comparisons.wording import about, difference_tables, footer, ranking_rows, ranking_sentences
from common.tables import Document, Grid, TextOnly

__all__ = ["comparison_document", "records_of"]


def comparison_document(result: Comparison) -> Document:
    """Return the comparison: for two models every scope, for many the ranking and the first's lead.

    Two models have a forest of characters, too, in a text for a terminal.
    """
    body: list[str | Grid | TextOnly] = [about(result), ""]
    if result.ranking is not None:
        sentences = ranking_sentences(result.ranking)
        caption = " ".join([about(result), *sentences])
        ranking = Grid(ranking_rows(result.ranking), caption=caption, label="ranking", stubs=2)
        body += [ranking, "", *sentences, ""]
    for place, (title, rows) in enumerate(difference_tables(result)):
        caption = " ".join([about(result), title, *footer(result)] if place == 0 else [title])
        grid = Grid(rows, caption=caption, label=f"compare{place or ''}")
        body += [*([title, ""] if title else []), grid, ""]
    if result.is_pair:
        body.append(TextOnly([*forest_lines(result.differences), ""]))
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
    rows: list[dict[str, Any]] = []
    for one in result.differences:
        row: dict[str, Any] = {
            "first": one.first,
            "second": one.second,
            "task": one.scope.task,
            "dataset": one.scope.dataset,
        }
        row |= {
            name: getattr(one, name)
            for name in ("effect", "low", "high", "p", "p_holm", "superiority", "superiority_low",
                         "superiority_high", "margin", "p_equal", "outcome", "test", "interval")
        }  # fmt: skip
        row["seeds"] = "/".join(map(str, one.seeds))
        row |= _posterior(one)
        if result.is_pair:
            row["seeds_to_find"], row["seeds_still"] = one.seeds_to_find, one.seeds_still
        row["missing"] = one.missing
        rows.append(row)
    return rows


def _posterior(one: Difference) -> dict[str, float]:
    region = one.posterior
    row = {
        f"posterior_{name}": math.nan if region is None else getattr(region, name)
        for name in ("below", "within", "above")
    }
    if one.across is not None:
        row |= {f"datasets_{name}": getattr(one.across.mean, name) for name in ("below", "within", "above")}
    return row


def _plain_ranking(ranking: Ranking) -> dict[str, Any]:
    return {
        "datasets": [scope.dataset for scope in ranking.datasets],
        "ranked": [asdict(row) for row in ranking.ranked],
        "groups": [list(group) for group in ranking.groups],
        "friedman_p": ranking.friedman_p,
        "critical_difference": ranking.critical_difference,
    }
