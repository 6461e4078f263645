"""Findings read for each dataset instead of task averages: which hold where, and what one dataset makes.

A part of a finding about one task becomes a part for each of its datasets. A contrast across tasks (F2) becomes one for
every pair of their datasets, a mean over tasks (F9) one for each dataset; a search over sizes and tasks (F5a) searches
their datasets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from analysis.claims.statements import AtLeast, Finding, Node, comparisons, joins
from analysis.claims.verdicts import ResultOf
from analysis.evidence.contrasts import AnyContrast, Contrast, Result, Spread, Term
from analysis.statistics.inference import ALPHA
from benchmarks.protocol import AVERAGE, DATASETS, datasets_of

Datasets = Callable[[str], tuple[str, ...]]
"""From a task to its datasets."""


def finding_by_dataset(finding: Finding, datasets: Datasets = datasets_of) -> Finding:
    """Return the finding with a part for each dataset in place of a part for a task."""
    rivals = tuple(_by_dataset(node, datasets) for node in finding.rivals)
    return replace(
        finding, body=_by_dataset(finding.body, datasets), rivals=rivals, reported=()
    )


@dataclass(frozen=True, kw_only=True)
class DatasetEffects:
    """A comparison on one task, on each of its datasets."""

    average: Result
    """On the task's average."""
    single: dict[str, Result]
    """On each dataset that is known."""
    without: dict[str, Result]
    """By dataset on the mean of the others; none where not all are known."""

    @property
    def label(self) -> str:
        """The comparison in words."""
        return self.average.label

    @property
    def makers(self) -> list[str]:
        """The datasets with which alone it holds."""
        return [
            name
            for name, rest in self.without.items()
            if makes_the_result(self.average, rest)
        ]


def effects_by_dataset(
    finding: Finding, result_of: ResultOf, datasets: Datasets = datasets_of
) -> list[DatasetEffects]:
    """Return each comparison of a finding that is on one task and of which any dataset is known, on its datasets."""
    contrasts = dict.fromkeys(
        leaf for leaf in comparisons(finding.body) if isinstance(leaf, Contrast)
    )
    effects: list[DatasetEffects] = []
    for contrast in contrasts:
        tasks = contrast.tasks
        if len(tasks) != 1 or any(term.dataset != AVERAGE for term in contrast.terms):
            continue
        names = datasets(tasks[0])
        single = {name: result_of(_on(contrast, {tasks[0]: name})) for name in names}
        known = {name: result for name, result in single.items() if result.known}
        if not known:
            continue
        without: dict[str, Result] = {}
        if len(known) == len(names) > 1:
            without = {
                name: result_of(_mean_of(contrast, [n for n in names if n != name]))
                for name in names
            }
        average = result_of(contrast)
        effects.append(DatasetEffects(average=average, single=known, without=without))
    return effects


def makes_the_result(average: Result, rest: Result) -> bool:
    """Return whether an average that holds would not without a dataset, its effect being halved or turned.

    Fewer data alone cost significance: a dataset makes a result only where the effect is its own.

    Args:
        average: over all datasets.
        rest: over the others.
    """
    if average.p_for > ALPHA or rest.p_for <= ALPHA:
        return False
    comparison, whole = average.comparison, average.effect
    if not comparison.has_direction:
        return not comparison.holds(rest.effect)
    return abs(rest.effect) <= abs(whole) / 2 or rest.effect * whole < 0


def _by_dataset(node: Node, datasets: Datasets) -> Node:
    """Return the statement with a part for each dataset; each rule of parts and kind of contrast has its own way."""
    if isinstance(node, AtLeast) and joins(node):
        parts = _parts_by_dataset(node, datasets)
        return AtLeast(label=node.label, count=len(parts), parts=parts)
    tasks = list(dict.fromkeys(task for one in comparisons(node) for task in one.tasks))
    if isinstance(node, AtLeast):
        if len(tasks) == 1:
            # The rule is about one task: it holds where it does on every dataset of it.
            copies = tuple(
                _placed(node, {tasks[0]: name}) for name in datasets(tasks[0])
            ) or (node,)
            return AtLeast(label=node.label, count=len(copies), parts=copies)
        # Parts of several tasks: "k of n" and searches take a part for each dataset; k grows with n.
        parts = _parts_by_dataset(node, datasets)
        count = (
            node.count
            if node.count == 1
            else math.ceil(node.count / len(node.parts) * len(parts))
        )
        return AtLeast(label=node.label, count=count, parts=parts)
    if isinstance(node, Contrast) and len(tasks) > 2:  # a mean over tasks
        single = tuple(
            _on(_of_task(node, task, len(tasks)), {task: name})
            for task in tasks
            for name in datasets(task)
        )
        return (
            AtLeast(label=node.label, count=len(single), parts=single)
            if single
            else node
        )
    copies = tuple(
        _placed(node, dict(zip(tasks, names, strict=True)))
        for names in itertools.product(*(datasets(task) for task in tasks))
    ) or (node,)  # a task of which the source has no dataset: unknown, as its average
    return (
        copies[0]
        if len(copies) == 1
        else AtLeast(label=node.label, count=len(copies), parts=copies)
    )


def _parts_by_dataset(node: AtLeast, datasets: Datasets) -> tuple[Node, ...]:
    """Return the parts by dataset: a contrast gives one for each of its datasets, a nested statement stays one part."""
    parts: list[Node] = []
    for part in node.parts:
        by_dataset = _by_dataset(part, datasets)
        if isinstance(part, AtLeast) or not isinstance(by_dataset, AtLeast):
            parts.append(by_dataset)
        else:
            parts += by_dataset.parts
    return tuple(parts)


def _placed(node: Node, names: Mapping[str, str]) -> Node:
    """Return the statement with all its comparisons on a dataset of each task (`names`, by task)."""
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


def _of_task(mean: Contrast, task: str, tasks: int) -> Contrast:
    """Return what a mean over tasks is the mean of, on one of them."""
    terms = (
        replace(term, weight=term.weight * tasks)
        for term in mean.terms
        if term.task == task
    )
    return replace(mean, terms=tuple(terms))


def _label(label: str, names: Iterable[str]) -> str:
    return f"{label} [{', '.join(DATASETS[name].title for name in names)}]"


def _mean_of(contrast: Contrast, names: list[str]) -> Contrast:
    """Return the contrast of the means over these datasets."""
    terms = tuple(
        Term(
            weight=term.weight / len(names),
            model=term.model,
            task=term.task,
            dataset=name,
        )
        for name in names
        for term in contrast.terms
    )
    titles = " and ".join(DATASETS[name].title for name in names)
    return replace(contrast, label=f"{contrast.label} [{titles}]", terms=terms)
