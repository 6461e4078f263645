"""The state of single runs in a store: done, failed with a reason, or missing. Light: no torch.

Done means: results.json parses, is complete, agrees with itself, and is what the run wrote.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results_json import ResultsError, read_results
from benchmarks.runs import MOST_RECORD, RESULTS, RUN, RunKey, lacks_provenance, record_of
from benchmarks.sweep.run_provenance import folder_of
from common.errors import UserError
from common.files import sha256_bytes
from common.provenance import FILES, PROVENANCE, provenance_path, read_provenance
from common.reading import read_bounded

__all__ = ["failure", "fault", "is_done", "lock_path", "read_record", "read_score"]


class _Looked(NamedTuple):
    """What a look into a run's folder found."""

    scores: tuple[float, float] | None
    fault: str | None


def is_done(store: Path, key: RunKey) -> bool:
    """Return whether a run's results are there and can be believed."""
    return _look(store, key).scores is not None


def fault(store: Path, key: RunKey) -> str | None:
    """Return why the results that are there cannot be used; None for good ones, and where there are none."""
    return _look(store, key).fault


def read_score(store: Path, key: RunKey) -> tuple[float, float] | None:
    """Return the validation and test score of a run; None when it is not done."""
    return _look(store, key).scores


def read_record(store: Path, key: RunKey) -> dict[str, Any]:
    """Return what `run.json` says about a run; empty when there is none that can be believed."""
    return record_of(folder_of(store, key))


def failure(store: Path, key: RunKey) -> str | None:
    """Return the recorded reason of a run that failed; None for any other."""
    if is_done(store, key):
        return None
    content = read_record(store, key)
    return str(content.get("reason", "unknown")) if content.get("status") == "failed" else None


def lock_path(store: Path, model: str, trained_on: str) -> Path:
    """Return the file whose lock a process holds while it works on a model's cells of one training set."""
    return store / "locks" / f"{model}__{trained_on}.lock"


def _look(store: Path, key: RunKey) -> _Looked:
    folder = folder_of(store, key)
    return _looked(folder, *(_stamp(path) for path in _files(folder)))


def _files(folder: Path) -> tuple[Path, Path, Path]:
    return folder / RESULTS, folder / RUN, provenance_path(folder, folder=True)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@functools.lru_cache(maxsize=100_000)
def _looked(folder: Path, results: object, record: object, provenance: object) -> _Looked:
    """Look into a folder; the stamps of its files make a look at other files another one."""
    if results is None and not os.path.lexists(folder / RESULTS):
        return _Looked(None, None)
    try:
        hashes = read_provenance(provenance_path(folder, folder=True)).get(FILES, {})
        if lacks_provenance(folder):
            return _Looked(None, f"lacks the {PROVENANCE} that was written with it")
        found = read_results(folder / RESULTS, hashes.get(RESULTS))
        if RUN in hashes and sha256_bytes(read_bounded(folder / RUN, MOST_RECORD)) != hashes[RUN]:
            return _Looked(None, f"has a {RUN} that is not what its run wrote")
    except ResultsError as error:
        return _Looked(None, error.sentence)
    except FileNotFoundError:
        return _Looked(None, f"lacks the {RUN} that was written with it")
    except UserError as error:
        return _Looked(None, str(error))
    return _Looked((found.validation.score, found.test.score), None)
