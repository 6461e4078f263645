"""A run store of the release's layout and numbers of instances, its scores made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.protocol import LEARNING_RATES
from benchmarks.runs import RESULTS, SPLITS, cell_keys
from pretraining.models import MODELS

COUNTS = {
    "sst2": (3368, 872), "qqp": (18193, 40430), "mnli_m": (19636, 9815),
    "ontonotes": (8528, 8262), "conll2003_en": (3250, 3453), "uner_en": (2001, 2077),
    "squad": (4380, 10570), "squad_v2": (6516, 11873), "record": (5037, 10000),
    "nq": (1726, 1726), "msmarco": (6980, 43), "mldr_en": (200, 800),
}  # fmt: skip
"""Validation and test instances of each dataset, as in the release."""


def write_store(out: Path, models: int = 50, share: float = 1.0, seed: int = 0) -> None:
    """Write `models` models' runs under `out/results`, with `share` of the instances.

    As in the release, some runs at the largest learning rate are missing.
    """
    rng = np.random.default_rng(seed)
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


def _split(name: str, size: int, task: str, rng: np.random.Generator) -> str:
    quality = rng.uniform(0.6, 0.95)
    if task == "SC":
        values = (rng.random(size) < quality).astype(int).tolist()
    else:  # many perfect instances, few distinct other values, as sentence and query scores have
        values = np.where(rng.random(size) < quality, 1.0, rng.integers(1, 500, size) / 501).tolist()
    entries = ",\n            ".join(map(repr, values))
    head = f'    "{name}": {{\n        "score": {sum(values) / size!r},\n        "scores_i": [\n            '
    return head + entries + "\n        ]\n    }"
