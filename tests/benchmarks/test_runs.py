"""The run store's names and files."""

import json
from pathlib import Path

import pytest

from benchmarks.protocol import DATASETS, LEARNING_RATES, SEEDS
from benchmarks.runs import (
    DETAILS,
    RunKey,
    cell_keys,
    found_keys,
    key_of,
    read_run,
    results_text,
)
from benchmarks.sweep.run_store import RunStore
from common.errors import UserError
from tests.results import write_results


@pytest.mark.parametrize("dataset", DATASETS)
def test_run_folders_parse_back(dataset: str) -> None:
    for key in cell_keys("610m-clm-42k", dataset):
        assert key_of(key.folder.name, key.model, DATASETS[dataset]) == key
        assert key.folder.parts[:3] == ("610m-clm-42k", DATASETS[dataset].task, dataset)
    assert len(cell_keys("610m-clm-42k", dataset)) == len(LEARNING_RATES) * len(SEEDS)


@pytest.mark.parametrize(
    "name", ["lr1e-04", "sd0", "lr1e-04_sd", "lr_sd0", "notes", "lr1e-04_sd0.tmp"]
)
def test_other_folders_are_no_runs(name: str) -> None:
    assert key_of(name, "610m-clm-42k", DATASETS["sst2"]) is None


def test_results_have_the_release_s_bytes(tmp_path: Path) -> None:
    key = RunKey(model="610m-clm-42k", dataset="nq", lr=1e-4, seed=3)
    scores = {"validation": [1, 0, 1, 1], "test": [0.5, 0.25]}
    path = write_results(tmp_path, key, scores)
    assert path.relative_to(tmp_path).as_posix() == (
        "results/610m-clm-42k/IR/nq/msmarco_pairs_lr1e-04_sd3/results.json"
    )
    assert path.read_text(encoding="utf-8") == results_text(scores)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content == {
        "validation": {"score": 0.75, "scores_i": [1, 0, 1, 1]},
        "test": {"score": 0.375, "scores_i": [0.5, 0.25]},
    }
    assert (
        '\n    "validation": {\n        "score": 0.75,\n        "scores_i": [\n            1,'
        in results_text(scores)
    )


def test_runs_of_any_rate_are_found(tmp_path: Path) -> None:
    key = RunKey(model="m", dataset="nq", lr=3e-3, seed=7)
    (tmp_path / "results" / key.folder).mkdir(parents=True)
    (
        tmp_path / "results" / key.folder.parent / "lr1e-03_sd0"
    ).mkdir()  # no run of retrieval
    assert found_keys(tmp_path, "m", "nq") == [key]
    assert found_keys(tmp_path, "m", "sst2") == []


def test_a_manifest_that_is_gone_is_missed(tmp_path: Path) -> None:
    """The release has none; a run of this package, which left its details, had one."""
    key = RunKey(model="m", dataset="sst2", lr=1e-4, seed=0)
    path = write_results(tmp_path, key, {"validation": [1], "test": [0]})
    assert read_run(path.parent) == {} and RunStore(tmp_path).state(key).done
    (path.parent / DETAILS).write_text("{}")
    with pytest.raises(UserError, match=r"lacks the run\.json"):
        read_run(path.parent)
    state = RunStore(tmp_path).state(key)
    assert not state.done and state.fault
    path.unlink()
    assert read_run(path.parent) == {}, "it is being written"
