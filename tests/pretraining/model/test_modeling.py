import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig, shape_of
from pretraining.model.modeling import (
    EuroBertForMaskedLM,
    RMSNorm,
    initialise,
    rotary_tables,
    rotate,
)
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import SHAPES
from tests.pretraining.packed import padded
from tests.pretraining.sizes import TINY, config_for

EXACT = {"210m": 310_266_624, "610m": 755_625_600, "1b": 1_409_482_944}


def llama_like(config: EncoderConfig) -> LlamaForCausalLM:
    same = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_theta",
    )
    fields = {name: getattr(config, name) for name in same}
    return LlamaForCausalLM(LlamaConfig(**fields, pad_token_id=None)).eval()


@pytest.mark.parametrize("size", SHAPES)
def test_parameter_counts(size: str) -> None:
    with torch.device("meta"):
        model = EuroBertForMaskedLM(config_for(size))
    total = sum(p.numel() for p in model.parameters())
    assert total == EXACT[size] == SHAPES[size].trained_parameters
    body = sum(
        p.numel() for name, p in model.model.named_parameters() if "embed" not in name
    )
    assert body == SHAPES[size].body_parameters
    assert total - body == 2 * SHAPES[size].embedding_parameters
    assert shape_of(model.config) == SHAPES[size]


def test_causal_logits_loss_and_gradients_equal_those_of_llama(
    tiny_model: EuroBertForMaskedLM,
) -> None:
    ours = tiny_model.eval()
    ours.config.is_causal = True
    theirs = llama_like(tiny_model.config)
    theirs.load_state_dict(ours.state_dict())
    tokens = torch.randint(0, 311, (3, 70), generator=torch.Generator().manual_seed(0))
    attention_mask = torch.ones_like(tokens)
    attention_mask[1, 50:] = 0
    attention_mask[2, :20] = 0
    with torch.no_grad():
        a, b = (
            ours(tokens, attention_mask).logits,
            theirs(tokens, attention_mask).logits,
        )
    real = attention_mask.bool()
    torch.testing.assert_close(a[real], b[real], atol=1e-5, rtol=0)
    labels = tokens.clone()
    labels[0, 5:9] = -100
    logits = ours(tokens).logits[:, :-1].flatten(0, 1)
    losses = [
        F.cross_entropy(logits, labels[:, 1:].flatten()),
        theirs(tokens, labels=labels).loss,
    ]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("is_causal", [False, True])
def test_packed_and_padded_hidden_states_agree(
    is_causal: bool, tiny_model: EuroBertForMaskedLM, batch: PackedBatch
) -> None:
    input_ids, attention_mask = padded(batch, pad_token_id=1)
    with torch.no_grad():
        packed = tiny_model.model.encode(batch, is_causal=is_causal)
        of_padded = tiny_model.model(
            input_ids, attention_mask, is_causal=is_causal
        ).last_hidden_state
        left = tiny_model.model(
            torch.stack(
                [
                    row.roll(int(1 - m.sum()))
                    for row, m in zip(input_ids, attention_mask, strict=True)
                ]
            ),
            torch.stack([m.roll(int(1 - m.sum())) for m in attention_mask]),
            is_causal=is_causal,
        )
    assert left.last_hidden_state.isfinite().all()
    torch.testing.assert_close(
        packed, of_padded[attention_mask.bool()], atol=5e-6, rtol=0
    )


def test_rms_norm_is_float32_inside_and_keeps_the_type() -> None:
    norm = RMSNorm(4, 1e-5).bfloat16()
    hidden = torch.tensor([[300.0, 1.0, -2.0, 0.5]], dtype=torch.bfloat16)
    out = norm(hidden)
    wide = hidden.float()
    expected = (wide / (wide.square().mean() + 1e-5).sqrt()).bfloat16()
    assert out.dtype == torch.bfloat16 and torch.equal(out, expected)


def test_rotary_scores_depend_on_distance_alone() -> None:
    q, k = torch.randn(2, 1, 1, 16, generator=torch.Generator().manual_seed(0)).unbind()
    scores = []
    for shift in (0, 7, 1000):
        cos, sin = rotary_tables(torch.tensor([3 + shift, 8 + shift]), 16, 10_000.0)
        scores.append((rotate(q, cos[:1], sin[:1]) * rotate(k, cos[1:], sin[1:])).sum())
    torch.testing.assert_close(
        torch.stack(scores), scores[0].repeat(3), atol=2e-4, rtol=0
    )


def test_positions_do_not_change_with_the_weights_type(
    tiny_model: EuroBertForMaskedLM,
) -> None:
    # A rotary buffer would be rounded to bfloat16 along with the weights: position 300 would become 300 +- 1.
    cos, _ = rotary_tables(torch.arange(2048), 16, 10_000.0)
    assert cos.dtype == torch.float32
    assert not list(tiny_model.bfloat16().buffers())


def test_initial_weights(tiny_config: EncoderConfig) -> None:
    first, second, other = (EuroBertForMaskedLM(tiny_config) for _ in range(3))
    torch.manual_seed(1)
    initialise(first, 7)
    torch.manual_seed(2)
    initialise(second, 7)
    initialise(other, 8)
    for (name, a), b, c in zip(
        first.named_parameters(), second.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(a, b), name
        if "norm" in name:
            assert (a == 1).all()
        else:
            assert not torch.equal(a, c)
            assert abs(a.std() / 0.02 - 1) < 0.1 and abs(a.mean()) < 2e-3, name
    eos = first.model.embed_tokens.weight[tiny_config.eos_token_id]
    assert eos.abs().min() > 0, "the end of text starts like any other token"


def test_the_end_of_text_is_trained_although_it_is_the_padding(
    tiny_model: EuroBertForMaskedLM,
) -> None:
    tiny_model.model.encode(PackedBatch.of([[5, 6, 1]])).square().sum().backward()
    gradient = tiny_model.model.embed_tokens.weight.grad
    assert gradient is not None and gradient[1].abs().sum() > 0
    assert tiny_model.model.embed_tokens.padding_idx is None


@pytest.mark.parametrize("is_causal", [False, True])
def test_one_product_for_projections_changes_rounding_only(
    is_causal: bool, tiny_model: EuroBertForMaskedLM, batch: PackedBatch
) -> None:
    names = list(tiny_model.state_dict())
    found = []
    for fused in (False, True):
        tiny_model.fuse_projections(fused)
        tiny_model.zero_grad()
        hidden = tiny_model.model.encode(batch, is_causal=is_causal)
        hidden.square().sum().backward()
        found.append(
            [
                hidden,
                *(
                    p.grad.clone()
                    for p in tiny_model.model.parameters()
                    if p.grad is not None
                ),
            ]
        )
    assert list(tiny_model.state_dict()) == names
    for apart, joined in zip(*found, strict=True):
        assert ((apart - joined).norm() / apart.norm()).item() < 2e-6


def test_wrong_input_is_reported(tiny_model: EuroBertForMaskedLM) -> None:
    with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
        tiny_model.model()
    with pytest.raises(ValueError, match="packed input"):
        tiny_model.model(torch.arange(4))
    with pytest.raises(UserError, match="did you mean 'sdpa'"):
        tiny_model.set_attention_backend("sdp")


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf"
)  # Dynamo looks at it
def test_compiled_blocks_equal_eager_and_fit_every_length(
    tiny_model: EuroBertForMaskedLM,
) -> None:
    rng = np.random.default_rng(0)
    batches = [
        PackedBatch.of(
            [rng.integers(0, 311, n) for n in rng.integers(12, 90, 5)], max_length=2048
        )
        for _ in range(5)
    ]
    expected = [tiny_model.model.encode(each).detach() for each in batches]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    tiny_model.compile_blocks()
    assert tiny_model.blocks_compiled
    graphs = []
    for each, hidden in zip(batches, expected, strict=True):
        found = tiny_model.model.encode(each)
        found.square().sum().backward()
        torch.testing.assert_close(found, hidden, atol=1e-5, rtol=0)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    # Once for the first length, once for any length; both layers share them.
    assert 0 < graphs[0] < graphs[1] == graphs[-1]
    tiny_model.uncompile_blocks()
    assert not tiny_model.blocks_compiled


def test_outputs_as_transformers_gives_them(tiny_model: EuroBertForMaskedLM) -> None:
    tokens = torch.arange(5)[None]
    output = tiny_model.model(tokens, output_hidden_states=True)
    assert len(output.hidden_states) == TINY.layers + 1
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    embedded = tiny_model.model(inputs_embeds=tiny_model.model.embed_tokens(tokens))
    assert torch.equal(embedded.last_hidden_state, output.last_hidden_state)
