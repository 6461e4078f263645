"""What a scan of a run store finds without opening a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analysis.store.scan import Stamp, results_folder, scan_store
from benchmarks.runs import RESULTS, RUN
from common.errors import UserError
from tests.analysis.stores import MODELS, run_folder


def test_cells_come_by_name_with_their_runs_by_folder(store: Path) -> None:
    scan = scan_store(store)
    assert scan.results == store / "results"
    assert [cell.name for cell in scan.cells] == sorted(
        f"{model}/{where}" for model in MODELS for where in ("IR/nq", "SC/sst2", "TC/uner_en")
    )
    assert (scan.problems, scan.added_models) == ((), ())
    for cell in scan.cells:
        assert len(cell.runs) == 30
        assert [run.folder for run in cell.runs] == sorted(run.folder for run in cell.runs)
    run = next(run for cell in scan.cells if cell.dataset == "nq" for run in cell.runs)
    assert (run.folder, run.lr, run.seed) == ("msmarco_pairs_lr1e-04_sd0", 1e-4, 0)
    assert run.results == Stamp.of((store / "results" / MODELS[1] / "IR/nq" / run.folder / RESULTS).stat())


def test_a_change_of_a_manifest_counts(store: Path) -> None:
    record = run_folder(store) / RUN
    record.write_text("{}")
    [cell] = [cell for cell in scan_store(store).cells if cell.name == f"{MODELS[0]}/SC/sst2"]
    assert {run.folder: run.record for run in cell.runs if run.record} == {
        "lr1e-04_sd0": Stamp.of(record.stat())
    }


def test_a_stamp_notices_another_size_and_another_time(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("a")
    stamp = Stamp.of(file.stat())
    assert stamp.is_of(file.stat())
    os.utime(file, ns=(0, stamp.modified + 1))
    assert not stamp.is_of(file.stat())
    file.write_text("ab")
    os.utime(file, ns=(0, stamp.modified))
    assert not stamp.is_of(file.stat())


def test_models_outside_the_scheme_are_taken_only_when_named(store: Path) -> None:
    (store / "results" / MODELS[1]).rename(store / "results" / "bert-base")
    [problem] = scan_store(store).problems
    assert problem.kind == "unknown" and problem.path.endswith("bert-base")
    scan = scan_store(store, ["bert-*"])
    assert (scan.problems, scan.added_models, len(scan.cells)) == ((), ("bert-base",), 6)


def test_the_models_are_in_results_or_in_the_folder_itself(store: Path, tmp_path: Path) -> None:
    assert results_folder(store) == store / "results" == results_folder(store / "results")
    with pytest.raises(UserError, match="does not exist; a run store is a folder with results/<model>"):
        results_folder(tmp_path / "nowhere")
