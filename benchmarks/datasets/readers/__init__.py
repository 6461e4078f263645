"""How original files become the local form: each module here registers its datasets' readers in `reader.READERS`."""

from __future__ import annotations

import importlib
import pkgutil

from benchmarks.datasets.readers.own import reader_of_definition
from benchmarks.datasets.readers.reader import READERS, DatasetReader, Inputs
from benchmarks.own_datasets.definition_file import Definition
from benchmarks.protocol import Dataset

__all__ = ["READERS", "DatasetReader", "Inputs", "reader_of"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)


def reader_of(dataset: Dataset) -> DatasetReader:
    """Return how `dataset` is made from its original files; `UserError` for one without a reader."""
    return reader_of_definition(dataset) if isinstance(dataset, Definition) else READERS[dataset.name]
