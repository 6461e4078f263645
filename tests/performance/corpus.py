"""Keeping the judged documents of a large corpus: ours against the release's way, in one run.

    python -m tests.performance.corpus [--documents 1000000]

The release loads the whole corpus with the datasets library into a dictionary and then picks the judged documents;
ours reads the same Parquet file a batch at a time. Prints seconds and peak memory of each, in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

JUDGED = 17_000


def make(path: Path, documents: int) -> None:
    """Write passages of about 330 characters, as long as MS MARCO's are."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(5_000)])
    schema = pa.schema([("_id", pa.string()), ("title", pa.string()), ("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, documents, 20_000):
            count = min(20_000, documents - first)
            texts = [" ".join(row) for row in words[rng.integers(0, len(words), (count, 40))]]
            ids = [str(first + number) for number in range(count)]
            writer.write_table(pa.table({"_id": ids, "title": [""] * count, "text": texts}, schema=schema))


def ours(path: Path, wanted: dict[str, None], cache: str) -> dict[str, str]:
    from benchmarks.datasets.readers.beir import wanted_texts
    from benchmarks.datasets.readers.original_files import Reading

    return {identity: text for _, identity, _, text in wanted_texts(path, wanted, Reading())}


def release(path: Path, wanted: dict[str, None], cache: str) -> dict[str, str]:
    import datasets

    datasets.disable_progress_bars()
    rows = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=cache)
    corpus = {str(row["_id"]): row["text"] for row in rows}
    return {identity: corpus[identity] for identity in wanted}


WAYS = {"ours": ours, "release": release}


def child(way: str, path: Path, documents: int) -> None:
    """Run one way and print its figures."""
    wanted = {str(number): None for number in range(0, documents, max(1, documents // JUDGED))}
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        found = WAYS[way](path, wanted, cache)
        seconds = time.perf_counter() - start
    assert found.keys() == wanted.keys()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{way:8} {seconds:7.1f} s {peak:9,.0f} MB peak, {len(found):,} documents kept")


def main() -> None:
    """Compare the two ways."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--documents", type=int, default=1_000_000, help="size of the corpus (default: 1,000,000)"
    )
    parser.add_argument("--child", nargs=2, metavar=("WAY", "PATH"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], Path(args.child[1]), args.documents)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus.parquet"
        make(path, args.documents)
        print(f"{args.documents:,} documents, {path.stat().st_size / 1e6:,.0f} MB", flush=True)
        for way in WAYS:
            command = [sys.executable, "-m", "tests.performance.corpus", "--documents", str(args.documents)]
            subprocess.run([*command, "--child", way, str(path)], check=True)


if __name__ == "__main__":
    main()
