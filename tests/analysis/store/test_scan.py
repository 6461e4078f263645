"""What a scan of a run store finds without opening a file."""

from pathlib import Path

import pytest

from analysis.store.ingest import ingest
from analysis.store.runs_table import model_error, read_table
from analysis.store.scan import (
    HARMLESS,
    PROBLEM_KINDS,
    Problem,
    results_folder,
    scan_store,
    summary,
)
from benchmarks.protocol import DATASETS
from common.errors import UserError
from tests.analysis.stores import MODELS, fill_own


def test_cells_come_by_name_with_their_runs_by_folder(store: Path) -> None:
    scan = scan_store(store)
    assert scan.results == store / "results"
    assert [cell.name for cell in scan.cells] == sorted(
        f"{model}/{where}"
        for model in MODELS
        for where in ("IR/nq", "SC/sst2", "TC/uner_en")
    )
    assert scan.problems == ()
    for cell in scan.cells:
        assert len(cell.runs) == 30
        assert list(cell.runs) == sorted(cell.runs)
    cell = next(cell for cell in scan.cells if cell.dataset.name == "nq")
    key = cell.runs["msmarco_pairs_lr1e-04_sd0"]
    assert (key.model, key.task, key.lr, key.seed) == (cell.model, "IR", 1e-4, 0)


def test_models_outside_the_scheme_are_taken_only_when_named(store: Path) -> None:
    (store / "results" / MODELS[1]).rename(store / "results" / "bert-base")
    [problem] = scan_store(store).problems
    assert problem.kind == "unknown" and problem.path.endswith("bert-base")
    scan = scan_store(store, ["bert-*"])
    assert (scan.problems, len(scan.cells)) == ((), 6)


def test_the_models_are_in_results_or_in_the_folder_itself(
    store: Path, tmp_path: Path
) -> None:
    assert (
        results_folder(store) == store / "results" == results_folder(store / "results")
    )
    with pytest.raises(
        UserError, match="does not exist; a run store is a folder with results/<model>"
    ):
        results_folder(tmp_path / "nowhere")


def test_a_scan_makes_no_dataset_known(store: Path, tmp_path: Path) -> None:
    fill_own(store)
    (problem,) = scan_store(store).problems
    assert "reviews: is not a dataset of SC" in str(problem)
    ingested = ingest(store, tmp_path / "runs.parquet")
    assert "reviews" in set(ingested.runs["dataset"]) and "reviews" in ingested.datasets
    table = read_table(tmp_path / "runs.parquet")
    assert "reviews" in table.datasets and "reviews" not in DATASETS


@pytest.mark.parametrize(
    "name", ["610m-clm-42k", "610m-mlm60-42k", "1b-clm-10k-mlm40-42k"]
)
def test_models_in_the_scheme_need_no_option(name: str) -> None:
    assert model_error(name) is None


def test_unknown_model_is_refused_with_the_nearest_name() -> None:
    error = model_error("610m-clmm-42k")
    assert error is not None
    assert "did you mean '610m-clm-42k'" in error and error.endswith(
        "--add-model 610m-clmm-42k"
    )
    assert (
        model_error("bert-base", ["bert-base"])
        is model_error("bert-base", ["roberta", "bert-*"])
        is None
    )
    assert model_error("BERT-base", ["bert-*"]) is not None


def test_problems_are_sentences_with_a_summary() -> None:
    broken = Problem(path="results/a", kind="broken", sentence="is empty")
    stray = Problem(path="results/b", kind="stray", sentence="is ignored")
    missing = Problem(
        path="results/c", kind="missing", sentence="has 29 of its 30 runs"
    )
    assert str(broken) == "results/a: is empty" and sorted([stray, broken]) == [
        broken,
        stray,
    ]
    assert set(PROBLEM_KINDS) > HARMLESS
    assert [problem.harmless for problem in (broken, stray, missing)] == [
        False,
        False,
        True,
    ]
    assert summary([missing]) == summary([]) == "no problems"
    assert summary([stray, broken, broken, missing]) == "3 problems (2 broken, 1 stray)"
