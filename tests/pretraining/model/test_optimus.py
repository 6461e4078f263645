"""Optimus' `model.pt`, made here from our own tensors: no real one was at hand."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.model.optimus import _optimus_names, from_optimus, read_optimus


def to_optimus(state: dict[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """Return tensors under Optimus' names, queries, keys and values fused."""
    names = _optimus_names(config)
    return {theirs: torch.cat([state[name] for name in ours]) for ours, theirs in names}


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


def test_a_file_is_read_with_its_configuration(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    torch.save(to_optimus(tiny_model.state_dict(), tiny_model.config), tmp_path / "model.pt")
    back = read_optimus(tmp_path / "model.pt", tiny_model.config)
    assert torch.equal(back["lm_head.weight"], tiny_model.lm_head.weight)


class Mischief:
    def __reduce__(self) -> tuple:
        return (print, ("code ran",))


def test_code_in_a_pickle_is_refused(
    tmp_path: Path, tiny_config: EncoderConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.pt"
    torch.save({"embedding.weight": Mischief()}, path)
    with pytest.raises(UserError, match="cannot be read as plain weights"):
        read_optimus(path, tiny_config)
    path.write_bytes(pickle.dumps(Mischief()))
    with pytest.raises(UserError, match="cannot be read as plain weights"):
        read_optimus(path, tiny_config)
    assert "code ran" not in capsys.readouterr().out
    with pytest.raises(UserError, match="does not exist"):
        read_optimus(tmp_path / "none.pt", tiny_config)
    torch.save([1, 2], path)
    with pytest.raises(UserError, match="no state dict"):
        read_optimus(path, tiny_config)
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(UserError, match="no Optimus model"):
        read_optimus(path, tiny_config)


def test_misfits_are_named(tiny_model: EuroBertForMaskedLM) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    theirs = to_optimus(state, config)
    with pytest.raises(UserError, match="unknown tensors: rope"):
        from_optimus({**theirs, "rope": torch.ones(1)}, config)
    with pytest.raises(UserError, match=r"lacks blocks.1.attn_norm.weight"):
        from_optimus({n: t for n, t in theirs.items() if n != "blocks.1.attn_norm.weight"}, config)
    with pytest.raises(UserError, match="5 rows, not 128"):
        from_optimus({**theirs, "blocks.0.attn.qkv_proj.weight": torch.ones(5, 64)}, config)
