"""Ctrl-C while modules are still being imported: import this first, before what takes time.

import common.interrupts  # noqa: F401  (first: Ctrl-C while the rest is imported)
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

__all__ = ["INTERRUPTED", "SENTENCE"]

SENTENCE = "interrupted; finished work is kept, and the same command resumes from it"
"""What a command says after Ctrl-C."""
INTERRUPTED = 130
"""Its exit code."""

_usual = sys.excepthook


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _usual(kind, error, trace)
        return
    os.write(2, f"{SENTENCE}\n".encode())
    os._exit(INTERRUPTED)  # Python itself would end as if killed by the signal


sys.excepthook = _hook
