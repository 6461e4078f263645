"""What the timing scripts share: how work and commands are timed, and how a line of the result looks.

Each script prints ours and a reference from one run. CPU seconds are those of the process and its children, so that a
busy machine shows less; memory is the largest sum over a command's processes, shared pages counted once (PSS).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.provenance import ROOT


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds by the clock, seconds of CPU, and of commands the largest memory in MB."""

    seconds: float
    cpu: float
    megabytes: float = 0.0

    def times(self, scale: float) -> Timing:
        """Return what `scale` times the work would take."""
        return Timing(seconds=scale * self.seconds, cpu=scale * self.cpu)


def parser_of(doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of a script, which shows its docstring."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def work(call: Callable[[], object]) -> Timing:
    """Time a call in this process."""
    started, cpu = time.perf_counter(), time.process_time()
    call()
    return Timing(seconds=time.perf_counter() - started, cpu=time.process_time() - cpu)


def command(*words: object) -> Timing:
    """Time `python -m WORDS` in the repository, imports included; a failure ends the script."""
    before, started, peak = os.times(), time.perf_counter(), 0.0
    process = subprocess.Popen([sys.executable, "-m", *map(str, words)], cwd=ROOT, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, sum(map(_kilobytes, _tree(process.pid))))
        time.sleep(0.05)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed")
    after, seconds = os.times(), time.perf_counter() - started
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Timing(seconds=seconds, cpu=cpu, megabytes=peak / 1e3)


def line(what: str, timing: Timing, ours: Timing | None = None, note: str = "") -> None:
    """Print a timing; of a reference also how many times as long as ours it took."""
    memory = f"{timing.megabytes:7.0f} MB" if timing.megabytes else " " * 10
    ratio = f"  {timing.cpu / ours.cpu:.2f} x the CPU of ours" if ours else ""
    print(
        f"{what:40}{timing.seconds:8.1f} s{timing.cpu:8.1f} s CPU{memory}{ratio}  {note}".rstrip(), flush=True
    )


def machine() -> str:
    """Return what the numbers were measured on."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _kilobytes(pid: int) -> float:
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if entry.startswith("Pss:"):
                return float(entry.split()[1])
    return 0.0
