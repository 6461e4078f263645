"""What 192 ranks would wait for, simulated: balance of tokens, span of the shuffle, bytes read, changes of block.

    python -m tests.performance.layout [--ranks 192] [--samples 97000000] [--steps 20] [--seconds-a-step 1.2]

All numbers follow from the paper's settings and the code that training uses; measured are the seconds to shuffle
a block and to open a shard, on this machine with one core. `--seconds-a-step` is what a step is taken to last: 1.2
is 610M on 192 GCDs in the paper's 42,000 steps.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zstandard

from common.cli import call, program, run
from pretraining.data.sampler import Cut, Order
from pretraining.data.shard_files import COMPRESSIONS, write_shard
from pretraining.plan.config import TrainingConfig
from pretraining.training.layout import LAYOUTS, lay_out

RECORD_TOKENS, SHARD_TOKENS = 4096, 4096 * 4096
CONFIG = TrainingConfig()
Int64s = npt.NDArray[np.int64]


def cut() -> Cut:
    """Return the paper's cut."""
    return Cut(shortest=CONFIG.min_length, longest=CONFIG.max_length, seed=0)


def balance(order: Order, ranks: int, steps: range) -> None:
    """Print how evenly ranks and passes are filled."""
    print(f"\n{ranks} ranks, {CONFIG.global_batch} sequences a step, {len(steps)} steps")
    print("layout     max/mean tokens of ranks     tokens of a pass     passes a rank   seconds to lay out")
    for layout in LAYOUTS:
        worst, passes, counts = [], [], []
        began = time.process_time()
        for step in steps:
            starts, stops = cut().spans(order.batch_of(step)[1])
            lengths = stops - starts
            shares = lay_out(lengths, ranks, CONFIG.pass_tokens, layout)
            tokens = [sum(int(lengths[part].sum()) for part in share) for share in shares]
            worst.append(max(tokens) / np.mean(tokens))
            passes += [int(lengths[part].sum()) for share in shares for part in share]
            counts += [len(share) for share in shares]
        seconds = (time.process_time() - began) / len(steps)
        print(
            f"{layout:10} mean {np.mean(worst):.4f}, worst {max(worst):.4f}  "
            f"{np.mean(passes):8,.0f} (most {max(passes):,})  {np.mean(counts):8.2f}        {seconds:.3f}"
        )


def span(order: Order, name: str, decay: int = 2_000) -> None:
    """Print from how much of the data a step and the decay come."""
    cells = 1000

    def touched(samples: Int64s) -> float:
        return len(np.unique(samples * cells // order.samples)) / cells

    last = order.steps_per_epoch
    steps = [order.batch_of(step)[1] for step in range(0, last, max(1, last // 20))]
    first = last - decay
    final = np.concatenate([order.batch_of(step)[1] for step in range(first, last)])
    print(
        f"{name:26} a step spans {np.mean([np.ptp(step) for step in steps]) / order.samples:6.1%} of the data, "
        f"touches {np.mean([touched(step) for step in steps]):5.1%} of its thousandths; {decay:,} decay steps "
        f"touch {touched(final):.1%} ({decay * order.batch / order.samples:.1%} of the sequences)"
    )


def reads(order: Order, ranks: int) -> None:
    """Print what a rank reads of decompressed shards in a step."""
    starts, stops = cut().spans(order.batch_of(0)[1])
    records = (stops - 1) // RECORD_TOKENS - starts // RECORD_TOKENS + 1
    print(
        f"\na rank and step: {(stops - starts).sum() * 4 / ranks / 1e3:,.0f} kB of tokens, in records of "
        f"{RECORD_TOKENS} tokens {records.sum() * RECORD_TOKENS * 4 / ranks / 1e3:,.0f} kB read from "
        f"{len(np.unique(starts // SHARD_TOKENS))} shards for all ranks"
    )


def changes(order: Order, seconds_a_step: float) -> None:
    """Print what a change of block costs, opened at need and ahead of it."""
    began = time.process_time()
    first = order.at(0, order.block, order.block + order.batch)
    shuffle = time.process_time() - began
    starts, stops = order.stretches(0, 1)
    tokens = [
        cut().spans([a])[0][0] // SHARD_TOKENS + np.arange(2) for a in (*starts, *(stops - 1)) if a >= 0
    ]
    shards = len(np.unique(np.concatenate([part[:1] for part in tokens])))
    with tempfile.TemporaryDirectory() as folder:
        values = np.random.default_rng(0).zipf(1.2, SHARD_TOKENS) % 128_000
        entry = write_shard(Path(folder), 0, values.astype(np.int32), COMPRESSIONS["zstd"])
        data = Path(folder, entry["zip_data"]["basename"]).read_bytes()
        began = time.process_time()
        zstandard.ZstdDecompressor().decompress(data, max_output_size=2**30)
        opening = time.process_time() - began
    steps = order.block / order.batch
    at_need = shuffle + shards * opening
    print(
        f"\na block is {steps:.0f} steps ({steps * seconds_a_step:.0f} s), {shards} shards; shuffling it takes "
        f"{shuffle:.2f} s, decompressing a shard {opening:.2f} s (the first of {len(first)} sequences)"
    )
    print(
        f"opened at need:  {at_need:6.2f} s a change, {at_need / (steps * seconds_a_step):6.2%} of the time"
    )
    spare = 4 * seconds_a_step  # batches are made four steps ahead
    print(
        f"opened ahead:    {max(0.0, shuffle - spare):6.2f} s a change, "
        f"{max(0.0, shuffle - spare) / (steps * seconds_a_step):6.2%}; {shards * opening:.0f} s of work in "
        f"{steps * seconds_a_step:.0f} s of a block, shared by the ranks of a node"
    )


def simulate(
    *, ranks: int = 192, samples: int = 97_000_000, steps: int = 20, seconds_a_step: float = 1.2
) -> None:
    """Print what so many ranks would wait for.

    Args:
        ranks: number of processes.
        samples: sequences of the data.
        steps: steps whose layouts are measured.
        seconds_a_step: how long a step lasts.
    """
    chunked, neighbours = (
        Order(samples=samples, batch=CONFIG.global_batch, seed=0, block=CONFIG.shuffle_block, chunk=chunk)
        for chunk in (CONFIG.shuffle_chunk, CONFIG.shuffle_block)
    )
    balance(chunked, ranks, range(steps))
    print()
    span(chunked, f"chunks of {CONFIG.shuffle_chunk:,}")
    span(neighbours, "blocks of neighbours")
    reads(chunked, ranks)
    changes(chunked, seconds_a_step)


def main(argv: Sequence[str]) -> int | None:
    """Run the command line."""
    return call(
        program("python -m tests.performance.layout", "", {}, default=simulate), argv or ["--ranks", "192"]
    )


if __name__ == "__main__":
    run(main)
