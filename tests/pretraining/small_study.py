"""A study of a few steps for the tests of training, with shards of its own text."""

import json
import multiprocessing
import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch

from common.files import sha256_file
from common.manifest import read_manifest, write_manifest
from common.settings import assignments, read_settings
from pretraining.data.build_shards import build
from pretraining.data.shard_manifest import ShardSettings, load_manifest
from pretraining.data.tokenizer import train_tokenizer
from pretraining.model.configuration import EncoderConfig, config_of
from pretraining.plan.config import TrainingConfig
from pretraining.plan.study_plan import Study, load_study, targets_of
from pretraining.starts import start_of
from pretraining.training.dataloader import Data
from pretraining.training.log import MEASURED, log_text, read_log
from tests.pretraining.documents import make_documents, write_jsonl

QUIET = pytest.mark.filterwarnings("ignore")
"""For tests that train: warnings of Composer and TensorBoard; ours are errors elsewhere."""

MODEL = "mini-s-clm-9-mlm40-24"
"""The two-stage model most tests train."""

STUDY = """
prefix = "mini-"
decay_steps = 6
models = [
    "mini-s-clm-24", "mini-s-mlm40-24", "mini-s-clm-9-mlm40-24", "mini-s-clm-dec24-mlm40-36",
    "mini-s-clm-24-5",
]
[sizes.s]
hidden = 32
layers = 2
heads = 4
kv_heads = 2
mlp = 64
vocab = 400
max_length = 64
[settings]
global_batch = 8
microbatch = 4
min_length = 4
max_length = 64
warmup_steps = 3
rewarm_steps = 2
peak_lr = 3e-3
eval_every = 6
eval_sequences = 16
save_every = 2
tensorboard = false
"""


def make_study(folder: Path) -> Study:
    """Write the study and return it."""
    path = folder / "mini.toml"
    path.write_text(STUDY)
    return load_study(path)


def changed(study: Study, *words: str) -> TrainingConfig:
    """Return the study's settings after `key=value` words."""
    return read_settings(
        TrainingConfig, assignments(words), "--set", base=study.config, typed=False
    )


def train(name: str, *, study: Study, **places: Any) -> bool:
    """Train a model of a study, or a stage of its plan, by its name."""
    from pretraining.training import train as training

    targets = targets_of(name, study)
    start = start_of(targets.model.start) if targets.model.start else None
    return training.train(replace(targets, start=start), **places)


class Run(Protocol):
    """Trains a model of the study, or a stage of its plan, with settings as `key=value` words."""

    def __call__(self, name: str, out: Path, *words: str, **others: Any) -> bool:
        """Return whether it is done; `others` take the place of the study, its data or the settings."""


def open_data(study: Study, data: Path, *words: str) -> Data:
    """Return the study's data after `key=value` words."""
    return Data(data, changed(study, *words), model_config(study, data))


def model_config(study: Study, data: Path) -> EncoderConfig:
    """Return the configuration of the study's one size with the shards' tokenizer."""
    return config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"])


def make_shards(folder: Path) -> Path:
    """Write shards of made-up documents and return their folder."""
    documents = make_documents(700)
    train_tokenizer(documents[:100], 390).save(folder / "tokenizer")
    file = write_jsonl(folder / "documents.jsonl", documents)
    settings = ShardSettings(validation_share=0.05)
    build([str(file)], str(folder / "tokenizer"), folder / "data", settings, workers=0)
    return folder / "data"


def seal_again(folder: Path, **changed: object) -> None:
    """Make a checkpoint's `state.json` fit its files again, as whoever forges one would, with fields changed."""
    state = read_manifest(folder / "state.json", "")
    state["files"] = {name: sha256_file(folder / name) for name in state["files"]}
    write_manifest(folder / "state.json", state | changed)


def science(path: Path) -> list[dict[str, Any]]:
    """Return a log's rows, which hold nothing that is measured on the clock."""
    rows = read_log(path)
    assert not {key for row in rows for key in row} & set(MEASURED)
    return rows


def change_a_loss(log: Path) -> None:
    """Change the loss of a log's fourth row, as whoever makes it look better would."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    rows[3]["loss"] -= 0.5
    log.write_text(log_text(rows))


def weights_hash(out: Path, model: str = MODEL) -> str:
    """Return the hash of a finished model's weights."""
    return sha256_file(out / "models" / model / "model.safetensors")


def same_run(
    ours: Path,
    theirs: Path,
    model: str = MODEL,
    stage: str = "",
    files: tuple[str, ...] = ("optimizer.safetensors", "model.safetensors"),
) -> None:
    """Compare two folders' logs and weights of a model, and files of the last checkpoint of its last stage."""
    log = Path("models", model, "log.jsonl")
    assert science(ours / log) == science(theirs / log)
    assert weights_hash(ours, model) == weights_hash(theirs, model)
    for file in files:
        path = Path("stages", stage or model, "step-00000024", file)
        assert sha256_file(ours / path) == sha256_file(theirs / path)


def train_and_kill(
    name: str,
    out: Path,
    data: Path,
    study: Study,
    *,
    most: int,
    within: tuple[float, float],
    seed: int,
) -> int:
    """Train a model in processes that are killed after a random time, `most` times, and return how many were."""

    def work() -> None:
        torch.set_num_threads(1)
        train(name, data=data, out=out, study=study)

    generator, kills = random.Random(seed), 0
    while not (out / "models" / name / "log.jsonl").exists():
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join(generator.uniform(*within) if kills < most else 120)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            kills += 1
    return kills
