"""What becomes of a fine-tuning: done once, failed with a reason, or interrupted; and what each starts from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from analysis.store.ingest import ingest
from analysis.store.instances import read_clusters
from benchmarks.datasets.local_dataset import load_dataset
from benchmarks.finetuning.device import choose_device
from benchmarks.finetuning.encoders import load_model
from benchmarks.finetuning.heads import SequenceHead, TokenHead
from benchmarks.finetuning.trainer import FineTuningError
from benchmarks.metrics.metric import Evaluation
from benchmarks.protocol import DATASETS, get_dataset
from benchmarks.runs import SCORED_SPLITS, clusters_hash
from benchmarks.sweep import work
from benchmarks.sweep.status import COMPLETE, FAILED
from benchmarks.sweep.work import ResettableModel
from benchmarks.tasks.base import Setting
from benchmarks.tasks.retrieval import RetrievalEvaluator
from common.errors import UserError
from tests.benchmarks.sweep.stores import (
    RUN_OF_UNER,
    details,
    fail_at_5e_3,
    record,
    replaced,
    run,
    status,
)


def test_weights_come_back_and_the_head_follows_the_seed(
    model_folder: Callable[..., Path],
) -> None:
    resettable = ResettableModel(
        Setting(
            loaded=load_model(str(model_folder("ours"))), device=choose_device("cpu")
        )
    )
    first = resettable.reset(get_dataset("sst2"), 0)
    before = {name: value.clone() for name, value in first.state_dict().items()}
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1.0)
            parameter.grad = torch.ones_like(parameter)
    again = resettable.reset(get_dataset("sst2"), 0)
    assert all(
        torch.equal(value, before[name]) for name, value in again.state_dict().items()
    )
    assert all(parameter.grad is None for parameter in again.parameters())
    assert isinstance(again.head, SequenceHead)
    other = resettable.reset(get_dataset("sst2"), 1)
    assert isinstance(other.head, SequenceHead)
    assert not torch.equal(other.head.out.weight, again.head.out.weight)
    assert isinstance(resettable.reset(get_dataset("squad"), 0).head, TokenHead)
    assert resettable.reset(get_dataset("nq"), 0).head is None


def test_runs_say_which_instances_are_of_one_cluster(
    arguments: list[str], tmp_path: Path
) -> None:
    """From the data through run and ingest to what an interval over instances reads."""
    assert (
        run(
            [
                *arguments,
                "--dataset",
                "squad",
                "qqp",
                "--lr",
                "1e-3",
                "--seed",
                "0",
                "1",
            ]
        )
        == COMPLETE
    )
    data = load_dataset(Path(arguments[5]), "squad")
    folder = "tiny/QA/squad/lr1e-03_sd0"
    written = details(tmp_path, folder)["clusters"]
    for split in SCORED_SPLITS:
        contexts = data.tables[split]["context"].to_pylist()
        assert written[split] == [
            list(dict.fromkeys(contexts)).index(one) for one in contexts
        ]
    assert record(tmp_path, folder)["clusters"] == clusters_hash(written)
    assert json.loads(
        (tmp_path / "results" / folder / "results.json").read_text()
    ).keys() == set(SCORED_SPLITS)
    assert "clusters" not in record(tmp_path, "tiny/SC/qqp/lr1e-03_sd0")
    assert "clusters" not in details(tmp_path, "tiny/SC/qqp/lr1e-03_sd0")

    runs = ingest(
        tmp_path, tmp_path / "r.parquet", instances=tmp_path / "i", add_models=["tiny"]
    ).runs
    for name, expected in (("squad", written), ("qqp", {})):
        for split in SCORED_SPLITS:
            found = read_clusters(
                tmp_path / "i", name, runs[runs["dataset"] == name], split
            )
            assert (None if found is None else found.tolist()) == expected.get(split)


def test_a_failed_run_is_recorded_and_the_others_go_on(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    real = work.fine_tune
    fail_at_5e_3(monkeypatch)
    grid = ["--dataset", "nq", "msmarco", "--lr", "5e-3", "1e-3", "--seed", "0"]
    assert run([*arguments, *grid]) == FAILED
    assert "2 of 4 runs done, 2 failed, 0 left" in capsys.readouterr().out
    assert (
        record(tmp_path, "tiny/IR/nq/msmarco_pairs_lr5e-03_sd0")["reason"]
        == "the loss is nan at step 2"
    )
    out = ["--out", str(tmp_path), *grid]
    assert status(out) == 3
    shown = capsys.readouterr().out
    assert "1/2!1" in shown
    assert (
        "failed: tiny nq msmarco_pairs_lr5e-03_sd0: the loss is nan at step 2" in shown
    )
    monkeypatch.setattr(work, "fine_tune", real)
    assert run([*arguments, *grid]) == FAILED
    assert run([*arguments, *grid, "--retry-failed"]) == COMPLETE and status(out) == 0


def test_a_failure_under_other_settings_is_no_reason_not_to_try(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = work.fine_tune
    fail_at_5e_3(monkeypatch)
    words = [*arguments, *replaced(RUN_OF_UNER, "--lr", "5e-3")]
    assert run(words) == FAILED
    monkeypatch.setattr(work, "fine_tune", real)
    assert run([*words, "--steps", "2"]) == COMPLETE


def test_outputs_that_are_no_numbers_fail_the_run(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = work.fine_tune

    def poison(model: Any, *args: Any, **options: Any) -> Any:
        found = real(model, *args, **options)
        model.head.out.bias.data.fill_(float("nan"))
        return found

    monkeypatch.setattr(work, "fine_tune", poison)
    assert run([*arguments, *RUN_OF_UNER]) == FAILED
    assert "not finite" in record(tmp_path, "tiny/TC/uner_en/lr1e-03_sd0")["reason"]


def at_the_second_dataset(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    real, calls = RetrievalEvaluator.__call__, []

    def fail(self: RetrievalEvaluator, *args: Any) -> dict[str, Evaluation]:
        calls.append(self)
        if len(calls) == 2:
            raise error("out of memory in evaluation with one row")
        return real(self, *args)

    monkeypatch.setattr(RetrievalEvaluator, "__call__", fail)


def test_failed_evaluation_leaves_other_datasets_runs_alone(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_second_dataset(monkeypatch, FineTuningError)
    assert (
        run([*arguments, "--dataset", "nq", "mldr_en", "--lr", "1e-3", "--seed", "0"])
        == FAILED
    )
    statuses = {
        path.parts[-3]: record(
            tmp_path, str(path.parent.relative_to(tmp_path / "results"))
        )["status"]
        for path in tmp_path.rglob("run.json")
    }
    assert statuses == {"nq": "complete", "mldr_en": "failed"}


def test_a_label_set_that_is_not_the_heads_is_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DATASETS, "uner_en", replace(DATASETS["uner_en"], labels=5))
    with pytest.raises(UserError, match=r"has 7 labels .* head has 5 classes"):
        run([*arguments, *RUN_OF_UNER])
