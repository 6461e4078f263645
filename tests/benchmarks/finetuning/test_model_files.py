"""Which folder holds a model, the hashes of what decides its scores, and its tokenizer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from benchmarks.finetuning.base_models import load_tokenizer
from benchmarks.finetuning.encoders import load_model
from common.errors import UserError
from common.model_files import resolve, tokenizer_hash, weights_hash
from tests.benchmarks.finetuning.test_encoders import KINDS
from tests.flips import flip


def test_a_hub_id_is_fetched_without_code(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def fetch(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(model_folder("llama"))

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert load_model("owner/llama", revision="abc").source == "owner/llama"
    assert (asked["name"], asked["revision"]) == ("owner/llama", "abc")
    assert "*.safetensors" in asked["allow_patterns"]
    assert not {"*.py", "*.bin", "*"} & set(asked["allow_patterns"])


def test_a_hub_that_does_not_answer_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **options: Any) -> str:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(
        UserError, match=r"owner/name is not a local folder.*no route\)"
    ):
        load_model("owner/name")


@pytest.mark.parametrize("part", ["", "0_Transformer"])
def test_a_sentence_transformers_folder_is_its_transformer(
    part: str, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "sentences"
    shutil.copytree(model_folder("bert"), folder / part)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_mean_tokens": true}'
    )
    modules = [{"idx": 0, "path": part}, {"idx": 1, "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    assert resolve(str(folder)) == folder / part
    assert (
        load_model(str(folder)).weights
        == weights_hash(folder / part)
        == load_model(str(model_folder("bert"))).weights
    )


def test_a_list_of_modules_cannot_name_a_folder_outside(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    shutil.copytree(model_folder("bert"), tmp_path / "other")
    folder = tmp_path / "sentences"
    folder.mkdir()
    for modules, sentence in (
        ('[{"path": "../other"}]', "'../other' is not a valid path inside its folder"),
        ('[{"path": "absent"}]', r"no model config\.json"),
        ("[3]", "is not a list of modules"),
        ("[]", "is not a list of modules"),
    ):
        (folder / "modules.json").write_text(modules)
        with pytest.raises(UserError, match=sentence):
            resolve(str(folder))


def test_a_hash_follows_the_content_and_nothing_else(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    ours = model_folder("ours")
    copy = tmp_path / "elsewhere"
    shutil.copytree(ours, copy)
    (copy / "README.md").write_text("a note")
    (copy / "manifest.json").write_text("{}")
    weights, tokens = weights_hash(ours), tokenizer_hash(ours)
    assert (weights_hash(copy), tokenizer_hash(copy)) == (weights, tokens)
    flip(copy / "model.safetensors")
    assert weights_hash(copy) != weights and tokenizer_hash(copy) == tokens
    flip(copy / "model.safetensors")
    flip(copy / "tokenizer.json")
    assert weights_hash(copy) == weights and tokenizer_hash(copy) != tokens
    flip(copy / "tokenizer.json")
    (copy / "modeling.py").write_text("code = 1")
    assert weights_hash(copy) == weights != weights_hash(copy, code=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_is_that_of_the_file(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    folder = model_folder(kind)
    loaded = load_tokenizer(folder)
    recorded = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert loaded.get_vocab() == recorded.get_vocab()
    for text in ("a  b\tc\n", "Żelazowa Wola's 12,345 \u00ad\u200b"):
        encoded = loaded(text, return_offsets_mapping=True)
        assert encoded["input_ids"] == recorded.encode(text).ids
        assert encoded["offset_mapping"] == recorded.encode(text).offsets


def test_configs_special_tokens_are_copied_when_needed(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model_folder("ours"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": 2}))
    assert load_tokenizer(folder).eos_token_id == 2
    assert load_tokenizer(folder, from_config=False).eos_token_id == 1
    content = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**content, "eos_token": None, "sep_token": None})
    )
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    # Nothing else could end a text
    assert load_tokenizer(folder, from_config=False).eos_token_id == 2
