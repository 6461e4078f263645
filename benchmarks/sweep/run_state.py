"""The state of single runs in a store: done, failed with a reason, or missing. Light: no torch."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.runs import RESULTS, RUN, RunKey

__all__ = [
    "failure", "folder_of", "hold_lock", "is_done", "is_locked", "lock_path", "read_record", "read_score",
    "score_so_far",
]  # fmt: skip

log = logging.getLogger(__name__)


def folder_of(store: Path, key: RunKey) -> Path:
    """Return the folder of a run."""
    return store / "results" / key.folder


def is_done(store: Path, key: RunKey) -> bool:
    """Return whether a run's results are there; they are written last and whole."""
    return (folder_of(store, key) / RESULTS).is_file()


def read_record(store: Path, key: RunKey) -> dict[str, Any]:
    """Return what `run.json` says about a run; empty when there is none that can be read."""
    try:
        content = json.loads((folder_of(store, key) / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def failure(store: Path, key: RunKey) -> str | None:
    """Return the recorded reason of a run that failed; None for any other."""
    if is_done(store, key):
        return None
    content = read_record(store, key)
    return str(content.get("reason", "unknown")) if content.get("status") == "failed" else None


def read_score(store: Path, key: RunKey) -> tuple[float, float] | None:
    """Return the validation and test score of a run; None when it is not done."""
    try:
        content = json.loads((folder_of(store, key) / RESULTS).read_text(encoding="utf-8"))
        return float(content["validation"]["score"]), float(content["test"]["score"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def score_so_far(store: Path, keys: Sequence[RunKey]) -> tuple[float, float, int] | None:
    """Return the score of a cell's finished runs by the paper's rule: mean, half width of its interval, seeds.

    For each seed the test score at the learning rate with the best validation score; 1.96 standard errors over
    the seeds, NaN for one seed. `python -m analysis` has the other rules and intervals.
    """
    best: dict[int, tuple[float, float]] = {}
    for key in keys:
        found = read_score(store, key)
        if found is not None and (key.seed not in best or found[0] > best[key.seed][0]):
            best[key.seed] = found
    if not best:
        return None
    tests = [test for _, test in best.values()]
    half = 1.96 * stdev(tests) / len(tests) ** 0.5 if len(tests) > 1 else math.nan
    return fmean(tests), half, len(tests)


def lock_path(store: Path, model: str, trained_on: str) -> Path:
    """Return the file whose lock a process holds while it works on a model's cells of one training set."""
    return store / "locks" / f"{model}__{trained_on}.lock"


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[bool]:
    """Hold a lock: yields False when another process has it. A process that ends in any way lets go of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            log.warning("%s: this file system has no locks; start no two processes on one model here", path)
        try:
            yield True
        finally:
            # Closing does not suffice: a process that was forked meanwhile has the file open too.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)


def is_locked(path: Path) -> bool:
    """Return whether another process holds a lock."""
    if not path.is_file():
        return False
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False
