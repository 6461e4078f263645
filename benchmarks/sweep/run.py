"""`python -m benchmarks run`: fine-tune and evaluate a model over the grid, skipping what the store holds."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.datasets.local_dataset import read_manifest
from benchmarks.finetuning.device import choose_machine
from benchmarks.finetuning.encoders import load
from benchmarks.protocol import DATASETS
from benchmarks.sweep.fork_pool import default_size
from benchmarks.sweep.jobs import Job, jobs_of, pending, remove_leftovers
from benchmarks.sweep.model_reset import Workbench
from benchmarks.sweep.options import Request, add_run_options, read_request
from benchmarks.sweep.run_state import failure, hold_lock, is_done, score_so_far
from benchmarks.sweep.scheduler import do_jobs
from common.errors import UserError
from common.old_parser import Parser

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
        if (options.workers or 1) > 1 and _has_gpus(options.device):
            _spawn(argv, options)
        else:
            _work(jobs, options)
    for job in jobs:
        with hold_lock(job.lock) as free:
            if free:
                remove_leftovers(job)
    return _report(jobs, request)


def _work(jobs: list[Job], options: argparse.Namespace) -> None:
    """Do all jobs that no other process is at, on a CPU as many runs side by side as fit."""
    import torch

    machine = choose_machine(
        options.device, options.precision, positions=options.positions, exact=options.exact_micro_batches
    )
    on_cpu, threads = machine.device.type == "cpu", torch.get_num_threads()
    if on_cpu:
        torch.set_num_threads(options.threads)
    try:
        loaded = load(
            options.model,
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
            max_length=jobs[0].tuning.max_length,
        )
        bench = Workbench(loaded=loaded, machine=machine, pooling=options.pooling)
        fitting = default_size(options.threads, bench.run_bytes)
        do_jobs(jobs, bench, (options.workers or fitting) if on_cpu else 1)
    finally:
        torch.set_num_threads(threads)


def _has_gpus(device: str) -> bool:
    import torch

    return device != "cpu" and torch.cuda.is_available()


def _spawn(argv: Sequence[str], options: argparse.Namespace) -> None:
    """Start the workers, each seeing one GPU, and wait for them."""
    import torch

    if options.device not in ("auto", "cuda"):
        raise UserError(
            f"--workers {options.workers} takes all GPUs in turn: leave out --device {options.device}"
        )
    if options.workers > (gpus := torch.cuda.device_count()):
        raise UserError(f"--workers {options.workers} is more than the {gpus} GPUs that torch sees")
    at = next(i for i, word in enumerate(argv) if word.split("=")[0] == "--workers")
    rest = [*argv[:at], *argv[at + (1 if "=" in argv[at] else 2) :]]
    workers = []
    visible = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    for number in range(options.workers):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": visible[number] if visible else str(number)}
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
            over = f"{seeds} seeds, each" if seeds > 1 else "1 seed,"
            print(f"{dataset:14}{100 * mean:6.2f}{interval}  ({over} at its best validation score)")
    print(f"{request.name}: {done} of {len(keys)} runs done, {len(reasons)} failed, {busy} left")
    return BUSY if busy else FAILED if reasons else COMPLETE
