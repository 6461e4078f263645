"""The log of a run: JSON lines, one row a step or validation. Standard library only; Figure 12 reads it.

    {"step": 1200, "split": "train", "objective": "mlm", "ratio": 40, "stage": "610m-mlm40", "loss": 2.31,
     "lr": 0.0005, "grad_norm": 0.41, "tokens": 2847744000, "predicted": 949248, "batch": "9f0c...",
     "tokens_per_second": 2.1e6, "mfu": 0.41, "memory_gb": 61.2, "loader_wait": 0.0004, "straggler": 1.003}
    {"step": 1200, "split": "validation", "objective": "mlm", "ratio": 40, "stage": "610m-mlm40",
     "loss": 2.29, "tokens": 2847744000, "predicted": 949001}

`step` counts the updates done, from random weights; a training loss is the one before its update. `loss` is in
nats a predicted token, `tokens` all tokens so far, `batch` the fingerprint of the step's sequences and masks.
`loader_wait` is the ranks' mean wait for the step's batch in seconds, `straggler` the slowest rank's time for its
passes over the mean. After a kill the rows since the last checkpoint are written again, the same but for what is
measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_text

__all__ = ["LOG", "MEASURED", "LogWriter", "read_log", "write_log"]

LOG = "log.jsonl"
"""Name of the log in a stage's folder, and in a finished model's, where it holds all that led to it."""

_FIRST_VERSION = "trajectory"
"""What version 0.1 called a stage in its logs."""
MEASURED = ("tokens_per_second", "mfu", "memory_gb", "loader_wait", "straggler")
"""Fields that differ from run to run."""


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
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(
            f"{path}: no log here; a training log is in the folder of a stage or of a finished model"
        ) from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; give the {LOG} in it") from None
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: no text in UTF-8, so no training log; give a {LOG} as `python -m pretraining train` writes it"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if _FIRST_VERSION in row:
                row = {"stage" if key == _FIRST_VERSION else key: value for key, value in row.items()}
            if not isinstance(row["step"], int):
                raise TypeError
            rows[row["step"], row["split"], row["objective"], row["ratio"], row["stage"]] = row
        except (ValueError, KeyError, TypeError):
            if number < len(lines):
                raise UserError(
                    f"{path}: line {number} is not a row of a training log; give a {LOG} as `python -m pretraining "
                    f"train` writes it"
                ) from None
    return sorted(rows.values(), key=lambda row: (row["step"], row["split"]))


def write_log(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as a log, atomically."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
