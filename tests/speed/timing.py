"""What the scripts that measure speed share: their parser, how work is timed, and on what machine."""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds by the clock, and seconds of CPU, so that a busy machine shows less."""

    seconds: float
    cpu: float


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script, which shows its docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def work(call: Callable[[], object]) -> Timing:
    """Time a call in this process."""
    started, cpu = time.perf_counter(), time.process_time()
    call()
    return Timing(seconds=time.perf_counter() - started, cpu=time.process_time() - cpu)


def machine() -> str:
    """Return what the numbers were measured on."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"
