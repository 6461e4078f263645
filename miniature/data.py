"""Prepares the toy study `curves` from a folder of your own text and datasets: rows at even distances.

python -m miniature.data FOLDER STUDY
clm-or-mlm workflow all --settings STUDY/settings.toml --dir STUDY
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from analysis.sources import EXAMPLES
from analysis.store.stand_ins import STAND_INS
from benchmarks.datasets.local_dataset import (
    DatasetContent,
    LocalDataset,
    load_dataset,
    write_dataset,
)
from benchmarks.metrics.floor import floor_of
from common.cli import run
from common.errors import UserError
from common.files import write_text
from common.reading import read_json
from pretraining.data.corpus import open_documents
from pretraining.data.tokenizer import train_tokenizer

CURVES = Path(__file__).with_name("curves")
"""Folder with the study file and the settings of `curves`."""

SETTINGS = "settings.toml"
"""The settings of `clm-or-mlm workflow`, in the folder of each toy study."""

TUNED = ("sst2", "nq")
"""The datasets that the study fine-tunes models on."""

MOST_EXAMPLES = {"SC": (3_200, 600), "IR": (1_800, 150)}
"""By task, the most examples in the training split, and in each of the other splits."""

Item = TypeVar("Item")

_VOCAB = 2_048
"""Tokens of the tokenizer's vocabulary."""
_TOKENIZER_DOCUMENTS = 100
"""Documents that the tokenizer is trained on, the first of the text."""


def prepare(
    data: Path, study: Path, sizes: Mapping[str, tuple[int, int]] = MOST_EXAMPLES
) -> None:
    """Write the files from which `clm-or-mlm workflow` makes `curves`; a folder that is prepared stays as it is.

    Args:
        data: folder with documents in `text`, and with the datasets sst2, nq and msmarco as this package stores them.
        study: the study's folder.
        sizes: numbers of examples, as `MOST_EXAMPLES`.

    Raises:
        UserError: `data` lacks a part, or `study` was prepared from something else.
    """
    text = data.resolve() / "text"
    # Every JSON string is also a TOML string, so that any path can be written.
    first_line = f"text = [{json.dumps(str(text))}]\n"
    settings = first_line + (CURVES / SETTINGS).read_text("utf-8")
    settings_file = study / SETTINGS
    if settings_file.is_file():
        if settings_file.read_text("utf-8") != settings:
            raise UserError(
                f"{study} was prepared from something else; remove it or choose another folder"
            )
        return

    # msmarco has the pairs that a model is trained on before nq is scored.
    datasets = (*TUNED, "msmarco")
    for part in ("text", *datasets):
        if not (data / part).is_dir():
            raise UserError(f"{data} has no folder {part} (docs/miniature.md)")

    for name in datasets:
        _write_sample(load_dataset(data, name), sizes, study / "data")
    # The tokenizer, trained on the text's first documents.
    documents = islice(open_documents([str(text)]).documents(), _TOKENIZER_DOCUMENTS)
    texts = [document.text for document in documents]
    train_tokenizer(texts, _VOCAB).save(study / "tokenizer")

    # Which model of the study stands in the place of which of the paper's, as in the runs that the package
    # contains. The words after the path say what to do if the file is damaged.
    stand_ins = read_json(EXAMPLES["curves"].parent / STAND_INS, "restore it")
    # The shipped logs and floors belong to the shipped runs, not to those that will be made. A floor is what
    # the best prediction scores that reads no input.
    stand_ins.pop("logs", None)
    stand_ins["floors"] = {}
    for name in TUNED:
        sample = load_dataset(study / "data", name)
        stand_ins["floors"][name] = round(floor_of(sample), 2)

    write_text(study / STAND_INS, json.dumps(stand_ins, indent=1) + "\n")
    write_text(study / "study.toml", (CURVES / "study.toml").read_text("utf-8"))
    # Written last, since this file says that all others are there.
    write_text(settings_file, settings)


def _write_sample(
    whole: LocalDataset, sizes: Mapping[str, tuple[int, int]], out: Path
) -> None:
    """Write as many rows of a dataset as `sizes` allows, as a dataset of the same name.

    Args:
        whole: the dataset.
        sizes: numbers of examples, as `MOST_EXAMPLES`.
        out: folder of datasets.
    """
    task = whole.dataset.task
    train, rest = sizes[task]
    # Rows of retrieval depend on each other: judgements name questions and documents.
    if task == "IR":
        tables = _retrieval(whole, train, rest)
    else:
        counts = {"train": train, "validation": rest, "test": rest}
        tables = {
            split: _rows(whole.tables[split], count) for split, count in counts.items()
        }

    choice = (
        f"at most {train:,} rows of train and {rest:,} of the others, at even distances"
    )
    write_sample(whole, tables, choice, out)


def write_sample(
    whole: LocalDataset, tables: Mapping[str, pa.Table], choice: str, out: Path
) -> None:
    """Write some rows of a dataset as a dataset of the same name.

    Args:
        whole: the dataset.
        tables: the chosen rows of each of its tables.
        choice: which rows these are, in words, for the manifest.
        out: folder of datasets.
    """
    manifest = whole.manifest
    # The data's licence and citation are in their manifest. The sample's manifest gets them by its definition.
    files = replace(
        whole.dataset.files, licence=manifest.licence, citation=manifest.citation
    )
    write_dataset(
        out,
        replace(whole.dataset, files=files),
        DatasetContent(
            tables=tables,
            splits=f"{choice}, of: {manifest.splits}",
            notes=manifest.notes,
        ),
        source={
            "kind": "sample",
            "files": [],
            "content": manifest.content,
            "of": dict(manifest.source),
        },
    )


def _rows(whole: pa.Table, count: int) -> pa.Table:
    """Return at most `count` rows of a table, at even distances."""
    return whole.take(spread(range(whole.num_rows), count))


def _retrieval(whole: LocalDataset, train: int, rest: int) -> dict[str, pa.Table]:
    """Return tables of a smaller retrieval dataset.

    They hold some questions of each split, the judgements of these questions (qrels), only the documents that these
    judgements name, and some pairs of question and document to train on.

    Args:
        whole: the dataset.
        train: most pairs.
        rest: most questions of each split.
    """
    queries, judgements = [], []
    for split in ("validation", "test"):
        # Conditions on columns, which `filter` applies to each row.
        is_of_split = pc.field("split") == split
        sample = _rows(whole.tables["queries"].filter(is_of_split), rest)
        queries.append(sample)
        is_of_sample = pc.field("query_id").isin(sample["id"])
        judgements.append(whole.tables["qrels"].filter(is_of_split & is_of_sample))

    qrels = pa.concat_tables(judgements)
    corpus = whole.corpus.filter(pc.field("id").isin(qrels["doc_id"]))
    tables = {"queries": pa.concat_tables(queries), "qrels": qrels, "corpus": corpus}

    # A dataset that only tests retrieval has no pairs.
    if "pairs" in whole.tables:
        tables["pairs"] = _rows(whole.tables["pairs"], train)
    return tables


def spread(rows: Sequence[Item], count: int) -> list[Item]:
    """Return at most `count` rows, at even distances."""
    if count >= len(rows):
        return list(rows)
    # Files of datasets run through one source or topic after another, so that the first rows would all be of one.
    places = [number * len(rows) // count for number in range(count)]
    return [rows[place] for place in places]


def main(argv: Sequence[str]) -> None:
    """Prepare the study `argv[1]` from the folder `argv[0]`."""
    if len(argv) != 2:
        raise UserError(
            "give two folders: your text and datasets, then the study's (docs/miniature.md)"
        )
    data, study = map(Path, argv)
    prepare(data, study)


if __name__ == "__main__":
    run(main)
