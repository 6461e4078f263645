"""Timings of the claims on a store of the release's size, and of the bootstrap over instances next to plain loops.

    python tests/performance/analysis/standin.py /tmp/release                    (once: 5 GB)
    python tests/performance/analysis/claims.py /tmp/release
    python tests/performance/analysis/claims.py /tmp/release --bootstrap         (with the references below, minutes)

Commands are timed as a user runs them, imports included: all claims by task and by dataset, with instances, from a
store that was never read (into an empty cache), and again. Memory is the largest sum over the command's processes,
shared pages counted once. The references are two Python loops that draw, for every resample, the instances of every
dataset and take the mean of every run: one with an array operation for each run and resample, one (`plain`) in Python
alone. They are timed on a few resamples and runs and scaled up, as their lines say.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))


def timed_command(what: str, *args: object) -> None:
    """Print the wall time, CPU time and largest memory of one command and its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, args)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    most = [0.0]
    watcher = threading.Thread(target=_watch, args=(process, most), daemon=True)
    watcher.start()
    _, said = process.communicate()
    seconds = time.perf_counter() - started
    watcher.join()
    if process.returncode:
        sys.exit(f"{what} failed:\n{said}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:58}{seconds:8.1f} s{cpu:8.1f} s CPU{most[0] / 1e3:7.0f} MB", flush=True)


def _watch(process: subprocess.Popen[str], most: list[float]) -> None:
    while process.poll() is None:
        most[0] = max(most[0], sum(map(_proportional_kb, _tree(process.pid))))
        time.sleep(0.1)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _proportional_kb(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1])
    return 0.0


def bootstrap(runs_path: Path, instances: Path, resamples: int, loop_resamples: int) -> None:
    """Print our bootstrap over all chosen runs and the two loops, and how many times faster ours is."""
    from analysis.statistics.instance_bootstrap import resample_instances
    from analysis.statistics.learning_rate_selection import select_runs
    from analysis.store.instances import read_instances
    from analysis.store.runs_table import read_runs
    from benchmarks.protocol import DATASETS

    chosen = select_runs(read_runs(runs_path))
    ours = arrays = plain = 0.0
    ours_cpu = arrays_cpu = plain_cpu = 0.0
    n_runs = 0
    rng = np.random.default_rng(0)
    for dataset in DATASETS.values():
        rows = chosen[chosen["dataset"] == dataset.name]
        scores = read_instances(instances, dataset.name, rows)
        n_runs += len(scores)
        started, cpu = time.perf_counter(), time.process_time()
        resample_instances(scores, resamples, rng, paired=dataset.paired)
        ours, ours_cpu = ours + time.perf_counter() - started, ours_cpu + time.process_time() - cpu
        count = scores.shape[1]
        started, cpu = time.perf_counter(), time.process_time()
        for _ in range(loop_resamples):
            picks = rng.integers(0, count, count)
            for run in scores:
                run[picks].mean()
        scale = resamples / loop_resamples
        arrays += (time.perf_counter() - started) * scale
        arrays_cpu += (time.process_time() - cpu) * scale
        listed = scores[0].tolist()
        started, cpu = time.perf_counter(), time.process_time()
        picked = random.Random(0).choices(range(count), k=count)
        drawn, drawn_cpu = time.perf_counter() - started, time.process_time() - cpu
        started, cpu = time.perf_counter(), time.process_time()
        total = 0.0
        for index in picked:
            total += listed[index]
        plain += (drawn + (time.perf_counter() - started) * len(scores)) * resamples
        plain_cpu += (drawn_cpu + (time.process_time() - cpu) * len(scores)) * resamples
    print(f"{n_runs:,} chosen runs, {resamples:,} resamples of the test instances:")
    print(f"  {'ours':56}{ours:10.1f} s{ours_cpu:10.1f} s CPU")
    for what, seconds, cpu in (
        (f"loop over resamples and runs, arrays ({loop_resamples} resamples, scaled)", arrays, arrays_cpu),
        ("plain Python loop (1 resample of 1 run, scaled)", plain, plain_cpu),
    ):
        print(
            f"  {what:56}{seconds:10.1f} s{cpu:10.1f} s CPU  {seconds / ours:6.0f} x ({cpu / ours_cpu:.0f} x CPU)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path, help="a run store of the release's size")
    parser.add_argument("--bootstrap", action="store_true", help="time the bootstrap and the loops too")
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument(
        "--loop-resamples", type=int, default=20, help="resamples that the array loop is timed on"
    )
    args = parser.parse_args()
    print(
        f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, numpy {np.__version__}"
    )
    timed_command("claims, published cells", "-m", "analysis", "claims")
    with tempfile.TemporaryDirectory(prefix="claims-") as cache:
        os.environ["CLM_OR_MLM_CACHE"] = cache
        given = ("-m", "analysis", "claims", "--source", args.store, "--format", "json")
        timed_command(
            "claims, runs and instances, store read for the first time", *given, "--interval", "crossed"
        )
        timed_command("claims, runs and instances, store read before", *given, "--interval", "crossed")
        timed_command("claims, runs, store read before", *given)
        if args.bootstrap:
            [runs] = Path(cache).glob("stores/*/runs.parquet")
            bootstrap(runs, runs.with_name("instances.parquet"), args.resamples, args.loop_resamples)


if __name__ == "__main__":
    main()
