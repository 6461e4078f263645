"""Cells, their settings, and what becomes of a fine-tuning that fails or is interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.metrics.metric import Evaluation
from benchmarks.protocol import DATASETS, FINE_TUNING, LEARNING_RATES, SEEDS
from benchmarks.runs import RunKey
from benchmarks.sweep import jobs
from benchmarks.sweep.queue import COMPLETE, FAILED
from benchmarks.sweep.request import Request
from benchmarks.tasks.ranking import RetrievalEvaluator
from common.errors import UserError
from tests.benchmarks.sweep.stores import fail_at_5e_3, record, results, run, status


def test_what_is_done_is_never_done_again(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = [*arguments, "--dataset", "uner_en", "--lr", "1e-3"]
    run([*one, "--seed", "0"])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    seen = []
    real = jobs.fine_tune
    monkeypatch.setattr(jobs, "fine_tune", lambda *a, **k: seen.append(k["seed"]) or real(*a, **k))
    assert run([*one, "--seed", "0", "1"]) == COMPLETE
    assert seen == [1]
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_a_failed_run_is_recorded_and_the_others_go_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = jobs.fine_tune
    fail_at_5e_3(monkeypatch)
    grid = ["--dataset", "nq", "msmarco", "--lr", "5e-3", "1e-3", "--seed", "0"]
    assert run([*arguments, *grid]) == FAILED
    assert "2 of 4 runs done, 2 failed, 0 left" in capsys.readouterr().out
    assert record(tmp_path, "tiny/IR/nq/msmarco_pairs_lr5e-03_sd0")["reason"] == "the loss is nan at step 2"
    out = ["--out", str(tmp_path), *grid]
    assert status(out) == 3
    shown = capsys.readouterr().out
    assert "1/2!1" in shown
    assert "failed: tiny nq msmarco_pairs_lr5e-03_sd0: the loss is nan at step 2" in shown
    monkeypatch.setattr(jobs, "fine_tune", real)
    assert run([*arguments, *grid]) == FAILED
    assert run([*arguments, *grid, "--retry-failed"]) == COMPLETE
    assert status(out) == 0


def test_outputs_that_are_no_numbers_fail_the_run(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jobs.fine_tune

    def poison(model: Any, *args: Any, **options: Any) -> Any:
        found = real(model, *args, **options)
        model.head.out.bias.data.fill_(float("nan"))
        return found

    monkeypatch.setattr(jobs, "fine_tune", poison)
    assert run([*arguments, "--dataset", "sst2", "--lr", "1e-3", "--seed", "0"]) == FAILED
    assert "not finite" in record(tmp_path, "tiny/SC/sst2/lr1e-03_sd0")["reason"]


def test_a_retrieval_fine_tuning_survives_a_crash_between_its_datasets(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = [*arguments, "--dataset", "IR", "--lr", "1e-3", "--seed", "0"]
    whole = list(grid)
    whole[whole.index("--out") + 1] = str(tmp_path / "whole")
    run(whole)
    real, calls = RetrievalEvaluator.evaluate, []

    def crash(self: RetrievalEvaluator, *args: Any) -> dict[str, Evaluation]:
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(RetrievalEvaluator, "evaluate", crash)
    with pytest.raises(KeyboardInterrupt):
        run(grid)
    assert len(results(tmp_path)) == 1
    kept = list((tmp_path / "tuned").rglob("*.safetensors"))
    assert len(kept) == 1
    monkeypatch.setattr(jobs, "fine_tune", lambda *a, **k: pytest.fail("fine-tuned again"))
    assert run(grid) == COMPLETE
    assert not kept[0].exists()
    assert results(tmp_path) == results(tmp_path / "whole")


def test_a_failed_evaluation_leaves_the_other_datasets_runs_alone(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = RetrievalEvaluator.evaluate, []

    def fail(self: RetrievalEvaluator, *args: Any) -> dict[str, Evaluation]:
        calls.append(self)
        if len(calls) == 2:
            raise FineTuningError("out of memory in evaluation with one row")
        return real(self, *args)

    monkeypatch.setattr(RetrievalEvaluator, "evaluate", fail)
    grid = [*arguments, "--dataset", "nq", "mldr_en", "--lr", "1e-3", "--seed", "0"]
    assert run(grid) == FAILED
    statuses = {path.parts[-3]: json.loads(path.read_text())["status"] for path in tmp_path.rglob("run.json")}
    assert statuses == {"nq": "complete", "mldr_en": "failed"}
    assert not list((tmp_path / "tuned").rglob("*.safetensors"))


def test_runs_of_other_settings_are_not_mixed_into_a_cell(arguments: list[str]) -> None:
    one = [*arguments, "--dataset", "uner_en", "--lr", "1e-3"]
    run([*one, "--seed", "0"])
    for more in (["--precision", "bf16"], ["--pooling", "last"], ["--max-length", "64"], ["--steps", "4"]):
        with pytest.raises(UserError, match="runs of one cell must not differ"):
            run([*one, "--seed", "1", *more])


def test_a_label_set_that_is_not_the_heads_is_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setitem(DATASETS, "uner_en", replace(DATASETS["uner_en"], labels=5))
    with pytest.raises(UserError, match=r"has 7 labels .* head has 5 classes"):
        run([*arguments, "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0"])


def test_the_default_grid_is_the_papers(data: Path) -> None:
    request = Request(
        model="m", name="m", datasets=tuple(DATASETS), lrs=LEARNING_RATES, seeds=SEEDS, data=data,
        store=Path("s"), fine_tuning=FINE_TUNING,
    )  # fmt: skip
    found = jobs.jobs_of(request)
    assert sum(len(job.keys) for job in found) == 360
    assert len(found) == 10
    assert RunKey(model="m", dataset="nq", lr=1e-5, seed=4) in found[-1].keys
