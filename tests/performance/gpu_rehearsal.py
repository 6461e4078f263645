"""The GPU path at full size where there is no GPU: real CUDA torch on a stand-in of the CUDA driver.

    python -m tests.performance.gpu_rehearsal --driver 'COMMAND' --counter FUNCTION

COMMAND is put before the interpreter; {memory} and {ranks} in it become the GPU's memory in GiB and the number of
GPUs. Under it CUDA calls must succeed, without kernels that compute anything. FUNCTION is the name of a C function of
a preloaded library, `uint64_t FUNCTION(int)`, which returns the counters of `COUNTERS` by their place.

The product runs as it is: data loader, Composer, autocast, Inductor and Triton down to machine code, the caching
allocator, fused AdamW, DDP by torchrun. Replaced are what needs numbers (checks for finite losses) and what writes
gigabytes (checkpoints). Each row is one run in processes of its own; host seconds are the CPU time of all threads of
the slowest rank but the data loader's, the median of the second half of the steps.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.provenance import ROOT
from pretraining.paper_settings import SHAPES, TINY, Shape
from pretraining.plan.flops import model_flops_per_token, peak_flops
from tests.performance.timing import parser_of

COUNTERS = (
    "launches", "products", "collectives", "synchronisations", "to_device", "to_host", "allocations", "peak", "used",
    "collective_bytes",
)  # fmt: skip
SEQUENCES = 288
"""Sequences of a rank's step: the paper's 2,304 on eight GPUs, 297,000 tokens in 12 or 13 passes."""
DOCUMENTS, WORDS = 900, 3_000
"""Made-up text, of which an epoch is several steps."""
OBJECTIVE = "mlm40"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the table."""

    size: str
    memory: int
    ranks: int
    steps: int
    sequences: int
    settings: tuple[str, ...]


@dataclass(kw_only=True)
class Record:
    """What one rank measured."""

    counts: list[dict[str, int]] = field(default_factory=list)
    """Counters after each step."""
    seconds: list[float] = field(default_factory=list)
    """CPU seconds of the process without the data loader, after each step."""
    graphs: list[int] = field(default_factory=list)
    """Graphs compiled so far, after each step."""
    breaks: int = 0
    """Graph breaks."""
    allocated: float = 0.0
    """Largest allocated GB."""
    tokens: int = 0
    """Tokens of all steps and ranks."""
    error: str = ""
    """What ended it early."""


class Enough(Exception):
    """The steps of a case are done."""


def counters(name: str | None) -> Callable[[], dict[str, int]]:
    """Return what reads the stand-in's counters."""
    if name is None:
        return lambda: dict.fromkeys(COUNTERS, 0)
    read = getattr(ctypes.CDLL(None), name)
    read.restype = ctypes.c_uint64
    return lambda: {key: int(read(place)) for place, key in enumerate(COUNTERS)}


def host_seconds() -> float:
    """Return this process's CPU time without that of the thread that makes batches."""
    loaders = [thread for thread in threading.enumerate() if thread.name.startswith("batches")]
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in loaders if thread.ident is not None]
    return time.process_time() - sum(map(time.clock_gettime, clocks))


def without_numbers() -> None:
    """Replace what fails because no kernel computes anything: comparisons of numbers, and cuDNN's graphs."""
    import torch

    from benchmarks.finetuning import trainer

    torch.backends.cuda.enable_cudnn_sdp(False)
    math.isfinite = lambda value: True  # type: ignore[assignment]
    trainer._check_finite = lambda losses: None
    # DDP compares the ranks' parameters by what a kernel would have put where it reads.
    torch.nn.parallel.distributed._verify_param_shape_across_processes = lambda *_: True  # type: ignore[attr-defined]


def train_case(case: Case, data: Path, out: Path, counter: str | None) -> Record:
    """Train the steps of a case in this process, one of its ranks."""
    import torch
    from composer import Callback, State, Trainer
    from composer.loggers import Logger

    from pretraining.plan.plan import load_study
    from pretraining.training.train import train

    without_numbers()
    read, record = counters(counter), Record()

    class Measure(Callback):  # type: ignore[misc]  # composer is untyped
        """Takes a rank's record after each step, and ends the case."""

        def batch_end(self, state: State, logger: Logger) -> None:
            record.counts.append(read())
            record.seconds.append(host_seconds())
            record.graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
            record.tokens = int(state.timestamp.token)
            if len(record.counts) == case.steps:
                raise Enough

    made = Trainer.__init__

    def measured(self: Trainer, *args: Any, callbacks: Sequence[Callback] = (), **options: Any) -> None:
        made(self, *args, callbacks=[*callbacks, Measure()], **options)

    Trainer.__init__ = measured
    study = load_study(study_file(case, out))
    try:
        # Two steps more than are done, so that nothing is saved.
        train(f"rehearsal-{case.size}-{OBJECTIVE}-{case.steps + 2}", data=data, out=out / "out", study=study)
    except Enough:
        pass
    except torch.OutOfMemoryError as error:
        record.error = f"out of memory in step {len(record.counts) + 1}: {str(error).splitlines()[0]}"
    record.breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    record.allocated = torch.cuda.max_memory_allocated() / 1e9
    return record


def shape_of(size: str) -> Shape:
    """Return the shape of a size of the paper, or of `tiny`."""
    return SHAPES.get(size, TINY)


def study_file(case: Case, folder: Path) -> Path:
    """Write the study of a case: one model of the size, the paper's settings but for the batch."""
    shape = "\n".join(f"{key} = {value}" for key, value in asdict(shape_of(case.size)).items())
    settings = "\n".join(f"{key} = {value}" for key, value in (word.split("=", 1) for word in case.settings))
    path = folder / f"study-{os.getpid()}.toml"
    path.write_text(
        f'prefix = "rehearsal-"\ndecay_steps = 1\n[sizes."{case.size}"]\n{shape}\n[settings]\n'
        f"global_batch = {case.sequences * case.ranks}\neval_sequences = 0\n{settings}\n"
    )
    return path


def make_data(folder: Path) -> Path:
    """Write shards of made-up documents and return their folder."""
    from pretraining.data.build_shards import build
    from pretraining.data.shard_settings import ShardSettings
    from pretraining.data.tokenizer import train_tokenizer
    from tests.pretraining.documents import make_documents, write_jsonl

    documents = make_documents(DOCUMENTS, words=WORDS)
    train_tokenizer(documents[:5], 330).save(folder / "tokenizer")
    file = write_jsonl(folder / "documents.jsonl", documents)
    build([str(file)], str(folder / "tokenizer"), folder / "data", ShardSettings(), workers=0)
    return folder / "data"


def run_case(case: Case, driver: str, counter: str | None, data: Path) -> list[Record]:
    """Run a case under the driver and return the record of each rank."""
    with tempfile.TemporaryDirectory() as folder:
        words = shlex.split(driver.format(memory=case.memory, ranks=case.ranks))
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.ranks}"]
        inner = ["-m", "tests.performance.gpu_rehearsal", "--counter", counter or "", "--data", str(data)]
        inner += ["--case", json.dumps(asdict(case)), "--into", folder]
        done = subprocess.run(
            [*words, sys.executable, *(launcher if case.ranks > 1 else []), *inner], cwd=ROOT
        )
        records = [
            Record(**json.loads(path.read_text())) for path in sorted(Path(folder).glob("rank-*.json"))
        ]
        if len(records) < case.ranks:
            failed = Record(error=f"ended with exit code {done.returncode}")
            records += [failed] * (case.ranks - len(records))
        return records


HEADER = (
    "size", "GiB", "GPUs", "steps", "driver's peak, GB", "allocated, GB", "launches", "products", "collectives",
    "synchronisations", "graphs (last new in step)", "host, s", "half of GPU's at 50 % MFU, s", "result",
)  # fmt: skip


def row(case: Case, records: list[Record]) -> list[str]:
    """Return a case as a row of the table."""
    errors = [record.error for record in records if record.error]
    long = [record for record in records if len(record.counts) > 2]
    head = [case.size, str(case.memory), str(case.ranks)]
    if not long:
        return [*head, "0", *["-"] * (len(HEADER) - 5), errors[0] if errors else "no step"]
    first = long[0]
    half = len(first.counts) // 2

    def each(name: str) -> str:
        later = [counts[name] for counts in first.counts[half - 1 :]]
        return f"{statistics.median(b - a for a, b in itertools.pairwise(later)):,.0f}"

    host = max(
        statistics.median(b - a for a, b in itertools.pairwise(record.seconds[half - 1 :])) for record in long
    )
    graphs = first.graphs
    shape, peak = shape_of(case.size), peak_flops("NVIDIA H100 80GB HBM3")
    assert peak is not None
    flops = model_flops_per_token(shape, predicted=0.4) * first.tokens / len(first.counts) / case.ranks
    return [
        *head,
        str(len(graphs)),
        f"{max(record.counts[-1]['peak'] for record in long) / 1e9:.1f}",
        f"{max(record.allocated for record in long):.1f}",
        each("launches"),
        each("products"),
        each("collectives"),
        each("synchronisations"),
        f"{graphs[-1]} ({graphs.index(graphs[-1]) + 1})",
        f"{host:.2f}",
        f"{flops / peak:.2f}",
        errors[0] if errors else f"runs, {sum(record.breaks for record in records)} graph breaks",
    ]


def main() -> None:
    """Run the cases and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--driver", default="", help="command that runs another on the stand-in")
    parser.add_argument("--counter", default="", help="C function that returns its counters")
    parser.add_argument("--sizes", nargs="*", default=[*SHAPES], choices=(*SHAPES, "tiny"))
    parser.add_argument("--memory", nargs="*", type=int, default=[78, 139], help="GiB")
    parser.add_argument("--ranks", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="of a rank's step")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="KEY=VALUE in TOML")
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    counter = options.counter or None
    if options.case:
        case = Case(**json.loads(options.case))
        record = train_case(case, options.data, options.into, counter)
        rank = int(os.environ.get("RANK", "0"))
        (options.into / f"rank-{rank}.json").write_text(json.dumps(asdict(record)))
        sys.stdout.flush()
        os._exit(0)  # the others of a job that ran out of memory wait for this one
    print("| " + " | ".join(HEADER) + " |\n|" + "--:|" * len(HEADER), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or make_data(Path(folder))
        for size, memory, ranks in itertools.product(options.sizes, options.memory, options.ranks):
            case = Case(
                size=size, memory=memory, ranks=ranks, steps=options.steps, sequences=options.sequences,
                settings=tuple(options.settings),
            )  # fmt: skip
            print(
                "| " + " | ".join(row(case, run_case(case, options.driver, counter, data))) + " |", flush=True
            )


if __name__ == "__main__":
    main()
