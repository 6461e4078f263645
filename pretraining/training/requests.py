"""Requests to a process while it trains: to stop, by a signal or a file, or to save, by the clock."""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from common.processes import on_first_interrupt, on_stop_signal

logger = logging.getLogger(__name__)


class Requests:
    """Requests to this process while it trains: to stop by a signal or the stop file, to save by the clock."""

    def __init__(self, name: str, *, stop_file: Path | None, minutes: float) -> None:
        """Begin without a request; the clock for checkpoints begins now.

        Args:
            name: the stage, for messages.
            stop_file: asks to stop once it exists.
            minutes: time between checkpoints that the clock asks for; 0: it asks for none.
        """
        self._name, self._stop_file, self._minutes = name, stop_file, minutes
        self.signals: list[int] = []
        """The signals that have come, in order."""
        self.looked_at = 0.0
        """Time of the last look for the stop file, by the monotonic clock."""
        self._saved_at = time.monotonic()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGTERM, SIGUSR1 and the first Ctrl-C as requests while the block runs."""
        with on_stop_signal(self.signals.append), on_first_interrupt(self._interrupted):
            yield

    def _interrupted(self, received: signal.Signals) -> None:
        self.signals.append(received)
        logger.warning(
            "%s: saving a checkpoint as soon as the pass or step is over; press Ctrl-C again to stop at once",
            self._name,
        )

    def stop(self) -> bool:
        """Return whether a signal has come or the stop file exists, which is looked for at most once a second."""
        now = time.monotonic()
        if self._stop_file is not None and now > self.looked_at + 1:
            self.looked_at = now
            if self._stop_file.exists():
                return True
        return bool(self.signals)

    def save(self) -> bool:
        """Return whether the clock says that a checkpoint is due."""
        if not self._minutes:
            return False
        return time.monotonic() > self._saved_at + 60 * self._minutes

    def saved(self) -> None:
        """Note that a checkpoint was saved now: the clock asks for the next one `minutes` later."""
        self._saved_at = time.monotonic()
