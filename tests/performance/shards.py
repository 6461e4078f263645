"""Tokens per second and core of the shard writer beside the bare tokenizer's, from one run on the same text.

    python tests/performance/shards.py --source FILES --tokenizer ID_OR_PATH [--characters 40e6] [--repeats 2]

Both read the same documents with one core: the tokenizer's Rust threads are off, the writer works in its own
process. The writer's time is the whole `build`: reading, decompression, hashing, deduplication, splitting,
packing, zstd, SHA-256, disk and manifest. Times
are CPU seconds, so that a busy machine does not show. Start-up (imports, loading the tokenizer) is in neither.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from pretraining import shards
from pretraining.sources import batched, open_source
from pretraining.tokenizer import load_tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", nargs="+", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--characters", type=float, default=40e6)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    encoder = load_tokenizer(arguments.tokenizer)
    print(f"tokenizer {encoder.sha256[:12]}, {encoder.vocab_size} ids")
    texts: list[list[str]] = []
    held = 0
    for group in batched(open_source(arguments.source).documents(), 500_000, 1_000):
        texts.append([document.text for document in group])
        held += sum(map(len, texts[-1]))
        if held >= arguments.characters:
            break
    print(f"{held / 1e6:.1f} M characters in {sum(map(len, texts))} documents")
    limit = 0
    for repeat in range(arguments.repeats):
        began = time.process_time()
        tokens = sum(
            len(found.ids)
            for group in texts
            for found in encoder.inner.encode_batch_fast(group, add_special_tokens=False)
        )
        bare = tokens / (time.process_time() - began)
        limit = limit or int(tokens * 0.98)
        with tempfile.TemporaryDirectory() as folder:
            settings = shards.ShardSettings(tokens=limit)
            loaded = shards.load_tokenizer
            shards.load_tokenizer = lambda _: encoder  # type: ignore[assignment]
            began = time.process_time()
            shards.build(arguments.source, arguments.tokenizer, Path(folder), settings, workers=0)
            seconds = time.process_time() - began
            shards.load_tokenizer = loaded
            written = sum(split["tokens"] for split in shards.load_manifest(Path(folder))["splits"].values())
        writer = written / seconds
        print(
            f"run {repeat + 1}: bare tokenizer {bare:,.0f} tokens/s, writer {writer:,.0f}, ratio {writer / bare:.2f}"
        )


if __name__ == "__main__":
    main()
