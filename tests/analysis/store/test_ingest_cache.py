"""Run stores opened through the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.store.ingest import open_store
from common.errors import UserError
from common.provenance import ROOT
from tests.analysis.stores import MODELS


def test_processes_that_open_one_store_at_once_wait_for_each_other(store: Path, tmp_path: Path) -> None:
    script = (
        "import pathlib, analysis.store.ingest as c\n"
        f"read, folder = c.open_store(pathlib.Path({str(store)!r}), instances=True)\n"
        "print(len(read.runs), folder)\n"
    )
    environment = {**os.environ, "CLM_OR_MLM_CACHE": str(tmp_path / "cache")}
    started = [
        subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, env=environment)
        for _ in range(3)
    ]
    answers = {process.communicate(timeout=120)[0] for process in started}
    assert len(answers) == 1
    assert answers.pop().startswith(b"180 ")


def test_a_cache_that_cannot_be_written_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "mine"))
    (tmp_path / "mine").write_text("")
    (tmp_path / "results").mkdir()
    with pytest.raises(UserError, match="cannot write to the cache"):
        open_store(tmp_path, instances=True)


def test_the_same_instances_stay_where_they_are_and_damaged_ones_are_made_again(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    first, folder = open_store(store, instances=True)
    assert folder is not None
    before = folder.stat().st_ino
    again, _ = open_store(store, instances=True)
    assert again.runs.equals(first.runs) and folder.stat().st_ino == before
    file = folder / MODELS[0] / "nq.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    open_store(store, instances=True)
    assert file.read_bytes() == whole
    some, _ = open_store(store, instances=True, models=[MODELS[0]])
    assert set(some.runs["model"]) == {MODELS[0]}
    assert len(list((tmp_path / "cache" / "stores").iterdir())) == 2
