"""The log of a run: JSON lines, one row a step or validation. Standard library only; Figure 12 reads it.

    {"step": 1200, "split": "train", "objective": "mlm", "ratio": 40, "stage": "610m-mlm40", "loss": 2.31,
     "lr": 0.0005, "grad_norm": 0.41, "tokens": 2847744000, "predicted": 949248, "batch": "9f0c..."}
    {"step": 1200, "split": "validation", "objective": "mlm", "ratio": 40, "stage": "610m-mlm40",
     "loss": 2.29, "tokens": 2847744000, "predicted": 949001}

`step` counts the updates from random weights on; a training loss is the one before its update. `loss` is in
nats a predicted token, NaN or Infinity where it is not a number, as Python writes them; `tokens` all tokens so far,
`batch` the fingerprint of the step's sequences and masks. `pretraining.training.log_rows` makes the rows.
After a kill the rows since the last checkpoint are cut off and written again, the same.

What depends on the machine and the hour is in `timings.jsonl` next to it, so that a log has the same bytes when a model
is trained again:

    {"step": 1200, "stage": "610m-mlm40", "tokens_per_second": 2.1e6, "mfu": 0.41, "memory_gb": 61.2,
     "device": "NVIDIA H100", "processes": 8}
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from common.errors import UserError
from common.files import sync_folder, write_text
from common.plain_text import name_fault
from common.reading import BadJsonError, UnreadableError, open_plain, strict_json

LOG = "log.jsonl"
"""Name of the log in a stage's folder, and in a finished model's, where it holds all that led to it."""
TIMINGS = "timings.jsonl"
"""Name of the file next to a stage's log with what was measured on the clock."""

MEASURED = (
    "tokens_per_second",
    "mfu",
    "memory_gb",
    "device",
    "processes",
)
"""Fields that differ from run to run; logs of earlier versions hold the first three."""
_LONGEST = 2**16
"""Bytes of the longest line."""
LogRecord = dict[str, Any]
"""How many `bytes` of a log there were at a checkpoint, and their `sha256`."""


class LogWriter:
    """Appends rows to a log and its timings.

    A row that `write` has written survives the end of this process; `sync` makes it safe on the disk.
    """

    def __init__(
        self, path: Path, step: int | None = None, known: LogRecord | None = None
    ) -> None:
        """Open the log, cutting off a line that a killed process left unfinished, and all rows after a step.

        Args:
            path: the log.
            step: the step whose checkpoint training resumes from: later rows are cut off, since they will be written
                again. None: no row is cut off.
            known: size and hash of the log at that checkpoint, as it records them.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._log = _open_and_cut(path, step)
        self._timings = _open_and_cut(path.with_name(TIMINGS), step)

        # Rows may have been changed by hand since the checkpoint was written. Later checkpoints then go on
        # recording the old hash (`record`), so that the export, which compares it with the log, still finds
        # the change.
        self._lost_record: LogRecord | None = None
        if known and log_record(path, known["bytes"]) != known:
            self._lost_record = known

        # Of all rows so far; `write` carries both on.
        self._size = path.stat().st_size
        self._digest = hashlib.sha256(path.read_bytes())

        # The name of a new file is safe on the disk only after its folder is synced.
        sync_folder(path.parent)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row to the log; its fields in `MEASURED` go to the timings instead."""
        measured = {key: row[key] for key in MEASURED if key in row}
        if measured:
            # The fields that say which row of the log a row of timings belongs to.
            common = {"step": row["step"], "stage": row["stage"]}
            _append(self._timings, common | measured)
        logged = {key: value for key, value in row.items() if key not in MEASURED}
        line = _append(self._log, logged)
        self._size += len(line)
        self._digest.update(line)

    def record(self) -> LogRecord:
        """Return what a checkpoint records of the log: its size and hash now.

        If rows had changed before training resumed, it is the old record, which the log no longer matches.
        """
        if self._lost_record is not None:
            return self._lost_record
        return {"bytes": self._size, "sha256": self._digest.hexdigest()}

    def sync(self) -> None:
        """Put the log's rows on the disk, so that a checkpoint written afterwards is never ahead of its log."""
        os.fsync(self._log.fileno())

    def close(self) -> None:
        """Close both files."""
        self._log.close()
        self._timings.close()


def read_log(path: Path, faults: list[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a log by rising step; at one step the row of training comes before that of validation.

    If a row was written twice, the later one counts. A last line that a killed process left unfinished is left out.

    Args:
        path: the log, of any size.
        faults: a list to which a sentence is added for each fault, in place of an error; the faulty lines are left out.

    Raises:
        UserError: `faults` is not given, and there is no log or a line of it is not a row.
    """
    # By the fields that no two rows have in common (`_NEEDED`).
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    try:
        for number, line in enumerate(_lines(path), 1):
            try:
                row = _row(line.removesuffix(b"\n"))
            except BadJsonError as error:
                # Only the last line can lack its end. If it is no longer than a row, writing was interrupted.
                if not line.endswith(b"\n") and len(line) <= _LONGEST:
                    break
                fault = (
                    f"{path}: line {number} is not a row of a training log; give a {LOG} written by "
                    f"`clm-or-mlm train` ({error})"
                )
                if faults is None:
                    raise UserError(fault) from None
                faults.append(fault)
            else:
                rows[tuple(row[name] for name in _NEEDED)] = row
    except UserError as error:
        if faults is None:
            raise
        faults.append(str(error))

    # "train" sorts before "validation".
    return sorted(rows.values(), key=lambda row: (row["step"], row["split"]))


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a log; a line longer than any row comes in pieces, which `_row` refuses.

    Raises:
        UserError: the file is not there or cannot be read.
    """
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            # Not `for line in file`, which would read a file without line ends into memory whole.
            while line := file.readline(_LONGEST + 1):
                yield line
    except FileNotFoundError:
        raise UserError(
            f"{path}: no log here; a training log is in the folder of a stage or of a finished model"
        ) from None
    except UnreadableError as error:
        hint = f"; give the {LOG} in it" if path.is_dir() else ""
        raise UserError(f"{error}{hint}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})") from None


def log_record(path: Path, size: int) -> LogRecord:
    """Return the record of a log's first `size` bytes: how many of them there are, and their hash.

    A log that cannot be read counts as empty.
    """
    content = b""
    with (
        contextlib.suppress(OSError, UserError),
        os.fdopen(open_plain(path), "rb") as file,
    ):
        content = file.read(size)
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def log_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as the text of a log."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_log(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as a log, atomically."""
    write_text(path, log_text(rows))


def _open_and_cut(path: Path, step: int | None) -> TextIO:
    """Open a log to append to, after cutting off an unfinished last line and the rows after a step.

    Args:
        path: the log, or its timings; made if it is not there.
        step: the last step whose rows stay; None if all stay.

    Raises:
        UserError: the file does not begin as a log does.
    """
    if path.is_file():
        with path.open("r+b") as file:
            # Each line of a log is a JSON object.
            if file.peek(1)[:1] not in (b"{", b""):
                raise UserError(
                    f"{path} is not a log of this package; move it elsewhere, or choose another --out"
                )

            end = 0
            # Rows stand by rising step, so from the first one that is cut off all are.
            for line in file:
                is_cut = step is not None and _step(line) > step
                if is_cut or not line.endswith(b"\n"):
                    break
                end += len(line)

            file.truncate(end)

    return path.open("a", encoding="utf-8")


def _step(line: bytes) -> float:
    """Return the step of a line, or 0 if the line is not a row, so that it stays: `read_log` will name it."""
    try:
        return float(strict_json(line, finite=False)["step"])
    except (BadJsonError, KeyError, TypeError, ValueError, OverflowError):
        return 0.0


def _append(file: TextIO, row: Mapping[str, Any]) -> bytes:
    """Append a row, so that it survives the end of this process, and return its line."""
    line = json.dumps(row) + "\n"
    file.write(line)
    file.flush()
    return line.encode()


def _row(line: bytes) -> dict[str, Any]:
    """Return the row that a line holds.

    Raises:
        BadJsonError: the line is not a row; the words say why.
    """
    if len(line) > _LONGEST:
        raise BadJsonError(f"it has more than {_LONGEST:,} bytes")
    row: Any = strict_json(line, finite=False)
    if not isinstance(row, dict):
        raise BadJsonError("it is not a JSON object")
    for name in _NEEDED:
        if name not in row:
            raise BadJsonError(f"it has no {name}")

    for name, value in row.items():
        is_valid = _FIELDS.get(name, _number)
        if not is_valid(value):
            raise BadJsonError(f"its {name[:40]} cannot be {str(value)[:40]!r}")

    return row


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _number(value: Any) -> bool:
    # NaN and Infinity are allowed, as losses that are not finite; finite numbers of 1e300 or more are refused.
    return type(value) in (int, float) and not 1e300 <= abs(value) < math.inf


def _name(value: Any) -> bool:
    return isinstance(value, str) and name_fault(value) is None


_NEEDED = ("step", "split", "objective", "ratio", "stage")
"""Fields that every row has; no two rows of a log have the same values in all of them."""
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "step": _count,
    "split": lambda value: value in ("train", "validation"),
    "objective": _name,
    "ratio": lambda value: value is None or (_number(value) and 0 <= value <= 100),
    "stage": _name,
    "tokens": _count,
    "batch": lambda value: _name(value) and len(value) <= 64,
    "device": _name,
}
"""By field, a function that returns whether a value is possible there; other fields may hold any number."""


def validation_gain(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the first and last validation loss in words, as `3.91 -> 2.35 at 40 %`; empty if there are not two.

    Losses at different masking ratios do not compare: those of the first ratio with two validations are taken.
    """
    # By masking ratio, in the order in which the ratios first occur: the loop below returns at the first one
    # with two losses.
    losses: dict[float | None, list[float]] = {}
    for row in rows:
        # A validation without a token to predict has no loss.
        if row["split"] == "validation" and "loss" in row:
            losses.setdefault(row.get("ratio"), []).append(row["loss"])
    for ratio, values in losses.items():
        if len(values) > 1:
            at = "" if ratio is None else f" at {ratio:g} %"
            return f"{values[0]:.2f} -> {values[-1]:.2f}{at}"
    return ""
