"""Ingest of a store of the release's layout, size and number of instances, next to a bare parse of its files.

    python -m tests.performance.ingest OUT [--models 50] [--share 1.0]

The store is made in OUT unless it is there: 50 models are about 17,500 files and 5 GB, their scores made up. The
references parse every tenth file in one thread, and are scaled.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import orjson

from benchmarks.protocol import LEARNING_RATES
from benchmarks.runs import RESULTS, SPLITS, cell_keys
from pretraining.models import MODELS
from tests.performance.timing import command, line, machine, parser_of, work

EVERY = 10
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


def main() -> None:
    """Read everything, with instances and without, and again; parse the same."""
    parser = parser_of(__doc__)
    parser.add_argument("store", type=Path, metavar="OUT")
    parser.add_argument("--models", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the instances (default: 1.0)")
    options = parser.parse_args()
    store = options.store.resolve()
    if not (store / "results").is_dir():
        write_store(store, options.models, options.share)
    files = sorted(store.rglob(RESULTS))
    print(f"{len(files):,} files, {sum(file.stat().st_size for file in files) / 1e9:.1f} GB; {machine()}")
    with tempfile.TemporaryDirectory() as name:
        words = ("analysis", "ingest", store, "--out")
        with_instances = (*words, Path(name, "runs.parquet"), "--instances", Path(name, "instances"))
        line("ingest with instances, first time", command(*with_instances))
        line("ingest with instances, again", command(*with_instances))
        ours = command(*words, Path(name, "other.parquet"))
    line("ingest without instances", ours)
    for parse in (orjson.loads, json.loads):
        parsed = work(lambda parse=parse: [parse(file.read_bytes()) for file in files[::EVERY]])
        line(f"reference: parsed with {parse.__module__}", parsed.times(EVERY), ours)


if __name__ == "__main__":
    main()
