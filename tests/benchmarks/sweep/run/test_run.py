"""The whole sweep: all datasets, the same bytes after any interruption, several devices."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.own_datasets.definitions import DEFINITIONS, register, store_definitions
from benchmarks.protocol import DATASETS, FINE_TUNING
from benchmarks.sweep.queue import COMPLETE, run_on
from benchmarks.sweep.request import Request
from common.errors import UserError
from common.provenance import ROOT
from tests.benchmarks.sweep.stores import details, record, results, run


def test_all_twelve_datasets_run_and_are_written_as_the_release_has_them(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--lr", "5e-4", "--seed", "0"]) == COMPLETE
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
        more = details(tmp_path, folder)
        assert all(len(values) == n_test for values in more["standard"]["test"].values())
        assert recorded["steps"] == len(more["losses"]) == 3
        assert set(recorded["seconds"]) == {"tuning", "evaluation"}
        assert recorded["provenance"]["versions"]["torch"]
    assert "f1" in record(tmp_path, "tiny/SC/qqp/lr5e-04_sd0")["standard"]["test"]


def test_a_run_does_not_depend_on_the_runs_beside_it(arguments: list[str], tmp_path: Path) -> None:
    """Alone in a store of its own it has the same bytes, to the last bit of the losses."""
    grid = [*arguments, "--dataset", "mnli_m", "uner_en", "squad_v2", "msmarco", "mldr_en"]
    run([*grid, "--lr", "1e-3", "5e-3", "--seed", "0", "1"])
    alone = [*grid, "--lr", "5e-3", "--seed", "1"]
    alone[alone.index("--out") + 1] = str(tmp_path / "alone")
    run(alone)
    together, single = results(tmp_path), results(tmp_path / "alone")
    assert len(together) == 20 and len(single) == 5
    for folder, text in single.items():
        assert together[folder] == text
        assert details(tmp_path, folder) == details(tmp_path / "alone", folder)
    assert len(set(together.values())) > 5


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
    run(grid)
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
    assert end.returncode == COMPLETE, end.stderr
    assert results(store) == expected


@pytest.mark.slow
def test_workers_with_a_device_each_make_the_same_bytes(
    arguments: list[str], data: Path, tmp_path: Path
) -> None:
    """Two processes that share a store, as with two GPUs; here each on a CPU."""
    grid = ["--dataset", "sst2", "uner_en", "--lr", "1e-3", "--seed", "0"]
    assert run([*arguments, *grid]) == COMPLETE
    request = Request(
        model=arguments[1],
        name="tiny",
        datasets=("sst2", "uner_en"),
        lrs=(1e-3,),
        seeds=(0,),
        data=data,
        store=tmp_path / "several",
        fine_tuning=replace(FINE_TUNING, steps=3),
    )
    run_on(["cpu", "cpu:0"], request)
    assert results(tmp_path / "several") == results(tmp_path)
    with pytest.raises(UserError, match="unknown pooling 'meen'; did you mean 'mean'"):
        run_on(["cpu", "cpu"], replace(request, pooling="meen", store=tmp_path / "none"))


@pytest.mark.slow
def test_workers_know_the_datasets_of_ones_own(arguments: list[str], tmp_path: Path) -> None:
    """A fresh process knows the paper's alone, until it reads what the store says."""
    file = tmp_path / "my.toml"
    file.write_text('[mine]\nkind = "text"\nlabels = ["a", "b"]\n')
    store = tmp_path / "several"
    try:
        register(file)
        make_synthetic(tmp_path / "data", "mine", train=96, evaluation=24)
        store_definitions(store, [DATASETS["mine"]])
        request = Request(
            model=arguments[1],
            name="tiny",
            datasets=("mine",),
            lrs=(1e-3,),
            seeds=(0,),
            data=tmp_path / "data",
            store=store,
            fine_tuning=replace(FINE_TUNING, steps=3),
        )
        run_on(["cpu", "cpu:0"], request)
        assert list(results(store)) == ["tiny/SC/mine/lr1e-03_sd0"]
    finally:
        DEFINITIONS.pop("mine")
        DATASETS.pop("mine")
