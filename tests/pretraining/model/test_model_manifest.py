"""A model folder is compared with its own manifest when it is loaded; folders of others are loaded as they are."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from common.errors import UserError
from common.files import sha256_bytes
from common.manifest import read_manifest, write_manifest
from pretraining.model.heads import EuroBertForMaskedLM
from pretraining.model.hf_export import export
from pretraining.model.modeling import EuroBertModel
from pretraining.model.state_dict_adapter import check_model, load_encoder
from tests.pretraining.data.made_up_shards import flips


@pytest.fixture
def folder(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> Path:
    return export(
        tiny_model.state_dict(),
        tiny_model.config,
        None,
        {"model": "a"},
        tmp_path / "a",
        texts={"log.jsonl": "x\n"},
    )


def test_a_whole_folder_is_taken(folder: Path) -> None:
    manifest = check_model(folder)
    assert manifest is not None and set(manifest["files"]) == {"config.json", "model.safetensors"}
    assert manifest["records"] == {"log.jsonl": sha256_bytes(b"x\n")}
    # What is not loaded may be changed or left out when a model is handed on.
    (folder / "README.md").write_text("another card")
    for name in ("log.jsonl", "provenance.json"):
        (folder / name).unlink()
    assert check_model(folder) == manifest
    assert load_encoder(folder, EuroBertModel).num_parameters() > 0


def test_folders_of_others_are_not_judged(folder: Path, tmp_path: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({"model": "theirs"}))
    assert check_model(folder) is None
    path.unlink()
    assert check_model(folder) is None


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "manifest.json"])
def test_no_flipped_bit_of_a_model_passes(folder: Path, file: str, count: int) -> None:
    check_model(folder)
    assert flips(folder / file, count, lambda: check_model(folder)) == 0


def test_a_model_with_a_file_of_another_is_refused(
    folder: Path, tmp_path: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    state = {name: tensor + 1 for name, tensor in tiny_model.state_dict().items()}
    other = export(state, tiny_model.config, None, {"model": "b"}, tmp_path / "b")
    shutil.copy(other / "model.safetensors", folder / "model.safetensors")
    with pytest.raises(UserError, match=r"/a: is damaged: model\.safetensors: its content has changed"):
        load_encoder(folder, EuroBertModel)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors is missing; fetch or export"):
        load_encoder(folder, EuroBertModel)


@pytest.mark.parametrize("files", [None, {}, [], {"../victim": "0" * 64}, {"/etc/passwd": "0" * 64}])
def test_a_hostile_manifest_is_refused(folder: Path, files: object) -> None:
    """Sealed again: it names no file outside its folder."""
    path = folder / "manifest.json"
    write_manifest(path, read_manifest(path, "") | {"files": files})
    with pytest.raises(UserError, match=r"stay in its folder|fetch or export the model again"):
        check_model(folder)


def test_every_truncation_is_refused(folder: Path) -> None:
    path = folder / "manifest.json"
    good = path.read_bytes()
    for size in random.Random(0).sample(range(len(good)), 50):
        path.write_bytes(good[:size])
        with pytest.raises(UserError):
            check_model(folder)
