"""The paper's datasets and the ready-made ones, made of small originals: the bytes that they always had.

Of each dataset the digest of its manifest, which has the hash of every row with its id, the counts and the notes:

    python -m tests.benchmarks.datasets.test_frozen > tests/golden/datasets.json
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets.import_files import make
from benchmarks.datasets.schema import Manifest
from benchmarks.own_datasets.definition_file import READY, read_definitions
from benchmarks.protocol import DATASETS, Dataset
from common.provenance import ROOT
from tests.benchmarks.datasets.readers.originals import Put, putter
from tests.benchmarks.own_datasets.test_ready_definitions import made_up

PASSAGE = "Ada met Bob in Oslo. Eve stayed."
CONLL_2012 = (
    "#begin document (bc/a); part 000\n"
    "bc/a 0 0 Ada NNP * - - - - (PERSON) -\n"
    "bc/a 0 1 won VBD * - - - - * -\n\n#end document\n"
)
IOB1 = "-DOCSTART- -X- O O\n\nAda NNP I-NP I-PER\nBob NNP I-NP B-PER\nwon VBD I-VP O\n"
UNER = "# sent_id = 1\n1\tAda\tB-PER\t-\t-\n2\tOslo\tB-LOC\t-\t-\n"
QRELS = "query-id\tcorpus-id\tscore\n"


def rows_of(name: str, role: str) -> list[dict[str, Any]]:
    """Forty rows of a classification set, in GLUE's columns."""
    columns = {"sst2": ["sentence"], "qqp": ["question1", "question2"]}.get(
        name, ["text_a", "text_b"]
    )
    labels = len(DATASETS[name].label_names)
    return [
        {**{column: f"{role} {column} {i}" for column in columns}, "label": i % labels}
        for i in range(40)
    ]


def questions(role: str, may_abstain: bool) -> dict[str, Any]:
    """A file in SQuAD's form, where some questions may have no answer."""
    answer = [{"text": "Oslo", "answer_start": 15}]
    asked = [
        {
            "id": f"{role}{i}",
            "question": f"{role} {i}?",
            "answers": [] if may_abstain and i % 3 == 0 else answer,
            "is_impossible": may_abstain and i % 3 == 0,
        }
        for i in range(40)
    ]
    return {
        "data": [{"title": "t", "paragraphs": [{"context": PASSAGE, "qas": asked}]}]
    }


def paper_file(put: Put, dataset: Dataset, role: str) -> Path:
    """A file of a role, in a form in which the dataset is distributed."""
    name = dataset.name
    if name == "sst2":
        lines = [f"{row['sentence']}\t{row['label']}\n" for row in rows_of(name, role)]
        return put(f"{role}.tsv", "sentence\tlabel\n" + "".join(lines))
    if name == "qqp":
        return put(f"{role}.jsonl", rows_of(name, role))
    if name == "mnli_m":
        return put(
            f"{role}.json",
            json.dumps({str(i): row for i, row in enumerate(rows_of(name, role))}),
        )
    if name == "ontonotes":
        return put(f"{role}_gold_conll", CONLL_2012)
    if name == "conll2003_en":
        return put(f"{role}.conll", IOB1)
    if name == "uner_en":
        return put(f"{role}.iob2", UNER)
    if name in ("squad", "squad_v2"):
        return put(f"{role}.json", json.dumps(questions(role, dataset.may_abstain)))
    answers = [{"text": "Oslo", "start": 15, "end": 18}]
    asked = [
        {"idx": i, "query": f"@placeholder {role} {i}", "answers": answers}
        for i in range(40)
    ]
    return put(f"{role}.jsonl", [{"passage": {"text": PASSAGE}, "qas": asked}])


def retrieval_files(put: Put, name: str) -> dict[str, Path]:
    """The files of one of the paper's retrieval sets; two ids are of a query and of a document."""
    if name == "mldr_en":
        return {
            split: put(
                f"{split}.jsonl",
                [
                    {
                        "query_id": f"{split}{i}",
                        "query": f"ask {i}",
                        "positive_passages": [{"docid": f"d{i}", "text": f"text {i}"}],
                    }
                    for i in range(5)
                ],
            )
            for split in ("validation", "test")
        }
    documents = "".join(f"{i}\ttext {i}\n" for i in range(50))
    asked = "".join(f"{i}\tquery {i}\n" for i in range(40))
    judged = {
        split: QRELS
        + "".join(f"{i}\t{j}\t{j % 3}\n" for i in part for j in (i, i + 1, i + 2))
        for split, part in (("validation", range(20)), ("test", range(20, 40)))
    }
    files = {"queries": put("q.tsv", asked), "corpus": put("c.tsv", documents)}
    files["test"] = put("test.tsv", judged["test"])
    if name == "msmarco":
        files["validation"] = put("dev.tsv", judged["validation"])
        files["train"] = put("train.tsv", "ask\tanswer\tno\nwhy\tso\tnot\n")
    return files


def ready_file(folder: Path, dataset: Dataset, role: str) -> Path:
    """A file of a role of a ready-made dataset, as its hub has it."""
    path = (
        folder
        / f"{role}.{'tsv' if dataset.task == 'IR' and role in ('validation', 'test') else 'parquet'}"
    )
    path.write_bytes(made_up(dataset, role))
    return path


def digest(manifest: Manifest) -> str:
    """What a manifest says but for the bytes of its Parquet files, which depend on the writer."""
    said = [
        manifest.content,
        manifest.counts,
        manifest.labels,
        manifest.splits,
        manifest.notes,
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def made(folder: Path, dataset: Dataset) -> str:
    """The digest of a dataset that is made of small originals."""
    folder.mkdir()
    put = putter(folder)
    if dataset.is_own:
        files = {
            pin.role: ready_file(folder, dataset, pin.role)
            for pin in dataset.files.pins
        }
    elif dataset.task == "IR":
        files = retrieval_files(put, dataset.name)
    else:
        files = {
            role: paper_file(put, dataset, role)
            for role in ("train", "validation", "test")
        }
    given = {role: (path,) for role, path in files.items()}
    return digest(
        make(dataset, given, folder / "data", source={"kind": "import", "files": []})
    )


EVERY = {
    dataset.name: dataset
    for dataset in (
        *DATASETS.values(),
        *(each for path in READY.values() for each in read_definitions(path)),
    )
}
GOLDEN = ROOT / "tests/golden/datasets.json"


@pytest.mark.parametrize("name", EVERY)
def test_a_dataset_keeps_its_bytes(name: str, tmp_path: Path) -> None:
    assert (
        made(tmp_path / "made", EVERY[name])
        == json.loads(GOLDEN.read_text("utf-8"))[name]
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = {
            name: made(Path(place) / name, dataset) for name, dataset in EVERY.items()
        }
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
