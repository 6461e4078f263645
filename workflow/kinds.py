"""The kinds of jobs: what a job of each kind may end with, and when it is complete; one rule of Snakemake each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runs import RUN
from common.registry import Registry

__all__ = ["KINDS", "Kind"]


def _all_there(paths: Sequence[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _done_or_failed(results: Sequence[Path]) -> bool:
    """Return whether every run has its results or is recorded as failed: a loss that diverged does so again."""
    return all(path.is_file() or _failed(path.with_name(RUN)) for path in results)


def _failed(record: Path) -> bool:
    try:
        content = json.loads(record.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("status") == "failed"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of job."""

    name: str
    """The name of its rule, and of the folders of its markers and logs."""
    title: str
    """What its jobs are, in the summary."""
    part: str
    """The part of a study that its time is counted for."""
    accepted: tuple[int, ...] = (0,)
    """Exit codes of its commands that are no failure."""
    complete: Callable[[Sequence[Path]], bool] = _all_there
    """Whether a job is complete, from the files that it makes."""
    priority: int = 0
    """Of jobs that could start, those of the highest priority do."""
    goal: bool = False
    """Whether its jobs are what a study is for; jobs of other kinds are done when one of these waits for them."""
    follows: bool = False
    """Whether its jobs are done again whenever one that they wait for is."""


KINDS = Registry(
    "kind of job",
    (
        Kind(name="data", title="datasets", part="data"),
        Kind(name="shards", title="shards", part="data"),
        Kind(name="stage", title="trunks and stages", part="pretraining", priority=10),
        Kind(name="model", title="decays and exports", part="pretraining", priority=5, goal=True),
        Kind(name="cell", title="cells of fine-tunings", part="fine-tuning", accepted=(0, 3), complete=_done_or_failed),
        Kind(name="analysis", title="tables, claims, figures", part="analysis", goal=True, follows=True),
    ),
)  # fmt: skip
"""All kinds, in the order of a study. 3 is the exit code of `python -m benchmarks run` when some runs failed."""
