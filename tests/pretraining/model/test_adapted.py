"""Packed passes of transformers' classes beside each sequence alone, and what is refused."""

import pytest
import torch
import transformers as hf

from common.errors import UserError
from pretraining.model.adapted import AdaptedModel, check_packing
from pretraining.model.directions import probe_ids, sides
from pretraining.model.packed_batch import PackedBatch
from tests.pretraining.families import DECODERS, FAMILIES, PADDED, ROWS

LENGTHS = (5, 21, 1, 40, 3)


def made(family: str) -> AdaptedModel:
    torch.manual_seed(0)
    inner = FAMILIES[family]()
    # As a start is loaded: its window follows from the flag when the configuration is made
    if family == "gemma3":
        fields = {**inner.config.to_dict(), "use_bidirectional_attention": True}
        torch.manual_seed(0)
        inner = type(inner)(type(inner.config)(**fields))
    return AdaptedModel(inner).eval()


def sequences() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, 297, (length,), generator=generator) for length in LENGTHS]


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_logits_equal_each_sequence_alone_under_eager(
    family: str,
) -> None:
    model, texts = made(family), sequences()
    batch = PackedBatch.of([text.numpy() for text in texts])
    with torch.no_grad():
        for causal in (False, True) if family in DECODERS else (False,):
            packed = model.logits(model.encode(batch, is_causal=causal))
            alone = [model.plain(text[None], is_causal=causal)[0] for text in texts]
            torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-5, atol=1e-5)
    check_packing(model, family)


@pytest.mark.parametrize("family", ["gemma2", "bert", "llama", "gemma3"])
def test_the_loss_and_its_gradient_are_those_of_the_plain_logits(family: str) -> None:
    model, (text, *_) = made(family), sequences()[1:2]
    labels, weights = text.roll(3), torch.linspace(0.5, 2.0, len(text))
    labels[::4] = -100
    found = model.loss_of(
        model.encode(PackedBatch.of([text.numpy()]), is_causal=False),
        labels,
        weights=weights,
        chunk=8,
    )
    found.backward()
    ours = {
        name: p.grad.clone()
        for name, p in model.named_parameters()
        if p.grad is not None
    }
    model.zero_grad()
    plain = model.plain(text[None], is_causal=False)[0]
    each = torch.nn.functional.cross_entropy(
        plain, labels, ignore_index=-100, reduction="none"
    )
    wanted = (each * weights).sum()
    wanted.backward()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(
                ours[name], parameter.grad, rtol=1e-4, atol=1e-4, msg=name
            )


def test_the_soft_caps_of_the_large_weights_are_met() -> None:
    model = made("gemma2")
    with torch.no_grad():
        capped = model.plain(sequences()[1][None], is_causal=False)
        model.config.final_logit_softcapping = None
        assert (
            model.plain(sequences()[1][None], is_causal=False) - capped
        ).abs().max() > 1


def of_padded(family: str) -> AdaptedModel:
    torch.manual_seed(0)
    inner = PADDED[family]()
    inner.set_attn_implementation("eager")
    return AdaptedModel(inner).eval()


@pytest.mark.parametrize("family", PADDED)
def test_padded_rows_give_each_sequence_what_it_has_alone(family: str) -> None:
    model = of_padded(family)
    assert model.is_padded
    check_packing(model, family)
    texts = sequences()
    batch = PackedBatch.of([text.numpy() for text in texts])
    with torch.no_grad():
        packed = model.logits(model.encode(batch, is_causal=False))
        alone = [model.inner(input_ids=text[None]).logits[0] for text in texts]
    torch.testing.assert_close(packed, torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_an_encoder_that_reads_padded_rows_cannot_look_back_only() -> None:
    batch = PackedBatch.of([text.numpy() for text in sequences()])
    with pytest.raises(UserError, match="MPNetForMaskedLM cannot look back only"):
        of_padded("mpnet").encode(batch, is_causal=True)


@pytest.mark.parametrize("family", PADDED)
def test_a_class_drops_nothing_out_while_it_is_trained(family: str) -> None:
    model = of_padded(family).train()
    batch = PackedBatch.of([text.numpy() for text in sequences()])
    with torch.no_grad():
        assert torch.equal(*(model.encode(batch, is_causal=False) for _ in range(2)))


@pytest.mark.parametrize("family", ["bert", "gemma2"])
def test_no_labels_have_a_loss_of_zero_with_zero_gradients(family: str) -> None:
    model = made(family)
    batch = PackedBatch.of([text.numpy() for text in sequences()])
    features = model.encode(batch, is_causal=False)[:0]
    total = model.loss_of(features, torch.zeros(0, dtype=torch.int64))
    total.backward()
    assert float(total.detach()) == 0 and not model.head.weight.grad.any()


def test_probes_are_ids_of_different_rows() -> None:
    embedding = torch.nn.Embedding(1000, 8, padding_idx=990)
    with torch.no_grad():
        embedding.weight[60:] = embedding.weight[0]  # as new words begin
        embedding.weight[970:980] = torch.arange(80.0).view(10, 8)
    found = probe_ids(embedding)
    assert len(found) == 18 and 990 not in found
    assert len(torch.unique(embedding.weight[found], dim=0)) == 18
    assert torch.equal(found, probe_ids(embedding))
    with torch.no_grad():
        embedding.weight[1:] = embedding.weight[0]
    assert len(probe_ids(embedding)) == 18


def test_class_that_mixes_neighbouring_sequences_is_refused() -> None:
    config = hf.Lfm2Config(
        vocab_size=ROWS,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"],
    )
    with pytest.raises(UserError, match="lfm cannot be trained"):
        check_packing(AdaptedModel(hf.Lfm2ForCausalLM(config)), "lfm")


def test_sides_know_a_causal_output_and_one_that_padding_changes() -> None:
    def mean(ids: torch.Tensor, length: int) -> torch.Tensor:
        return (
            ids[:, :length].float().mean(1, keepdim=True).expand(ids.shape)[..., None]
        )

    probes = probe_ids(torch.nn.Embedding(64, 8))
    assert sides(mean, probes).both_ways
    assert not sides(
        lambda ids, length: ids.float().cumsum(1)[..., None], probes
    ).both_ways
    assert not sides(lambda ids, length: mean(ids, ids.shape[1]), probes).both_ways


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
@pytest.mark.parametrize("family", ["qwen2", "bert"])
def test_compiled_layers_and_loss_give_the_same_numbers(family: str) -> None:
    """Attention stays outside of the graphs; with a bias in the head, so does the loss."""
    model = made(family)
    rows = [
        [torch.arange(5, 5 + length).numpy() for length in lengths]
        for lengths in ((20, 7), (9, 12), (3, 15))
    ]

    def computed() -> list[torch.Tensor]:
        found = []
        for each in rows:
            model.zero_grad()
            batch = PackedBatch.of(each)
            loss = model.loss_of(model.encode(batch), batch.tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            found += [loss.detach(), torch.cat([one.flatten() for one in gradients])]
        return found

    plain = computed()
    model.compile_blocks()
    assert model.blocks_compiled
    torch.testing.assert_close(computed(), plain, rtol=1e-4, atol=1e-5)
    model.uncompile_blocks()
    assert not model.blocks_compiled
