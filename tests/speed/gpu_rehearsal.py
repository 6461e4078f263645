"""The GPU path at full size where there is no GPU: real CUDA torch on a stand-in of the CUDA driver.

    python -m tests.speed.gpu_rehearsal --driver 'COMMAND' --counter FUNCTION

COMMAND is put before the interpreter; {memory} and {ranks} in it become the GPU's memory in GiB and the number of
GPUs. Under it CUDA calls must succeed, without kernels that compute anything. FUNCTION is the name of a C function of
a preloaded library, `uint64_t FUNCTION(int)`, which returns the counters of `COUNTERS` by their place. The variables
CUDA_DRIVER and CUDA_DRIVER_COUNTER give both, to the test of this script, too.

The product runs as it is: data loader, Composer, autocast, Inductor and Triton down to machine code, the caching
allocator, fused AdamW, DDP by torchrun. Replaced is what needs numbers, such as checks for finite losses. Each row is
one run in processes of its own, which ends before its first checkpoint. What is per step is the median of the last
quarter of the steps, since DDP measures itself in the first ten; host seconds are the CPU time of all threads but the
data loader's, of the slowest rank.
"""

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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from common.provenance import ROOT
from pretraining.paper_settings import SHAPES, Shape
from pretraining.plan.devices import H100
from pretraining.plan.flops import model_flops_per_token
from tests.pretraining.sizes import TINY
from tests.speed.timing import parser_of

COUNTERS = (
    "launches", "products", "collectives", "synchronisations", "to_device", "to_host", "allocations", "peak", "used",
    "collective_bytes",
)  # fmt: skip
SEQUENCES = 288
"""Sequences of a rank's step: the paper's 2,304 on eight GPUs, 297,000 tokens in 12 or 13 passes."""
DOCUMENTS, WORDS = 900, 3_000
"""Made-up text, of which an epoch is several steps."""
OBJECTIVE, PREDICTED = "mlm40", 0.4


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of the table."""

    size: str
    memory: int
    ranks: int
    steps: int
    sequences: int
    """Of a rank's step."""
    settings: tuple[str, ...] = ()
    """KEY = VALUE of the study file's settings."""


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


def counters(name: str) -> Callable[[], dict[str, int]]:
    """Return what reads the stand-in's counters."""
    if not name:
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
    from benchmarks.finetuning.device import RunDevice
    from pretraining.training.log import LogWriter

    torch.backends.cuda.enable_cudnn_sdp(False)
    math.isfinite = lambda value: True  # type: ignore[assignment]
    trainer._check_finite = lambda losses: None
    fetch = RunDevice.fetch
    RunDevice.fetch = lambda device, tensor: partial(zeros, fetch(device, tensor))  # type: ignore[method-assign]
    write = LogWriter.write
    LogWriter.write = lambda log, row: write(log, {**row, "loss": 1.0, "grad_norm": 1.0})  # type: ignore[method-assign]
    # DDP compares the ranks' parameters by what a kernel would have put where it reads.
    torch.nn.parallel.distributed._verify_param_shape_across_processes = lambda *_: True  # type: ignore[attr-defined]


def zeros(fetched: Callable[[], Any]) -> Any:
    """Wait for what is fetched and return zeros of its shape."""
    return np.zeros_like(fetched())


def train_case(case: Case, data: Path, out: Path, counter: str) -> Record:
    """Train the steps of a case in this process, one of its ranks."""
    import torch
    from composer import Callback, State, Trainer
    from composer.loggers import Logger

    from pretraining.plan.study_plan import load_study
    from tests.pretraining.small_study import train

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


def make_data(folder: Path, documents: int = DOCUMENTS) -> Path:
    """Write shards of made-up documents and return their folder."""
    from pretraining.data.build_shards import build
    from pretraining.data.shard_index import ShardSettings
    from pretraining.data.tokenizer import train_tokenizer
    from tests.pretraining.documents import make_documents, write_jsonl

    texts = make_documents(documents, words=WORDS)
    train_tokenizer(texts[:5], 330).save(folder / "tokenizer")
    file = write_jsonl(folder / "documents.jsonl", texts)
    build([str(file)], str(folder / "tokenizer"), folder / "data", ShardSettings(), workers=0)
    return folder / "data"


def run_case(case: Case, driver: str, counter: str, data: Path) -> list[Record]:
    """Run a case under the driver and return the record of each rank."""
    with tempfile.TemporaryDirectory() as folder:
        words = shlex.split(driver.format(memory=case.memory, ranks=case.ranks))
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.ranks}"]
        inner = ["-m", "tests.speed.gpu_rehearsal", "--counter", counter, "--data", str(data)]
        inner += ["--case", json.dumps(asdict(case)), "--into", folder]
        done = subprocess.run(
            [*words, sys.executable, *(launcher if case.ranks > 1 else []), *inner], cwd=ROOT
        )
        records = [
            Record(**json.loads(path.read_text())) for path in sorted(Path(folder).glob("rank-*.json"))
        ]
        if len(records) < case.ranks:
            failed = Record(error=f"exited with code {done.returncode}")
            records += [failed] * (case.ranks - len(records))
        return records


HEADER = (
    "size", "GiB", "GPUs", "steps", "driver's peak, GB", "allocated, GB", "launches a step", "synchronisations",
    "graphs", "host, s a step", "limit, s", "result",
)  # fmt: skip


def row(case: Case, records: list[Record]) -> list[str]:
    """Return a case as a row of the table; the limit is half of what an H100 needs at 50 % MFU."""
    errors = [record.error for record in records if record.error]
    result = errors[0] if errors else f"runs, {sum(record.breaks for record in records)} graph breaks"
    first = max(records, key=lambda record: len(record.counts))
    head = [case.size, *map(str, (case.memory, case.ranks, len(first.counts)))]
    if len(first.counts) < 4:
        return [*head, *["-"] * (len(HEADER) - 5), result]
    peak = max(record.counts[-1]["peak"] for record in records if record.counts) / 1e9
    allocated = max(record.allocated for record in records)
    launches, waits = (
        per_step([counts[name] for counts in first.counts]) for name in ("launches", "synchronisations")
    )
    host = max(per_step(record.seconds) for record in records if len(record.seconds) > 3)
    rate = H100.peak
    assert rate is not None
    tokens = first.tokens / len(first.counts) / case.ranks
    limit = model_flops_per_token(shape_of(case.size), predicted=PREDICTED) * tokens / rate
    seen = (
        f"{peak:.1f} {allocated:.1f} {launches:,.0f} {waits:,.0f} {first.graphs[-1]} {host:.2f} {limit:.2f}"
    )
    return [*head, *seen.split(), result]


def per_step(totals: Sequence[float]) -> float:
    """Return the median growth over the last quarter of the steps."""
    late = totals[3 * len(totals) // 4 - 1 :]
    return statistics.median(after - before for before, after in itertools.pairwise(late))


def main() -> None:
    """Run the cases and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--driver", default=os.environ.get("CUDA_DRIVER", ""), help="command before the interpreter"
    )
    parser.add_argument(
        "--counter", default=os.environ.get("CUDA_DRIVER_COUNTER", ""), help="C function of counters"
    )
    parser.add_argument("--sizes", nargs="*", default=[*SHAPES], choices=(*SHAPES, "tiny"))
    parser.add_argument("--memory", nargs="*", type=int, default=[78, 139], help="GiB")
    parser.add_argument("--ranks", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--sequences", type=int, default=SEQUENCES, help="of a rank's step")
    parser.add_argument("--set", nargs="*", default=[], dest="settings", help="KEY=VALUE in TOML")
    parser.add_argument("--data", type=Path, help="shards of an earlier call's `make_data`")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        case = Case(**json.loads(options.case))
        record = train_case(case, options.data, options.into, options.counter)
        rank = int(os.environ.get("RANK", "0"))
        (options.into / f"rank-{rank}.json").write_text(json.dumps(asdict(record)))
        sys.stdout.flush()
        os._exit(0)  # without waiting for ranks that ran out of memory
    print("| " + " | ".join(HEADER) + " |\n|" + "--:|" * len(HEADER), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or make_data(Path(folder))
        for size, memory, ranks in itertools.product(options.sizes, options.memory, options.ranks):
            case = Case(
                size=size, memory=memory, ranks=ranks, steps=options.steps, sequences=options.sequences,
                settings=tuple(options.settings),
            )  # fmt: skip
            records = run_case(case, options.driver, options.counter, data)
            print("| " + " | ".join(row(case, records)) + " |", flush=True)


if __name__ == "__main__":
    main()
