import warnings
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig
from pretraining.model.heads import (
    POOLINGS,
    EuroBertForCausalLM,
    EuroBertForMaskedLM,
    EuroBertForSequenceClassification,
    EuroBertForTokenClassification,
    check_state,
    parameter_shapes,
)
from pretraining.model.modeling import EuroBertModel, initialise
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
        labelled = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
        tagged = AutoModelForTokenClassification.from_pretrained(tmp_path, num_labels=5)
    assert isinstance(base, EuroBertModel) and isinstance(masked, EuroBertForMaskedLM)
    assert isinstance(causal, EuroBertForCausalLM) and causal.dtype == torch.bfloat16
    with torch.no_grad():
        expected = tiny_model.model(tokens).last_hidden_state
        assert torch.equal(base(tokens).last_hidden_state, expected)
        assert torch.equal(masked(tokens).logits, tiny_model(tokens).logits)
        assert labelled(tokens).logits.shape == (1, 3)
        assert tagged(tokens).logits.shape == (1, 20, 5)
    assert set(tiny_model.state_dict()) == set(masked.state_dict())


@pytest.mark.parametrize("pooling", ["mean", "bos", "late"])
def test_sequence_classifier_ignores_padding(pooling: str, tiny_config: EncoderConfig) -> None:
    tiny_config.classifier_pooling, tiny_config.num_labels = pooling, 3
    model = EuroBertForSequenceClassification(tiny_config)
    initialise(model, 0)
    tokens = torch.arange(2, 12)[None]
    padded = torch.cat([tokens, torch.ones(1, 4, dtype=torch.int64)], dim=1)
    attention_mask = torch.tensor([[1] * 10 + [0] * 4])
    with torch.no_grad():
        torch.testing.assert_close(model(padded, attention_mask).logits, model(tokens).logits)
    loss = model(tokens, labels=torch.tensor([2])).loss
    loss.backward()
    assert loss > 0 and model.dense.weight.grad is not None


def test_one_label_is_a_regression(tiny_config: EncoderConfig) -> None:
    tiny_config.num_labels = 1
    model = EuroBertForSequenceClassification(tiny_config)
    tokens = torch.arange(4)[None]
    output = model(tokens, labels=torch.tensor([2.0]))
    torch.testing.assert_close(output.loss, (output.logits[0, 0] - 2).square())


def test_token_classifier_ignores_unlabelled_tokens(tiny_config: EncoderConfig) -> None:
    tiny_config.num_labels = 4
    model = EuroBertForTokenClassification(tiny_config)
    tokens = torch.arange(6)[None]
    labels = torch.tensor([[1, -100, 2, -100, -100, 3]])
    output = model(tokens, labels=labels)
    chosen = output.logits[0, [0, 2, 5]].log_softmax(-1)
    torch.testing.assert_close(output.loss, -chosen[range(3), [1, 2, 3]].mean())


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


def test_a_sequence_classifier_refuses_packed_batches() -> None:
    config = EncoderConfig(
        vocab_size=20, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    bounds = torch.tensor([0, 2, 5], dtype=torch.int32)
    with pytest.raises(ValueError, match="takes padded batches"):
        EuroBertForSequenceClassification(config)(torch.arange(5), cu_seqlens=bounds)


@pytest.mark.parametrize(
    ("name", "expected"), [("mean", [4.0, 9.0]), ("bos", [1.0, 4.0]), ("late", [5.0, 10.0])]
)
def test_each_pooling_by_hand(name: str, expected: list[float], tiny_config: EncoderConfig) -> None:
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]]])
    logits = POOLINGS[name].logits(hidden, torch.tensor([[1, 1, 0]]), lambda states: states**2)
    assert logits.tolist() == [expected]
    everything = POOLINGS["mean"].logits(hidden, None, lambda states: states)
    assert everything[0, 0] == pytest.approx(104 / 3), "without a mask every token counts"
    tiny_config.classifier_pooling = "men"
    with pytest.raises(UserError, match="did you mean 'mean'"):
        EuroBertForSequenceClassification(tiny_config)
