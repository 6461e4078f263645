"""The miniature's GPU form, the second command of a GPU check, walked through on a CPU with a small shape."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from miniature.forms import FORMS
from pretraining.plan.study_file import load_study
from pretraining.training.log import LOG, read_log
from pretraining.training.train import train
from tests.pretraining.small_study import make_shards

GPU = FORMS["gpu"]


def test_its_settings_train_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that it sets but sizes: bf16, compilation and the backend are chosen by the device."""
    monkeypatch.setenv("CLM_OR_MLM_SCRATCH", str(tmp_path / "scratch"))
    torch.set_num_threads(1)
    shape = dataclasses.replace(GPU.shapes["m"], hidden=32, layers=2, mlp=64, vocab=400, max_length=64)
    form = dataclasses.replace(
        GPU,
        scale=1000,
        paper_models=("610m-clm-10k-mlm40-42k",),
        extra_models=(),
        shapes={"m": shape},
        settings={
            **GPU.settings, "global_batch": 8, "microbatch": 8, "max_length": 48, "warmup_steps": 2,
            "rewarm_steps": 0, "eval_every": 21, "eval_sequences": 8, "save_every": 21,
        },
    )  # fmt: skip
    study = tmp_path / "study.toml"
    study.write_text(form.study_toml())
    (model,) = form.models
    assert train(model, data=make_shards(tmp_path), out=tmp_path / "out", study=load_study(study))
    rows = read_log(tmp_path / "out" / "models" / model / LOG)
    losses = [row["loss"] for row in rows if row["split"] == "validation" and row["objective"] == "mlm"]
    assert rows[-1]["step"] == 42 and losses[-1] < losses[0]
