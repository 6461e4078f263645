import json
import logging
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig, config_for
from pretraining.model.heads import (
    HEAD,
    EuroBertForCausalLM,
    EuroBertForMaskedLM,
    parameter_shapes,
)
from pretraining.model.modeling import EuroBertModel, EuroBertPreTrainedModel
from pretraining.model.state_dict_adapter import (
    _optimus_names,
    from_optimus,
    from_released,
    load_encoder,
    read_config,
    read_optimus,
    read_state,
)

TOKENS = torch.arange(3, 33)[None]

RELEASED = {
    "architectures": ["SLModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {
        "AutoConfig": "configuration_slmodel.SLModelConfig",
        "AutoModel": "modeling_slmodel.SLModel",
    },
    "bos_token": "<|begin_of_text|>",
    "bos_token_id": 0,
    "eos_token": "<|end_of_text|>",
    "eos_token_id": 1,
    "hidden_act": "silu",
    "hidden_dropout": 0.0,
    "hidden_size": 64,
    "initializer_range": 0.02,
    "intermediate_size": 192,
    "is_causal": True,
    "mask_token": "<|mask|>",
    "mask_token_id": 2,
    "max_position_embeddings": 2048,
    "mlp_bias": False,
    "model_type": "sl_model",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "pad_token": "<|end_of_text|>",
    "pad_token_id": 1,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.0.dev0",
    "use_cache": True,
    "vocab_size": 311,
}
"""A released configuration with the sizes of the tiny model."""


def to_released(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as the authors released them: a base model, bare names, no head."""
    return {name.removeprefix("model."): tensor for name, tensor in state.items() if name != HEAD}


def to_optimus(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Return tensors under Optimus' names, queries, keys and values fused."""
    names = _optimus_names(config)
    return {theirs: torch.cat([state[name] for name in ours]) for ours, theirs in names}


@pytest.fixture
def released(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> Path:
    """A folder in the authors' form: base model, bare names, bfloat16, no head."""
    folder = tmp_path / "released"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(RELEASED))
    state = {name: tensor.bfloat16() for name, tensor in to_released(tiny_model.state_dict()).items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def hidden(model: EuroBertPreTrainedModel, is_causal: bool | None = None) -> Tensor:
    with torch.no_grad():
        return model.body(TOKENS, is_causal=is_causal).last_hidden_state


def test_released_folder_loads_with_its_direction(released: Path, tiny_model: EuroBertForMaskedLM) -> None:
    config = read_config(released)
    assert config.is_causal and config.model_type == "eurobert"
    assert not hasattr(config, "auto_map")
    model = load_encoder(released, EuroBertModel, torch_dtype=torch.float32)
    reference = tiny_model.bfloat16().float()
    torch.testing.assert_close(hidden(model), hidden(reference, is_causal=True), atol=1e-6, rtol=0)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, reference.state_dict()[f"model.{name}"]), name


def test_released_folder_gets_a_new_head(released: Path) -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(load_encoder(released, EuroBertForMaskedLM, torch_dtype=torch.float32))
    first, second = models
    assert torch.equal(first.lm_head.weight, second.lm_head.weight) and first.lm_head.weight.std() > 0.01
    assert torch.equal(
        hidden(first), hidden(load_encoder(released, EuroBertModel, torch_dtype=torch.float32))
    )


def test_own_folder_loads_in_every_class(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    tiny_model.save_pretrained(tmp_path)
    for kind in (EuroBertModel, EuroBertForMaskedLM, EuroBertForCausalLM):
        assert torch.equal(hidden(load_encoder(tmp_path, kind), False), hidden(tiny_model, False))
    lm = load_encoder(tmp_path, EuroBertForMaskedLM)
    assert torch.equal(lm.lm_head.weight, tiny_model.lm_head.weight)


def test_round_trip_through_the_released_form(tiny_model: EuroBertForMaskedLM) -> None:
    state = tiny_model.state_dict()
    bare = to_released(state)
    assert "embed_tokens.weight" in bare and "lm_head.weight" not in bare
    back = from_released(bare, tiny_model.config)
    assert back.keys() == state.keys() - {"lm_head.weight"}
    assert all(torch.equal(back[name], state[name]) for name in back)
    with_head = from_released({**bare, "lm_head.weight": state["lm_head.weight"]}, tiny_model.config)
    assert with_head.keys() == state.keys()
    assert from_released(state, tiny_model.config).keys() == state.keys()


def test_round_trip_through_optimus(tiny_model: EuroBertForMaskedLM) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    theirs = to_optimus(state, config)
    assert theirs["blocks.1.attn.qkv_proj.weight"].shape == (64 + 32 + 32, 64)
    # Rows are queries, keys, values; gate and up are fc_1 and fc_2.
    assert torch.equal(
        theirs["blocks.1.attn.qkv_proj.weight"][64:96], state["model.layers.1.self_attn.k_proj.weight"]
    )
    assert torch.equal(theirs["blocks.0.mlp.fc_1.weight"], state["model.layers.0.mlp.gate_proj.weight"])
    assert len(theirs) == 2 * 7 + 3
    wrapped = {f"module._orig_mod.{name}": tensor for name, tensor in theirs.items()}
    for form in (theirs, wrapped):
        back = from_optimus(form, config)
        assert back.keys() == state.keys()
        assert all(torch.equal(back[name], state[name]) for name in state)
        assert all(tensor.is_contiguous() for tensor in back.values())


def test_optimus_file_of_a_known_size_needs_no_configuration(tmp_path: Path) -> None:
    config = config_for("210m", vocab_size=32)
    state = {name: torch.zeros(shape) for name, shape in parameter_shapes(config).items()}
    torch.save(to_optimus(state, config), tmp_path / "model.pt")
    back, found = read_optimus(tmp_path / "model.pt")
    assert found.to_dict() == config.to_dict() and back.keys() == state.keys()


def test_optimus_file_of_another_size_asks_for_it(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    path = tmp_path / "model.pt"
    torch.save(to_optimus(tiny_model.state_dict(), tiny_model.config), path)
    with pytest.raises(UserError, match="give its configuration"):
        read_optimus(path)
    back, _ = read_optimus(path, tiny_model.config)
    assert torch.equal(back["lm_head.weight"], tiny_model.lm_head.weight)


class Mischief:
    def __reduce__(self) -> tuple:
        return (print, ("code ran",))


def test_code_in_a_pickle_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pt"
    torch.save({"embedding.weight": Mischief()}, path)
    with pytest.raises(UserError, match="cannot be read as plain weights"):
        read_optimus(path)
    path.write_bytes(pickle.dumps(Mischief()))
    with pytest.raises(UserError, match="cannot be read as plain weights"):
        read_optimus(path)
    assert "code ran" not in capsys.readouterr().out
    with pytest.raises(UserError, match="does not exist"):
        read_optimus(tmp_path / "none.pt")
    torch.save([1, 2], path)
    with pytest.raises(UserError, match="no state dict"):
        read_optimus(path)
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(UserError, match="no Optimus checkpoint"):
        read_optimus(path)


def test_misfits_are_named(tiny_model: EuroBertForMaskedLM) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    theirs = to_optimus(state, config)
    with pytest.raises(UserError, match="unknown tensors: rope"):
        from_optimus({**theirs, "rope": torch.ones(1)}, config)
    with pytest.raises(UserError, match=r"lacks blocks.1.attn_norm.weight"):
        from_optimus({n: t for n, t in theirs.items() if n != "blocks.1.attn_norm.weight"}, config)
    with pytest.raises(UserError, match="5 rows, not 128"):
        from_optimus({**theirs, "blocks.0.attn.qkv_proj.weight": torch.ones(5, 64)}, config)


def test_shards_are_joined(released: Path) -> None:
    whole = read_state(released)
    names = sorted(whole)
    halves = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for file, part in halves.items():
        save_file({name: whole[name] for name in part}, released / file)
    weight_map = {name: file for file, part in halves.items() for name in part}
    (released / "model.safetensors").unlink()
    index = released / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    joined = read_state(released)
    assert joined.keys() == whole.keys()
    index.write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(UserError, match="outside its folder"):
        read_state(released)


def test_unreadable_folders_are_reported(
    released: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserError, match=r"holds no config\.json"):
        read_config(tmp_path)
    with pytest.raises(UserError, match="pickled weights"):
        read_state(tmp_path)
    (released / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(UserError, match="fetch it again"):
        read_state(released)
    path = released / "config.json"
    path.write_text(json.dumps({**RELEASED, "model_type": "bert"}))
    with pytest.raises(UserError, match="model_type is 'bert'"):
        read_config(released)
    path.write_text(json.dumps({name: value for name, value in RELEASED.items() if name != "is_causal"}))
    with caplog.at_level(logging.WARNING):
        assert not read_config(released).is_causal
    assert "taken as bidirectional" in caplog.text


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", "64"), ("hidden_size", -64), ("vocab_size", 0), ("is_causal", "yes"),
        ("num_attention_heads", 3), ("pad_token_id", -1), ("model_type", ["eurobert"]),
    ],
)  # fmt: skip
def test_a_config_of_no_model_is_refused(
    tmp_path: Path, tiny_model: EuroBertForMaskedLM, field: str, value: object
) -> None:
    from pretraining.model.hf_export import native_config

    fields = json.loads(json.dumps(native_config(tiny_model.config, dtype="float32"))) | {field: value}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(UserError, match=r"config\.json") as error:
        read_config(tmp_path)
    assert "\n" not in str(error.value)


def test_unreadable_configs_and_indexes_are_refused(tmp_path: Path) -> None:
    for text in ("[]", "{", '{"a": 1, "a": 2}', "[" * 10_000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(UserError, match=r"config\.json"):
            read_config(tmp_path)
        (tmp_path / "model.safetensors.index.json").write_text(text)
        with pytest.raises(UserError, match=r"index\.json"):
            read_state(tmp_path)
