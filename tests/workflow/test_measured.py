"""Hours of fine-tunings from the records of a study's own runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModel

import pretraining.model.heads  # noqa: F401  (registers the encoder with AutoModel)
from benchmarks.datasets.local_dataset import load
from benchmarks.datasets.synthetic import make_synthetic
from benchmarks.runs import RUN, RunKey
from benchmarks.sweep.run_state import timings
from common.manifest import write_manifest
from pretraining.model_names import MODELS
from tests.benchmarks.command import command
from tests.benchmarks.tiny import make_config, make_tokenizer
from workflow.measured import Measured, measure
from workflow.settings import Settings
from workflow.study import study_of, tuning_gpu_hours, workflow_of


def _ran(folder: Path, model: str, dataset: str, tuning: float, evaluation: float, seed: int = 0) -> None:
    path = folder / "results" / RunKey(model=model, dataset=dataset, lr=1e-4, seed=seed).folder
    path.mkdir(parents=True)
    write_manifest(path / RUN, {"seconds": {"tuning": tuning, "evaluation": evaluation}}, {})


def test_a_run_leaves_what_is_measured(tmp_path: Path) -> None:
    torch.manual_seed(0)
    make_synthetic(tmp_path / "data", "sst2", train=16, evaluation=4)
    tokenizer = make_tokenizer(load(tmp_path / "data", "sst2").train["first"].to_pylist())
    AutoModel.from_config(make_config("ours", vocab=len(tokenizer))).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    key = RunKey(model="610m-clm-42k", dataset="sst2", lr=1e-4, seed=0)
    words = ["--model", tmp_path / "model", "--name", key.model, "--data", tmp_path / "data"]
    words += ["--out", tmp_path / "results", "--dataset", key.dataset, "--lr", key.lr, "--seed", key.seed]
    words += ["--steps", 1, "--device", "cpu", "--workers", 1]
    assert command("run")([str(word) for word in words]) == 0
    found = measure(tmp_path, study_of(Settings())).taken
    assert found == {("610m", "sst2"): pytest.approx(sum(timings(tmp_path, key).values()))}
    assert found["610m", "sst2"] > 0


def test_what_shares_a_fine_tuning_is_added_to_it_once(tmp_path: Path) -> None:
    for seed, tuning in enumerate((10.0, 14.0)):
        _ran(tmp_path, "610m-clm-42k", "sst2", tuning, 2.0, seed)
    _ran(tmp_path, "610m-clm-42k", "msmarco", 100.0, 5.0)
    _ran(tmp_path, "610m-clm-42k", "mldr_en", 100.0, 30.0)
    (tmp_path / "results" / "610m-clm-42k" / "SC" / "qqp" / "lr1e-04_sd0").mkdir(parents=True)
    (tmp_path / "results" / "610m-clm-42k" / "SC" / "qqp" / "lr1e-04_sd0" / RUN).write_text("{")
    found = measure(tmp_path, study_of(Settings()))
    assert found.taken == {("610m", "sst2"): 14.0, ("610m", "msmarco"): 135.0}


def test_another_size_is_scaled_and_another_training_set_is_not_guessed() -> None:
    found = Measured(taken={("610m", "sst2"): 30.0})
    flops = {"610m": 2.0, "1b": 6.0}
    assert found.seconds("1b", "sst2", flops) == 90.0
    assert found.seconds("610m", "qqp", flops) is None


def test_a_plan_follows_what_was_measured() -> None:
    study, model = study_of(Settings()), MODELS["610m-clm-42k"]
    planned = tuning_gpu_hours(model, study, "H100")
    assert tuning_gpu_hours(model, study, "H100", "sst2", Measured()) == planned
    measured = Measured(taken={("610m", "sst2"): 36.0})
    assert tuning_gpu_hours(model, study, "H100", "sst2", measured) == pytest.approx(0.01)
    cells = workflow_of("610m-clm-42k", Settings(), measured=measured).of_kind("cell")
    hours = {job.name.split("/")[1]: job.gpu_hours for job in cells}
    assert hours["sst2"] == pytest.approx(0.3) and hours["qqp"] == pytest.approx(30 * planned)


def test_packed_cells_are_one_job_a_model_with_the_same_runs_and_hours() -> None:
    one = workflow_of("figure3", Settings(gpus_per_node=4))
    packed = workflow_of("figure3", Settings(gpus_per_node=4, tuning_gpus=4))
    assert len(packed.of_kind("pack")) == len(one.of_kind("model")) and not packed.of_kind("cell")
    runs = [
        {path for job in w.jobs.values() if job.kind.part == "fine-tuning" for path in job.makes}
        for w in (one, packed)
    ]
    assert runs[0] == runs[1] and len(runs[0]) == 12 * 12 * 30
    hours = [
        sum(job.gpu_hours for job in w.jobs.values() if job.kind.part == "fine-tuning") for w in (one, packed)
    ]
    assert hours[0] == pytest.approx(hours[1])
    job = packed.of_kind("pack")[0]
    assert job.gpus == 4 and job.hours == pytest.approx(job.gpu_hours / 4)
    assert job.commands[0][-2:] == ("--workers", "4")
    (analysis,) = packed.of_kind("analysis")
    assert set(analysis.needs) == {job.marker for job in packed.of_kind("pack")}
