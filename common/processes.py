"""Child processes that do not outlive their parent, and the signal that asks them to save."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from collections.abc import Callable, Iterator

__all__ = ["STOP_SIGNALS", "end_with_parent", "hold_stop_signal", "listening"]

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""What asks for saving and ending: SIGUSR1 is what Slurm sends before a time limit."""

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however that ends; Linux only, nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hold_stop_signal() -> None:
    """Block SIGUSR1 for this process and all that it starts, until one of them listens.

    Launchers in between, and the programs that mount an image, would die of it; to be ignored is not enough, for
    programs in Go set ignored signals to their default in what they start, and leave blocked ones blocked.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})


@contextlib.contextmanager
def listening(asked: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `asked` for every stop signal while the block runs, also for one that was held before."""
    before = {
        number: signal.signal(number, lambda found, _: asked(signal.Signals(found)))
        for number in STOP_SIGNALS
    }
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
