"""Timings of the analysis on a store of the release's size, next to reference timings of the same run.

    python tests/performance/analysis/standin.py /tmp/release          (once: 5 GB)
    python tests/performance/analysis/store.py /tmp/release

Every command is timed as a user runs it: a new process, imports included. Memory is the largest sum, over all
its processes, of the memory each has to itself plus its share of what is shared (PSS).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from scipy import stats

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One line of the report."""

    what: str
    seconds: float
    cpu: float | None = None
    megabytes: float | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the timed commands work on."""

    store: Path
    scratch: Path
    every: int

    @property
    def runs(self) -> Path:
        """The runs table; there from `ingest_timings` on."""
        return self.scratch / "runs.parquet"

    @property
    def instances(self) -> Path:
        """The per-instance scores; there from `ingest_timings` on."""
        return self.scratch / "instances.parquet"


def timed_command(what: str, *args: object, note: str = "") -> Timing:
    """Run `python ARGS` in the repository; its output is dropped, a failure ends the script."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, args)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
    watcher.start()
    errors: list[bytes] = []
    assert process.stderr is not None
    errors.append(process.stderr.read())
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    watcher.join()
    if process.returncode not in (0, 1):
        sys.exit(f"{what} failed:\n{errors[0].decode()}")
    return Timing(
        what=what, seconds=seconds, cpu=usage.ru_utime + usage.ru_stime, megabytes=peak[0] / 1e3, note=note
    )


def _watch(pid: int, peak: list[float]) -> None:
    while Path(f"/proc/{pid}/smaps_rollup").exists():
        total = sum(_pss(process) for process in _tree(pid))
        if total == 0:
            return
        peak[0] = max(peak[0], total)
        time.sleep(0.05)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _pss(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith("Pss:")), 0.0)


def reference_timings(setting: Setting) -> Iterator[Timing]:
    """Only parsing, in one thread: what the same files cost without any of this package."""
    files = sorted(setting.store.rglob("results.json"))[:: setting.every]
    note = "" if setting.every == 1 else f"every {setting.every}th file, times {setting.every}"
    parsers: tuple[tuple[str, Callable[[bytes], object]], ...] = (
        ("parse only: orjson, one thread", orjson.loads),
        ("parse only: standard json, one thread", json.loads),
    )
    for what, parse in parsers:
        started, cpu = time.perf_counter(), time.process_time()
        for file in files:
            parse(file.read_bytes())
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        yield Timing(what=what, seconds=seconds * setting.every, cpu=cpu * setting.every, note=note)


def ingest_timings(setting: Setting) -> Iterator[Timing]:
    """`ingest` of everything, and again when nothing has changed."""
    command = (
        "-m",
        "analysis",
        "ingest",
        setting.store,
        "--out",
        setting.runs,
        "--instances",
        setting.instances,
    )
    yield timed_command("ingest with instances, first time", *command)
    yield timed_command("ingest with instances, nothing changed", *command)
    yield timed_command(
        "ingest without instances, first time",
        "-m", "analysis", "ingest", setting.store, "--out", setting.scratch / "other.parquet",
    )  # fmt: skip


def figure_timings(setting: Setting) -> Iterator[Timing]:
    """Figures from the runs table, PDF, PNG and SVG each, next to what importing their libraries takes."""
    if not setting.runs.exists():
        yield from ingest_timings(setting)
    yield timed_command("import only: pandas, pyarrow, matplotlib", "-c",
                        "import pandas, pyarrow.parquet, matplotlib.figure")  # fmt: skip
    out = ("--source", setting.runs, "--out", setting.scratch / "figures")
    for number in (3, 5, 6):
        yield timed_command(f"figure {number} from the runs table", "-m", "paper_figures", number, *out)
    yield timed_command(
        "figure 3, BCa of 10,000 resamples", "-m", "paper_figures", 3, *out, "--interval", "bca"
    )
    yield timed_command(
        "all figures from the runs table", "-m", "paper_figures", "all", *out, note="11 figures"
    )


def table_timings(setting: Setting) -> Iterator[Timing]:
    """Every table and the hierarchical scores, 10,000 resamples each, next to scipy's bootstrap of the same cells."""
    if not setting.runs.exists():
        yield from ingest_timings(setting)
    source = ("--source", setting.runs)
    out = ("--out", setting.scratch / "tables")
    for interval in ("bootstrap", "bca"):
        yield timed_command(
            f"all 17 tables, {interval}",
            "-m",
            "analysis",
            "table",
            "all",
            *source,
            *out,
            "--interval",
            interval,
        )
    yield timed_command("audit", "-m", "analysis", "audit", *source)
    yield timed_command(
        "all scores, hierarchical", "-m", "analysis", "scores", *source, "--interval", "hierarchical"
    )
    yield _scipy_timing(setting)


def _scipy_timing(setting: Setting) -> Timing:
    sys.path.insert(0, str(ROOT))
    from analysis.statistics.scores_table import seed_scores
    from analysis.store.runs_table import read_runs

    cells = [row[np.isfinite(row)] for row in seed_scores(read_runs(setting.runs)).to_numpy()]
    some = [cell for cell in cells if len(cell) > 1][:: setting.every]
    started, cpu = time.perf_counter(), time.process_time()
    for cell in some:
        stats.bootstrap((cell,), np.mean, n_resamples=10_000, method="percentile", rng=0)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Timing(
        what="reference: scipy.stats.bootstrap of the scores",
        seconds=seconds * setting.every,
        cpu=cpu * setting.every,
        note=f"{len(cells)} cells, percentile; every {setting.every}th, times {setting.every}",
    )


SECTIONS: dict[str, Callable[[Setting], Iterator[Timing]]] = {
    "reference": reference_timings,
    "ingest": ingest_timings,
    "figures": figure_timings,
    "tables": table_timings,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "store", type=Path, help="a store of the release's size (tests/performance/analysis/standin.py)"
    )
    parser.add_argument(
        "--every", type=int, default=10, help="reference parsers read every n-th file (default: 10)"
    )
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, help="this section; repeatable (default: all)"
    )
    args = parser.parse_args()
    store = args.store.resolve()
    files = [file.stat().st_size for file in store.rglob("results.json")]
    print(
        f"{len(files):,} files, {sum(files) / 1e9:.1f} GB; {os.cpu_count()} cores, {platform.machine()}, ",
        end="",
    )
    print(f"load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, orjson {orjson.__version__}")
    with tempfile.TemporaryDirectory(prefix="clm-or-mlm-timings-") as scratch:
        setting = Setting(store=store, scratch=Path(scratch), every=args.every)
        for name in args.only or SECTIONS:
            for timing in SECTIONS[name](setting):
                cpu = "" if timing.cpu is None else f"{timing.cpu:8.1f} s CPU"
                memory = "" if timing.megabytes is None else f"{timing.megabytes:7.0f} MB"
                print(
                    f"{timing.what:42}{timing.seconds:8.1f} s{cpu}{memory}  {timing.note}".rstrip(),
                    flush=True,
                )


if __name__ == "__main__":
    main()
