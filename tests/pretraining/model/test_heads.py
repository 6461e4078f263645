import warnings
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
)

from common.errors import UserError
from pretraining.model.heads import (
    EuroBertForCausalLM,
    EuroBertForMaskedLM,
    check_state,
    parameter_shapes,
)
from pretraining.model.modeling import EuroBertModel
from pretraining.paper_settings import TINY


def test_auto_classes_load_a_saved_folder(tmp_path: Path, tiny_model: EuroBertForMaskedLM) -> None:
    tiny_model.config.is_causal = True
    tiny_model.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).is_causal
    tokens = torch.arange(20)[None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        base = AutoModel.from_pretrained(tmp_path)
        masked = AutoModelForMaskedLM.from_pretrained(tmp_path, attn_implementation="sdpa")
        causal = AutoModelForCausalLM.from_pretrained(tmp_path, torch_dtype=torch.bfloat16)
    assert isinstance(base, EuroBertModel) and isinstance(masked, EuroBertForMaskedLM)
    assert isinstance(causal, EuroBertForCausalLM) and causal.dtype == torch.bfloat16
    with torch.no_grad():
        expected = tiny_model.model(tokens).last_hidden_state
        assert torch.equal(base(tokens).last_hidden_state, expected)
        assert torch.equal(masked(tokens).logits, tiny_model(tokens).logits)
    assert set(tiny_model.state_dict()) == set(masked.state_dict())


def test_outputs_as_transformers_gives_them(tiny_model: EuroBertForMaskedLM) -> None:
    tokens = torch.arange(5)[None]
    output = tiny_model.model(tokens, output_hidden_states=True)
    assert len(output.hidden_states) == TINY.layers + 1
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert isinstance(tiny_model(tokens, return_dict=False), tuple)
    embedded = tiny_model.model(inputs_embeds=tiny_model.model.embed_tokens(tokens))
    assert torch.equal(embedded.last_hidden_state, output.last_hidden_state)


def test_parameter_shapes_are_those_of_the_model(tiny_model: EuroBertForMaskedLM) -> None:
    state = tiny_model.state_dict()
    assert parameter_shapes(tiny_model.config) == {name: tuple(t.shape) for name, t in state.items()}


def test_tensors_that_do_not_fit_are_named(tiny_model: EuroBertForMaskedLM) -> None:
    state, config = tiny_model.state_dict(), tiny_model.config
    first = "model.layers.0.mlp.up_proj.weight"
    with pytest.raises(UserError, match=f"here lacks: {first}$"):
        check_state({name: t for name, t in state.items() if name != first}, config, "here")
    with pytest.raises(UserError, match=r"has shape \(3, 3\), not \(192, 64\)"):
        check_state({**state, first: torch.ones(3, 3)}, config, "here")
    with pytest.raises(UserError, match=r"unknown tensors: model.layers.0.mlp.up_proj.bias$"):
        check_state({**state, "model.layers.0.mlp.up_proj.bias": torch.ones(3)}, config, "here")
    with pytest.raises(UserError, match="and 17 more"):
        check_state({}, config, "here")
