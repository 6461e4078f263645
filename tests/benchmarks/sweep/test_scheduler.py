"""Locks and runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.sweep.queue import BUSY, COMPLETE, FAILED
from benchmarks.sweep.run_state import lock_path
from common.locks import is_locked, try_lock
from tests.benchmarks.sweep.stores import details, fail_at_5e_3, record, results, run, status


def test_two_processes_at_one_cell_one_does_it(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--dataset", "uner_en", "sst2", "--lr", "1e-3", "--seed", "0"]
    with try_lock(lock_path(tmp_path, "tiny", "uner_en")) as mine:
        assert mine
        assert run([*arguments, *grid]) == BUSY
        assert set(results(tmp_path)) == {"tiny/SC/sst2/lr1e-03_sd0"}
        status(["--out", str(tmp_path), *grid])
        assert "0/1*" in capsys.readouterr().out
    assert run([*arguments, *grid]) == COMPLETE


def test_a_run_does_not_depend_on_how_many_are_computed_side_by_side(
    arguments: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = [
        *arguments,
        "--dataset",
        "mnli_m",
        "uner_en",
        "msmarco",
        "nq",
        "--lr",
        "1e-3",
        "5e-3",
        "--seed",
        "0",
        "1",
    ]
    assert run(grid) == COMPLETE
    alone = results(tmp_path)
    assert len(alone) == 16
    side_by_side = list(grid)
    side_by_side[grid.index("--workers") + 1] = "3"
    side_by_side[grid.index("--out") + 1] = str(tmp_path / "together")
    threads = torch.get_num_threads()
    with caplog.at_level("INFO"):
        assert run(side_by_side) == COMPLETE
    assert "tiny on mnli_m: 4 fine-tunings of 3 steps, 3 side by side" in caplog.messages
    assert results(tmp_path / "together") == alone
    for folder in alone:
        assert details(tmp_path, folder) == details(tmp_path / "together", folder)
        one, other = record(tmp_path, folder), record(tmp_path / "together", folder)
        assert one["standard"] == other["standard"]
        assert one["machine"] == other["machine"] and one["machine"]["threads"] == 1
    assert torch.get_num_threads() == threads
    for job in ("mnli_m", "uner_en", "msmarco"):
        assert not is_locked(lock_path(tmp_path / "together", "tiny", job))


def test_a_failed_run_side_by_side_is_recorded_and_the_others_go_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_5e_3(monkeypatch)
    grid = ["--dataset", "sst2", "--lr", "5e-3", "1e-3", "--seed", "0", "1", "--workers", "2"]
    assert run([*arguments, *grid]) == FAILED
    assert record(tmp_path, "tiny/SC/sst2/lr5e-03_sd1")["reason"] == "the loss is nan at step 2"
    assert set(results(tmp_path)) == {f"tiny/SC/sst2/lr1e-03_sd{seed}" for seed in (0, 1)}
