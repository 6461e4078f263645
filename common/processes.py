"""Child processes that do not outlive their parent."""

from __future__ import annotations

import ctypes
import signal
import sys

__all__ = ["end_with_parent"]

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, however that ends; Linux only, nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
