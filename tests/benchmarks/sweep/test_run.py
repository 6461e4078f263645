from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.sweep.options import dataset_names, store_of

from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from benchmarks.runs import RunKey, write_results
from benchmarks.sweep import jobs, run, status, validate
from benchmarks.sweep.run_state import is_locked, lock_path, score_so_far, try_lock
from benchmarks.tasks.retrieval import RetrievalEvaluator
from benchmarks.tasks.supervised import Evaluation
from common.errors import UserError
from common.provenance import ROOT

FAST = ["--steps", "3", "--device", "cpu", "--workers", "1"]


@pytest.fixture
def arguments(data: Path, model_folder: Callable[..., Path], tmp_path: Path) -> list[str]:
    folder = str(model_folder("ours"))
    return [
        "--model",
        folder,
        "--name",
        "tiny",
        "--data",
        str(data),
        "--out",
        str(tmp_path / "results"),
        *FAST,
    ]


def results(store: Path) -> dict[str, bytes]:
    root = store / "results"
    return {
        str(path.parent.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("results.json"))
    }


def record(store: Path, folder: str) -> dict[str, Any]:
    return json.loads((store / "results" / folder / "run.json").read_text())  # type: ignore[no-any-return]


def test_all_twelve_datasets_run_and_are_written_as_the_release_has_them(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*arguments, "--lr", "5e-4", "--seed", "0"]) == run.COMPLETE
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "tiny: 12 of 12 runs done, 0 failed, 0 left"
    assert [line.split()[0] for line in out[:-1]] == list(DATASETS)
    found = results(tmp_path)
    assert set(found) == {f"tiny/{d.task}/{d.name}/{d.run_prefix}lr5e-04_sd0" for d in DATASETS.values()}
    for text in found.values():
        content = json.loads(text)
        assert list(content) == ["validation", "test"]
        assert text.decode() == json.dumps(content, indent=4)
        for split in content.values():
            assert split["score"] == pytest.approx(sum(split["scores_i"]) / len(split["scores_i"]))
            assert all(0 <= score <= 1 for score in split["scores_i"])
    assert {
        len(json.loads(found["tiny/SC/sst2/lr5e-04_sd0"])[s]["scores_i"]) for s in ("validation", "test")
    } == {24}
    assert not list((tmp_path / "tuned").rglob("*.safetensors"))
    expected = {"SC": "accuracy", "TC": "entity_f1", "QA": "exact_match", "IR": "ndcg_at_10"}
    for folder in found:
        recorded = record(tmp_path, folder)
        standard = recorded["standard"]["test"]
        assert 0 <= standard[expected[recorded["task"]]] <= 1
        n_test = len(json.loads(found[folder])["test"]["scores_i"])
        assert all(len(values) == n_test for values in standard["instances"].values())
        assert recorded["steps"] == len(recorded["losses"]) == 3
        assert set(recorded["seconds"]) == {"tuning", "evaluation"}
        assert recorded["provenance"]["versions"]["torch"]
    assert "f1" in record(tmp_path, "tiny/SC/qqp/lr5e-04_sd0")["standard"]["test"]


def test_a_run_does_not_depend_on_the_runs_beside_it(arguments: list[str], tmp_path: Path) -> None:
    """Alone in a store of its own it has the same bytes, to the last bit of the losses."""
    grid = [*arguments, "--dataset", "mnli_m", "uner_en", "squad_v2", "msmarco", "mldr_en"]
    run.main([*grid, "--lr", "1e-3", "5e-3", "--seed", "0", "1"])
    alone = [*grid, "--lr", "5e-3", "--seed", "1"]
    alone[alone.index("--out") + 1] = str(tmp_path / "alone")
    run.main(alone)
    together, single = results(tmp_path), results(tmp_path / "alone")
    assert len(together) == 20 and len(single) == 5
    for folder, text in single.items():
        assert together[folder] == text
        one, other = record(tmp_path, folder), record(tmp_path / "alone", folder)
        assert one["losses"] == other["losses"] and one["standard"] == other["standard"]
    assert len(set(together.values())) > 5


def test_what_is_done_is_never_done_again(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = [*arguments, "--dataset", "uner_en", "--lr", "1e-3"]
    run.main([*one, "--seed", "0"])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    seen = []
    real = jobs.fine_tune
    monkeypatch.setattr(jobs, "fine_tune", lambda *a, **k: seen.append(k["seed"]) or real(*a, **k))
    assert run.main([*one, "--seed", "0", "1"]) == run.COMPLETE
    assert seen == [1]
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def fail_at_5e_3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fine-tunings at this learning rate end with a loss that is no number."""
    real = jobs.fine_tune

    def fail(*args: Any, **options: Any) -> Any:
        if options["lr"] == 5e-3:
            raise FineTuningError("the loss is nan at step 2")
        return real(*args, **options)

    monkeypatch.setattr(jobs, "fine_tune", fail)


def test_a_failed_run_is_recorded_and_the_others_go_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = jobs.fine_tune
    fail_at_5e_3(monkeypatch)
    grid = ["--dataset", "nq", "msmarco", "--lr", "5e-3", "1e-3", "--seed", "0"]
    assert run.main([*arguments, *grid]) == run.FAILED
    assert "2 of 4 runs done, 2 failed, 0 left" in capsys.readouterr().out
    assert record(tmp_path, "tiny/IR/nq/msmarco_pairs_lr5e-03_sd0")["reason"] == "the loss is nan at step 2"
    out = ["--out", str(tmp_path), *grid]
    assert status.main(out) == 3
    shown = capsys.readouterr().out
    assert "1/2!1" in shown
    assert "failed: tiny nq msmarco_pairs_lr5e-03_sd0: the loss is nan at step 2" in shown
    monkeypatch.setattr(jobs, "fine_tune", real)
    assert run.main([*arguments, *grid]) == run.FAILED
    assert run.main([*arguments, *grid, "--retry-failed"]) == run.COMPLETE
    assert status.main(out) == 0


def test_outputs_that_are_no_numbers_fail_the_run(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jobs.fine_tune

    def poison(model: Any, *args: Any, **options: Any) -> Any:
        found = real(model, *args, **options)
        model.head.out.bias.data.fill_(float("nan"))
        return found

    monkeypatch.setattr(jobs, "fine_tune", poison)
    assert run.main([*arguments, "--dataset", "sst2", "--lr", "1e-3", "--seed", "0"]) == run.FAILED
    assert "not finite" in record(tmp_path, "tiny/SC/sst2/lr1e-03_sd0")["reason"]


def test_a_retrieval_fine_tuning_survives_a_crash_between_its_datasets(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = [*arguments, "--dataset", "IR", "--lr", "1e-3", "--seed", "0"]
    whole = list(grid)
    whole[whole.index("--out") + 1] = str(tmp_path / "whole")
    run.main(whole)
    real, calls = RetrievalEvaluator.evaluate, []

    def crash(self: RetrievalEvaluator, *args: Any) -> dict[str, Evaluation]:
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(RetrievalEvaluator, "evaluate", crash)
    with pytest.raises(KeyboardInterrupt):
        run.main(grid)
    assert len(results(tmp_path)) == 1
    kept = list((tmp_path / "tuned").rglob("*.safetensors"))
    assert len(kept) == 1
    monkeypatch.setattr(jobs, "fine_tune", lambda *a, **k: pytest.fail("fine-tuned again"))
    assert run.main(grid) == run.COMPLETE
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
    assert run.main(grid) == run.FAILED
    statuses = {path.parts[-3]: json.loads(path.read_text())["status"] for path in tmp_path.rglob("run.json")}
    assert statuses == {"nq": "complete", "mldr_en": "failed"}
    assert not list((tmp_path / "tuned").rglob("*.safetensors"))


def test_runs_of_other_settings_are_not_mixed_into_a_cell(arguments: list[str]) -> None:
    one = [*arguments, "--dataset", "uner_en", "--lr", "1e-3"]
    run.main([*one, "--seed", "0"])
    for more in (["--precision", "bf16"], ["--pooling", "last"], ["--max-length", "64"], ["--steps", "4"]):
        with pytest.raises(UserError, match="runs of one cell must not differ"):
            run.main([*one, "--seed", "1", *more])


def test_two_processes_at_one_cell_one_does_it(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--dataset", "uner_en", "sst2", "--lr", "1e-3", "--seed", "0"]
    with try_lock(lock_path(tmp_path, "tiny", "uner_en")) as mine:
        assert mine
        assert run.main([*arguments, *grid]) == run.BUSY
        assert set(results(tmp_path)) == {"tiny/SC/sst2/lr1e-03_sd0"}
        status.main(["--out", str(tmp_path), *grid])
        assert "0/1*" in capsys.readouterr().out
    assert run.main([*arguments, *grid]) == run.COMPLETE


def _command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "benchmarks", "run", *arguments]


@pytest.mark.parametrize(
    ("kills", "workers"),
    [((5,), "2"), pytest.param((1, 3, 5, 9), "1", marks=pytest.mark.slow)],
)
def test_killed_it_goes_on_to_the_same_bytes(
    kills: tuple[int, ...], workers: str, arguments: list[str], tmp_path: Path
) -> None:
    grid = [*arguments, "--dataset", "uner_en", "msmarco", "nq", "--lr", "1e-3", "2e-3", "--seed", "0", "1"]
    run.main(grid)
    expected = results(tmp_path)
    assert len(expected) == 12
    store = tmp_path / "killed"
    grid[grid.index("--out") + 1] = str(store)
    grid[grid.index("--workers") + 1] = workers
    for target in kills:
        process = subprocess.Popen(
            _command(grid), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and len(results(store)) < target:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        partial = results(store)
        assert {folder: expected[folder] for folder in partial} == partial
    end = subprocess.run(_command(grid), cwd=ROOT, capture_output=True, text=True)
    assert end.returncode == run.COMPLETE, end.stderr
    assert results(store) == expected


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
    assert run.main(grid) == run.COMPLETE
    alone = results(tmp_path)
    assert len(alone) == 16
    side_by_side = list(grid)
    side_by_side[grid.index("--workers") + 1] = "3"
    side_by_side[grid.index("--out") + 1] = str(tmp_path / "together")
    threads = torch.get_num_threads()
    with caplog.at_level("INFO"):
        assert run.main(side_by_side) == run.COMPLETE
    assert "tiny on mnli_m: 4 fine-tunings of 3 steps, 3 side by side" in caplog.messages
    assert results(tmp_path / "together") == alone
    for folder in alone:
        one, other = record(tmp_path, folder), record(tmp_path / "together", folder)
        assert one["losses"] == other["losses"] and one["standard"] == other["standard"]
        assert one["machine"] == other["machine"] and other["machine"]["threads"] == 1
    assert torch.get_num_threads() == threads
    for job in ("mnli_m", "uner_en", "msmarco"):
        assert not is_locked(lock_path(tmp_path / "together", "tiny", job))


def test_a_failed_run_side_by_side_is_recorded_and_the_others_go_on(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_5e_3(monkeypatch)
    grid = ["--dataset", "sst2", "--lr", "5e-3", "1e-3", "--seed", "0", "1", "--workers", "2"]
    assert run.main([*arguments, *grid]) == run.FAILED
    assert record(tmp_path, "tiny/SC/sst2/lr5e-03_sd1")["reason"] == "the loss is nan at step 2"
    assert set(results(tmp_path)) == {f"tiny/SC/sst2/lr1e-03_sd{seed}" for seed in (0, 1)}


def test_status_counts_and_foretells(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.main([*arguments, "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0"])
    capsys.readouterr()
    assert status.main(["--out", str(tmp_path), "--dataset", "uner_en", "--json"]) == 4
    cell = json.loads(capsys.readouterr().out)[0]
    assert (cell["runs"], cell["done"], cell["missing"]) == (30, 0, 30)  # 1e-3 is not of the paper's rates
    assert cell["seconds_left"] is None
    options = ["--out", str(tmp_path), "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0", "1", "2"]
    assert status.main([*options, "--json"]) == 4
    cell = json.loads(capsys.readouterr().out)[0]
    assert (cell["done"], cell["missing"]) == (1, 2) and cell["seconds_left"] > 0
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        status.main(["--out", str(tmp_path), "--model", "tini"])
    with pytest.raises(UserError, match="holds no runs"):
        status.main(["--out", str(tmp_path / "nowhere")])


def test_validate_checks_and_estimates_without_writing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate.main([*arguments, "--tflops", "1"]) == 0
    shown = capsys.readouterr().out
    assert "everything a run needs is there" in shown and "memory:" in shown
    assert all(name in shown for name in DATASETS)
    assert not (tmp_path / "results").exists()


def test_the_score_so_far_is_the_papers_cell(tmp_path: Path) -> None:
    """The released runs of 610m-mlm40-42k on SST-2 give the published 91.42 +- 0.62."""
    keys = []
    for row in csv.DictReader(
        (ROOT / "tests/data/released_sst2_610m-mlm40-42k.csv").read_text().splitlines()
    ):
        key = RunKey(model=row["model"], dataset="sst2", lr=float(row["lr"]), seed=int(row["seed"]))
        write_results(
            tmp_path, key, {"validation": [float(row["val_score"])], "test": [float(row["test_score"])]}
        )
        keys.append(key)
    found = score_so_far(tmp_path, keys)
    assert found is not None
    mean, half, seeds = found
    assert (round(100 * mean, 2), round(100 * half, 2), seeds) == (91.42, 0.62, 5)
    assert score_so_far(tmp_path / "empty", keys) is None


def test_names_datasets_and_stores() -> None:
    assert dataset_names(None) == tuple(DATASETS)
    assert dataset_names(["QA", "squad", "sst2"]) == ("squad", "squad_v2", "record", "sst2")
    assert store_of(Path("somewhere/results")) == Path("somewhere")
    assert store_of(Path("store")) == Path("store")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--dataset", "sts2"], "did you mean 'sst2'"),
        (["--lr", "3"], "no learning rate"),
        (["--seed", "-1"], "out of range"),
        (["--steps", "0"], "at least 1"),
        (["--name", "a/b"], "cannot be a model's name"),
        (["--data", "nowhere"], "is not in nowhere"),
        (["--device", "cuda:9"], "no device cuda:9"),
        (["--pooling", "meen"], "did you mean 'mean'"),
    ],
)
def test_wrong_input_is_told_in_one_sentence(arguments: list[str], more: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        run.main([*arguments, "--dataset", "sst2", "--lr", "1e-3", "--seed", "0", *more])
    assert "\n" not in str(caught.value)


def test_a_label_set_that_is_not_the_heads_is_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setitem(DATASETS, "uner_en", replace(DATASETS["uner_en"], labels=5))
    with pytest.raises(UserError, match=r"has 7 labels .* head has 5 classes"):
        run.main([*arguments, "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0"])


def test_the_default_grid_is_the_papers(data: Path) -> None:
    found = jobs.jobs_of(
        tuple(DATASETS), model="m", lrs=LEARNING_RATES, seeds=SEEDS, data=data, store=Path("s"),
        fine_tuning=None,
    )  # fmt: skip
    assert sum(len(job.keys) for job in found) == 360
    assert len(found) == 10
    assert RunKey(model="m", dataset="nq", lr=1e-5, seed=4) in found[-1].keys
