"""The whole sweep: all datasets, claims, several processes and devices, the same bytes after any interruption."""

import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import filelock._identity
import filelock._marker
import filelock._soft
import pytest
import torch

from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.finetuning import device
from benchmarks.metrics.floor import floor_of
from benchmarks.own_datasets.definition_file import read_definitions
from benchmarks.own_datasets.definitions import known_datasets, stored_definitions
from benchmarks.protocol import DATASETS
from benchmarks.runs import RunKey
from benchmarks.sweep import queue
from benchmarks.sweep.queue import Stop, run_grid, side_by_side
from benchmarks.sweep.request import RunRequest
from benchmarks.sweep.run_jobs import compared_jobs, forget_failed
from benchmarks.sweep.run_store import RunStore
from benchmarks.sweep.status import BUSY, COMPLETE, FAILED, status_code
from clm_or_mlm.__main__ import main
from common.errors import UserError
from common.files import append_line
from common.locks import holder_of, try_lease
from common.processes import cores
from common.provenance import ROOT
from tests.benchmarks.datasets.test_import_files import CASES, REAL
from tests.benchmarks.sweep.stores import (
    details,
    fail_at_5e_3,
    record,
    replaced,
    request_of,
    results,
    run,
    status,
)
from tests.benchmarks.tiny import make_tokenizer, save_model
from tests.commands import started


def locks(store: Path) -> list[Path]:
    return list((store / "locks").glob("*"))


def test_all_twelve_datasets_run_and_are_written_as_released(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--lr", "5e-4", "--seed", "0"]) == COMPLETE
    out = capsys.readouterr().out.splitlines()
    assert out == ["tiny: 12 of 12 runs done, 0 failed, 0 left"]
    found = results(tmp_path)
    assert set(found) == {
        f"tiny/{d.task}/{d.name}/{d.run_prefix}lr5e-04_sd0" for d in DATASETS.values()
    }
    for text in found.values():
        content = json.loads(text)
        assert list(content) == ["validation", "test"]
        assert text.decode() == json.dumps(content, indent=4)
        for split in content.values():
            assert split["score"] == pytest.approx(
                sum(split["scores_i"]) / len(split["scores_i"])
            )
            assert all(0 <= score <= 1 for score in split["scores_i"])
    sst2 = json.loads(found["tiny/SC/sst2/lr5e-04_sd0"])
    assert {len(sst2[split]["scores_i"]) for split in ("validation", "test")} == {24}
    assert not locks(tmp_path)
    expected = {
        "SC": "accuracy",
        "TC": "entity_f1",
        "QA": "exact_match",
        "IR": "ndcg_at_10",
    }
    for folder in found:
        recorded, more = record(tmp_path, folder), details(tmp_path, folder)
        assert 0 <= recorded["standard"]["test"][expected[recorded["task"]]] <= 1
        n_test = len(json.loads(found[folder])["test"]["scores_i"])
        assert all(
            len(values) == n_test for values in more["standard"]["test"].values()
        )
        assert recorded["steps"] == len(more["losses"]) == 3
        assert set(recorded["seconds"]) == {"tuning", "evaluation"}
        assert recorded["provenance"]["versions"]["torch"]
    assert "f1" in record(tmp_path, "tiny/SC/qqp/lr5e-04_sd0")["standard"]["test"]


def test_run_does_not_depend_on_runs_beside_it(
    arguments: list[str], tmp_path: Path
) -> None:
    """One after another, three at a time, and one alone in a store of its own: the same bytes, losses included."""
    grid = [*arguments, "--dataset", "mnli_m", "uner_en", "msmarco", "nq"]
    both = ["--lr", "1e-3", "5e-3", "--seed", "0", "1"]
    assert run([*grid, *both]) == COMPLETE
    alone = results(tmp_path)
    assert len(alone) == 16 and len(set(alone.values())) > 5
    threads = torch.get_num_threads()
    words = replaced(replaced(grid, "--workers", 3), "--out", tmp_path / "together")
    assert run([*words, *both]) == COMPLETE
    assert results(tmp_path / "together") == alone
    assert torch.get_num_threads() == threads and not locks(tmp_path / "together")
    run([*replaced(grid, "--out", tmp_path / "single"), "--lr", "5e-3", "--seed", "1"])
    single = results(tmp_path / "single")
    assert len(single) == 4 and all(
        alone[folder] == text for folder, text in single.items()
    )
    for folder in alone:
        for store in ("together", *(["single"] if folder in single else [])):
            assert details(tmp_path, folder) == details(tmp_path / store, folder)
            one, other = record(tmp_path, folder), record(tmp_path / store, folder)
            assert all(
                one[part] == other[part]
                for part in ("standard", "machine", "description")
            )
    assert one["machine"]["threads"] == 1


def test_a_fine_tuning_that_another_process_holds_is_left_to_it(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its neighbours in the cell are done all the same."""
    grid = ["--dataset", "uner_en", "--lr", "1e-3", "--seed", "0", "1"]
    held = RunStore(tmp_path).claim(
        RunKey(model="tiny", dataset="uner_en", lr=1e-3, seed=0)
    )
    with try_lease(held) as holder:
        assert holder is None
        assert run([*arguments, *grid]) == BUSY
        assert set(results(tmp_path)) == {"tiny/TC/uner_en/lr1e-03_sd1"}
        status(["--out", str(tmp_path), *grid])
        assert "1/2*" in capsys.readouterr().out
    assert run([*arguments, *grid]) == COMPLETE and not locks(tmp_path)


def test_claim_is_checked_again_for_meanwhile_finished_runs(
    arguments: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process ended between the look and the claim is not done again, nor a failure tried twice."""
    fail_at_5e_3(monkeypatch)
    grid = [*arguments, "--dataset", "sst2", "--lr", "1e-3", "5e-3", "--seed", "0"]
    request = request_of(
        arguments[1], data, tmp_path, lrs=(1e-3, 5e-3), retry_failed=True
    )
    assert run(grid) == FAILED
    before = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.json")
    }
    (job,) = compared_jobs(request)
    forget_failed([job])
    assert [len(job.pending(each)) for each in job.fine_tunings] == [0, 1]
    assert run(grid) == FAILED, "another worker of the call tries it"
    assert not job.pending(), "and it is not tried again in this call"
    assert {
        path for path, when in before.items() if path.stat().st_mtime_ns != when
    } == {tmp_path / "results/tiny/SC/sst2/lr5e-03_sd0/run.json"}


def test_run_of_other_settings_made_meanwhile_is_not_counted(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both calls began with an empty store, so that neither found anything to compare with."""
    grid = [*arguments, "--dataset", "uner_en", "--lr", "1e-3", "--seed", "0"]
    real = queue._work

    def late(*args: object) -> None:
        monkeypatch.setattr(queue, "_work", real)
        assert run([*grid, "--pooling", "last"]) == COMPLETE
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(queue, "_work", late)
    with pytest.raises(UserError, match='pooling "last", but this command has "mean"'):
        run(grid)


@pytest.mark.parametrize(
    ("kills", "workers"),
    [((5,), 1), pytest.param((1, 3, 5, 9), 2, marks=pytest.mark.slow)],
)
def test_killed_it_goes_on_to_the_same_bytes(
    kills: tuple[int, ...], workers: int, arguments: list[str], tmp_path: Path
) -> None:
    grid = [
        *arguments,
        "--dataset",
        "uner_en",
        "msmarco",
        "nq",
        "--lr",
        "1e-3",
        "2e-3",
        "--seed",
        "0",
        "1",
    ]
    run(grid)
    expected = results(tmp_path)
    assert len(expected) == 12
    store = tmp_path / "killed"
    grid = replaced(replaced(grid, "--out", store), "--workers", workers)
    for target in kills:
        process = started(run, grid)
        while process.is_alive() and len(results(store)) < target:
            time.sleep(0.005)
        process.kill()
        process.join()
        partial = results(store)
        assert {folder: expected[folder] for folder in partial} == partial
    assert run(grid) == COMPLETE
    assert results(store) == expected
    # Killed after its run was written, a process leaves a lease that nobody asks for any more.
    assert all(holder_of(path) is None for path in locks(store))


@dataclass(frozen=True)
class Pretended:
    """A job of runs without a model: each begins and ends as a line of a file."""

    request: RunRequest
    fine_tunings: tuple[tuple[RunKey, ...], ...]
    events: Path

    def pending(self, runs: Sequence[RunKey] = ()) -> tuple[RunKey, ...]:
        wanted = runs or [key for runs in self.fine_tunings for key in runs]
        text = self.events.read_text()
        return tuple(key for key in wanted if f"end {key.folder.name} " not in text)

    def note(self, event: str, word: object) -> None:
        append_line(self.events, f"{event} {word} {os.getpid()}")


def test_no_process_waits_for_a_run_of_another(
    arguments: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 processes of two hosts; the first run ends only after the calls of all others, who must not wait for it."""
    others = 19
    keys = [
        RunKey(model="tiny", dataset="sst2", lr=1e-3, seed=seed) for seed in range(40)
    ]
    events = tmp_path / "events"
    events.touch()
    request = request_of(arguments[1], data, tmp_path)
    job = Pretended(request, tuple((key,) for key in keys), events)
    reader, writer = os.pipe()

    def compute(todo: Sequence[RunKey], _watch: object) -> str:
        job.note("begin", todo[0].folder.name)
        if todo[0] == keys[0]:
            for _ in range(others):
                ready, _, _ = select.select([reader], [], [], 120)
                assert ready, "a call waits for the first run"
                os.read(reader, 1)
        job.note("end", todo[0].folder.name)
        return "pretended"

    prepared = SimpleNamespace(runs=frozenset(keys), steps=0, run=compute)
    monkeypatch.setattr(queue, "prepare_runs", lambda job, model: prepared)
    monkeypatch.setattr(queue, "_model", lambda request, device, loaded: None)
    monkeypatch.setattr(time, "sleep", lambda seconds: job.note("sleep", seconds))

    def call(number: int, stop: Stop) -> None:
        name = ("here", "elsewhere")[number % 2]
        for module in (filelock._identity, filelock._marker, filelock._soft):
            monkeypatch.setattr(module, "host_name", lambda: name)
        queue._work([job], ["cpu"], 0, None, stop)  # type: ignore[list-item]
        os.write(writer, b".")

    calls = [functools.partial(call, number) for number in range(others + 1)]
    side_by_side(calls, fresh=False)
    lines = [line.split() for line in events.read_text().splitlines()]
    for event in ("begin", "end"):
        runs = [name for what, name, _ in lines if what == event]
        assert sorted(runs) == sorted(key.folder.name for key in keys)
    assert lines[-1][:2] == ["end", keys[0].folder.name]
    # Each call looks once more after a second, and sleeps for nothing else.
    sleeps = [(seconds, process) for what, seconds, process in lines if what == "sleep"]
    assert len(set(sleeps)) == len(sleeps) and {word for word, _ in sleeps} == {"1"}


@pytest.mark.slow
def test_several_processes_share_every_cell_and_do_no_run_twice(
    arguments: list[str], tmp_path: Path
) -> None:
    """Three calls at once, one of which is killed: each run is written once, but for the one the kill cost."""
    grid = [
        *arguments,
        "--dataset",
        "uner_en",
        "sst2",
        "--lr",
        "1e-3",
        "2e-3",
        "3e-3",
        "--seed",
        "0",
        "1",
    ]
    words = [sys.executable, "-m", "clm_or_mlm", "benchmarks", "run", *grid]
    calls = [
        subprocess.Popen(
            words,
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(3)
    ]
    while len(results(tmp_path)) < 2 and all(call.poll() is None for call in calls):
        time.sleep(0.005)
    os.kill(calls[0].pid, signal.SIGKILL)
    logs = [call.communicate()[1] for call in calls]
    assert run(grid) == COMPLETE and len(results(tmp_path)) == 12
    written = [
        line.split(" validation")[0]
        for log in logs
        for line in log.splitlines()
        if "test " in line
    ]
    assert 0 < len(written) == len(set(written)) <= 12


def test_workers_with_a_device_each_make_the_same_bytes(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fresh processes that share a store, as on two GPUs; here on a CPU. They know the datasets of one's own."""
    file, data = tmp_path / "my.toml", tmp_path / "data"
    file.write_text('[mine]\nkind = "text"\nlabels = ["a", "b"]\n')
    known = known_datasets(read_definitions(file))
    for name in ("sst2", "mine"):
        make_synthetic(data, known[name], train=96, evaluation=24)
    alone = request_of(
        arguments[1], data, tmp_path, datasets=("sst2", "mine"), known=known
    )
    assert status_code(run_grid(alone)) == COMPLETE
    (mine,) = stored_definitions(tmp_path)
    assert mine.floor == round(floor_of(load_dataset(data, mine)), 2)
    # Two CPUs that do not compute side by side, as GPUs.
    monkeypatch.setattr(device, "CPU", replace(device.CPU, gpu=True))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    request = replace(alone, store=tmp_path / "several", workers=3)
    assert queue._devices(replace(request, device="cpu"), 0) == [
        "cpu:0",
        "cpu:1",
        "cpu:0",
    ]
    with pytest.raises(UserError, match="leave out --device cpu:1"):
        queue._devices(replace(request, device="cpu:1"), 0)
    monkeypatch.setattr(queue, "_devices", lambda request, needed: ["cpu:0", "cpu"])
    assert status_code(run_grid(request)) == COMPLETE
    assert (
        results(tmp_path / "several") == results(tmp_path)
        and len(results(tmp_path)) == 2
    )


def test_workers_follow_cores_and_memory(
    arguments: list[str], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(arguments[1], data, tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert queue._devices(request, 1) == ["auto"] * 6
    assert queue._devices(request, 2**60) == ["auto"]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert len(queue._devices(replace(request, workers=cores()), 2**60)) == cores()


def fail(error: Exception, stop: Stop) -> None:
    raise error


@pytest.mark.parametrize(
    "error", [UserError("no such thing"), OSError(28, "No space left on device")]
)
def test_mistake_is_told_after_running_others_have_ended(
    error: Exception, tmp_path: Path
) -> None:
    def slow(stop: Stop) -> None:
        while not stop():
            time.sleep(0.01)
        (tmp_path / "written").touch()

    with pytest.raises(type(error), match=str(error.args[-1])):
        side_by_side([slow, functools.partial(fail, error)], fresh=False)
    assert (tmp_path / "written").exists()


def test_mistake_stops_the_others_however_late_it_is_seen() -> None:
    def wait_for_it(stop: Stop) -> None:
        while not stop():
            time.sleep(0.001)

    # A process whose end is seen before its exit code is comes up once in some dozens
    for _ in range(40):
        with pytest.raises(UserError, match="no such thing"):
            side_by_side(
                [wait_for_it, functools.partial(fail, UserError("no such thing"))],
                fresh=False,
            )


def test_a_programming_error_is_told_with_its_name(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError in a worker"):
        side_by_side(
            [functools.partial(fail, ZeroDivisionError()), lambda stop: None],
            fresh=False,
        )
    assert "Traceback" in capfd.readouterr().err


def test_a_killed_process_is_told_in_a_sentence() -> None:
    with pytest.raises(
        UserError, match="killed by SIGKILL, as happens when memory runs out"
    ):
        side_by_side([lambda stop: os.kill(os.getpid(), signal.SIGKILL)], fresh=False)


def test_processes_end_with_a_call_that_is_interrupted(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # Commands answer it with an exit code
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupt(stop: Stop) -> None:
        (tmp_path / str(os.getpid())).touch()
        time.sleep(0.5)  # so that the parent waits
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        side_by_side([interrupt], fresh=False)
    (process,) = tmp_path.iterdir()
    assert not Path("/proc", process.name).exists()


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(
    not REAL.is_dir(),
    reason="REAL_DATA names no folder with original distribution files",
)
def test_sst2_is_learnt_from_random_weights(tmp_path: Path) -> None:
    """872 sentences, 444 of them positive: chance is 0.509 +- 0.034 (95 %)."""
    words = ["sst2", "--out", str(tmp_path / "data")]
    for role, paths in CASES["sst2"][0].items():
        words += [f"--{role}", *(str(REAL / path) for path in paths)]
    main(["import", *words])
    tokenizer = make_tokenizer(
        load_dataset(tmp_path / "data", "sst2").train["first"].to_pylist()[:20_000],
        size=4_000,
    )
    model = save_model(tmp_path / "tiny", tokenizer, hidden=64)
    words = [
        "--model",
        str(model),
        "--data",
        str(tmp_path / "data"),
        "--out",
        str(tmp_path),
    ]
    words += [
        "--dataset",
        "sst2",
        "--lr",
        "2e-3",
        "--seed",
        "0",
        "--steps",
        "250",
        "--device",
        "cpu",
    ]
    assert run(words) == COMPLETE
    content = json.loads(
        (tmp_path / "results/tiny/SC/sst2/lr2e-03_sd0/results.json").read_text()
    )
    assert [len(content[split]["scores_i"]) for split in ("validation", "test")] == [
        3_368,
        872,
    ]
    assert min(content[split]["score"] for split in ("validation", "test")) > 0.65
