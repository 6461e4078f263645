"""The words of a command line become what is to be measured; single runs in a store."""

from pathlib import Path

import pytest

from benchmarks.protocol import DATASETS
from benchmarks.runs import RUN, RunKey, store_of
from benchmarks.sweep.request import dataset_names
from benchmarks.sweep.run_store import RunState, RunStore
from common.errors import UserError
from tests.benchmarks.sweep.stores import run
from tests.results import write_results
from tests.sealed import seal


def test_names_datasets_and_stores() -> None:
    assert dataset_names(None) == tuple(DATASETS)
    assert dataset_names(["QA", "squad", "sst2"]) == (
        "squad",
        "squad_v2",
        "record",
        "sst2",
    )


def test_a_store_is_its_folder_or_the_results_in_it(tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert store_of(tmp_path) == tmp_path
    assert store_of(results) == results  # absent, so a new store
    (results / "notes").mkdir(parents=True)
    assert store_of(results) == results
    (results / "model/SC").mkdir(parents=True)
    assert store_of(results) == tmp_path
    (results / "results/model/SC").mkdir(parents=True)
    assert store_of(results) == tmp_path


def test_store_without_runs_is_found_by_its_results(tmp_path: Path) -> None:
    results = tmp_path / "results"
    RunStore(tmp_path).note("tiny", "sst2", {(1e-3, 0)})
    assert store_of(results) == tmp_path  # planned, and no run is there yet
    RunStore(results).note("tiny", "sst2", {(1e-3, 0)})
    assert store_of(results) == results


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--dataset", "sts2"], "did you mean 'sst2'"),
        (["--lr", "3"], "not a learning rate"),
        (["--seed", "-1"], "is not a seed"),
        (["--steps", "-1"], "--steps"),
        (["--name", "a/b"], "cannot be a model's name"),
        (
            ["--data", "nowhere"],
            "is not in nowhere; run `clm-or-mlm fetch sst2 --out nowhere`.*or `clm-or-mlm import",
        ),
        (["--device", "cuda:9"], "no device cuda:9"),
        (["--pooling", "meen"], "did you mean 'mean'"),
    ],
)
def test_wrong_input_is_told_in_one_sentence(
    arguments: list[str], more: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        run([*arguments, "--dataset", "sst2", "--lr", "1e-3", "--seed", "0", *more])
    assert "\n" not in str(caught.value)


KEY = RunKey(model="m", dataset="sst2", lr=1e-4, seed=0)


def test_a_run_is_missing_failed_or_done(tmp_path: Path) -> None:
    assert (
        RunStore(tmp_path).state(KEY).reason is None
        and not RunStore(tmp_path).state(KEY).done
    )
    folder = RunStore(tmp_path).folder(KEY)
    folder.mkdir(parents=True)
    for damaged in ("", "[1]", "not json", '{"status": "failed"}'):
        (folder / RUN).write_text(damaged)
        assert RunStore(tmp_path).state(KEY) == RunState()
    seal(folder, {"status": "failed", "reason": "the loss is nan"}, {})
    assert RunStore(tmp_path).state(KEY).reason == "the loss is nan"
    (folder / RUN).unlink()
    write_results(tmp_path, KEY, {"validation": [1, 0], "test": [1, 1]})
    assert RunStore(tmp_path).state(KEY).scores == (0.5, 1.0)
