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
    """Return a table with a row for each dataset: task, examples of each split in the folder `data`, source, licence.

    A dataset that is not in the folder has the source `absent` and `-` in place of each count.
    """
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

        count_cells = []
        for split in SPLIT_TABLES:
            count_cells.append(f"{counts[split]:,}" if split in counts else "-")
        rows.append((name, dataset.task, *count_cells, source, licence))

    # The columns of counts, behind those of dataset and task, are aligned on the right.
    return Grid(rows, range(2, 2 + len(SPLIT_TABLES)))
