"""`python -m benchmarks import`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from benchmarks.datasets.import_files import import_dataset, recognise
from benchmarks.datasets.readers import reader_of
from benchmarks.protocol import DATASETS, get_dataset
from clm_or_mlm.commands.benchmarks.options import DATA
from common.cli import MANY

__all__ = ["import_files"]

Files = Annotated[tuple[Path, ...], MANY, Parameter(metavar="FILE")]


def import_files(
    dataset: str,
    /,
    *files: Path,
    train: Files = (),
    validation: Files = (),
    test: Files = (),
    queries: Files = (),
    corpus: Files = (),
    out: Path = DATA,
    skip_bad_lines: bool = False,
    replace: bool = False,
) -> None:
    """Make a dataset of the local form from original distribution files: plain, .gz or .zst.

    Args:
        dataset: one of the datasets below
        files: files whose names say what they are
        train: training examples; for msmarco pairs, triples, or training judgements
        validation: the official validation set; for retrieval its judgements, for mldr_en its queries
        test: a labelled test set; for retrieval its judgements, for mldr_en its queries
        queries: texts of the queries (msmarco, nq)
        corpus: documents (msmarco, nq, mldr_en); only judged ones are kept
        out: folder of the datasets
        skip_bad_lines: leave bad lines out, with a warning for each
        replace: put this in place of another version of the dataset
    """
    entry = get_dataset(dataset)
    roles = recognise(entry, files)
    for role, given in (
        ("train", train), ("validation", validation), ("test", test), ("queries", queries), ("corpus", corpus)
    ):  # fmt: skip
        if given:
            roles[role] = (*roles.get(role, ()), *given)
    text = import_dataset(entry, roles, out, skip_bad=skip_bad_lines, replace=replace)
    sys.stdout.write(text + "\n")


_KNOWN = "\n".join(f"  {name:13}{reader_of(entry).files}" for name, entry in DATASETS.items())
import_files.__doc__ = (import_files.__doc__ or "").replace(
    "\n    Args:",
    f"\ndatasets and their files:\n{_KNOWN}\n\nexample:\n"
    "  python -m benchmarks import sst2 --train train.tsv --validation dev.tsv --out data/\n\nArgs:",
)
