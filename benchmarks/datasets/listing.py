"""What datasets are in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.datasets.local_dataset import dataset_manifest
from benchmarks.datasets.schema import SPLIT_TABLES
from benchmarks.protocol import DATASETS, Dataset
from common.manifest import MANIFEST
from common.tables import Grid


def dataset_table(data: Path, datasets: Mapping[str, Dataset] = DATASETS) -> Grid:
    """Return a table of datasets: family, counts of examples in the folder `data`, licence."""
    rows: list[tuple[str, ...]] = [
        ("dataset", "task", *SPLIT_TABLES, "from", "licence")
    ]
    for name, dataset in datasets.items():
        counts: Mapping[str, int] = {}
        source = "absent"
        licence = dataset.files.licence
        if (data / name / MANIFEST).is_file():
            manifest = dataset_manifest(data, dataset)
            counts = manifest.counts
            source = str(manifest.source["kind"])
            licence = manifest.licence
        shown = []
        for split in SPLIT_TABLES:
            shown.append(f"{counts[split]:,}" if split in counts else "-")
        rows.append((name, dataset.task, *shown, source, licence))
    return Grid(rows, range(2, 2 + len(SPLIT_TABLES)))
