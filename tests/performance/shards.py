"""Tokens per second and core of the shard writer next to the bare tokenizer's, from one run on the same text.

    python -m tests.performance.shards --source FILES --tokenizer ID_OR_PATH [--characters 40e6] [--repeats 3]

All read the same documents with one core: Rust threads are off, the writer works in its own process. The bare
tokenizer is the package that the writer encodes with, tiktoken where it gives the same ids, with the split as
Llama 3's own code writes it; Hugging Face's is measured next to it. The writer's time is the whole `build`:
reading, decompression, hashing, deduplication, splitting, packing, zstd, SHA-256, disk and manifest. Times are
CPU seconds, so that a busy machine shows less. Start-up (imports, loading the tokenizer) is in none of them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import tiktoken

from common.cli import MANY, call, program, run
from pretraining.data import build_shards
from pretraining.data.bpe import LLAMA3_SPLIT
from pretraining.data.corpus import batched, open_source
from pretraining.data.manifest import load_manifest
from pretraining.data.shard_settings import ShardSettings
from pretraining.data.tokenizer import TextTokenizer, load_tokenizer


def as_released(encoder: TextTokenizer) -> tiktoken.Encoding | None:
    """Return tiktoken's encoder with the split as Llama 3's own code writes it."""
    twin = encoder.twin
    return twin and tiktoken.Encoding(
        "llama3",
        pat_str=LLAMA3_SPLIT,
        mergeable_ranks=twin._mergeable_ranks,
        special_tokens=twin._special_tokens,
    )


def bare(encoder: TextTokenizer, released: tiktoken.Encoding | None, texts: Sequence[str]) -> int:
    """Encode with the package alone and return the number of tokens."""
    if released is not None:
        return sum(len(released.encode_ordinary(text)) for text in texts)
    return sum(len(found.ids) for found in encoder.inner.encode_batch_fast(texts, add_special_tokens=False))


def written(encoder: TextTokenizer, source: Sequence[str], tokens: int) -> int:
    """Write shards of so many training tokens and return how many tokens were written."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(build_shards, "load_tokenizer", lambda _: encoder),
    ):
        build_shards.build(source, "loaded already", Path(folder), ShardSettings(tokens=tokens), workers=0)
        return sum(split["tokens"] for split in load_manifest(Path(folder))["splits"].values())


def speed(work: Callable[[], int]) -> float:
    """Return tokens per CPU second."""
    began = time.process_time()
    tokens = work()
    return tokens / (time.process_time() - began)


def compare(
    *,
    source: Annotated[tuple[str, ...], MANY],
    tokenizer: str,
    characters: int = 40_000_000,
    repeats: int = 3,
) -> int:
    """Run the comparison.

    Args:
        source: documents, as for `shards`
        tokenizer: tokenizer, as for `shards`
        characters: text to read, in characters
        repeats: times each is measured, in turns
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encoder = load_tokenizer(tokenizer)
    print(
        f"tokenizer {encoder.sha256[:12]}, {encoder.vocab_size} ids, the writer encodes with {encoder.engine}"
    )
    texts: list[str] = []
    held = 0
    for group in batched(open_source(source).documents(), 500_000, 1_000):
        texts += [document.text for document in group]
        held = sum(map(len, texts))
        if held >= characters:
            break
    released = as_released(encoder)
    tokens = bare(encoder, released, texts)
    print(f"{held / 1e6:.1f} M characters in {len(texts)} documents, {tokens / 1e6:.2f} M tokens")
    works: dict[str, Callable[[], int]] = {
        "tiktoken": lambda: bare(encoder, released, texts),
        # A tenth is enough: it is the slowest by far.
        "tokenizers": lambda: bare(encoder, None, texts[: -(-len(texts) // 10)]),
        "writer": lambda: written(encoder, source, int(tokens * 0.98)),
    }
    if encoder.engine != "tiktoken":
        del works["tiktoken"]
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            found[name].append(speed(work))
    print(f"{'':12}{'tokens/s':>12}  each time")
    medians = {name: statistics.median(speeds) for name, speeds in found.items()}
    for name, speeds in found.items():
        print(f"{name:12}{medians[name]:12,.0f}  {', '.join(f'{one:,.0f}' for one in speeds)}")
    print(f"writer / bare {encoder.engine}: {medians['writer'] / medians[encoder.engine]:.2f}")
    return 0


def main(argv: Sequence[str]) -> int | None:
    """Run the command line."""
    return call(program("python -m tests.performance.shards", "", {}, default=compare), argv)


if __name__ == "__main__":
    run(main)
