"""Tokens per second and core of the shard writer next to the bare tokenizer's, from one run on the same text.

    python -m tests.speed.shards FILE ... --tokenizer ID_OR_PATH [--characters 40000000]

All read the same documents on one core. The bare tokenizer is the package that the writer encodes with: tiktoken where
it gives the same ids, with the split as Llama 3's own code writes it; Hugging Face's is measured next to it. The
writer's time is the whole `build`: reading, decompression, hashing, deduplication, splitting, packing, zstd, SHA-256,
disk and manifest. Start-up (imports, loading the tokenizer) is in none of them. Then one of eight ranks reads its share
of steps from what was written, as training does: from the cache of decompressed shards, cut, ordered, masked, packed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import tiktoken

from pretraining.data import build_shards
from pretraining.data.corpus import batched, open_source
from pretraining.data.shard_index import ShardSettings
from pretraining.data.shard_manifest import load_manifest
from pretraining.data.tokenizer import LLAMA3_SPLIT, TextTokenizer, load_tokenizer
from pretraining.model.configuration import config_of
from pretraining.paper_settings import SHAPES
from pretraining.plan.config import TrainingConfig
from pretraining.training.dataloader import Data
from tests.speed.timing import machine, parser_of, work


def tiktokens(encoder: TextTokenizer, texts: Sequence[str]) -> int:
    """Encode with tiktoken, the split as Llama 3's own code writes it; return the number of tokens."""
    twin = encoder.twin
    assert twin is not None
    released = tiktoken.Encoding(
        "llama3", pat_str=LLAMA3_SPLIT, mergeable_ranks=twin._mergeable_ranks, special_tokens=twin._special_tokens
    )  # fmt: skip
    return sum(len(released.encode_ordinary(text)) for text in texts)


def hugging_faces(encoder: TextTokenizer, texts: Sequence[str]) -> int:
    """Encode with tokenizers and return the number of tokens."""
    return sum(len(found.ids) for found in encoder.inner.encode_batch_fast(texts, add_special_tokens=False))


def written(encoder: TextTokenizer, source: Sequence[str], tokens: int) -> int:
    """Write shards of so many training tokens and return how many tokens were written."""
    loaded = patch.object(build_shards, "load_tokenizer", lambda _: encoder)
    with tempfile.TemporaryDirectory() as folder, loaded:
        build_shards.build(source, "loaded already", Path(folder), ShardSettings(tokens=tokens), workers=0)
        return sum(split["tokens"] for split in load_manifest(Path(folder))["splits"].values())


def read(folder: Path, objective: str, ratio: int | None) -> Callable[[], int]:
    """Return what makes one of eight ranks' share of steps and returns the number of its tokens."""
    config = TrainingConfig(cache=str(folder / "cache"), eval_sequences=0)
    data = Data(folder, config, config_of(SHAPES["610m"], load_manifest(folder)["tokenizer"]))
    steps = range(min(8, data.order.steps_per_epoch))
    data.step(0, objective, ratio, world=8)
    return lambda: sum(data.step(step, objective, ratio, world=8).tokens for step in steps)


def main() -> None:
    """Run the comparison."""
    parser = parser_of(__doc__)
    parser.add_argument("source", nargs="+", help="documents, as for `shards`")
    parser.add_argument("--tokenizer", required=True, help="as for `shards`")
    parser.add_argument("--characters", type=int, default=40_000_000, help="text to read")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encoder, texts, held = load_tokenizer(options.tokenizer), list[str](), 0
    for group in batched(open_source(options.source).documents(), 500_000, 1_000):
        texts += [document.text for document in group]
        held = sum(map(len, texts))
        if held >= options.characters:
            break
    tokens = hugging_faces(encoder, texts)
    print(
        f"{held / 1e6:.1f} M characters, {tokens / 1e6:.2f} M tokens, written by {encoder.engine}; {machine()}"
    )
    calls: dict[str, Callable[[], int]] = {
        "tiktoken": lambda: tiktokens(encoder, texts),
        # A tenth is enough: it is the slowest by far.
        "tokenizers": lambda: hugging_faces(encoder, texts[: -(-len(texts) // 10)]),
        "writer": lambda: written(encoder, options.source, int(tokens * 0.98)),
    }
    if encoder.engine != "tiktoken":
        del calls["tiktoken"]
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(3):
        for name, call in calls.items():
            counts: list[int] = []
            took = work(lambda call=call, counts=counts: counts.append(call()))  # type: ignore[misc]
            found[name].append(counts[0] / took.cpu)
    for name, speeds in found.items():
        print(
            f"{name:12}{statistics.median(speeds):12,.0f} tokens/s of {', '.join(f'{one:,.0f}' for one in speeds)}"
        )
    ratio = statistics.median(found["writer"]) / statistics.median(found[encoder.engine])
    print(f"writer / bare {encoder.engine}: {ratio:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        build_shards.build(
            options.source,
            options.tokenizer,
            Path(folder),
            ShardSettings(tokens=int(tokens * 0.98)),
            workers=0,
        )
        for name, share in (("clm", None), ("mlm", 40)):
            call, counts = read(Path(folder), name, share), list[int]()
            took = work(lambda call=call, counts=counts: counts.append(call()))  # type: ignore[misc]
            print(f"loader, {name:4}{counts[0] / took.cpu:12,.0f} tokens/s of CPU time")


if __name__ == "__main__":
    main()
