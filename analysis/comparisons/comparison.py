"""A comparison of two models or many, whole: what was compared, what came out, what a reader has to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.comparisons.contenders import OVERALL, Contender, Scope, contenders, scopes_in_order
from analysis.comparisons.differences import Difference, compare_pair, pairwise, shared_scopes
from analysis.comparisons.draws import RATE_IS_KEPT
from analysis.comparisons.ranking import Ranking, rank_models
from analysis.sources import Source
from analysis.statistics.scores_table import Settings
from benchmarks.protocol import AVERAGE
from common.errors import UserError

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Models held against each other."""

    source: str
    """Where the scores come from, with what has to be said of them first."""
    models: tuple[Contender, ...]
    differences: tuple[Difference, ...]
    """Of every pair in the order of `models`, on every scope that the pair has."""
    ranking: Ranking | None
    """None for two models, and where no dataset is common to all."""
    notes: tuple[str, ...]
    """What limits the comparison, a sentence each."""
    settings: Settings

    @property
    def is_pair(self) -> bool:
        """Whether there are two models, so that every detail is there."""
        return len(self.models) == 2


def compare(
    source: Source,
    names: Sequence[str],
    settings: Settings,
    *,
    margin: float | None = None,
    rho: float = 0.0,
) -> Comparison:
    """Compare two models or more.

    Args:
        source: runs (of the study, of one's own) or the published cells; a model without runs in the source takes its
            printed cells.
        names: of models, or shell patterns.
        settings: selection rule, interval, resamples and seed.
        margin: of practical equivalence in points; None: the claims' margins by task.
        rho: correlation between seeds in the posterior (see `differences.compare_pair`).

    Raises:
        UserError: an unknown model, fewer than two, nothing in common, or no test for the interval.
    """
    models = contenders(source, names, settings)
    if all(model.is_published for model in models):
        settings.method.need_independent()
    scopes = shared_scopes(models)
    if len(models) == 2:
        if not scopes:
            raise UserError(
                f"{models[0].name} and {models[1].name} have no dataset in common in {source.label}"
            )
        found = compare_pair(*models, settings, margin=margin, rho=rho)
        ranking = None
    else:
        found = pairwise(models, settings, margin=margin, rho=rho)
        datasets = [scope for scope in scopes if scope.is_dataset]
        ranking = rank_models(models, datasets, settings) if datasets else None
    return Comparison(
        source=source.words, models=models, differences=tuple(found), ranking=ranking,
        notes=tuple(_notes(source, models, found, settings)), settings=settings,
    )  # fmt: skip


def _notes(
    source: Source, models: Sequence[Contender], found: Sequence[Difference], settings: Settings
) -> Iterator[str]:
    printed = [model.name for model in models if model.is_published]
    if printed and len(printed) < len(models):
        yield (
            f"{', '.join(printed)}: no runs in {source.label}, so the paper's printed cells are taken, and differences "
            "are tested by Welch's t test."
        )
    everywhere = scopes_in_order(scope for model in models for scope in model.scores)
    for model in models:
        absent = [scope.title for scope in everywhere if scope.is_dataset and scope not in model.scores]
        if absent:
            yield (
                f"{model.name} has no score on {', '.join(absent)}: no comparison with it there, nor on their "
                "averages."
            )
    if OVERALL not in set(shared_scopes(models)):
        yield "No difference over all tasks: that needs two tasks of which every model has all datasets."
    yield from _seed_notes(models, everywhere)
    if any(one.test == "Welch" for one in found) and not printed:
        yield "Models without two seeds in common are compared by Welch's t test, as independent."
    if len(models) > 2 and not any(scope.is_dataset for scope in shared_scopes(models)):
        yield "No ranking: no dataset is common to all models."
    if settings.rule.shares_rate and len(printed) < len(models):
        yield RATE_IS_KEPT
    if settings.method.needs_instances and printed:
        yield "Printed cells say nothing of the test instances: their comparisons are about other seeds alone."


def _seed_notes(models: Sequence[Contender], scopes: Sequence[Scope]) -> Iterator[str]:
    """Yield a sentence for each way in which seeds are few or unequal, with where it is so."""
    single: dict[str, list[str]] = {}
    unequal: dict[str, list[str]] = {}
    for scope in scopes:
        held = {model.name: model.scores[scope] for model in models if scope in model.scores}
        if scope.dataset == AVERAGE:
            continue
        for name, score in held.items():
            if score.count == 1:
                single.setdefault(name, []).append(scope.title)
        counts = {name: score.count for name, score in held.items() if score.count > 1}
        if len(set(counts.values())) > 1:
            usual = max(counts.values())
            fewer = ", ".join(f"{name} {count}" for name, count in counts.items() if count < usual)
            unequal.setdefault(f"fewer seeds than the others' {usual}: {fewer}", []).append(scope.title)
    for name, where in single.items():
        yield f"One seed of {name} on {', '.join(where)}: a difference without interval or p."
    for words, where in unequal.items():
        yield f"On {', '.join(where)}, {words}; models with runs are paired over the seeds that both have."
