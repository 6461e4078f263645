"""Progress of long work: a bar on terminals, and for what lasts hours one line per minute in logs."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

_T = TypeVar("_T")

logger = logging.getLogger(__name__)
_FIRST_SECONDS, _LINE_SECONDS = 5.0, 60.0
"""Seconds to the first line of a log, and most seconds between two lines."""
_STEPS = 10
"""Steps before there is an ETA: the first ones compile, read and fill caches."""
_WITHOUT_ETA = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
_BAR = functools.partial(tqdm, delay=2.0, disable=None, leave=False)
"""A bar of tqdm. With `disable=None`, tqdm disables the bar where stderr is not a terminal."""


def progress(
    items: Iterable[_T], what: str, total: int | None = None, unit: str = "it"
) -> Iterator[_T]:
    """Yield `items` under a progress bar with an ETA on stderr; silent when stderr is no terminal.

    The bar appears only for work that lasts longer than two seconds.
    """
    yield from _BAR(items, desc=what, total=total, unit=unit)


class Meter(contextlib.AbstractContextManager["Meter"]):
    """Shows how far work has come, its rate and its ETA; use as a context manager.

    On a terminal a bar appears after two seconds. Elsewhere, as in a Slurm log, a line is logged after five seconds,
    then ever more rarely, down to one a minute. The last note stays in both.
    """

    def __init__(
        self, what: str, total: float, *, done: float = 0.0, unit: str = "it"
    ) -> None:
        """Start a meter.

        Args:
            what: what the work is called.
            total: how much there is to do, in `unit`.
            done: how much earlier processes have done; the ETA is taken from what this process does.
            unit: what is counted.
        """
        self._what, self._total = what, total
        self._note = ""
        self._wait = _FIRST_SECONDS  # from the last line of the log to the next one

        # `_first` stays, for the rate of this process; `_done` is what was reported last.
        self._first = self._done = done
        # `_began` stays as well; `_reported` is the time of the last line of the log.
        self._began = self._reported = time.monotonic()
        self._steps = 0
        self._bar = _BAR(
            desc=what,
            total=total,
            initial=done,
            unit=unit,
            unit_scale=True,
            bar_format=_WITHOUT_ETA,
        )

    def update(self, done: float, note: str = "") -> None:
        """Report that `done` of the total is finished, with a note such as a loss or a rate."""
        self._steps += 1
        if self._steps == _STEPS:
            # From here tqdm's own format, which has an ETA; an ETA from the first steps would be wrong.
            self._bar.bar_format = None

        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._done)
        self._done, self._note = done, note

        # Without a terminal tqdm has disabled the bar: lines are logged in its place.
        now = time.monotonic()
        if self._bar.disable and now - self._reported >= self._wait:
            self._reported = now
            self._wait = min(2 * self._wait, _LINE_SECONDS)
            eta = "no ETA yet"
            progress_here = done - self._first
            if self._steps >= _STEPS and progress_here > 0:
                rate = progress_here / (now - self._began)
                seconds = (self._total - done) / rate
                eta = f"{tqdm.format_interval(seconds)} to go"

            # The total may be 0.
            percent = 100 * done / max(self._total, 1e-9)
            logger.info("%s: %.1f %%, %s, %s", self._what, percent, eta, note)

    def __exit__(self, *error: object) -> None:
        """Remove the bar and log the last note."""
        self._bar.close()
        if self._note and error[0] is None:
            logger.info("%s: %s", self._what, self._note)
