"""The answers to "which is best?" as text, Markdown, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pandas as pd

from analysis.comparisons.best import Answer, Chance
from analysis.comparisons.questions import Question
from analysis.evidence.intervals import caption_of
from common.tables import Document, Grid

__all__ = ["best_document"]

_MOST_COLUMNS = 6
"""A contest with more alternatives is a list of the likeliest on each scope."""
_MOST_NAMED = 4


def best_document(answer: Answer) -> Document:
    """Return a table for each question and budget or size: the chance of each alternative to be the best."""
    body: list[str | Grid] = [
        f"Probability of being the best, with the 95 % interval of the rank. Source: {answer.source}."
    ]
    for question in answer.questions:
        of_question = [one for one in answer.chances if one.question == question.name]
        if of_question:
            union = any(not math.isnan(one.p_union) for one in of_question)
            either = f" {question.union_words}: probability that either is the best." if union else ""
            body += ["", f"{question.words}{either}"]
        for group, rows in groupby(of_question, key=lambda one: one.group):
            body += ["", f"{group}:", "", Grid(_rows(question, list(rows)))]
    records = list(_records(answer))
    return Document(
        body=[*body, "", _how(answer)],
        records=pd.DataFrame(records),
        digits="%.6g",
        data={"source": answer.source, "how": _how(answer), "chances": records},
    )


def _records(answer: Answer) -> Iterator[dict[str, Any]]:
    for one in answer.chances:
        yield {
            "question": one.question, "group": one.group, "task": one.scope.task, "dataset": one.scope.dataset,
            "alternative": one.alternative, "model": one.model, "mean": one.mean, "p_best": one.p_best,
            "p_union": one.p_union, "rank": one.rank, "rank_low": one.rank_low, "rank_high": one.rank_high,
            "interval": one.interval,
        }  # fmt: skip


def _rows(question: Question, chances: list[Chance]) -> list[list[str]]:
    names = list(dict.fromkeys(one.alternative for one in chances))
    by_scope = {scope: list(rows) for scope, rows in groupby(chances, key=lambda one: one.scope)}
    if len(names) > _MOST_COLUMNS:
        rows = [["", "most likely to be the best"]]
        for scope, held in by_scope.items():
            likely = sorted(held, key=lambda one: -one.p_best)[:_MOST_NAMED]
            named = [f"{one.alternative} {one.p_best:.2f}" for one in likely if one.p_best >= 0.005]
            rows.append([scope.title, ", ".join(named)])
        return rows
    with_union = bool(question.union_words) and not math.isnan(chances[0].p_union)
    rows = [["", *names, *([question.union_words] if with_union else [])]]
    for scope, held in by_scope.items():
        cells = [f"{one.p_best:.2f} [{one.rank_low:.2g}-{one.rank_high:.2g}]" for one in held]
        rows.append([scope.title, *cells, *([f"{held[0].p_union:.2f}"] if with_union else [])])
    return rows


def _how(answer: Answer) -> str:
    return (
        f"Based on {answer.settings.resamples:,} draws of every mean, with models treated as independent. The middle "
        f"95 % of a mean's draws form its {caption_of(answer.intervals)}. The results generalise to other fine-tuning "
        "seeds of these models, but not to other pretrainings: each model was pretrained once."
    )
