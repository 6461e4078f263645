"""Run stores opened through the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.store.ingest import open_store
from common.errors import UserError
from common.files import cache_folder
from common.provenance import ROOT


def test_processes_that_open_one_store_at_once_wait_for_each_other(store: Path, tmp_path: Path) -> None:
    script = (
        "import pathlib, analysis.store.ingest as c\n"
        f"runs, folder = c.open_store(pathlib.Path({str(store)!r}), instances=True)\n"
        "print(len(runs), folder)\n"
    )
    environment = {**os.environ, "CLM_OR_MLM_CACHE": str(tmp_path / "cache")}
    started = [
        subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, env=environment)
        for _ in range(3)
    ]
    answers = {process.communicate(timeout=120)[0] for process in started}
    assert len(answers) == 1
    assert answers.pop().startswith(b"180 ")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CLM_OR_MLM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "clm-or-mlm"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says: ignored
    assert cache_folder() == Path.home() / ".cache" / "clm-or-mlm"
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    (tmp_path / "mine").write_text("")
    with pytest.raises(UserError, match="the cache cannot be written"):
        open_store(tmp_path)


@pytest.mark.usefixtures("clock")
def test_a_store_is_read_once_and_each_way_of_reading_has_its_own_place(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    runs, none = open_store(store)
    assert (len(runs), none) == (180, None)
    monkeypatch.setattr("analysis.store.ingest.read_cell", None)  # nothing is read again
    again, _ = open_store(store)
    assert again.equals(runs)
    monkeypatch.undo()
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    open_store(store, add_models=["bert-*"])
    assert len(list((tmp_path / "cache" / "stores").iterdir())) == 2
