"""One cell's runs: which of two spellings counts, and files that change."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from analysis.store.cell import read_cell
from analysis.store.scan import scan_store
from benchmarks.runs import RESULTS, RunKey
from tests.analysis.stores import MODELS, cut, kinds, read, scores_of, twice_differently


def test_of_two_spellings_the_releases_counts_whatever_the_order(store: Path, tmp_path: Path) -> None:
    twice_differently(store)
    runs = read(store, tmp_path).runs
    key = RunKey(model=MODELS[0], dataset="sst2", lr=1e-4, seed=0)
    row = runs[(runs.model == key.model) & (runs.dataset == "sst2") & (runs.lr == 1e-4) & (runs.seed == 0)]
    assert row["test_score"].tolist() == [pytest.approx(np.mean(scores_of(key)["test"]))]
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
    result = read_cell(store / "results", cell, None)
    assert [(problem.kind, problem.sentence[:26]) for problem in result.problems] == [
        ("unfinished", "changed while it was read;")
    ]
    target.unlink()
    result = read_cell(store / "results", cell, None)
    assert [problem.sentence[:8] for problem in result.problems] == ["vanished"]
