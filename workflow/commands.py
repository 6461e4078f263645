"""The rooms' commands behind each job, with the exit codes that mean it was done."""

from __future__ import annotations

from pathlib import Path

from benchmarks.protocol import format_lr
from workflow.jobs import Job
from workflow.settings import Settings
from workflow.state import cell_runs

__all__ = ["commands_of"]

Command = tuple[list[str], tuple[int, ...]]

_SOME_RUNS_FAILED = 3


def commands_of(job: Job, settings: Settings, folder: Path) -> list[Command]:
    """Return the commands of a job, each with its accepted exit codes, to be run in the study's folder."""
    del folder
    if job.kind == "data":
        words = [
            "benchmarks",
            "synthetic",
            *settings.needed_datasets,
            "--out",
            "data",
            *settings.make_datasets,
        ]
        return [(words, (0,))]
    if job.kind == "shards":
        return _shards(settings)
    if job.kind in ("stage", "model"):
        words = ["pretraining", "train", job.name, "--data", "shards", "--out", "pretraining"]
        words += ["--stop-file", job.stop]
        if settings.study:
            words += ["--study", settings.study]
        for assignment in settings.pretraining_settings:
            words += ["--set", assignment]
        return [(words, (0,))]
    if job.kind == "cell":
        return [(_cell(job, settings), (0, _SOME_RUNS_FAILED))]
    out = f"analysis/{job.name}"
    runs = f"{out}/runs.parquet"
    models = sorted({need.split("/")[2] for need in job.needs})
    ingest = ["analysis", "ingest", "results", "--out", runs, "--instances", f"{out}/instances"]
    for model in models:
        ingest += ["--add-model", model]
    return [
        (ingest, (0,)),
        (["workflow.study_report", runs, "--pretraining", "pretraining", "--out", out], (0,)),
        (["analysis", "reproduce", "--source", runs, "--out", out], (0,)),
    ]


def _shards(settings: Settings) -> list[Command]:
    found: list[Command] = []
    tokenizer = settings.tokenizer
    if settings.train_tokenizer:
        tokenizer = "tokenizer"
        words = ["pretraining", "tokenizer", "--train", *settings.text, "--out", tokenizer]
        found.append(([*words, "--vocab", str(settings.train_tokenizer)], (0,)))
    words = ["pretraining", "shards", "--source", *settings.text, "--tokenizer", tokenizer, "--out", "shards"]
    found.append(([*words, *settings.shard_options], (0,)))
    return found


def _cell(job: Job, settings: Settings) -> list[str]:
    keys = cell_runs(job.name, settings)
    model = keys[0].model
    return [
        *("benchmarks", "run", "--model", f"pretraining/models/{model}", "--name", model),
        *("--dataset", *dict.fromkeys(key.dataset for key in keys)),
        *("--lr", *(format_lr(lr) for lr in settings.learning_rates)),
        *("--seed", *(str(seed) for seed in settings.seeds)),
        *("--data", settings.data or "data", "--out", "results"),
        *settings.tuning_options,
    ]
