"""The formats of benchmarks, analysis and figures: how a file of each is made, and the reader that commands use."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from transformers import BertConfig, BertModel

from analysis.store.cell import read_cell
from analysis.store.ingest import ingest
from analysis.store.instances import read_instances
from analysis.store.runs_table import manifest_path, read_runs, write_runs
from analysis.store.scan import scan_store
from analysis.store.stand_ins import read_stand_ins
from benchmarks.datasets.import_files import import_dataset
from benchmarks.datasets.local_dataset import dataset_manifest, load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.finetuning.encoders import load_model
from benchmarks.protocol import get_dataset
from benchmarks.results_json import read_results
from benchmarks.runs import RESULTS, RUN, RunKey, results_text
from common.errors import UserError
from paper_figures.figures.figure12 import training_losses
from pretraining.data.tokenizer import train_tokenizer
from pretraining.training.log import write_log
from tests.fuzz.mutations import FileFormat
from tests.pretraining.documents import make_documents
from tests.results import write_results
from tests.sealed import seal
from workflow.attempts import attempts_in
from workflow.jobs import (
    JOB_KINDS,
    WORKFLOW,
    Job,
    Workflow,
    by_marker,
    load_workflow,
    save,
)
from workflow.study import workflow_of
from workflow.study_settings import load_settings

MODEL = "610m-mlm40-42k"
KEYS = [RunKey(model=MODEL, dataset="uner_en", lr=lr, seed=0) for lr in (1e-5, 1e-4)]
SCORES = {"validation": [0.25, 1.0, 0.5, 1 / 3], "test": [0.0, 0.75, 1.0]}


def folder_of(store: Path, key: RunKey) -> Path:
    return store / "results" / key.folder


def two_runs(store: Path) -> Path:
    """Make a cell of two runs as the sweep writes them; return the folder of the first."""
    for key in KEYS:
        folder, results = folder_of(store, key), results_text(SCORES)
        folder.mkdir(parents=True)
        (folder / RESULTS).write_text(results)
        standard = {split: {"entity_f1": 0.5} for split in SCORES}
        seal(folder, {"standard": standard, "description": {"a": 1}})
    return folder_of(store, KEYS[0])


def of_cell(protocol: str) -> Callable[[Path], Any]:
    """Return the reader of the first run by a protocol; the second must be there whatever the first looks like."""

    def read(path: Path) -> Any:
        results = path.parents[4]
        (cell,) = scan_store(results).cells
        found, problems, _ = read_cell(results, cell, None, protocol)
        runs = {run.lr: run for run in found}
        assert KEYS[1].lr in runs, "a good neighbour is lost"
        if KEYS[0].lr not in runs:
            (problem,) = problems
            raise UserError(str(problem))
        return found

    return read


def make_instances(folder: Path) -> Path:
    for key in KEYS:
        write_results(folder / "store", key, SCORES)
    ingest(
        folder / "store",
        folder / "runs.parquet",
        instances=folder / "instances",
        jobs=1,
    )
    return folder / "instances" / MODEL / "uner_en.parquet"


def instances_of(path: Path) -> Any:
    runs = read_runs(path.parents[2] / "runs.parquet")
    return [
        read_instances(path.parents[1], "uner_en", runs, split).tolist()
        for split in ("validation", "test")
    ]


def make_table(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        for key in KEYS:
            write_results(folder / "store", key, SCORES)
        found = ingest(folder / "store", folder / "all.parquet", jobs=1)
        write_runs(folder / name, found.runs)
        return folder / name

    return make


def make_bare_table(folder: Path) -> Path:
    path = make_table("runs.csv")(folder)
    manifest_path(path).unlink()
    return path


def make_data(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        make_synthetic(folder, "uner_en", train=8, evaluation=4)
        return folder / "uner_en" / name

    return make


def dataset_of(path: Path) -> Any:
    found = load_dataset(path.parents[1], "uner_en")
    return [table.to_pylist() for table in found.tables.values()], found.labels


def make_log(folder: Path) -> Path:
    row = {
        "split": "train",
        "objective": "mlm",
        "ratio": 40,
        "stage": "610m-mlm40",
        "lr": 5e-4,
        "tokens": 10,
    }
    path = folder / "610m-mlm40" / "log.jsonl"
    write_log(
        path, [{"step": step, **row, "loss": 5.5 - step / 10} for step in range(8)]
    )
    return path


def losses(path: Path) -> Any:
    return training_losses(path.parents[1], {MODEL: ["610m-mlm40"]}).to_csv()


def make_stand_ins(folder: Path) -> Path:
    content = {
        "title": "MINIATURE",
        "note": "n",
        "steps": 100,
        "models": {"mini": MODEL},
        "others": ["o"],
        "stages": {"mini-s": "610m-clm"},
        "families": {"SC": ["sst2"]},
        "logs": "pretrained/models",
    }
    (folder / "stand_ins.json").write_text(json.dumps(content))
    return folder / "stand_ins.json"


def make_bare_results(folder: Path) -> Path:
    return write_results(folder, KEYS[0], SCORES)


SST2 = "sentence\tlabel\n" + "".join(f"a film number {i}\t{i % 2}\n" for i in range(40))
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": f"The river {i} is long.",
                    "qas": [
                        {
                            "id": str(i),
                            "question": "What?",
                            "answers": [{"text": "river", "answer_start": 4}],
                        }
                    ],
                }
                for i in range(40)
            ]
        }
    ]
}
RECORD = "\n".join(
    json.dumps(
        {
            "passage": {
                "text": f"Oslo met Rome {i}.",
                "entities": [{"start": 0, "end": 3}],
            },
            "qas": [
                {
                    "idx": i,
                    "query": "@placeholder met",
                    "answers": [{"start": 0, "end": 3, "text": "Oslo"}],
                }
            ],
        }
    )
    for i in range(30)
)
IMPORT = "import {dataset} --train {file} --validation {at}/validation{suffix} --out {at}/data --replace"


def parquet_rows() -> bytes:
    out = io.BytesIO()
    rows = [
        {"words": [f"w{i}", "Oslo"], "ner": [0, 5 if i % 2 else 1]} for i in range(40)
    ]
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def originals(dataset: str, ending: str, content: bytes) -> FileFormat:
    """Return the format of an original file, imported as the training examples next to whole ones for validation."""

    def make(folder: Path) -> Path:
        for role in ("train", "validation", "test"):
            (folder / f"{role}{ending}").write_bytes(content)
        return folder / f"train{ending}"

    def read(path: Path) -> Any:
        files = {
            "train": (path,),
            "validation": (path.with_name(f"validation{ending}"),),
        }
        if dataset == "conll2003_en":
            files["test"] = (path.with_name(f"test{ending}"),)
        import_dataset(get_dataset(dataset), files, path.parent / "data", replace=True)
        return load_dataset(path.parent / "data", dataset).train.to_pylist()

    command = (
        IMPORT if dataset != "conll2003_en" else f"{IMPORT} --test {{at}}/test{ending}"
    )
    command = command.replace("{dataset}", dataset).replace("{suffix}", ending)
    return FileFormat(f"{dataset}{ending}", make, read, command, sealed=False)


def foreign(name: str) -> FileFormat:
    """Return the format of a file of somebody else's model: a tiny BERT, without a manifest."""

    def make(folder: Path) -> Path:
        sizes = {
            "hidden_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "intermediate_size": 8,
        }
        config = BertConfig(vocab_size=300, pad_token_id=0, **sizes)
        BertModel(config).save_pretrained(folder / "model")
        train_tokenizer(make_documents(20), 270).save(folder / "model")
        return folder / "model" / name

    return FileFormat(
        f"{name} of a foreign model",
        make,
        lambda path: load_model(str(path.parent)).limits,
        sealed=False,
        share=0.25,
        command="benchmarks run --model {at}/model --name m --dataset sst2 --data {at} --out {new} --dry-run",
    )


JOB = Job(
    kind=JOB_KINDS["data"],
    name="datasets",
    makes=("data/manifest.json",),
    gpu_hours=0.5,
)


def make_workflow(folder: Path) -> Path:
    save(Workflow(target="all", jobs=by_marker([JOB]), environ={"A": "$B"}), folder)
    return folder / WORKFLOW


def make_attempts(folder: Path) -> Path:
    make_workflow(folder)
    path = folder / JOB.attempts
    path.parent.mkdir(parents=True)
    took = {"seconds": 7.5, "gpus": 1}
    rows = [took | {"start": str(code), "code": code} for code in (75, 0)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def settings_file(name: str) -> FileFormat:
    """Return the format of a study's settings, or of a site's file that such settings start from."""

    def make(folder: Path) -> Path:
        (folder / "site.toml").write_text(SITE)
        (folder / "settings.toml").write_text(SETTINGS)
        return folder / name

    def read(path: Path) -> Any:
        return workflow_of(
            "610m-clm-42k", load_settings(path.with_name("settings.toml"))
        )

    command = (
        "workflow 610m-clm-42k --settings {at}/settings.toml --dir {at}/study --dry-run"
    )
    return FileFormat(name, make, read, command, sealed=False)


SITE = """gres = "gpu:h100"
modules = ["apptainer/1.4"]
binds = ["$HOME"]
gpus_per_node = 4
limit_hours = 10.0
[environment]
NCCL_IB_HCA = "mlx5"
[jobs]
partition = "long"
[jobs.cpu]
hours = 2
slurm_extra = "--exclude=n1"
"""
SETTINGS = """site = "site.toml"
account = "abc"
text = ["/text/*.parquet"]
tokenizer = "/t.json"
data = "/data"
seeds = [0, 1]
learning_rates = [1e-5, 5e-4]
pretraining_settings = ["microbatch=8"]
tuning_options = ["--steps", "4"]
"""


def table_of(path: Path) -> str:
    return read_runs(path).to_csv()


INGEST, SCORES_OF = "ingest {at} --out {at}/out.parquet", "scores --source {file}"
FORMATS = [
    FileFormat("results.json of the release", make_bare_results, read_results, INGEST, sealed=False),
    FileFormat("results.json", lambda at: two_runs(at) / RESULTS, of_cell("paper"), INGEST),
    FileFormat(
        "run.json", lambda at: two_runs(at) / RUN, of_cell("standard"), "scores --source standard:{at}"
    ),
    FileFormat(
        "instances", make_instances, instances_of,
        "scores --source {at}/runs.parquet --interval crossed",
    ),
    FileFormat("runs.parquet", make_table("runs.parquet"), table_of, SCORES_OF),
    FileFormat("runs.csv", make_table("runs.csv"), table_of, SCORES_OF),
    FileFormat("runs.csv of somebody else", make_bare_table, table_of, SCORES_OF, sealed=False),
    FileFormat(
        "manifest of runs.csv", lambda at: manifest_path(make_table("runs.csv")(at)),
        lambda path: table_of(path.with_name("runs.csv")), "scores --source {at}/runs.csv",
    ),
    FileFormat(
        "manifest.json of a dataset", make_data("manifest.json"),
        lambda path: dataset_manifest(path.parents[1], "uner_en"), "datasets verify uner_en --data {at}",
    ),
    FileFormat(
        "table of a dataset", make_data("train.parquet"), dataset_of,
        "datasets verify uner_en --data {at}",
    ),
    FileFormat("log.jsonl", make_log, losses, "figure 12 --logs {at} --out {at}/out", sealed=False),
    FileFormat(
        "stand_ins.json", make_stand_ins, lambda path: read_stand_ins(path.parent),
        "scores --source {at}", sealed=False,
    ),
    *map(foreign, ("model.safetensors", "config.json", "tokenizer.json")),
    FileFormat("workflow.json", make_workflow, lambda path: load_workflow(path.parent), "workflow status --dir {at}"),
    FileFormat(
        "attempts", make_attempts, lambda path: list(attempts_in(path)), "workflow status --dir {at}", sealed=False
    ),
    settings_file("settings.toml"), settings_file("site.toml"),
    originals("sst2", ".tsv", SST2.encode()),
    originals("sst2", ".tsv.gz", gzip.compress(SST2.encode(), mtime=0)),
    originals("squad", ".json", json.dumps(SQUAD).encode()),
    originals("record", ".jsonl", RECORD.encode()),
    originals("conll2003_en", ".parquet", parquet_rows()),
]  # fmt: skip
