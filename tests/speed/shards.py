"""Tokens per second and core of the shard writer, next to bare tokenizing and to `datasets.map` with `MDSWriter`; and
of the loader that reads what it wrote.

    python -m tests.speed.shards FILE ... --tokenizer ID_OR_PATH [--characters 40000000]

The writer's time is the whole `build`: reading, decompression, hashing, deduplication, splitting, encoding, packing,
zstd, SHA-256, disk and manifest, without start-up (imports, loading the tokenizer). Then one of eight ranks reads its
share of steps from what was written, as training does: from the cache of decompressed shards, cut, ordered, masked,
packed.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tiktoken
from datasets import Dataset
from streaming import MDSWriter

from pretraining.data import build_shards
from pretraining.data.corpus import batched, open_source
from pretraining.data.shard_index import ShardSettings
from pretraining.data.shard_manifest import load_manifest
from pretraining.data.tokenizer import TextTokenizer, load_tokenizer
from pretraining.model.configuration import config_of
from pretraining.paper_settings import SHAPES
from pretraining.plan.config import Batches, Machine, Record, TrainingConfig
from pretraining.training.dataloader import Data
from tests.speed.timing import machine, parser_of


def rate(call: Callable[[], int]) -> float:
    """Return the tokens per CPU second of a call that returns their number."""
    began = time.process_time()
    tokens = call()
    return tokens / (time.process_time() - began)


def read(folder: Path, objective: str, ratio: int | None) -> Callable[[], int]:
    """Return what makes one of eight ranks' share of steps and returns the number of its tokens."""
    tokens = load_manifest(folder)["splits"]["train"]["tokens"]
    config = TrainingConfig(
        batches=Batches(global_batch=min(2_304, tokens // 2_048)),
        machine=Machine(cache=str(folder / "cache")),
        record=Record(eval_sequences=0),
    )
    data = Data(folder, config, config_of(SHAPES["610m"], load_manifest(folder)["tokenizer"]))
    steps = range(min(8, data.order.steps_per_epoch))
    data.step(0, objective, ratio, world=8)
    return lambda: sum(data.step(step, objective, ratio, world=8).tokens for step in steps)


def plain_tiktoken(encoder: TextTokenizer) -> tiktoken.Encoding:
    """Return tiktoken as its users make it: with the pattern that the tokenizer's file has."""
    assert encoder.twin is not None
    pattern = json.loads(encoder._json)["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    ranks = encoder.twin._mergeable_ranks
    return tiktoken.Encoding("plain", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def mapped(texts: list[str], tokenizer: Any, out: Path) -> int:
    """Tokenize and write texts as `datasets` and streaming's own writer do; return the number of tokens."""
    rows = Dataset.from_dict({"text": texts}).map(
        lambda batch: {"ids": [found.ids for found in tokenizer.encode_batch_fast(batch["text"])]},
        batched=True, remove_columns=["text"],
    )  # fmt: skip
    tokens = 0
    with MDSWriter(
        out=str(out), columns={"tokens": "ndarray:int32"}, compression="zstd", hashes=["sha256"]
    ) as writer:
        for row in rows:
            writer.write({"tokens": np.array(row["ids"], np.int32)})
            tokens += len(row["ids"])
    return tokens


def main() -> None:
    """Time the writer and its references, then the loader."""
    parser = parser_of(__doc__)
    parser.add_argument("source", nargs="+", help="documents, as for `shards`")
    parser.add_argument("--tokenizer", required=True, help="as for `shards`")
    parser.add_argument("--characters", type=int, default=40_000_000, help="text to read")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encoder, texts, held = load_tokenizer(options.tokenizer), list[str](), 0
    for group in batched(open_source(options.source).documents(), 500_000, 1_000):
        texts += [document.text for document in group]
        held += sum(len(document.text) for document in group)
        if held >= options.characters:
            break
    began = time.process_time()
    tokens = sum(len(ids) for ids in encoder.encode_batch(texts))
    first = tokens / (time.process_time() - began)
    print(f"{held / 1e6:.1f} M characters, {tokens / 1e6:.2f} M tokens, by {encoder.engine}; {machine()}")
    print(f"{'first':14}{first:12,.0f} tokens/s of CPU time, when every word is new")
    calls: dict[str, Callable[[], int]] = {}
    if encoder.twin is not None:
        bare = plain_tiktoken(encoder)
        calls["tiktoken"] = lambda: sum(len(bare.encode_ordinary(text)) for text in texts)
    loaded = patch.object(build_shards, "load_tokenizer", lambda _: encoder)
    with tempfile.TemporaryDirectory() as folder, loaded:

        def write() -> int:
            out = Path(tempfile.mkdtemp(dir=folder), "shards")
            settings = ShardSettings(tokens=int(tokens * 0.98))
            build_shards.build(options.source, options.tokenizer, out, settings, workers=0)
            return sum(split["tokens"] for split in load_manifest(out)["splits"].values())

        # By turns, so that both meet the same load; the encoding above was the first that saw the words.
        calls["writer"] = write
        speeds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(3):
            for name, call in calls.items():
                speeds[name].append(rate(call))
        for name, seen in speeds.items():
            print(f"{name:14}{statistics.median(seen):12,.0f} tokens/s of CPU time")
        data = next(Path(folder).iterdir()) / "shards"
        speed = rate(lambda: mapped(texts, encoder.inner, Path(folder, "mapped")))
        print(f"datasets.map  {speed:12,.0f} tokens/s of CPU time, with MDSWriter")
        for name, share in (("clm", None), ("mlm", 40)):
            print(f"loader, {name:4}{rate(read(data, name, share)):12,.0f} tokens/s of CPU time")


if __name__ == "__main__":
    main()
