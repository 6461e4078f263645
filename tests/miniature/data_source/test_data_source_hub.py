"""The miniature from a hub on a local port: every job before pretraining, with the real hub client."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.datasets import fetch as fetching
from benchmarks.datasets import hub_pins as pins
from benchmarks.datasets.fetch import HuggingFaceHub
from benchmarks.datasets.hub_pins import Pin
from benchmarks.datasets.local_dataset import load, verify
from clm_or_mlm.commands.benchmarks import datasets as commands
from miniature.data_source import HUB, TEXT
from miniature.folders import Folders
from miniature.forms import FORMS
from miniature.pipeline import folders_of
from miniature.plan import plan
from pretraining.data.manifest import load_manifest
from tests.benchmarks.fake_hub import FakeHub, Repos
from tests.miniature.tiny import TINY
from tests.pretraining.documents import make_documents
from workflow.jobs import Job

COMMIT = "1" * 40
FORM = dataclasses.replace(
    FORMS["quick"],
    shapes=TINY.shapes,
    tokens=20_000,
    tokenizer_documents=60,
    examples={"SC": (20, 5), "TC": (20, 5), "QA": (20, 5), "IR": (12, 4)},
)


def parquet(rows: list[dict[str, object]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def tsv(rows: list[tuple[object, ...]]) -> bytes:
    return "".join(
        "\t".join(map(str, row)) + "\n" for row in [("query-id", "corpus-id", "score"), *rows]
    ).encode()


def repos() -> Repos:
    """Five small datasets in the layouts of their hubs."""
    sentiment = [{"sentence": f"line {n}", "label": n % 2, "idx": n} for n in range(200)]
    tagged = [{"tokens": [f"w{n}", "Oslo"], "ner_tags": [0, 5 if n % 2 else 1]} for n in range(30)]
    asked = []
    for n in range(400):
        context = f"It rained. Person {n} came in May {'x' * 250 * (n % 2)}. Others left."
        answers = {"text": ["May"], "answer_start": [context.index("May")]}
        asked.append({"id": str(n), "title": "", "context": context, "question": "When?", "answers": answers})
    texts = [{"_id": f"d{n}", "title": "", "text": f"passage {n}"} for n in range(90)]
    questions = [{"_id": f"q{n}", "title": "", "text": f"question {n}"} for n in range(90)]
    relevant = tsv([(f"q{n}", f"d{n}", 1) for n in range(90)])
    pairs = [{"query": f"ask {n}", "positive": f"answer {n}"} for n in range(50)]

    def splits(rows: list[dict[str, object]], *names: str) -> dict[str, bytes]:
        return {f"{name}.parquet": parquet([{**row, **_own(row, name)} for row in rows]) for name in names}

    def only(files: dict[str, bytes]) -> dict[str, tuple[str, dict[str, bytes]]]:
        return {"main": (COMMIT, files)}

    corpus = {"corpus/c.parquet": parquet(texts), "queries/q.parquet": parquet(questions)}  # type: ignore[arg-type]
    return {
        "a/sst2": only(splits(sentiment, "train", "validation")),  # type: ignore[arg-type]
        "a/uner": only(splits(tagged, "train", "validation", "test")),  # type: ignore[arg-type]
        "a/squad": only(splits(asked, "train", "validation")),  # type: ignore[arg-type]
        "a/nq": only({**corpus, "test.tsv": relevant}),
        "a/msmarco": only({**corpus, "test.tsv": relevant, "train.parquet": parquet(pairs)}),  # type: ignore[arg-type]
    }


def _own(row: dict[str, object], split: str) -> dict[str, object]:
    return {"id": f"{split}-{row['id']}"} if "id" in row else {}


def _pins(repo: str, **files: str) -> tuple[Pin, ...]:
    return tuple(Pin(role=role, repo=repo, commit=COMMIT, files=(path,)) for role, path in files.items())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub with the five datasets and FineWeb-Edu's stand-in; `PINS` point there."""
    three = {"train": "train.parquet", "validation": "validation.parquet"}
    judged = {"queries": "queries/*.parquet", "corpus": "corpus/*.parquet", "test": "test.tsv"}
    for name, found in {
        "sst2": _pins("a/sst2", **three),
        "uner_en": _pins("a/uner", **three, test="test.parquet"),
        "squad": _pins("a/squad", **three),
        "nq": _pins("a/nq", **judged),
        "msmarco": _pins("a/msmarco", **judged, validation="test.tsv", train="train.parquet"),
    }.items():
        monkeypatch.setitem(pins.PINS, name, found)
    text = tmp_path / "text.parquet"
    pq.write_table(pa.table({"text": make_documents(1_500)}), text)
    address = f"hf://datasets/HuggingFaceFW/fineweb-edu@{COMMIT}/sample/10BT/000.parquet"

    class Disk:
        def info(self, file: str) -> dict[str, int]:
            assert file == address
            return {"size": text.stat().st_size}

        def open(self, file: str, mode: str) -> object:
            assert (file, mode) == (address, "rb")
            return text.open("rb")

    monkeypatch.setattr("huggingface_hub.HfFileSystem", Disk)
    monkeypatch.setattr(
        "datasets.load_dataset_builder",
        lambda *_, **__: SimpleNamespace(config=SimpleNamespace(data_files={"train": [address]})),
    )
    hub = FakeHub({**repos(), "HuggingFaceFW/fineweb-edu": {"main": (COMMIT, {"README.md": b""})}})
    with hub.serve() as endpoint:
        for module in (fetching, commands):
            monkeypatch.setattr(module, "HuggingFaceHub", lambda: HuggingFaceHub(endpoint))
        monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", _dataset_info)
        yield hub


def _dataset_info(*_: object, **__: object) -> SimpleNamespace:
    return SimpleNamespace(sha=COMMIT)


def data_jobs(folders: Folders) -> list[Job]:
    return [job for job in plan(FORM, HUB, folders) if job.kind.part == "data"]


def run_job(job: Job) -> None:
    """Run a job's commands in this process, where the hub's client is replaced."""
    for room, *words in job.commands:
        assert (importlib.import_module(f"{room}.__main__").main(words) or 0) == 0, job.name


@pytest.fixture
def folders(world: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """Folders of a small form, as the working directory, with the hub at hand."""
    monkeypatch.setitem(FORMS, "quick", FORM)
    folders = folders_of(FORM, HUB, tmp_path / "miniature")
    folders.root.mkdir(parents=True)
    monkeypatch.chdir(folders.root)
    return folders


def test_text_and_tasks_come_from_the_hub_once(
    folders: Folders,
) -> None:
    for job in data_jobs(folders):
        assert not job.is_complete(folders.root), job.name
        run_job(job)
    jobs = data_jobs(folders)
    assert all(job.is_complete(folders.root) for job in jobs), "nothing is asked of the hub again"
    assert {job.name for job in jobs if not job.network} == {"sst2", "uner_en", "squad", "nq", "msmarco"}
    text = load_manifest(folders.shards)["source"]
    assert text["spec"] == TEXT and text["revision"] == COMMIT
    for name in ("sst2", "uner_en", "squad", "nq", "msmarco"):
        assert verify(folders.data, name) == []
        assert load(folders.data, name).manifest.source["kind"] == "sample"
    for task, name in (("SC", "sst2"), ("TC", "uner_en"), ("QA", "squad")):
        train, rest = FORM.examples[task]
        assert load(folders.data, name).manifest.counts == {"train": train, "validation": rest, "test": rest}
    squad = load(folders.data, "squad").test.to_pylist()
    assert all("x" not in row["context"] and row["context"].endswith(".") for row in squad)
    assert all(row["context"][row["answers"][0]["start"] :].startswith("May") for row in squad)
    for name in ("nq", "msmarco"):
        found = load(folders.data, name)
        asked = {split: set(found.queries(split)["id"].to_pylist()) for split in ("validation", "test")}
        assert {split: len(queries) for split, queries in asked.items()} == {"validation": 4, "test": 4}
        assert name == "msmarco" or not asked["test"] & asked["validation"]
        judged = {split: set(found.qrels(split)["query_id"].to_pylist()) for split in asked}
        assert judged == asked, "judgements of these questions alone"
        kept = {f"d{query[1:]}" for queries in asked.values() for query in queries}
        assert set(found.corpus["id"].to_pylist()) == kept
    assert load(folders.data, "msmarco").train.num_rows == FORM.examples["IR"][0]


def test_the_tasks_of_a_sample_cover_all_its_sources_rows_evenly(
    folders: Folders,
) -> None:
    for job in data_jobs(folders):
        if job.name in ("fetch-uner_en", "uner_en"):
            run_job(job)
    whole = load(HUB.fetched(folders), "uner_en")
    found = load(folders.data, "uner_en")
    assert found.labels == whole.labels
    assert found.test["words"].to_pylist() == [whole.test["words"].to_pylist()[n] for n in range(0, 30, 6)]
    assert json.loads((folders.data / "uner_en/manifest.json").read_text())["splits"].startswith(
        "at most 20 rows of train and 5 of the others"
    )
