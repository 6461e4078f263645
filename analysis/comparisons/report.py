"""A comparison as text, Markdown, CSV, JSON and LaTeX."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.comparisons.comparison import Comparison
from analysis.comparisons.differences import Difference
from analysis.comparisons.forest import forest_lines
from analysis.comparisons.ranking import Ranking
from analysis.comparisons.wording import about, difference_tables, footer, ranking_rows, ranking_sentences
from analysis.csv_text import csv_text
from analysis.formats import Table, finite, text_formats
from analysis.tables.latex import latex_table
from common.text_tables import Format, plain_table

__all__ = ["FORMATS", "comparison_csv", "comparison_json", "comparison_text", "records_of"]


def comparison_text(result: Comparison, table: Table = plain_table) -> str:
    """Return the comparison: for two models every scope, for many the ranking and the first's lead.

    Two models have a forest of characters, too, but not in Markdown.
    """
    lines = [about(result), ""]
    if result.ranking is not None:
        lines += [*table(ranking_rows(result.ranking)), "", *ranking_sentences(result.ranking), ""]
    for title, rows in difference_tables(result):
        lines += [*([title, ""] if title else []), *table(rows), ""]
    if result.is_pair and table is plain_table:
        lines += [*forest_lines(result.differences), ""]
    return "\n".join([*lines, *footer(result)]) + "\n"


def comparison_csv(result: Comparison) -> str:
    """Return a row for each pair and scope."""
    frame = pd.DataFrame(records_of(result))
    return csv_text(frame, float_format="%.10g")


def comparison_json(result: Comparison) -> str:
    """Return the differences, the ranking, the notes and how it was done."""
    ranking = None if result.ranking is None else _plain_ranking(result.ranking)
    content = {
        "source": result.source,
        "models": [
            {"name": model.name, "from": "published cells" if model.is_published else "runs"}
            for model in result.models
        ],
        "settings": asdict(result.settings),
        "differences": [finite(row) for row in records_of(result)],
        "ranking": ranking,
        "notes": list(result.notes),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def comparison_latex(result: Comparison) -> str:
    """Return LaTeX tables that need booktabs and graphicx: the ranking, then the differences."""
    parts = []
    if result.ranking is not None:
        rows = ranking_rows(result.ranking)
        caption = " ".join([about(result), *ranking_sentences(result.ranking)])
        parts.append(latex_table(rows, caption=caption, label="ranking", stubs=2))
    for place, (title, rows) in enumerate(difference_tables(result)):
        caption = " ".join([about(result), title, *footer(result)] if place == 0 else [title])
        parts.append(latex_table(rows, caption=caption, label=f"compare{place or ''}", stubs=1))
    return "\n".join(parts)


FORMATS = text_formats(
    comparison_text, csv=comparison_csv, json=comparison_json,
    more=[Format(name="latex", ending="tex", show=comparison_latex)],
)  # fmt: skip
"""How a comparison is printed."""


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
        "ranked": [finite(asdict(row)) for row in ranking.ranked],
        "groups": [list(group) for group in ranking.groups],
        **finite({"friedman_p": ranking.friedman_p, "critical_difference": ranking.critical_difference}),
    }
