"""A store becomes a runs table and per-instance scores, whatever the order; or is opened through the cache."""

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.store.cell import read_cell
from analysis.store.ingest import open_store
from analysis.store.instances import read_instances
from analysis.store.runs_table import read_runs
from analysis.store.scan import scan_store
from benchmarks.runs import RESULTS, RunKey
from common.errors import UserError
from common.provenance import ROOT
from tests.analysis.stores import (
    MODELS,
    SIZES,
    contents,
    cut,
    kinds,
    read,
    run_folder,
    scores_of,
    twice_differently,
)


def test_a_store_becomes_the_same_table_and_matrix(store: Path, tmp_path: Path) -> None:
    ingested = read(store, tmp_path / "out")
    assert (
        ingested.status,
        ingested.problems,
        ingested.complete,
        ingested.incomplete,
    ) == (0, (), 6, 0)
    table = read_runs(tmp_path / "out" / "runs.parquet")
    pd.testing.assert_frame_equal(table, ingested.runs, check_exact=True)
    assert len(table) == 2 * 3 * 30
    for dataset, (n_validation, n_test) in SIZES.items():
        rows = table[table["dataset"] == dataset].sample(frac=1, random_state=1)
        assert set(rows["n_validation"]) == {n_validation}
        for split, size in (("validation", n_validation), ("test", n_test)):
            matrix = read_instances(
                tmp_path / "out" / "instances", dataset, rows, split
            )
            assert matrix.shape == (60, size)
            for row, scores in zip(rows.itertuples(), matrix, strict=True):
                key = RunKey(model=row.model, dataset=dataset, lr=row.lr, seed=row.seed)  # type: ignore[arg-type]
                assert scores.tolist() == scores_of(key)[split]
                assert getattr(row, f"{split}_score") == pytest.approx(
                    np.mean(scores_of(key)[split]), abs=1e-15
                )


def test_neither_order_nor_jobs_nor_history_changes_a_byte(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(store, tmp_path / "plain")
    expected = contents(tmp_path / "plain")
    scandir = os.scandir

    class Shuffled:
        def __init__(self, path: object) -> None:
            with scandir(path) as entries:  # type: ignore[call-overload]
                self.entries = list(entries)
            np.random.default_rng(len(self.entries)).shuffle(self.entries)  # type: ignore[arg-type]

        def __enter__(self) -> Iterator[os.DirEntry[str]]:
            return iter(self.entries)

        def __exit__(self, *_: object) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr("analysis.store.scan.os.scandir", Shuffled)
        read(store, tmp_path / "shuffled")
    assert contents(tmp_path / "shuffled") == expected

    read(store, tmp_path / "two", jobs=2)
    assert contents(tmp_path / "two") == expected

    late = run_folder(store, "uner_en", "lr2e-05_sd3")
    shutil.move(late, tmp_path / "late")
    read(store, tmp_path / "grown")
    assert contents(tmp_path / "grown") != expected
    shutil.move(tmp_path / "late", late)
    read(store, tmp_path / "grown")
    assert contents(tmp_path / "grown") == expected


def test_of_two_spellings_the_releases_counts_whatever_the_order(
    store: Path, tmp_path: Path
) -> None:
    twice_differently(store)
    runs = read(store, tmp_path).runs
    key = RunKey(model=MODELS[0], dataset="sst2", lr=1e-4, seed=0)
    row = runs[
        (runs.model == key.model)
        & (runs.dataset == "sst2")
        & (runs.lr == 1e-4)
        & (runs.seed == 0)
    ]
    assert row["test_score"].tolist() == [
        pytest.approx(np.mean(scores_of(key)["test"]))
    ]
    cut(store)  # where the usual spelling is broken, the other is used
    ingested = read(store, tmp_path)
    assert kinds(ingested) == ["broken"]
    assert len(ingested.runs) == 180


def test_a_file_that_changes_while_it_is_read_is_unfinished(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = next(cell for cell in scan_store(store).cells if cell.dataset.name == "sst2")
    target = store / "results" / cell.name / next(iter(cell.runs)) / RESULTS
    fstat, calls = os.fstat, []

    def growing(descriptor: int) -> os.stat_result:
        if Path(f"/proc/self/fd/{descriptor}").resolve() == target.resolve():
            calls.append(descriptor)
            if len(calls) == 3:  # opened and measured
                with target.open("a") as file:
                    file.write(" ")
        return fstat(descriptor)

    monkeypatch.setattr("common.reading.os.fstat", growing)
    _, problems, _ = read_cell(store / "results", cell, None)
    assert [(problem.kind, problem.sentence[:32]) for problem in problems] == [
        ("unfinished", "changed while it was being read;")
    ]
    target.unlink()
    _, problems, _ = read_cell(store / "results", cell, None)
    assert [problem.sentence[:8] for problem in problems] == ["vanished"]


def test_processes_that_open_one_store_wait_for_each_other(
    store: Path, tmp_path: Path
) -> None:
    script = (
        "import pathlib, analysis.store.ingest as c\n"
        f"read, folder = c.open_store(pathlib.Path({str(store)!r}), instances=True)\n"
        "print(len(read.runs), folder)\n"
    )
    environment = {**os.environ, "CLM_OR_MLM_CACHE": str(tmp_path / "cache")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env=environment,
        )
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


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_another_user_is_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    open_store(store, instances=True)
    (folder,) = (tmp_path / "cache/clm-or-mlm/stores").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    shutil.rmtree(folder)
    folder.mkdir()
    os.chown(folder, os.getuid() + 1, -1)
    with pytest.raises(UserError, match="belongs to another user"):
        open_store(store, instances=True)


def test_same_instances_stay_and_damaged_ones_are_made_again(
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
    assert len(list((tmp_path / "cache" / "clm-or-mlm" / "stores").iterdir())) == 2


def test_the_cache_keeps_the_stores_that_were_opened_last(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLM_OR_MLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("analysis.store.ingest._KEPT", 1)
    _, mine = open_store(store, instances=True)
    assert mine is not None
    stores, now = mine.parent.parent, time.time()
    for name, hours in {"a day ago": 23, "older": 26, "oldest": 27}.items():
        (stores / name).mkdir()
        (stores / name / "instances.parquet").mkdir()
        os.utime(stores / name, (now, now - hours * 3600))
    os.utime(mine.parent, (now, now - 100 * 3600))
    open_store(store, instances=True)
    assert {path.name for path in stores.iterdir()} == {mine.parent.name, "a day ago"}
