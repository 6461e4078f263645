"""The state of single runs in a store: done, failed with a reason, or missing; and what they took. Light: no torch.

Done means: results.json parses, is complete, agrees with itself, and all files are what the run's manifest says.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.protocol import Dataset, format_lr, get_dataset
from benchmarks.results_json import ResultsError, read_results
from benchmarks.runs import AGAIN, DETAILS, RESULTS, RUN, RunKey, read_run, record_of
from common.errors import UserError
from common.manifest import FILES, check_files

__all__ = [
    "Stamp", "claim_path", "failure", "fault", "folder_of", "is_done", "read_score", "record_stamp",
    "timings",
]  # fmt: skip

Stamp = tuple[int, ...] | None
"""What a file looks like from outside: the same stamp means the same content; None for no file."""


class _Looked(NamedTuple):
    """What a look into a run's folder found."""

    scores: tuple[float, float] | None
    fault: str | None


def folder_of(store: Path, key: RunKey) -> Path:
    """Return the folder of a run."""
    return store / "results" / key.folder


def is_done(store: Path, key: RunKey) -> bool:
    """Return whether a run's results are there and can be believed."""
    return _look(store, key).scores is not None


def fault(store: Path, key: RunKey) -> str | None:
    """Return why the results that are there cannot be used; None for good ones, and where there are none."""
    return _look(store, key).fault


def read_score(store: Path, key: RunKey) -> tuple[float, float] | None:
    """Return the validation and test score of a run; None when it is not done."""
    return _look(store, key).scores


def failure(store: Path, key: RunKey) -> str | None:
    """Return the recorded reason of a run that failed; None for any other."""
    if is_done(store, key):
        return None
    record = record_of(folder_of(store, key))
    return str(record.get("reason", "unknown")) if record.get("status") == "failed" else None


def timings(store: Path, key: RunKey) -> dict[str, float]:
    """Return the seconds that a run took, by part; empty where nothing says it."""
    seconds: dict[str, float] = record_of(folder_of(store, key)).get("seconds", {})
    return seconds


def record_stamp(store: Path, key: RunKey) -> Stamp:
    """Return the stamp of a run's manifest."""
    return _stamp(folder_of(store, key) / RUN)


def claim_path(store: Path, key: RunKey, dataset: Dataset | str) -> Path:
    """Return the file whose lock a process holds while it works on the fine-tuning of a run of `dataset`."""
    trained_on = get_dataset(dataset).trained_on
    return store / "locks" / f"{key.model}__{trained_on}__lr{format_lr(key.lr)}_sd{key.seed}.lock"


def _look(store: Path, key: RunKey) -> _Looked:
    folder = folder_of(store, key)
    return _looked(folder, *(_stamp(folder / name) for name in (RESULTS, RUN, DETAILS)))


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.lru_cache(maxsize=100_000)
def _looked(folder: Path, results: object, *_: object) -> _Looked:
    """Look into a folder; the stamps of its files make a look at other files another one."""
    if results is None and not os.path.lexists(folder / RESULTS):
        return _Looked(None, None)
    try:
        record: dict[str, Any] = read_run(folder)
        files = dict(record.get(FILES, {}))
        # The release has no manifests.
        found = read_results(folder / RESULTS, files.pop(RESULTS, "") if record else None)
        check_files(folder, files, AGAIN)
    except ResultsError as error:
        return _Looked(None, error.sentence)
    except (UserError, OSError) as error:
        return _Looked(None, str(error))
    return _Looked((found.validation.score, found.test.score), None)
