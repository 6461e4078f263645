"""Model folders that are read: the authors', those of others, and what is no model."""

import json
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig, native_config
from pretraining.model.model_folder import encoder_config, load_encoder
from pretraining.model.modeling import (
    HEAD,
    EuroBertForMaskedLM,
    EuroBertModel,
    EuroBertPreTrainedModel,
)

TOKENS = torch.arange(3, 33)[None]


def released_config(config: EncoderConfig) -> dict[str, object]:
    """Return a configuration as the authors released it: other names, and the address of their code."""
    ours = native_config(config, dtype="bfloat16")
    for name in ("classifier_pooling", "head_dim", "rope_parameters"):
        del ours[name]
    return ours | {
        "architectures": ["SLModel"],
        "auto_map": {"AutoModel": "modeling_slmodel.SLModel"},
        "bos_token": "<|begin_of_text|>",
        "is_causal": True,
        "model_type": "sl_model",
        "pretraining_tp": 1,
        "rope_scaling": None,
        "transformers_version": "4.40.0.dev0",
        "use_cache": True,
    }


def to_released(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as the authors released them: a base model, bare names, no head."""
    return {
        name.removeprefix("model."): tensor
        for name, tensor in state.items()
        if name != HEAD
    }


@pytest.fixture
def released(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> Path:
    """A folder in the authors' form: base model, bare names, bfloat16, no head."""
    folder = tmp_path / "released"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(released_config(tiny_model.config)))
    state = {
        name: tensor.bfloat16()
        for name, tensor in to_released(tiny_model.state_dict()).items()
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def hidden(model: EuroBertPreTrainedModel, is_causal: bool | None = None) -> Tensor:
    with torch.no_grad():
        return model.body(TOKENS, is_causal=is_causal).last_hidden_state


def test_released_folder_loads_with_its_direction(
    released: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    config = encoder_config(released)
    assert config.is_causal and config.model_type == "eurobert"
    assert not hasattr(config, "auto_map")
    model = load_encoder(released, EuroBertModel).float()
    reference = tiny_model.bfloat16().float()
    torch.testing.assert_close(
        hidden(model), hidden(reference, is_causal=True), atol=1e-6, rtol=0
    )
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, reference.state_dict()[f"model.{name}"]), name


def test_released_folder_gets_a_new_head(released: Path) -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(load_encoder(released, EuroBertForMaskedLM).float())
    first, second = models
    assert (
        torch.equal(first.lm_head.weight, second.lm_head.weight)
        and first.lm_head.weight.std() > 0.01
    )
    assert torch.equal(
        hidden(first), hidden(load_encoder(released, EuroBertModel).float())
    )


def test_bare_names_with_a_head_and_our_own_names_are_read_too(
    released: Path, tiny_model: EuroBertForMaskedLM
) -> None:
    state = tiny_model.state_dict()
    for form in (to_released(state) | {HEAD: state[HEAD]}, state):
        save_file(form, released / "model.safetensors")
        found = load_encoder(released, EuroBertForMaskedLM).state_dict()
        assert found.keys() == state.keys() and all(
            torch.equal(found[name], state[name]) for name in state
        )


def test_shards_are_joined(released: Path) -> None:
    whole = load_file(released / "model.safetensors")
    names = sorted(whole)
    halves = {
        "model-00001-of-00002.safetensors": names[:9],
        "model-00002-of-00002.safetensors": names[9:],
    }
    for file, part in halves.items():
        save_file(
            {name: whole[name] for name in part},
            released / file,
            metadata={"format": "pt"},
        )
    weight_map = {name: file for file, part in halves.items() for name in part}
    (released / "model.safetensors").unlink()
    (released / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )
    found = load_encoder(released, EuroBertModel).state_dict()
    assert found.keys() == whole.keys() and all(
        torch.equal(found[name], whole[name]) for name in whole
    )


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (
            {"layers.0.mlp.up_proj.weight": None},
            r"lacks: layers\.0\.mlp\.up_proj\.weight$",
        ),
        (
            {"layers.0.mlp.up_proj.weight": (3, 3)},
            r"do not fit its config: layers\.0\.mlp\.up_proj\.weight$",
        ),
        (
            {"layers.0.mlp.up_proj.bias": (3,)},
            r"unknown tensors: layers\.0\.mlp\.up_proj\.bias$",
        ),
        (
            dict.fromkeys((f"layers.0.mlp.{name}_proj.bias" for name in "abcde"), (3,)),
            "and 2 more$",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    released: Path, tensors: dict[str, tuple[int, ...] | None], said: str
) -> None:
    state = load_file(released / "model.safetensors")
    for name, shape in tensors.items():
        state.pop(name, None)
        state |= {} if shape is None else {name: torch.ones(shape)}
    save_file(state, released / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=said):
        load_encoder(released, EuroBertModel)


def test_unreadable_folders_are_reported(
    released: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserError, match=r"has no config\.json"):
        encoder_config(tmp_path)
    for spoil in (lambda file: file.write_bytes(b"x" * 100), Path.unlink):
        spoil(released / "model.safetensors")
        with pytest.raises(UserError, match=r"pickled ones.*fetch the model again"):
            load_encoder(released, EuroBertModel)
    path = released / "config.json"
    fields = json.loads(path.read_text())
    path.write_text(json.dumps({**fields, "model_type": "bert"}))
    with pytest.raises(UserError, match="model_type is 'bert'"):
        encoder_config(released)
    del fields["is_causal"]
    path.write_text(json.dumps(fields))
    with caplog.at_level(logging.WARNING):
        assert not encoder_config(released).is_causal
    assert "treated as bidirectional" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "64"),
        ("hidden_size", -64),
        ("vocab_size", 0),
        ("is_causal", "yes"),
        ("num_attention_heads", 3),
        ("pad_token_id", -1),
        ("model_type", ["eurobert"]),
    ],
)
def test_a_config_of_no_model_is_refused(
    tmp_path: Path, tiny_model: EuroBertForMaskedLM, field: str, value: object
) -> None:
    fields = native_config(tiny_model.config, dtype="float32") | {field: value}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(UserError, match=r"config\.json") as error:
        encoder_config(tmp_path)
    assert "\n" not in str(error.value)


def test_unreadable_configs_are_refused(tmp_path: Path) -> None:
    for text in ("[]", "{", '{"a": 1, "a": 2}', "[" * 10_000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(UserError, match=r"config\.json"):
            encoder_config(tmp_path)
