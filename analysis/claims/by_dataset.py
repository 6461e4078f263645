"""Findings read for each dataset instead of task averages: which hold on which datasets, and which results depend on a
single one.

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
    """Return the finding with a part for each dataset in place of a part for a task.

    Statements that are only reported are dropped. Some of them name their datasets already (`SeedSpread`) and
    have no task to replace. The statements among which the finding's body was chosen (`rivals`) get parts by dataset as
    well.

    Args:
        finding: the finding.
        datasets_of: from a task to its datasets in the source; by default to the paper's.
    """
    body = _by_dataset(finding.body, datasets_of)
    rivals = tuple(_by_dataset(node, datasets_of) for node in finding.rivals)
    return replace(finding, body=body, rivals=rivals, reported=())


@dataclass(frozen=True, kw_only=True)
class DatasetEffects:
    """A comparison on one task, on each of its datasets."""

    average: Result
    """The comparison on the task's average."""
    single: dict[str, Result]
    """By dataset the comparison on it alone; only datasets that the source has."""
    without: dict[str, Result]
    """By dataset the comparison on the mean of the task's other datasets; empty unless the source has all of them."""

    @property
    def label(self) -> str:
        """The comparison in words."""
        return self.average.label

    @property
    def makers(self) -> list[str]:
        """The datasets that make the result: without one of them, the comparison no longer holds."""
        return [
            name
            for name, rest in self.without.items()
            if makes_the_result(self.average, rest)
        ]


def effects_by_dataset(
    finding: Finding, result_of: ResultOf, datasets_of: Datasets = datasets_of
) -> list[DatasetEffects]:
    """Return the effects by dataset of each comparison of a finding that is about the average of one task.

    Left out are contrasts across tasks, ratios of spreads, and comparisons of which the source has no dataset.

    Args:
        finding: the finding.
        result_of: what the source says about a comparison.
        datasets_of: from a task to its datasets in the source; by default to the paper's.
    """
    # The keys of a dict, since a finding may name one contrast in several of its parts.
    contrasts: dict[Contrast, None] = {}
    for comparison in comparisons(finding.body):
        if isinstance(comparison, Contrast):
            contrasts[comparison] = None

    effects: list[DatasetEffects] = []
    for contrast in contrasts:
        is_of_averages = all(term.dataset == AVERAGE for term in contrast.terms)
        if len(contrast.tasks) != 1 or not is_of_averages:
            continue
        [task] = contrast.tasks
        names = datasets_of(task)
        single: dict[str, Result] = {}
        for name in names:
            result = result_of(_on(contrast, {task: name}))
            if result.known:
                single[name] = result

        if not single:
            continue
        without: dict[str, Result] = {}

        # The mean without one dataset is comparable to the average only where all datasets are known.
        if len(single) == len(names) > 1:
            for name in names:
                others = [other for other in names if other != name]
                without[name] = result_of(_mean_of(contrast, others))

        average = result_of(contrast)
        effects.append(DatasetEffects(average=average, single=single, without=without))

    return effects


def makes_the_result(average: Result, rest: Result) -> bool:
    """Return whether a result depends on one dataset: it holds on the average, but not without the dataset.

    Fewer data alone cost significance, so the effect has to change as well: without the dataset it is at most half as
    large, or has the other sign.

    Args:
        average: the result over all datasets.
        rest: the result over all datasets but that one.
    """
    # A small `p_for` says that a result holds. It depends on no single dataset if it does not hold on the
    # average, or if it still holds without the dataset.
    if average.p_for > ALPHA or rest.p_for <= ALPHA:
        return False
    # "On par" and "comparable" claim a region around 0, in which half an effect is no weaker: the estimate has to leave
    # the region. `holds` says whether an estimate is in it.
    if not average.comparison.has_direction:
        return not average.comparison.holds(rest.effect)
    is_halved = abs(rest.effect) <= abs(average.effect) / 2
    is_turned = rest.effect * average.effect < 0
    return is_halved or is_turned


def _by_dataset(node: Node, datasets_of: Datasets) -> Node:
    """Return the statement with a part for each dataset in place of each average.

    A single comparison is about one task (a contrast or a ratio of spreads), two tasks, or a mean over all of
    them.
    """
    if isinstance(node, AtLeast):
        return _rule_by_dataset(node, datasets_of)
    # In the catalogue a contrast over three or more tasks is always a mean over tasks (F9): it has a part for each
    # dataset, not for each way to choose one dataset of every task.
    if isinstance(node, Contrast) and len(node.tasks) > 2:
        return _mean_by_dataset(node, datasets_of)
    copies: list[Node] = []
    names_by_task = [datasets_of(task) for task in node.tasks]

    # About one task: a copy for each dataset. Across two tasks (F2): one for every pair of their datasets.
    for names in itertools.product(*names_by_task):
        dataset_of = dict(zip(node.tasks, names, strict=True))
        copies.append(_on(node, dataset_of))

    if not copies:
        # The source has no dataset of a task: the statement stays about the task's average, and is unknown.
        return node

    if len(copies) == 1:
        return copies[0]
    return all_of(node.label, copies)


def _rule_by_dataset(rule: AtLeast, datasets_of: Datasets) -> AtLeast:
    """Return "at least k of n parts hold" with a part for each dataset in place of a part for a task.

    There are three cases: each part has to hold by itself; a rule about one task; a rule about several tasks.
    """
    # `joins`: all of the parts have to hold, and each counts by itself. So each has to hold on every dataset.
    if joins(rule):
        return all_of(rule.label, _parts_by_dataset(rule, datasets_of))
    # The tasks, each once.
    tasks: dict[str, None] = {}
    for comparison in comparisons(rule):
        tasks |= dict.fromkeys(comparison.tasks)
    if len(tasks) == 1:
        [task] = tasks
        # A rule about one task holds by dataset if it holds on every dataset of the task. So a fall and a
        # rise that make one U (`both_of`) are on the same dataset.
        copies = [_placed(rule, {task: name}) for name in datasets_of(task)]
        # If the source has no dataset of the task, there are no copies: the rule stays about the task's
        # average, and is unknown.
        return all_of(rule.label, copies or [rule])

    parts = _parts_by_dataset(rule, datasets_of)
    count = rule.count
    # The rule is about several tasks. "Somewhere" (one of n) stays one; "most tasks" (3 of 4) becomes most datasets
    # (9 of 12).
    if count > 1:
        count = math.ceil(count / len(rule.parts) * len(parts))
    return AtLeast(label=rule.label, count=count, parts=parts)


def _mean_by_dataset(mean: Contrast, datasets_of: Datasets) -> Node:
    """Return the statement that a mean over tasks holds on each dataset of these tasks."""
    parts = []
    for task in mean.tasks:
        of_task = _of_task(mean, task, len(mean.tasks))
        for name in datasets_of(task):
            parts.append(_on(of_task, {task: name}))
    # A source without any of the datasets leaves the statement about the averages, and unknown.
    return all_of(mean.label, parts) if parts else mean


def _parts_by_dataset(node: AtLeast, datasets_of: Datasets) -> tuple[Node, ...]:
    """Return the parts of a statement by dataset: a contrast becomes several parts, a nested statement stays one."""
    parts: list[Node] = []
    for part in node.parts:
        by_dataset = _by_dataset(part, datasets_of)
        was_contrast = not isinstance(part, AtLeast)
        if was_contrast and isinstance(by_dataset, AtLeast):
            # The contrast became "all of its datasets": each dataset is a part here.
            parts += by_dataset.parts
        else:
            parts.append(by_dataset)
    return tuple(parts)


def _placed(node: Node, names: Mapping[str, str]) -> Node:
    """Return the statement with all its comparisons on single datasets; `names` says for each task which dataset."""
    if not isinstance(node, AtLeast):
        return _on(node, names)
    label = _label(node.label, names.values())
    parts = tuple(_placed(part, names) for part in node.parts)
    return replace(node, label=label, parts=parts)


def _on(comparison: AnyContrast, names: Mapping[str, str]) -> AnyContrast:
    """Return the comparison on single datasets; `names` says for each task which dataset."""
    label = _label(comparison.label, names.values())
    if isinstance(comparison, Spread):
        return replace(comparison, label=label, dataset=names[comparison.task])
    terms = tuple(replace(term, dataset=names[term.task]) for term in comparison.terms)
    return replace(comparison, label=label, terms=terms)


def _of_task(mean: Contrast, task: str, tasks: int) -> Contrast:
    """Return the part of a mean over tasks that is on one of them.

    Args:
        mean: the mean.
        task: the one task.
        tasks: number of tasks that the mean is over. The mean divided every weight by this
            number, which is undone here.
    """
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
