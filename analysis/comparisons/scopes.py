"""What a score is over: a dataset, a task's datasets, or all tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benchmarks.protocol import AVERAGE, TASKS, in_order, title_of

__all__ = ["ALL", "OVERALL", "Scope", "scopes_in_order"]

ALL = "all"
"""The `task` of the mean over tasks."""


@dataclass(frozen=True, order=True)
class Scope:
    """What a score is over: a dataset, a task's datasets, or all tasks."""

    task: str
    dataset: str
    title: str = field(default="", compare=False)
    """As tables print it; of one of the paper's datasets, and of averages, it need not be given."""

    def __post_init__(self) -> None:
        average = "all tasks" if self.task == ALL else f"{self.task} average"
        usual = title_of(self.dataset) if self.is_dataset else average
        object.__setattr__(self, "title", self.title or usual)

    @property
    def is_dataset(self) -> bool:
        """Whether it is one dataset."""
        return self.dataset != AVERAGE


OVERALL = Scope(ALL, AVERAGE)
"""The mean of the task averages."""


def scopes_in_order(scopes: Iterable[Scope]) -> list[Scope]:
    """Return scopes, each once, by task: its datasets, its average; all tasks last."""
    given = set(scopes)
    tasks = [*TASKS, ALL]
    names = [*in_order(one.dataset for one in given if one.is_dataset), AVERAGE]
    return sorted(given, key=lambda one: (tasks.index(one.task), names.index(one.dataset)))
