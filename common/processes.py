"""Child processes that do not outlive their parent, and the signal that asks them to save."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from collections.abc import Callable, Iterator

__all__ = ["AGAIN", "STOP_SIGNALS", "end_with_parent", "ignore_stop_signal", "listening"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""What asks for saving and ending: SIGUSR1 is what Slurm sends before a time limit."""

AGAIN = 75
"""Exit code of what was asked, has saved its work and has to be started again (EX_TEMPFAIL)."""

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however that ends; Linux only, nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ignore_stop_signal() -> None:
    """Ignore SIGUSR1 here and in all that this process starts, until one of them listens: others would die of it."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


@contextlib.contextmanager
def listening(asked: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `asked` for every stop signal while the block runs."""
    before = {
        number: signal.signal(number, lambda found, _: asked(signal.Signals(found)))
        for number in STOP_SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
