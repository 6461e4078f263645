"""Which alternative is the best, how sure is that, and how stable are the ranks?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from analysis.comparisons.field import Field, field_of
from analysis.comparisons.questions import QUESTIONS, Contest, Question
from analysis.comparisons.scopes import Scope
from analysis.evidence.evidence import Settings
from analysis.published_cells import published_values
from analysis.sources import Source
from common.errors import UserError
from common.progress import progress

__all__ = ["Answer", "Chance", "best_of", "chances"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Chance:
    """An alternative's place in a contest on one scope."""

    question: str
    group: str
    scope: Scope
    alternative: str
    model: str
    mean: float
    """Score in percent."""
    p_best: float
    """The chance that it has the highest score, ties shared."""
    p_union: float
    """The chance that one of the contest's union is the best; nan without a union."""
    rank: float
    """By the scores as they are."""
    rank_low: float
    """Of the 95 % interval of its rank."""
    rank_high: float
    interval: str
    """The interval that the draws of its mean are by."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """All contests of the questions asked."""

    source: str
    questions: tuple[Question, ...]
    chances: tuple[Chance, ...]
    settings: Settings
    is_published: bool
    intervals: frozenset[tuple[int, str]] = frozenset()
    """Numbers of seeds and the intervals that the draws behind the ranks are by."""


def best_of(source: Source, settings: Settings, names: Sequence[str] = ()) -> Answer:
    """Answer the questions that the source has models for.

    Args:
        source: runs or the published cells; how their means are drawn goes with the interval (`Evidence.draws`).
        settings: selection rule, interval, resamples and seed.
        names: of `QUESTIONS`; none: all.

    Raises:
        UserError: an unknown question, or no contest among the source's models.
    """
    asked = [QUESTIONS[name] for name in names or QUESTIONS]
    held = published_values()["model"] if source.runs is None else source.runs["model"]
    known = list(dict.fromkeys(held))
    contests = [(question, contest) for question in asked for contest in question.contests(known)]
    models = list(dict.fromkeys(name for _, contest in contests for name in contest.alternatives.values()))
    if not contests:
        wanted = ", ".join(question.name for question in asked)
        raise UserError(f"{source.label} has too few of the study's models to compare ({wanted})")
    field = field_of(source, models, settings)
    found: list[Chance] = []
    seen: set[tuple[int, str]] = set()
    for question, contest in progress(contests, "contests", unit="contest"):
        found += chances(question.name, contest, field)
        entered = list(contest.alternatives.values())
        seen |= set(field.intervals(field.shared(*entered), entered))
    return Answer(
        source=source.words, questions=tuple(asked), chances=tuple(found), settings=settings,
        is_published=source.is_published, intervals=frozenset(seen),
    )  # fmt: skip


def chances(question: str, contest: Contest, field: Field) -> list[Chance]:
    """Return the chances of every alternative on every scope that all alternatives have."""
    names = list(contest.alternatives)
    entered = [contest.alternatives[name] for name in names]
    in_union = np.array([name in contest.union for name in names])
    found = []
    for scope in field.shared(*entered):
        means = np.array([field.mean(model, scope) for model in entered])
        drawn = field.evidence.draws([field.level(model, scope) for model in entered])
        best = drawn == drawn.max(axis=1, keepdims=True)
        p_best = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        p_union = float(p_best[in_union].sum()) if contest.union else float("nan")
        low, high = np.quantile(stats.rankdata(-drawn, axis=1), [0.025, 0.975], axis=0)
        names_of = [name for _, name in field.intervals([scope], entered)]
        ranks = stats.rankdata(-means)
        found += [
            Chance(
                question=question, group=contest.group, scope=scope, alternative=name, model=entered[place],
                mean=float(means[place]), p_best=float(p_best[place]), p_union=p_union, rank=float(ranks[place]),
                rank_low=float(low[place]), rank_high=float(high[place]), interval=names_of[place],
            )
            for place, name in enumerate(names)
        ]  # fmt: skip
    return found
