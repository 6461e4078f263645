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

from analysis.claims.statements import (
    AtLeast,
    Finding,
    Node,
    all_of,
    comparisons,
    joins,
)
from analysis.claims.verdicts import ResultOf
from analysis.evidence.contrasts import AnyContrast, Contrast, Result, Spread
from benchmarks.protocol import AVERAGE, DATASETS, datasets_of
from common.level import ALPHA

Datasets = Callable[[str], tuple[str, ...]]
"""From a task to its datasets."""


def finding_by_dataset(
    finding: Finding, datasets_of: Datasets = datasets_of
) -> Finding:
    """Return the finding with a part for each dataset in place of a part for a task."""
    body = _by_dataset(finding.body, datasets_of)
    rivals = tuple(_by_dataset(node, datasets_of) for node in finding.rivals)
    return replace(finding, body=body, rivals=rivals, reported=())


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
    finding: Finding, result_of: ResultOf, datasets_of: Datasets = datasets_of
) -> list[DatasetEffects]:
    """Return the effects by dataset of each comparison of a finding on one task, where any dataset is known."""
    leaves = comparisons(finding.body)
    contrasts = dict.fromkeys(leaf for leaf in leaves if isinstance(leaf, Contrast))
    effects: list[DatasetEffects] = []
    for contrast in contrasts:
        is_of_averages = all(term.dataset == AVERAGE for term in contrast.terms)
        if len(contrast.tasks) != 1 or not is_of_averages:
            continue
        [task] = contrast.tasks
        names = datasets_of(task)
        known: dict[str, Result] = {}
        for name in names:
            result = result_of(_on(contrast, {task: name}))
            if result.known:
                known[name] = result
        if not known:
            continue
        without: dict[str, Result] = {}
        # The mean without one dataset is comparable to the average only where all datasets are known.
        if len(known) == len(names) > 1:
            for name in names:
                others = [other for other in names if other != name]
                without[name] = result_of(_mean_of(contrast, others))
        average = result_of(contrast)
        effects.append(DatasetEffects(average=average, single=known, without=without))
    return effects


def makes_the_result(average: Result, rest: Result) -> bool:
    """Return whether an average holds, but not without one dataset, whose removal halves the effect or turns its sign.

    Fewer data alone cost significance: a dataset makes a result only where it also makes the effect.

    Args:
        average: the result over all datasets.
        rest: the result over all datasets but that one.
    """
    if average.p_for > ALPHA or rest.p_for <= ALPHA:
        return False
    if not average.comparison.has_direction:
        return not average.comparison.holds(rest.effect)
    is_halved = abs(rest.effect) <= abs(average.effect) / 2
    is_turned = rest.effect * average.effect < 0
    return is_halved or is_turned


def _by_dataset(node: Node, datasets_of: Datasets) -> Node:
    """Return the statement with a part for each dataset in place of each average."""
    if isinstance(node, AtLeast):
        return _rule_by_dataset(node, datasets_of)
    # A contrast over three or more tasks is a mean: it has a part for each dataset, not for each choice of one dataset
    # a task.
    if isinstance(node, Contrast) and len(node.tasks) > 2:
        return _mean_by_dataset(node, datasets_of)
    copies: list[Node] = []
    of_tasks = [datasets_of(task) for task in node.tasks]
    # A contrast across two tasks (F2) becomes one for every pair of their datasets.
    for names in itertools.product(*of_tasks):
        place = dict(zip(node.tasks, names, strict=True))
        copies.append(_on(node, place))
    if not copies:
        # The source has no dataset of a task: the statement stays about the task's average, and is unknown.
        return node
    if len(copies) == 1:
        return copies[0]
    return all_of(node.label, copies)


def _rule_by_dataset(rule: AtLeast, datasets_of: Datasets) -> AtLeast:
    """Return "k of n" with a part for each dataset in place of a part for a task."""
    if joins(rule):
        return all_of(rule.label, _parts_by_dataset(rule, datasets_of))
    tasks: dict[str, None] = {}
    for comparison in comparisons(rule):
        tasks |= dict.fromkeys(comparison.tasks)
    if len(tasks) == 1:
        [task] = tasks
        # A rule about one task holds by dataset if it holds on every dataset of the task.
        copies = [_placed(rule, {task: name}) for name in datasets_of(task)]
        return all_of(rule.label, copies or [rule])
    parts = _parts_by_dataset(rule, datasets_of)
    count = rule.count
    # The rule is about several tasks: "most" stays most, so that k grows with n, and "somewhere" stays one.
    if count > 1:
        count = math.ceil(count / len(rule.parts) * len(parts))
    return AtLeast(label=rule.label, count=count, parts=parts)


def _mean_by_dataset(mean: Contrast, datasets_of: Datasets) -> Node:
    """Return the statement that a mean over tasks holds on each dataset of these tasks."""
    single = []
    for task in mean.tasks:
        of_task = _of_task(mean, task, len(mean.tasks))
        for name in datasets_of(task):
            single.append(_on(of_task, {task: name}))
    return all_of(mean.label, single) if single else mean


def _parts_by_dataset(node: AtLeast, datasets_of: Datasets) -> tuple[Node, ...]:
    """Return the parts by dataset: a contrast gives one for each of its datasets, a nested statement stays one part."""
    parts: list[Node] = []
    for part in node.parts:
        by_dataset = _by_dataset(part, datasets_of)
        if isinstance(part, AtLeast) or not isinstance(by_dataset, AtLeast):
            parts.append(by_dataset)
        else:
            parts += by_dataset.parts
    return tuple(parts)


def _placed(node: Node, names: Mapping[str, str]) -> Node:
    """Return the statement with all its comparisons on a dataset of each task (`names`, by task)."""
    if not isinstance(node, AtLeast):
        return _on(node, names)
    label = _label(node.label, names.values())
    parts = tuple(_placed(part, names) for part in node.parts)
    return replace(node, label=label, parts=parts)


def _on(comparison: AnyContrast, names: Mapping[str, str]) -> AnyContrast:
    """Return the comparison on a dataset of each task."""
    label = _label(comparison.label, names.values())
    if isinstance(comparison, Spread):
        return replace(comparison, label=label, dataset=names[comparison.task])
    terms = tuple(replace(term, dataset=names[term.task]) for term in comparison.terms)
    return replace(comparison, label=label, terms=terms)


def _of_task(mean: Contrast, task: str, tasks: int) -> Contrast:
    """Return the part of a mean over tasks that is on one task, with its weights before the mean was taken."""
    terms = []
    for term in mean.terms:
        if term.task == task:
            terms.append(replace(term, weight=term.weight * tasks))
    return replace(mean, terms=tuple(terms))


def _label(label: str, names: Iterable[str]) -> str:
    titles = ", ".join(DATASETS[name].title for name in names)
    return f"{label} [{titles}]"


def _mean_of(contrast: Contrast, names: list[str]) -> Contrast:
    """Return the contrast of the means over these datasets."""
    terms = []
    for name in names:
        for term in contrast.terms:
            weight = term.weight / len(names)
            terms.append(replace(term, weight=weight, dataset=name))
    titles = " and ".join(DATASETS[name].title for name in names)
    label = f"{contrast.label} [{titles}]"
    return replace(contrast, label=label, terms=tuple(terms))
