"""A stand-in for the released results, of their layout, size and number of instances; the scores are made up.

    python -m tests.performance.standin OUT [--models 50] [--share 1.0]

50 models make about 17,500 files and 5 GB. The tests and timings use it where the release itself is not at hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.protocol import LEARNING_RATES
from benchmarks.runs import RESULTS, SPLITS, cell_keys
from pretraining.model_names import MODELS

COUNTS = {
    "sst2": (3368, 872), "qqp": (18193, 40430), "mnli_m": (19636, 9815),
    "ontonotes": (8528, 8262), "conll2003_en": (3250, 3453), "uner_en": (2001, 2077),
    "squad": (4380, 10570), "squad_v2": (6516, 11873), "record": (5037, 10000),
    "nq": (1726, 1726), "msmarco": (6980, 43), "mldr_en": (200, 800),
}  # fmt: skip
"""Validation and test instances of each dataset, as in the release."""


def write_store(out: Path, models: int = 50, share: float = 1.0, seed: int = 0) -> int:
    """Write `models` models' runs under `out/results`, with `share` of the instances; return the number of files.

    As in the release, some runs at the largest learning rate are missing.
    """
    rng = np.random.default_rng(seed)
    files = 0
    for model in [name for name in MODELS if name != "1b-clm-10k-mlm40-42k"][:models]:
        for dataset, counts in COUNTS.items():
            for key in cell_keys(model, dataset):
                if key.lr == LEARNING_RATES[-1] and rng.random() < 0.1:
                    continue
                folder = out / "results" / key.folder
                folder.mkdir(parents=True, exist_ok=True)
                sizes = [max(2, round(count * share)) for count in counts]
                parts = [_split(name, size, key.task, rng) for name, size in zip(SPLITS, sizes, strict=True)]
                (folder / RESULTS).write_text("{\n" + ",\n".join(parts) + "\n}")
                files += 1
    return files


def _split(name: str, size: int, task: str, rng: np.random.Generator) -> str:
    quality = rng.uniform(0.6, 0.95)
    if task == "SC":
        values = (rng.random(size) < quality).astype(int).tolist()
    else:  # many perfect instances, few distinct other values, as sentence and query scores have
        values = np.where(rng.random(size) < quality, 1.0, rng.integers(1, 500, size) / 501).tolist()
    entries = ",\n            ".join(map(repr, values))
    score = sum(values) / size
    head = f'    "{name}": {{\n        "score": {score!r},\n        "scores_i": [\n            '
    return head + entries + "\n        ]\n    }"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder of the store")
    parser.add_argument("--models", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the instances (default: 1.0)")
    args = parser.parse_args()
    print(write_store(args.out, args.models, args.share), "files")


if __name__ == "__main__":
    main()
