"""Run stores that a test made."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.protocol import FINE_TUNING
from benchmarks.runs import DETAILS, read_run
from benchmarks.sweep import work
from benchmarks.sweep.request import RunRequest
from tests.benchmarks.command import command

run, status = command("benchmarks", "run"), command("benchmarks", "status")


def validate(words: list[str]) -> int:
    """Check what a run needs, and run nothing."""
    return run([*words, "--dry-run"])


def words_of(model: Path, data: Path, store: Path, steps: int = 3) -> list[str]:
    """A command of fine-tunings of so many steps, one after the other."""
    words = [
        "--model",
        str(model),
        "--name",
        "tiny",
        "--data",
        str(data),
        "--out",
        str(store),
    ]
    return [*words, "--steps", str(steps), "--device", "cpu", "--workers", "1"]


RUN_OF_UNER = ["--dataset", "uner_en", "--lr", "1e-3", "--seed", "0"]


def results(store: Path) -> dict[str, bytes]:
    root = store / "results"
    return {
        str(path.parent.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("results.json"))
    }


def record(store: Path, folder: str) -> dict[str, Any]:
    return read_run(store / "results" / folder)


def details(store: Path, folder: str) -> dict[str, Any]:
    """Losses, and standard metrics instance by instance."""
    return json.loads((store / "results" / folder / DETAILS).read_text())  # type: ignore[no-any-return]


def replaced(words: list[str], option: str, value: object) -> list[str]:
    """A command with another value of an option."""
    at = words.index(option)
    return [*words[: at + 1], str(value), *words[at + 2 :]]


def request_of(model: str, data: Path, store: Path, **changes: Any) -> RunRequest:
    """One fine-tuning of three steps on SST-2, but for the changes."""
    values = {"datasets": ("sst2",), "lrs": (1e-3,), "seeds": (0,), **changes}
    tuning = replace(FINE_TUNING, steps=3)
    return RunRequest(
        model=model, name="tiny", data=data, store=store, fine_tuning=tuning, **values
    )


def fail_at_5e_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fine-tunings at this learning rate end with a loss that is no number."""
    real = work.fine_tune

    def fail(*args: Any, **options: Any) -> Any:
        if options["lr"] == 5e-3:
            raise FineTuningError("the loss is nan at step 2")
        return real(*args, **options)

    monkeypatch.setattr(work, "fine_tune", fail)
