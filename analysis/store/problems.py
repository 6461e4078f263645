"""What can be wrong with a run store, as records: a path, a kind, one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

__all__ = ["HARMLESS", "KINDS", "Problem", "problem_records", "summary"]

KINDS: Mapping[str, str] = {
    "unreadable": "a file or folder that cannot be read",
    "broken": "a results.json that is empty, cut off or not JSON",
    "incomplete": "a results.json that lacks a split, `score` or `scores_i`",
    "value": "a score that is not a number in [0, 1]",
    "mean": "a score that is not the mean of its scores_i",
    "changed": "a file that is not what its run wrote",
    "standard": "a run without the standard protocol's metrics, where those are read",
    "count": "another number of instances than the other runs of the dataset have",
    "duplicate": "the same run in two folders",
    "unknown": "a folder that is no known model, task, dataset or run",
    "stray": "a file that has no place in a store",
    "unfinished": "a run that is still being written, or was broken off",
    "missing": "a cell without all of its 30 runs",
    "left out": "a dataset that the paper's twelve do not hold",
}
"""What each kind of problem means."""

HARMLESS = frozenset({"unfinished", "missing", "left out"})
"""Kinds that are reported but leave the exit status at 0: every run that is there is used."""


@dataclass(frozen=True, kw_only=True, order=True)
class Problem:
    """One thing that is wrong with the input, and what was done about it."""

    path: str
    """The file or folder, below the store as the user named it, so that it can be copied into a command."""
    kind: str
    """A key of `KINDS`."""
    sentence: str
    """What is wrong, and what to do; does not repeat the path."""

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"

    @property
    def harmless(self) -> bool:
        """Whether every run that is there is used in spite of it."""
        return self.kind in HARMLESS


def problem_records(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """Return the problems as JSON-ready dictionaries with keys `path`, `kind`, `sentence`."""
    return [asdict(problem) for problem in problems]


def summary(problems: Sequence[Problem]) -> str:
    """Return `3 problems (2 broken, 1 stray)`, or `no problems`; harmless ones are not counted."""
    kinds = Counter(problem.kind for problem in problems if not problem.harmless)
    if not kinds:
        return "no problems"
    total = sum(kinds.values())
    parts = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])
    return f"{total} problem{'s' if total > 1 else ''} ({parts})"
