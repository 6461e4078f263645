"""Which folder holds a model: the one that is named, or the transformer's part of a sentence-transformers folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.finetuning.encoders import load
from benchmarks.finetuning.model_files import resolve, weights_hash
from common.errors import UserError


@pytest.mark.parametrize("part", ["", "0_Transformer"])
def test_a_sentence_transformers_folder_is_its_transformer(
    part: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "sentences"
    shutil.copytree(model_folder("bert"), folder / part)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    modules = [{"idx": 0, "path": part}, {"idx": 1, "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert resolve(str(folder)) == folder / part
    assert load(str(folder)).weights == weights_hash(folder / part) == load(str(model_folder("bert"))).weights


def test_a_list_of_modules_cannot_name_a_folder_outside(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    shutil.copytree(model_folder("bert"), tmp_path / "other")
    folder = tmp_path / "sentences"
    folder.mkdir()
    (folder / "modules.json").write_text(json.dumps([{"path": "../other"}]))
    with pytest.raises(UserError, match=r"no config\.json of a model"):
        resolve(str(folder))
    (folder / "modules.json").write_text("[3]")
    with pytest.raises(UserError, match="is no list of modules"):
        resolve(str(folder))


def test_the_hash_is_of_weights_and_config(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    before = weights_hash(folder)
    (folder / "README.md").write_text("not the model")
    assert weights_hash(folder) == before
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    assert weights_hash(folder) != before
