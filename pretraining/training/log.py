"""The log of a run: JSON lines, one row a step or validation. Standard library only; Figure 12 reads it.

    {"step": 1200, "split": "train", "objective": "mlm", "ratio": 40, "stage": "610m-mlm40", "loss": 2.31,
     "lr": 0.0005, "grad_norm": 0.41, "tokens": 2847744000, "predicted": 949248, "batch": "9f0c...",
     "tokens_per_second": 2.1e6, "mfu": 0.41, "memory_gb": 61.2}
    {"step": 1200, "split": "validation", "objective": "mlm", "ratio": 40, "stage": "610m-mlm40",
     "loss": 2.29, "tokens": 2847744000, "predicted": 949001}

`step` counts the updates done, from random weights; a training loss is the one before its update. `loss` is in
nats a predicted token, `tokens` all tokens so far, `batch` the fingerprint of the step's sequences and masks.
After a kill the rows since the last checkpoint are written again, the same but for the three measured ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from common.doors import UnreadableError, read_bounded, strict_json
from common.errors import UserError
from common.files import write_text
from common.plain_text import name_fault

__all__ = ["LOG", "MEASURED", "LogWriter", "read_log", "write_log"]

LOG = "log.jsonl"
"""Name of the log in a stage's folder, and in a finished model's, where it holds all that led to it."""

_FIRST_VERSION = "trajectory"
"""What version 0.1 called a stage in its logs."""
MEASURED = ("tokens_per_second", "mfu", "memory_gb")
"""Fields that differ from run to run."""
_MOST, _LONGEST = 1 << 32, 1 << 16
"""Bytes of the largest log that is read, and characters of its longest line."""


class LogWriter:
    """Appends rows to a log; each is on its way to the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        """Open the log, cutting off a line that a killed process left unfinished."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            data = path.read_bytes()
            if data and not data.endswith(b"\n"):
                with path.open("r+b") as file:
                    file.truncate(data.rfind(b"\n") + 1)
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: dict[str, Any]) -> None:
        """Append one row."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the rows by rising step, training before validation; of rows written twice the later.

    Raises:
        UserError: there is no log, it is no text, or a line of it is no row.
    """
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    try:
        lines = read_bounded(path, _MOST).decode("utf-8").split("\n")
        lines = lines[:-1] if not lines[-1] else lines
    except FileNotFoundError:
        raise UserError(
            f"{path}: no log here; a training log is in the folder of a stage or of a finished model"
        ) from None
    except UnreadableError as error:
        hint = f"; give the {LOG} in it" if path.is_dir() else ""
        raise UserError(f"{error}{hint}") from None
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: no text in UTF-8, so no training log; give a {LOG} as `python -m pretraining train` writes it"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            row = _row(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            if number < len(lines):
                raise UserError(
                    f"{path}: line {number} is not a row of a training log; give a {LOG} as `python -m pretraining "
                    f"train` writes it"
                ) from None
        else:
            rows[row["step"], row["split"], row["objective"], row["ratio"], row["stage"]] = row
    return sorted(rows.values(), key=lambda row: (row["step"], row["split"]))


def _row(line: str) -> dict[str, Any]:
    """Return a line's row; raises what a line that is none raises."""
    if len(line) > _LONGEST:
        raise ValueError
    row = strict_json(line.encode(), deepest=4, finite=False)
    if _FIRST_VERSION in row:
        row = {"stage" if key == _FIRST_VERSION else key: value for key, value in row.items()}
    for key, kinds in (
        ("step", int), ("split", str), ("objective", str), ("ratio", int | float | None), ("stage", str)
    ):  # fmt: skip
        if not isinstance(row[key], kinds):
            raise TypeError
    if name_fault(row["stage"]) is not None:
        raise ValueError
    return dict(row)


def write_log(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as a log, atomically."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
