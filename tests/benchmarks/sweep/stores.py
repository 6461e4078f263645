"""Run stores that a test made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.runs import DETAILS, read_run
from benchmarks.sweep import jobs
from tests.benchmarks.command import command

run, status, validate = command("run"), command("status"), command("validate")


def results(store: Path) -> dict[str, bytes]:
    root = store / "results"
    return {
        str(path.parent.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("results.json"))
    }


def record(store: Path, folder: str) -> dict[str, Any]:
    return read_run(store / "results" / folder)


def details(store: Path, folder: str) -> dict[str, Any]:
    """Losses, and standard metrics instance by instance."""
    return json.loads((store / "results" / folder / DETAILS).read_text())  # type: ignore[no-any-return]


def fail_at_5e_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fine-tunings at this learning rate end with a loss that is no number."""
    real = jobs.fine_tune

    def fail(*args: Any, **options: Any) -> Any:
        if options["lr"] == 5e-3:
            raise FineTuningError("the loss is nan at step 2")
        return real(*args, **options)

    monkeypatch.setattr(jobs, "fine_tune", fail)
