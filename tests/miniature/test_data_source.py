"""The data sources that DATA names, and what their jobs make."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path

import pytest

from benchmarks.__main__ import main as benchmarks
from benchmarks.datasets.local_dataset import load, verify
from common.errors import UserError
from miniature.data_source import HUB, MADE_UP, TEXT, Samples, get_data_source
from miniature.forms import FAMILIES, FORMS

FORM = dataclasses.replace(FORMS["quick"], tokens=3_000)
NAMES = (*FAMILIES.values(), "msmarco")


def test_the_made_up_text_is_written_once_and_named_from_the_folder(tmp_path: Path) -> None:
    assert get_data_source(None) is get_data_source("") is MADE_UP
    assert MADE_UP.text(FORM, tmp_path) == "raw/text.jsonl"
    before = (tmp_path / "raw/text.jsonl").stat().st_mtime_ns
    assert (tmp_path / "raw/text.jsonl").read_text().count("\n") == 3_000 // 150
    MADE_UP.text(FORM, tmp_path)
    assert (tmp_path / "raw/text.jsonl").stat().st_mtime_ns == before


def test_one_job_makes_up_all_datasets_in_the_forms_sizes(tmp_path: Path) -> None:
    (job,) = MADE_UP.datasets(FORM, tmp_path)
    assert job.makes == tuple(f"data/{name}/manifest.json" for name in NAMES)
    sizes = {words[2]: words[4::2][:2] for words in job.commands}
    large, small = ("640", "200"), ("640", "100")
    assert sizes == {"sst2": large, "uner_en": large, "squad": large, "nq": small, "msmarco": small}


def test_the_hub_is_asked_once_for_all_forms(tmp_path: Path) -> None:
    assert get_data_source("hub") is HUB and HUB.text(FORM, tmp_path) == TEXT
    jobs = {job.name: job for job in HUB.datasets(FORM, tmp_path / "quick-hub")}
    for name in NAMES:
        fetch, sample = jobs[f"fetch-{name}"], jobs[name]
        assert fetch.network and fetch.makes == (str(tmp_path / "fetched" / name / "manifest.json"),)
        assert not sample.network and sample.needs == (fetch.marker,)
        assert sample.makes == (f"data/{name}/manifest.json",)


def test_a_folder_gives_its_text_and_rows_of_its_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole" / "text").mkdir(parents=True)
    with pytest.raises(UserError, match="there is no folder sst2 in it"):
        get_data_source(str(tmp_path / "whole"))
    sizes = ("--train", "40", "--evaluation", "20", "--out", str(tmp_path / "whole"))
    for name in NAMES:
        assert benchmarks(["synthetic", name, *sizes]) in (0, None)
    monkeypatch.chdir(tmp_path)
    source = get_data_source("whole")
    assert isinstance(source, Samples) and source.place == tmp_path / "whole", "jobs work in another folder"
    assert source.text(FORM, tmp_path) == str(tmp_path / "whole" / "text")
    form = dataclasses.replace(FORM, examples=dict.fromkeys(FAMILIES, (10, 4)))
    monkeypatch.setitem(FORMS, "quick", form)
    for job in source.datasets(form, tmp_path):
        for room, *words in job.commands:
            assert (importlib.import_module(f"{room}.__main__").main(words) or 0) == 0, job.name
        assert job.is_complete(tmp_path)
    for name in NAMES:
        assert verify(tmp_path / "data", name) == []
    for name in ("sst2", "uner_en"):
        whole, sample = (load(tmp_path / place, name) for place in ("whole", "data"))
        assert sample.manifest.counts == {"train": 10, "validation": 4, "test": 4}
        assert sample.labels == whole.labels and sample.manifest.source["content"] == whole.content_hash
        rows = whole.tables["train"].to_pylist()
        assert sample.tables["train"].to_pylist() == [rows[4 * number] for number in range(10)]
    for name in ("nq", "msmarco"):
        found = load(tmp_path / "data", name)
        for split in ("validation", "test"):
            asked = set(found.queries(split)["id"].to_pylist())
            assert len(asked) == 4 and set(found.qrels(split)["query_id"].to_pylist()) == asked
        assert set(found.corpus["id"].to_pylist()) == set(found.tables["qrels"]["doc_id"].to_pylist())
    assert load(tmp_path / "data", "msmarco").train.num_rows == 10
