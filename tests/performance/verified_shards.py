"""What it costs to believe nothing: shards hashed when they are opened, and that cost next to a training step.

    python -m tests.performance.verified_shards [--megabytes 256] [--tokens-per-second 800000]

Prints the rate at which a file is hashed while it is read, and at which a shard is decompressed with both of its
hashes and without; the time of one read of a sequence; and the share of a step that hashing takes, when a process
hashes every token of every rank once, for a job that trains on so many tokens a second (8 GPUs at 100,000 each). The
hashing is done by the thread that loads batches ahead, so that a step waits for it only when that thread is late.
Medians of five, in CPU seconds so that a busy machine shows less, files in the page cache.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import zstandard

from common.cli import call, program, run
from common.manifest import VerifiedFile
from pretraining.data.shard_files import COMPRESSIONS, TokenStream, write_shard
from pretraining.data.shard_index import RECORD, write_index


def median(work: Callable[[], object]) -> float:
    """Return the median CPU seconds of five calls."""
    seconds = []
    for _ in range(5):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def measure(*, megabytes: int = 256, tokens_per_second: float = 800_000) -> None:
    """Measure, and print the rates as JSON.

    Args:
        megabytes: size of the shard
        tokens_per_second: tokens that all ranks of the job train on in a second
    """
    generator = np.random.default_rng(0)
    # Zipf's law over 128,256 ids: zstd takes as long as with text.
    tokens = np.minimum(generator.zipf(1.2, megabytes * 10**6 // 4 // RECORD * RECORD), 128_255).astype(
        np.int32
    )
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name, "shards"), Path(name, "cache")
        write_index(folder, [write_shard(folder, 0, tokens, COMPRESSIONS["zstd"])])
        stream = TokenStream(folder, cache)
        entry = stream.entries[0]
        size, cached = entry.raw_data.bytes, cache / entry.raw_data.basename
        hashing = median(lambda: os.close(VerifiedFile(cached, entry.raw_data.sha256, size).open()))
        packed = (folder / entry.stored.basename).read_bytes()
        bare = median(lambda: zstandard.decompress(packed, size))

        def decompressed() -> None:
            cached.unlink()
            TokenStream(folder, cache)

        whole = median(decompressed)
        places = generator.integers(0, stream.tokens - 1030, 1000)
        reading = median(lambda: [stream.read(int(place), int(place) + 1030) for place in places]) / 1000
        rates = {
            "hashed while read, GB/s": size / hashing / 1e9,
            "decompressed, GB/s": size / bare / 1e9,
            "decompressed, hashed on both sides and written, GB/s": size / whole / 1e9,
            "one sequence of 1,030 tokens, microseconds": 1e6 * reading,
            "share of a step for hashing a cached shard, %": 100 * 4 * tokens_per_second * hashing / size,
            "share of a step for decompressing and hashing, %": 100 * 4 * tokens_per_second * whole / size,
        }
    print(json.dumps({name: round(value, 3) for name, value in rates.items()}, indent=1))


def main(argv: Sequence[str]) -> int | None:
    """Run the command line."""
    return call(program("python -m tests.performance.verified_shards", "", {}, default=measure), argv)


if __name__ == "__main__":
    run(main)
