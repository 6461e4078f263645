"""`python -m workflow.selftest`: a made-up study's shards, a few optimiser steps, one fine-tuning; on any machine."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common.cli import run
from common.errors import UserError
from container.selftest import start
from workflow.tiny import MODELS, write_tiny_study

__all__ = ["train_and_tune"]


def train_and_tune() -> None:
    """Pretrain the made-up model and fine-tune it once.

    Raises:
        UserError: a step failed or left nothing behind.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), MODELS[0]
        write_tiny_study(folder, documents=300)
        text, tokenizer, shards = folder / "text.jsonl", folder / "tokenizer", folder / "shards"
        start("pretraining", "tokenizer", "--train", str(text), "--vocab", "384", "--out", str(tokenizer))
        sizes = ("--validation-tokens", "2000", "--validation-share", "0.05", "--workers", "1")
        start(
            *("pretraining", "shards", "--source", str(text), "--tokenizer", str(tokenizer)),
            *(*sizes, "--out", str(shards)),
        )
        start(
            *("pretraining", "train", model, "--study", str(folder / "study.toml")),
            *("--data", str(shards), "--out", str(folder / "pretraining")),
        )
        start("benchmarks", "synthetic", "sst2", "--train", "64", "--out", str(folder / "data"))
        start(
            *("benchmarks", "run", "--model", str(folder / "pretraining" / "models" / model)),
            *("--dataset", "sst2", "--lr", "1e-4", "--seed", "0", "--steps", "4", "--max-length", "128"),
            *("--data", str(folder / "data"), "--out", str(folder / "results")),
        )
        if len(list(folder.glob("results/*/SC/sst2/*/results.json"))) != 1:
            raise UserError("the fine-tuning left no results.json")


def main(argv: Sequence[str]) -> int | None:
    if argv:
        raise UserError("workflow.selftest takes no words")
    train_and_tune()
    sys.stdout.write("pretraining and fine-tuning work\n")
    return None


if __name__ == "__main__":
    run(main)
