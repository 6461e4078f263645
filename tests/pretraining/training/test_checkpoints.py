from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from common.errors import UserError
from pretraining.data.manifest import load_manifest
from pretraining.model.configuration import config_of
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.plan.study_file import Study
from pretraining.training import checkpoints
from pretraining.training.train import train
from tests.pretraining.small_study import MODEL, weights_hash

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # Composer's and TensorBoard's own; ours are errors elsewhere


def test_a_full_disk_keeps_the_last_checkpoint(
    done: Path, study: Study, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, calls = shutil.disk_usage(tmp_path), {"left": 3}

    def filling(path: object) -> object:
        calls["left"] -= 1
        return usage if calls["left"] >= 0 else usage._replace(free=1000)

    monkeypatch.setattr(shutil, "disk_usage", filling)
    with pytest.raises(UserError, match=r"checkpoint of step 6 needs .* GB .* free some space"):
        train(MODEL, data=data, out=tmp_path, study=study)
    monkeypatch.undo()
    assert [i.step for i in checkpoints.checkpoint_steps(tmp_path / "stages/mini-s-clm")] == [5]
    assert train(MODEL, data=data, out=tmp_path, study=study)
    assert weights_hash(tmp_path) == weights_hash(done)


def test_damaged_checkpoints_are_reported(done: Path, study: Study, data: Path, tmp_path: Path) -> None:
    out = shutil.copytree(done, tmp_path / "out")
    shutil.rmtree(out / "models")
    for folder in (MODEL, "mini-s-clm-9-mlm40"):
        shutil.rmtree(out / "stages" / folder)
    saved = checkpoints.latest(out / "stages/mini-s-clm", 9)
    assert saved is not None
    for file in ("optimizer.safetensors", "model.safetensors", "state.json"):
        content = (saved.path / file).read_bytes()
        (saved.path / file).write_bytes(content[:20])
        with pytest.raises(UserError, match=f"{file.split('.')[0]}.*is damaged|is damaged"):
            train(MODEL, data=data, out=out, study=study)
        (saved.path / file).write_bytes(content)
    with pytest.raises(UserError, match="belongs to another architecture"):
        config = config_of(study.shapes["mini-s"], load_manifest(data)["tokenizer"])
        config.hidden_size = 64
        model = EuroBertForMaskedLM(config)
        checkpoints.restore(saved, model, torch.optim.AdamW(model.parameters()))
