"""What is wrong before anything else is imported: an old Python, no environment, Ctrl-C; import this first.

import common.interrupts  # noqa: F401  (first: Ctrl-C while the rest is imported)
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from types import TracebackType

__all__ = ["INTERRUPTED", "SENTENCE"]

SENTENCE = "interrupted; run the same command again to continue"
"""What a command says after Ctrl-C."""
INTERRUPTED = 130
"""Its exit code."""

if sys.version_info < (3, 11) or find_spec("cyclopts") is None:
    sys.stderr.write(
        "error: Python {}.{} is running outside this package's environment; activate the environment first "
        "(source .venv/analysis/bin/activate) or create it (make analysis-env), see docs/install.md\n".format(
            *sys.version_info
        )
    )
    sys.exit(2)

_usual = sys.excepthook


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _usual(kind, error, trace)
        return
    os.write(2, f"{SENTENCE}\n".encode())
    os._exit(INTERRUPTED)  # Python itself would end as if killed by the signal


sys.excepthook = _hook
