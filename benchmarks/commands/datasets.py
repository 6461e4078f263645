"""`clm-or-mlm fetch`, `import`, `synthetic` and `datasets`: the datasets in data/."""

from __future__ import annotations

import sys
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from benchmarks.commands import DATA, DatasetName, Definitions
from benchmarks.own_datasets.definition_file import read_definitions, ready_text
from benchmarks.own_datasets.definitions import known_datasets
from benchmarks.protocol import DATASETS, Dataset
from common.cli import MANY
from common.errors import UserError
from common.manifest import MANIFEST
from common.progress import progress
from common.tables import TableDocument, write

if TYPE_CHECKING:
    from benchmarks.datasets.schema import Manifest

PARTIAL = 1
"""Exit code when one or more of several datasets could not be fetched."""


def fetch(
    *datasets: DatasetName,
    out: Path = DATA,
    replace: bool = False,
    definitions: Annotated[Definitions, Parameter(name="--datasets")] = (),
) -> int:
    """Download datasets from the Hugging Face Hub and convert them; later commands use them offline.

    A dataset's manifest records the commits and hashes of its sources; --replace fetches the same commits again.

    datasets: sst2, qqp, mnli_m, ontonotes, conll2003_en, uner_en, squad, squad_v2, record, nq, msmarco, mldr_en

    example: clm-or-mlm fetch sst2 squad --out data/

    Args:
        datasets: datasets to fetch (default: all twelve, or those that --datasets defines and their training datasets)
        out: folder of the datasets
        replace: fetch datasets again even if they are already there
        definitions: files that define your own datasets and say where they are on a hub, or names of ready-made ones
    """
    from benchmarks.datasets import import_files
    from benchmarks.datasets.fetch import fetch_all

    defined = _read(definitions)
    known = known_datasets(defined)
    wanted: list[str] = []
    for definition in defined:
        # A set that is only evaluated needs the one that is trained on as well.
        wanted += (definition.trained_on, definition.name)

    # Those that are named; else those that --datasets defines, with what they are trained on; else the
    # paper's twelve. Each once, for several sets may be trained on the same one.
    names = datasets or tuple(dict.fromkeys(wanted)) or tuple(DATASETS)

    def print_summary(manifest: Manifest) -> None:
        """Print a line on a dataset once it is fetched."""
        dataset = known[manifest.dataset]
        sys.stdout.write(f"{import_files.import_summary(dataset, manifest, out)}\n")

    # Names of those that could not be fetched, each of which was reported when it failed.
    failed = fetch_all(
        [known[name] for name in names], out, print_summary, replace_old=replace
    )
    return PARTIAL if failed else 0


def _read(files: Definitions) -> list[Dataset]:
    """Return the datasets that files define."""
    return [definition for file in files for definition in read_definitions(file)]


Files = Annotated[tuple[Path, ...], MANY, Parameter(metavar="FILE")]


def import_(
    dataset: str,
    /,
    *,
    datasets: Definitions = (),
    train: Files = (),
    validation: Files = (),
    test: Files = (),
    queries: Files = (),
    corpus: Files = (),
    out: Path = DATA,
    replace: bool = False,
) -> None:
    """Convert a dataset's original files, which may be uncompressed, .gz or .zst.

    Args:
        dataset: one of the datasets above, or one that --datasets defines
        train: training examples; for msmarco, pairs, triples or training judgements
        validation: the official validation set (for retrieval, its relevance judgements; for mldr_en, its queries)
        test: a labelled test set (for retrieval, its relevance judgements; for mldr_en, its queries)
        queries: texts of the queries (msmarco, nq)
        corpus: documents (msmarco, nq, mldr_en), of which only judged ones are kept
        datasets: files that define your own datasets and name their original files (docs/add-a-dataset.md)
        out: folder of the datasets
        replace: replace an existing, different version of the dataset
    """
    from benchmarks.datasets import import_files

    # `datasets` are files that define one's own; `dataset` is the name of the one that is converted.
    entry = known_datasets(_read(datasets))[dataset]
    given = {
        "train": train,
        "validation": validation,
        "test": test,
        "queries": queries,
        "corpus": corpus,
    }

    # Files of the command line count; without any, those that the dataset's definition names.
    roles = {role: paths for role, paths in given.items() if paths} or entry.files.paths
    text = import_files.import_dataset(entry, roles, out, replace=replace)
    sys.stdout.write(text + "\n")


_KNOWN = "\n".join(
    f"  {name:13}{entry.files.originals}" for name, entry in DATASETS.items()
)
# The help of `import` lists the paper's datasets and their files.
import_.__doc__ = cleandoc(import_.__doc__ or "").replace(
    "\nArgs:",
    f"\ndatasets and their files:\n{_KNOWN}\n\nexample:\n"
    "  clm-or-mlm import sst2 --train train.tsv --validation dev.tsv --out data/\n\nArgs:",
)


def synthetic(
    *datasets: str,
    out: Path,
    train: int = 512,
    evaluation: int = 96,
    replace: bool = False,
) -> None:
    """Write small made-up datasets, for smoke tests without data or network.

    example: clm-or-mlm synthetic sst2 nq --out made-up/ --train 128

    Args:
        datasets: which of the twelve datasets to write (default: all)
        out: output folder, which must not be that of the real datasets
        train: number of training examples
        evaluation: number of validation examples, and also of test examples
        replace: replace existing, different versions of these datasets
    """
    from benchmarks.datasets.synthetic import make_synthetic

    for name in datasets or DATASETS:
        manifest = make_synthetic(
            out, name, train=train, evaluation=evaluation, replace=replace
        )
        counts = [f"{count:,} {split}" for split, count in manifest.counts.items()]
        sys.stdout.write(f"{out / name}: {', '.join(counts)}, made up\n")


def datasets(
    action: Literal["list", "ready", "verify"] = "list",
    /,
    *names: Annotated[DatasetName, Parameter(metavar="DATASET")],
    data: Path = DATA,
    datasets: Definitions = (),
) -> int:
    """List or verify the datasets in data/.

    `list` prints the twelve datasets with their sizes and licences. `ready` prints the ready-made datasets that
    --datasets accepts by name: GLUE's other tasks, XNLI and the sets of BEIR. `verify` checks every file against the
    manifest's hashes and exits with code 1 if one is damaged.

    examples:
      clm-or-mlm datasets list
      clm-or-mlm datasets verify sst2 squad --data data/

    Args:
        action: what to do
        names: datasets to verify (default: all in the folder)
        data: folder of the datasets
        datasets: files that define your own datasets, or names of ready-made ones
    """
    known = known_datasets(_read(datasets))
    faulty = False
    if action == "list":
        from benchmarks.datasets.listing import dataset_table

        write(TableDocument(body=[dataset_table(data, known)]), "text", None)
    elif action == "ready":
        sys.stdout.write(ready_text() + "\n")
    else:
        # All that are in the folder, if none is named.
        chosen = names or [name for name in known if (data / name / MANIFEST).is_file()]
        if not chosen:
            raise UserError(
                f"{data} contains no datasets; add some with `clm-or-mlm fetch`, `import` or `synthetic`"
            )

        from benchmarks.datasets.local_dataset import verify_dataset

        for name in progress(chosen, "verifying", unit="dataset"):
            faults = verify_dataset(data, known[name])
            faulty |= bool(faults)
            sys.stdout.write(f"{name}: {'; '.join(faults) or 'intact'}\n")

    return int(faulty)
