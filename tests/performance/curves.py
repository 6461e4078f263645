"""Validation losses of trained models next to a unigram model's, as a table and a picture.

    python tests/performance/curves.py --data SHARDS --out DIR --image FILE.svg MODEL ...

DIR is what `python -m pretraining train --out` wrote. The unigram model's probabilities are the training split's
counts plus one; its loss is taken on the same masked tokens of the same validation sequences.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from matplotlib import pyplot as plt

from common.settings import read_settings
from pretraining.data.shard_files import TokenStream
from pretraining.model.configuration import config_of
from pretraining.paper_settings import Shape
from pretraining.plan.config import TrainingConfig
from pretraining.training.dataloader import Data
from pretraining.training.log import LOG, read_log


def unigram_loss(data: Path, manifest: dict[str, object], ratio: int) -> float:
    """Return the cross-entropy, in nats, of a unigram model at the masked validation tokens."""
    config = read_settings(TrainingConfig, manifest["recipe"])  # type: ignore[arg-type]
    shape = Shape(**manifest["shape"])  # type: ignore[arg-type]
    tokenizer = json.loads((data / "manifest.json").read_text())["tokenizer"]
    source = Data(data, config, config_of(shape, tokenizer))
    with tempfile.TemporaryDirectory() as cache:
        stream = TokenStream(data / "train", Path(cache))
        counts = np.bincount(stream.read(0, stream.tokens), minlength=shape.vocab) + 1.0
    logs = -np.log(counts / counts.sum())
    labels = np.concatenate([batch.labels.numpy() for batch in source.validation("mlm", ratio)])
    return float(logs[labels].mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--image", type=Path, required=True)
    parser.add_argument("--ratio", type=int, default=40)
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    plt.rcParams["svg.hashsalt"] = "curves"
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    curves: dict[str, dict[int, float]] = {}
    for name in arguments.models:
        rows = [r for r in read_log(arguments.out / "models" / name / LOG) if r["split"] == "validation"]
        for objective in ("clm", "mlm"):
            found = {row["step"]: row["loss"] for row in rows if row["objective"] == objective}
            if found:
                label = f"{name}, {objective.upper()} loss"
                curves[label] = found
                axes.plot(list(found), list(found.values()), label=label)
    manifest = json.loads((arguments.out / "models" / arguments.models[0] / "manifest.json").read_text())
    unigram = unigram_loss(arguments.data, manifest, arguments.ratio)
    axes.axhline(unigram, color="0.5", linestyle="--", label="unigram model")
    axes.set_xlabel("step")
    axes.set_ylabel("validation loss (nats a token)")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(arguments.image, metadata={"Date": None})
    print(f"unigram model: {unigram:.3f}")
    print("| step | " + " | ".join(curves) + " |")
    print("|---" * (len(curves) + 1) + "|")
    for step in sorted({step for found in curves.values() for step in found}):
        cells = [f"{found[step]:.3f}" if step in found else "" for found in curves.values()]
        print(f"| {step} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
