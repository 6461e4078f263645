"""Jobs done side by side in a few processes that stay, each on one thread so that the numbers never depend on it.

A job calls the room's `main` with the words that a shell would give it. Killed at any moment, the same call goes on:
every command keeps what it has finished.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from common.errors import UserError
from common.processes import end_with_parent
from common.progress import progress
from miniature.job import Command, Job

__all__ = ["call", "run_jobs"]

logger = logging.getLogger(__name__)


def call(command: Command) -> tuple[int, float]:
    """Run a room's command in this process; return its exit code and the CPU seconds it took.

    Raises:
        UserError: what the command raised, or how it ended.
    """
    room, *words = command
    start = time.process_time()
    try:
        code = importlib.import_module(f"{room}.__main__").main(words) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    return int(code), time.process_time() - start


def run_jobs(jobs: Sequence[Job], workers: int, logs: Path) -> None:
    """Do all jobs that are not done; `timings.jsonl` beside `logs` gets a row for each.

    Args:
        jobs: in an order that respects what each needs.
        workers: processes.
        logs: folder for what the commands print, a file a process.

    Raises:
        UserError: a command failed or a process was killed; what was finished is kept.
    """
    ended = {job.name for job in jobs if job.done()}
    left = [job for job in jobs if job.name not in ended]
    logs.mkdir(parents=True, exist_ok=True)
    # Read by torch and its libraries when a worker imports them.
    os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})
    with contextlib.ExitStack() as stack:
        pool = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_start, initargs=(str(logs),)
        )
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        running: dict[Future[tuple[int, float]], Job] = {}
        bar = progress(range(len(left)), "miniature", unit="job")
        while left or running:
            ready = [job for job in left if ended.issuperset(job.needs)][: workers - len(running)]
            for job in ready:
                left.remove(job)
                running[pool.submit(call, job.command)] = job
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                job = running.pop(future)
                seconds = _outcome(job, future, logs)
                with (logs.parent / "timings.jsonl").open("a") as file:
                    file.write(json.dumps({"job": job.name, "cpu_seconds": round(seconds, 2)}) + "\n")
                ended.add(job.name)
                next(bar, None)
                logger.info("%s: done (%.1f s)", job.name, seconds)


def _outcome(job: Job, future: Future[tuple[int, float]], logs: Path) -> float:
    try:
        code, seconds = future.result()
    except BrokenProcessPool:
        raise UserError("a process of the miniature was killed; the same command goes on") from None
    except UserError as error:
        raise UserError(f"{job.name}: {error}") from None
    if code:
        raise UserError(f"{job.name} ended with exit code {code}; its messages are in {logs}")
    return seconds


def _start(logs: str) -> None:
    """Send a worker's output to a file and let it die with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    with (Path(logs) / f"worker-{os.getpid()}.log").open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s", stream=sys.stderr)
