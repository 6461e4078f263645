"""The state of single runs in a store: done, failed with a reason, or missing. Light: no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.runs import RESULTS, RUN, RunKey

__all__ = ["failure", "folder_of", "is_done", "lock_path", "read_record", "read_score"]


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


def lock_path(store: Path, model: str, trained_on: str) -> Path:
    """Return the file whose lock a process holds while it works on a model's cells of one training set."""
    return store / "locks" / f"{model}__{trained_on}.lock"
