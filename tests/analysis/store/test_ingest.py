from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.store.instances import read_instances
from analysis.store.runs_table import read_runs
from benchmarks.runs import RunKey
from tests.analysis.stores import SIZES, contents, read, run_folder, scores_of


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
