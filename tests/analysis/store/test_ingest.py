from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

from analysis.store.ingest import ingest
from analysis.store.instances import cell_path, read_instances
from analysis.store.runs_table import read_runs
from analysis.store.state import state_path
from benchmarks.runs import RESULTS, RunKey, cell_keys, write_results
from common.errors import UserError
from common.provenance import ROOT
from tests.analysis.stores import MODELS, SIZES, contents, read, run_folder, scores_of


def test_a_store_becomes_the_table_and_the_matrix_that_went_into_it(store: Path, tmp_path: Path) -> None:
    ingested = read(store, tmp_path / "out")
    assert (ingested.status, ingested.problems, ingested.complete, ingested.incomplete) == (0, (), 6, 0)
    table = read_runs(tmp_path / "out" / "runs.parquet")
    pd.testing.assert_frame_equal(table, ingested.runs, check_exact=True)
    assert len(table) == 2 * 3 * 30
    for dataset, (n_validation, n_test) in SIZES.items():
        rows = table[table["dataset"] == dataset].sample(frac=1, random_state=1)
        assert set(rows["n_validation"]) == {n_validation}
        for split, size in (("validation", n_validation), ("test", n_test)):
            matrix = read_instances(tmp_path / "out" / "instances", dataset, rows, split)
            assert matrix.shape == (60, size)
            for row, scores in zip(rows.itertuples(), matrix, strict=True):
                key = RunKey(model=row.model, dataset=dataset, lr=row.lr, seed=row.seed)  # type: ignore[arg-type]
                assert scores.tolist() == scores_of(key)[split]
                assert getattr(row, f"{split}_score") == pytest.approx(
                    np.mean(scores_of(key)[split]), abs=1e-15
                )


def test_the_results_folder_itself_is_a_store(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path / "a")
    read(store / "results", tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_any_parquet_reader_opens_the_instances_as_one_data_set(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    frame = ds.dataset(tmp_path / "instances").to_table(columns=["model", "dataset", "lr", "seed", "test"])
    assert frame.num_rows == 180
    assert set(frame["dataset"].to_pylist()) == set(SIZES)


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

    monkeypatch.setattr("analysis.store.ingest._POOL_BYTES", 0)
    read(store, tmp_path / "two", jobs=2)
    assert contents(tmp_path / "two") == expected

    late = run_folder(store, "uner_en", "lr2e-05_sd3")
    shutil.move(late, tmp_path / "late")
    read(store, tmp_path / "grown")
    assert contents(tmp_path / "grown") != expected
    shutil.move(tmp_path / "late", late)
    read(store, tmp_path / "grown")
    assert contents(tmp_path / "grown") == expected


@pytest.mark.usefixtures("clock")
def test_only_changed_cells_are_read_again(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert read(store, out).cells_read == 6
    before = (out / "runs.parquet").stat().st_mtime_ns
    again = read(store, out)
    assert (again.cells_read, len(again.runs)) == (0, 180)
    assert (out / "runs.parquet").stat().st_mtime_ns == before

    key = cell_keys(MODELS[0], "nq")[7]
    write_results(store, key, {"validation": [1.0] * 3, "test": [0.5] * 3})
    changed = read(store, out)
    assert changed.cells_read == 1
    runs = changed.runs
    row = runs[
        (runs.model == key.model) & (runs.dataset == "nq") & (runs.lr == key.lr) & (runs.seed == key.seed)
    ]
    assert row["validation_score"].tolist() == [1.0]
    assert read_instances(out / "instances", "nq", row).tolist() == [[0.5] * 3]


@pytest.mark.usefixtures("clock")
def test_same_size_and_time_but_other_content_is_noticed(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    file = run_folder(store) / RESULTS
    stat = file.stat()
    text = file.read_text()
    shutil.copyfile(run_folder(store, model=MODELS[1]) / RESULTS, file)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if file.stat().st_size != stat.st_size:  # the two files happen to differ in length
        file.write_text(text.replace("\n", " \n", 1))
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert read(store, tmp_path).cells_read == 1


def test_a_file_younger_than_two_seconds_is_read_again(store: Path, tmp_path: Path) -> None:
    key = cell_keys(MODELS[0], "nq")[0]
    write_results(store, key, scores_of(key))
    read(store, tmp_path)
    assert read(store, tmp_path).cells_read >= 1


@pytest.mark.usefixtures("clock")
def test_lost_instances_are_made_again(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    expected = contents(tmp_path)
    cell_path(tmp_path / "instances", MODELS[0], "nq").unlink()
    cell_path(tmp_path / "instances", MODELS[1], "nq").write_bytes(b"")
    assert read(store, tmp_path).cells_read == 2
    assert contents(tmp_path) == expected
    state_path(tmp_path / "runs.parquet").write_text("{half a sta")
    assert read(store, tmp_path).cells_read == 6
    assert contents(tmp_path) == expected


@pytest.mark.usefixtures("clock")
def test_instances_can_come_later_or_lag_behind(store: Path, tmp_path: Path) -> None:
    ingest(store, tmp_path / "runs.parquet")
    assert not (tmp_path / "instances").exists()
    assert read(store, tmp_path).cells_read == 6
    key = cell_keys(MODELS[0], "nq")[0]
    write_results(store, key, {"validation": [1.0] * 3, "test": [1.0] * 3})
    runs = ingest(store, tmp_path / "runs.parquet").runs
    with pytest.raises(UserError, match="not from the same ingest"):
        read_instances(tmp_path / "instances", "nq", runs[runs["dataset"] == "nq"])
    assert read(store, tmp_path).cells_read == 1
    assert len(read_instances(tmp_path / "instances", "nq", runs[runs["dataset"] == "nq"])) == 60


@pytest.mark.usefixtures("clock")
def test_a_model_that_was_taken_away_leaves_nothing_behind(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path / "out")
    shutil.rmtree(store / "results" / MODELS[1])
    assert read(store, tmp_path / "out").cells_read == 0
    read(store, tmp_path / "fresh")
    assert contents(tmp_path / "out", state=False) == contents(tmp_path / "fresh", state=False)


def test_reading_instances_names_what_is_missing(store: Path, tmp_path: Path) -> None:
    runs = read(store, tmp_path).runs
    rows = runs[runs["dataset"] == "sst2"]
    folder = tmp_path / "instances"
    with pytest.raises(UserError, match="no instances of 610m-clm-22k on sst2"):
        read_instances(folder, "sst2", rows.assign(model="610m-clm-22k"))
    with pytest.raises(UserError, match=r"no run with lr 0\.3, seed 0"):
        read_instances(folder, "sst2", rows.assign(lr=0.3))
    with pytest.raises(UserError, match="unknown split 'tset'"):
        read_instances(folder, "sst2", rows, "tset")
    with pytest.raises(UserError, match="did you mean 'sst2'"):
        read_instances(folder, "sst-2", rows)
    assert read_instances(folder, "sst2", rows.iloc[:0]).shape == (0, 0)


def test_what_a_killed_write_left_goes_away_after_an_hour(store: Path, tmp_path: Path) -> None:
    read(store, tmp_path)
    expected = contents(tmp_path)
    fresh = tmp_path / "instances" / MODELS[0] / ".nq.parquet.1-ab.tmp.parquet"
    old = tmp_path / "instances" / MODELS[0] / ".sst2.parquet.2-cd.tmp.parquet"
    for file in (fresh, old):
        file.write_bytes(b"half a")
    os.utime(old, (time.time() - 4000,) * 2)
    read(store, tmp_path)
    assert fresh.exists()  # another process may be writing it
    fresh.unlink()
    assert contents(tmp_path) == expected


def test_processes_that_open_one_store_at_once_wait_for_each_other(store: Path, tmp_path: Path) -> None:
    script = (
        "import pathlib, analysis.store.cache as c\n"
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
