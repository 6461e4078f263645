"""The state of single runs in a store: done, failed with a reason, or missing. Light: no torch.

Done means: results.json parses, is complete, agrees with itself, and all files are what the run's manifest says.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.protocol import Dataset, format_lr
from benchmarks.results_json import ResultsError, read_results
from benchmarks.runs import AGAIN, DETAILS, RESULTS, RUN, NotItselfError, RunKey, read_run
from common.errors import UserError
from common.manifest import FILES, check_files

__all__ = ["RunState", "claim_path", "folder_of", "state_of"]


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a look into a run's folder found."""

    scores: tuple[float, float] | None = None
    """Validation and test score of a run that is done."""
    fault: str | None = None
    """Why the results that are there cannot be used."""
    reason: str | None = None
    """Why the run failed, of one that did."""
    description: Mapping[str, Any] | None = None
    """What the run was made from, where its manifest says it; the release has no manifests."""
    source: str = ""
    """The model as the run's command named it."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What the run took, by part."""

    @property
    def done(self) -> bool:
        """Whether the results are there and can be believed."""
        return self.scores is not None


def folder_of(store: Path, key: RunKey) -> Path:
    """Return the folder of a run."""
    return store / "results" / key.folder


def claim_path(store: Path, key: RunKey, dataset: Dataset) -> Path:
    """Return the file whose lock a process holds while it works on the fine-tuning of a run of `dataset`."""
    return store / "locks" / f"{key.model}__{dataset.trained_on}__lr{format_lr(key.lr)}_sd{key.seed}.lock"


def state_of(store: Path, key: RunKey) -> RunState:
    """Return the state of a run; a folder is read again only when its files look different."""
    folder = folder_of(store, key)
    return _look(folder, *(_stamp(folder / name) for name in (RESULTS, RUN, DETAILS)))


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.lru_cache(maxsize=100_000)
def _look(folder: Path, *stamps: object) -> RunState:
    there = os.path.lexists(folder / RESULTS)
    try:
        record = read_run(folder)
    except NotItselfError as error:
        return RunState(fault=error.reason if there else None)
    said = {
        "description": record.get("description"),
        "source": str(record.get("model_source")),
        "seconds": record.get("seconds", {}),
    }
    reason = str(record.get("reason", "unknown")) if record.get("status") == "failed" else None
    if not there:
        return RunState(reason=reason, **said)
    files = dict(record.get(FILES, {}))
    try:
        found = read_results(folder / RESULTS, files.pop(RESULTS, "") if record else None)
        check_files(folder, files, AGAIN)
    except (ResultsError, UserError, OSError) as error:
        return RunState(fault=str(error), reason=reason, **said)
    return RunState(scores=(found.validation.score, found.test.score), **said)
