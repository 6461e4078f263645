"""Findings read for each dataset instead of task averages: which hold where, how much datasets differ, what one makes.

A part of a finding about one task becomes a part for each of its datasets. A contrast across tasks (F2) becomes one for
every pair of their datasets; a search over sizes and tasks (F5a) searches their datasets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np

from analysis.claims.statements import AtLeast, Finding, Node, comparisons
from analysis.claims.verdicts import ALPHA, ResultOf, Verdict, judge
from analysis.evidence.contrasts import AnyContrast, Contrast, Result, Spread, Term
from benchmarks.protocol import AVERAGE, DATASETS, datasets_of

__all__ = [
    "DatasetReading", "Heterogeneity", "RandomEffects", "finding_by_dataset", "heterogeneity", "random_effects",
    "read_by_dataset",
]  # fmt: skip

Datasets = Callable[[str], tuple[str, ...]]
"""From a task to its datasets."""


@dataclass(frozen=True, kw_only=True)
class RandomEffects:
    """Effects on several datasets or tasks taken as a sample of such; nan where there are fewer than two."""

    mean: float = math.nan
    """The mean effect over datasets or tasks like these."""
    low: float = math.nan
    """The lower end of the mean's 95 % interval (Hartung and Knapp; Student's t, one df fewer than effects)."""
    high: float = math.nan
    q: float = math.nan
    """Cochran's Q: weighted squared deviations of the effects from their weighted mean."""
    p: float = math.nan
    """The p of Q (chi-squared); errors are taken as known, so with five seeds it is a little too small."""
    i_squared: float = math.nan
    """Share of the variation between the effects that is more than their errors: (Q - df) / Q, at least 0."""


def random_effects(results: Sequence[Result]) -> RandomEffects:
    """Return the random-effects meta-analysis of effects with known errors (Paule and Mandel's variance between)."""
    if len(results) < 2 or not all(result.error > 0 for result in results):
        return RandomEffects()
    from scipy import special  # statsmodels takes as long to import as all findings to judge
    from statsmodels.stats.meta_analysis import combine_effects

    effects, errors = np.array([(result.effect, result.error) for result in results]).T
    found = combine_effects(effects, errors**2)
    # Hartung and Knapp's error, not below that of errors alone where the effects happen to agree.
    error = found.sd_eff_w_re * math.sqrt(max(1.0, found.scale_hksj_re))
    half = float(special.stdtrit(found.df, 0.975)) * error
    return RandomEffects(
        mean=float(found.mean_effect_re), low=float(found.mean_effect_re - half),
        high=float(found.mean_effect_re + half), q=float(found.q), p=float(special.chdtrc(found.df, found.q)),
        i_squared=max(0.0, float(found.i2)),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Heterogeneity:
    """One contrast on a task's average and on each of its datasets."""

    average: Result
    single: Mapping[str, Result]
    """By dataset, those that are known."""
    without: Mapping[str, Result]
    """By dataset, the contrast on the mean of the others; empty unless all are known."""
    between: RandomEffects
    """How much the datasets differ, and the mean over datasets like them."""

    @property
    def made_by(self) -> tuple[str, ...]:
        """The datasets without which the average, which holds, would not, its effect being halved or turned.

        Fewer data alone cost significance: a dataset makes a result only where the effect is its own.
        """
        if self.average.p_for > ALPHA:
            return ()
        return tuple(
            name for name, rest in self.without.items()
            if rest.p_for > ALPHA and self._is_other(rest)
        )  # fmt: skip

    def _is_other(self, rest: Result) -> bool:
        comparison, whole = self.average.comparison, self.average.effect
        if comparison.is_range:
            return not comparison.holds(rest.effect)
        return abs(rest.effect) <= abs(whole) / 2 or rest.effect * whole < 0


@dataclass(frozen=True, kw_only=True)
class DatasetReading:
    """A finding by dataset."""

    verdict: Verdict
    """On the finding's parts by dataset."""
    finding: Finding
    """As it is worded."""
    result_of: ResultOf = field(repr=False)
    datasets: Datasets = field(repr=False)

    @cached_property
    def contrasts(self) -> tuple[Heterogeneity, ...]:
        """For each contrast on one task of which any dataset is known."""
        different = dict.fromkeys(one for one in comparisons(self.finding.body) if isinstance(one, Contrast))
        found = (heterogeneity(one, self.result_of, self.datasets) for one in different)
        return tuple(one for one in found if one is not None)

    @property
    def makers(self) -> dict[str, list[Heterogeneity]]:
        """By dataset, the contrasts whose average holds with it alone."""
        found: dict[str, list[Heterogeneity]] = {}
        for contrast in self.contrasts:
            for name in contrast.made_by:
                found.setdefault(name, []).append(contrast)
        return found

    @property
    def silent(self) -> dict[str, int]:
        """By dataset that shows it in none of its contrasts, their number; of findings with two or more."""
        tally: dict[str, list[bool]] = {}
        for contrast in self.contrasts:
            for name, result in contrast.single.items():
                tally.setdefault(name, []).append(result.p_for <= ALPHA)
        return {name: len(held) for name, held in tally.items() if len(held) > 1 and not any(held)}


def read_by_dataset(
    findings: Mapping[str, Finding], result_of: ResultOf, datasets: Datasets = datasets_of
) -> dict[str, DatasetReading]:
    """Return every finding by dataset; p's are adjusted over the findings of a family, as for averages."""
    result_of = cache(result_of)
    verdicts = judge(
        {name: finding_by_dataset(finding, datasets) for name, finding in findings.items()}, result_of
    )
    return {
        name: DatasetReading(verdict=verdict, finding=finding, result_of=result_of, datasets=datasets)
        for (name, finding), verdict in zip(findings.items(), verdicts, strict=True)
    }


def finding_by_dataset(finding: Finding, datasets: Datasets = datasets_of) -> Finding:
    """Return the finding with a part for each dataset in place of a part for a task."""
    return replace(finding, body=_by_dataset(finding.body, datasets), reported=())


def heterogeneity(
    contrast: Contrast, result_of: ResultOf, datasets: Datasets = datasets_of
) -> Heterogeneity | None:
    """Return a contrast's effects by dataset; None where it is about several tasks or no dataset of it is known."""
    tasks = contrast.tasks
    if len(tasks) != 1 or any(term.dataset != AVERAGE for term in contrast.terms):
        return None
    names = datasets(tasks[0])
    single = {name: result_of(_on(contrast, {tasks[0]: name})) for name in names}
    known = {name: result for name, result in single.items() if result.known}
    if not known:
        return None
    without: dict[str, Result] = {}
    if len(known) == len(names) > 1:
        without = {name: result_of(_mean_of(contrast, [n for n in names if n != name])) for name in names}
    return Heterogeneity(
        average=result_of(contrast),
        single=known,
        without=without,
        between=random_effects(list(known.values())),
    )


def _by_dataset(node: Node, datasets: Datasets) -> Node:
    """Return the statement with a part for each dataset: of an "all of" one by one, of other rules see below."""
    if isinstance(node, AtLeast) and node.count == len(node.parts) and not node.whole:
        parts = _parts_by_dataset(node, datasets)
        return AtLeast(label=node.label, count=len(parts), parts=parts)
    tasks = list(dict.fromkeys(task for one in comparisons(node) for task in one.tasks))
    if isinstance(node, AtLeast):
        if len(tasks) == 1:
            copies = tuple(_placed(node, {tasks[0]: name}) for name in datasets(tasks[0])) or (node,)
            return AtLeast(label=node.label, count=len(copies), parts=copies)
        # Parts of several tasks: "k of n" and searches take a part for each dataset; k grows with n.
        parts = _parts_by_dataset(node, datasets)
        count = node.count if node.count == 1 else math.ceil(node.count / len(node.parts) * len(parts))
        return AtLeast(label=node.label, count=count, parts=parts)
    copies = tuple(
        _placed(node, dict(zip(tasks, names, strict=True)))
        for names in itertools.product(*(datasets(task) for task in tasks))
    ) or (node,)  # a task of which the source has no dataset: unknown, as its average
    return copies[0] if len(copies) == 1 else AtLeast(label=node.label, count=len(copies), parts=copies)


def _parts_by_dataset(node: AtLeast, datasets: Datasets) -> tuple[Node, ...]:
    """Return the parts by dataset: a contrast gives one for each of its datasets, a nested statement stays one part."""
    found: list[Node] = []
    for part in node.parts:
        placed = _by_dataset(part, datasets)
        if isinstance(part, AtLeast) or not isinstance(placed, AtLeast):
            found.append(placed)
        else:
            found += placed.parts
    return tuple(found)


def _placed(node: Node, names: Mapping[str, str]) -> Node:
    if isinstance(node, AtLeast):
        return replace(
            node,
            label=_label(node.label, names.values()),
            parts=tuple(_placed(part, names) for part in node.parts),
        )
    return _on(node, names)


def _on(comparison: AnyContrast, names: Mapping[str, str]) -> AnyContrast:
    """Return the comparison on a dataset of each task."""
    label = _label(comparison.label, names.values())
    if isinstance(comparison, Spread):
        return replace(comparison, label=label, dataset=names[comparison.task])
    terms = tuple(replace(term, dataset=names[term.task]) for term in comparison.terms)
    return replace(comparison, label=label, terms=terms)


def _label(label: str, names: Iterable[str]) -> str:
    return f"{label} [{', '.join(DATASETS[name].title for name in names)}]"


def _mean_of(contrast: Contrast, names: list[str]) -> Contrast:
    terms = tuple(
        Term(weight=term.weight / len(names), model=term.model, task=term.task, dataset=name)
        for name in names
        for term in contrast.terms
    )
    titles = " and ".join(DATASETS[name].title for name in names)
    return replace(contrast, label=f"{contrast.label} [{titles}]", terms=terms)
