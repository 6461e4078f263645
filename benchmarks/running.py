"""`python -m benchmarks run`: fine-tune and evaluate a model over the grid, skipping what the store holds."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.cells import Job, jobs_of, pending, remove_leftovers, run_job
from benchmarks.encoders import load
from benchmarks.local import read_manifest
from benchmarks.machine import choose_machine
from benchmarks.options import Request, add_run_options, read_request
from benchmarks.protocol import DATASETS
from benchmarks.store import failure, hold_lock, is_done, score_so_far
from benchmarks.workbench import Workbench
from common.cli import Parser
from common.errors import UserError

__all__ = ["BUSY", "COMPLETE", "FAILED", "main"]

COMPLETE, FAILED, BUSY = 0, 3, 4

log = logging.getLogger(__name__)


def main(argv: Sequence[str]) -> int:
    """Run the grid; returns `COMPLETE`, `FAILED` or `BUSY`."""
    parser = Parser(
        prog="python -m benchmarks run",
        description="Fine-tune a model with the paper's protocol and write its runs.",
        epilog="exit code: 0 all runs are there; 3 some failed; 4 some are being done by another process;\n"
        "2 wrong input; 130 interrupted. The same command goes on where an earlier one stopped.",
    )
    add_run_options(parser)
    parser.add_argument("--retry-failed", action="store_true", help="try runs that failed again")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes, each with a GPU of its own where there are GPUs"
    )
    options = parser.parse_args(argv)
    request = read_request(options)
    for name in dict.fromkeys(n for d in request.datasets for n in (DATASETS[d].trained_on, d)):
        read_manifest(request.data, name)
    jobs = jobs_of(
        request.datasets,
        model=request.name,
        lrs=request.lrs,
        seeds=request.seeds,
        data=request.data,
        store=request.store,
        tuning=request.tuning,
        retry_failed=options.retry_failed,
    )
    if any(pending(job) for job in jobs):
        if options.workers > 1:
            _spawn(argv, options)
        else:
            _work(jobs, options)
    for job in jobs:
        with hold_lock(job.lock) as free:
            if free:
                remove_leftovers(job)
    return _report(jobs, request)


def _work(jobs: list[Job], options: argparse.Namespace) -> None:
    """Do all jobs that no other process is at."""
    bench: Workbench | None = None
    for number, job in enumerate(jobs):
        with hold_lock(job.lock) as free:
            if not free:
                log.info("%s on %s: another process is at it", job.model, job.trained_on)
                continue
            if not pending(job):
                continue
            if bench is None:
                machine = choose_machine(
                    options.device,
                    options.precision,
                    positions=options.positions,
                    exact=options.exact_micro_batches,
                )
                loaded = load(
                    options.model,
                    revision=options.revision,
                    trust_remote_code=options.trust_remote_code,
                    max_length=job.tuning.max_length,
                )
                bench = Workbench(loaded=loaded, machine=machine, pooling=options.pooling)
            later = sum(len({(key.lr, key.seed) for key in pending(other)}) for other in jobs[number + 1 :])
            run_job(job, bench, later)


def _spawn(argv: Sequence[str], options: argparse.Namespace) -> None:
    """Start the workers, each seeing one GPU where there are any, and wait for them."""
    import torch

    if options.device not in ("auto", "cpu", "cuda"):
        raise UserError(
            f"--workers {options.workers} takes all GPUs in turn: leave out --device {options.device}"
        )
    gpus = torch.cuda.device_count() if options.device != "cpu" else 0
    if gpus and options.workers > gpus:
        raise UserError(f"--workers {options.workers} is more than the {gpus} GPUs that torch sees")
    at = next(i for i, word in enumerate(argv) if word.split("=")[0] == "--workers")
    rest = [*argv[:at], *argv[at + (1 if "=" in argv[at] else 2) :]]
    workers = []
    visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    for number in range(options.workers):
        environment = dict(os.environ)
        if gpus:
            environment["CUDA_VISIBLE_DEVICES"] = visible[number] if visible else str(number)
        else:
            threads = max(1, (os.cpu_count() or 1) // options.workers)
            environment.setdefault("OMP_NUM_THREADS", str(threads))
        workers.append(subprocess.Popen([sys.executable, "-m", "benchmarks", "run", *rest], env=environment))
    try:
        codes = [worker.wait() for worker in workers]
    except KeyboardInterrupt:
        for worker in workers:
            worker.wait()
        raise
    if wrong := [code for code in codes if code not in (COMPLETE, FAILED, BUSY)]:
        raise UserError(f"a worker ended with exit code {wrong[0]}; its message stands above")


def _report(jobs: list[Job], request: Request) -> int:
    """Print what is there now and return the exit code."""
    keys = [key for job in jobs for key in job.keys]
    missing = [key for key in keys if not is_done(request.store, key)]
    reasons = {key: reason for key in missing if (reason := failure(request.store, key)) is not None}
    for key, reason in reasons.items():
        log.warning("failed: %s: %s", key.folder, reason)
    done, busy = len(keys) - len(missing), len(missing) - len(reasons)
    for dataset in request.datasets:
        found = score_so_far(request.store, [key for key in keys if key.dataset == dataset])
        if found:
            mean, half, seeds = found
            interval = f" +- {100 * half:.2f}" if seeds > 1 else ""
            print(
                f"{dataset:14}{100 * mean:6.2f}{interval}  ({seeds} seeds, each at its best validation score)"
            )
    print(f"{request.name}: {done} of {len(keys)} runs done, {len(reasons)} failed, {busy} left")
    return BUSY if busy else FAILED if reasons else COMPLETE
