"""Small run stores for the tests, and what an ingest left behind."""

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from analysis.sources import Source, open_source
from analysis.store.ingest import StoreTable, ingest
from analysis.store.runs_table import manifest_path
from benchmarks.protocol import DATASETS
from benchmarks.runs import DETAILS, RESULTS, RunKey, cell_keys, results_text
from common.files import sha256_file, write_text
from common.manifest import write_manifest
from common.provenance import ROOT
from tests.results import write_results
from tests.sealed import seal

RELEASED = ROOT / "tests" / "data" / "released_sst2_610m-mlm40-42k.csv"
MODELS = ("610m-mlm40-42k", "610m-clm-42k")
SIZES = {"sst2": (7, 5), "uner_en": (4, 6), "nq": (3, 3)}
Bytes = dict[str, bytes]


def scores_of(key: RunKey) -> dict[str, list[float]]:
    rng = np.random.default_rng(
        [MODELS.index(key.model), len(key.dataset), round(key.lr * 1e6), key.seed]
    )
    sizes = dict(zip(("validation", "test"), SIZES[key.dataset], strict=True))
    if key.task == "SC":
        return {split: rng.integers(0, 2, n).tolist() for split, n in sizes.items()}
    return {split: rng.random(n).tolist() for split, n in sizes.items()}


def fill(
    store: Path,
    models: tuple[str, ...] = MODELS,
    datasets: tuple[str, ...] = tuple(SIZES),
) -> list[RunKey]:
    keys = [
        key
        for model in models
        for dataset in datasets
        for key in cell_keys(model, dataset)
    ]
    for key in keys:
        write_results(store, key, scores_of(key))
    age(store)
    return keys


def fill_sealed(store: Path) -> Path:
    """A store of two models, 60 runs, as `benchmarks run` leaves it."""
    for number, key in enumerate(fill(store, datasets=("uner_en",))):
        folder = store / "results" / key.folder
        (folder / DETAILS).write_text(json.dumps({"losses": [number / 7]}))
        seal(folder)
    return store


def fill_own(store: Path, seeds: tuple[int, ...] = (0, 1)) -> list[Path]:
    """Write runs of a dataset that the store alone defines, and return their folders."""
    write_text(
        store / "datasets" / "reviews.json",
        '{"kind": "text", "labels": ["bad", "good"]}',
    )
    cell = store / "results" / MODELS[1] / "SC" / "reviews"
    for seed in seeds:
        scores = {"validation": [1.0, 0.0], "test": [1.0, 0.0, float(seed % 2), 0.0]}
        write_text(cell / f"lr1e-04_sd{seed}" / RESULTS, results_text(scores))
    return sorted(cell.iterdir())


def age(store: Path) -> None:
    """Make all files an hour old, as they are when nobody writes any more (their change time stays)."""
    for file in store.rglob("*"):
        if file.is_file() and not file.is_symlink():
            os.utime(file, (time.time() - 3600,) * 2)


def read(store: Path, out: Path, **options: object) -> StoreTable:
    return ingest(store, out / "runs.parquet", instances=out / "instances", **options)  # type: ignore[arg-type]


def contents(out: Path) -> Bytes:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


def kinds(ingested: StoreTable) -> list[str]:
    return [problem.kind for problem in ingested.problems if problem.kind != "missing"]


def run_folder(
    store: Path,
    dataset: str = "sst2",
    name: str = "lr1e-04_sd0",
    model: str = MODELS[0],
) -> Path:
    return store / "results" / model / DATASETS[dataset].task / dataset / name


def cut(store: Path) -> None:
    file = run_folder(store) / RESULTS
    file.write_bytes(file.read_bytes()[:100])


def twice(store: Path) -> None:
    shutil.copytree(run_folder(store), run_folder(store, name="lr1e-4_sd0"))


def twice_differently(store: Path) -> None:
    twice(store)
    shutil.copyfile(
        run_folder(store, name="lr1e-05_sd1") / RESULTS,
        run_folder(store, name="lr1e-4_sd0") / RESULTS,
    )


def released_source(change: float = 0.0, keep: int = 30) -> Source:
    """The released runs of one model on SST-2, their test scores changed, the first `keep` of them."""
    runs = open_source(str(RELEASED)).runs
    assert runs is not None
    runs = runs.assign(test_score=np.clip(runs["test_score"] + change, 0, 1)).iloc[
        :keep
    ]
    return Source(label="test", runs=runs)


def join_cells(folder: Path, path: Path) -> None:
    """Write the cells of an instances folder as one file with its manifest, as the packaged example has them."""
    names = ["model", "task", "dataset"]
    cells = sorted(folder.glob("*/*.parquet"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(
        path,
        pq.read_schema(cells[0]),
        use_dictionary=names,
        compression="zstd",
        write_statistics=names,  # by which a reader finds a cell
    ) as writer:
        for cell in cells:
            writer.write_table(pq.read_table(cell, partitioning=None))
    write_manifest(manifest_path(path), {"format": 3}, {path.name: sha256_file(path)})
