from itertools import pairwise
from pkgutil import resolve_name

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pretraining.model.masking import MaskRule
from pretraining.model.modeling import EuroBertForMaskedLM
from pretraining.model.packed_batch import PackedBatch
from pretraining.models import OBJECTIVES
from pretraining.training.objectives import (
    clm,
    group_weights,
    loss_sum,
    mlm,
    prepare,
)

OBJECTIVE_OF = {name: resolve_name(OBJECTIVES[name].prepare) for name in OBJECTIVES}


@pytest.fixture
def rule(tiny_model: EuroBertForMaskedLM) -> MaskRule:
    return MaskRule.of(tiny_model.config, ratio=0.4, seed=3)


def grads(model: EuroBertForMaskedLM) -> dict[str, Tensor]:
    found = {
        name: p.grad.clone()
        for name, p in model.named_parameters()
        if p.grad is not None
    }
    model.zero_grad()
    return found


def plain_loss(
    model: EuroBertForMaskedLM,
    batch: PackedBatch,
    labels: list[Tensor],
    is_causal: bool,
) -> Tensor:
    """Sequence by sequence, with all logits: the definition."""
    total = torch.zeros(())
    starts = batch.cu_seqlens.tolist()
    for start, end, target in zip(starts, starts[1:], labels, strict=False):
        hidden = model.model(
            batch.tokens[None, start:end], is_causal=is_causal
        ).last_hidden_state[0]
        logits = model.lm_head(hidden)
        total = total + F.cross_entropy(
            logits, target, reduction="sum", ignore_index=-100
        )
    return total


def test_clm_predicts_the_next_token_of_the_same_sequence(batch: PackedBatch) -> None:
    made = clm(batch)
    assert made.is_causal and made.inputs is batch
    assert (
        made.count == batch.num_tokens - len(batch) == int((made.labels != -100).sum())
    )
    for start, end in zip(
        batch.cu_seqlens.tolist(), batch.cu_seqlens.tolist()[1:], strict=False
    ):
        assert made.labels[start:end].tolist() == [
            *batch.tokens[start + 1 : end].tolist(),
            -100,
        ]


def test_mlm_replaces_and_predicts_the_masked_tokens(
    batch: PackedBatch, rule: MaskRule
) -> None:
    made = mlm(batch, rule)
    assert not made.is_causal and made.positions is not None
    assert made.count == len(made.positions) == len(made.labels)
    assert (made.inputs.tokens[made.positions] == rule.mask_token_id).all()
    assert torch.equal(made.labels, batch.tokens[made.positions])
    others = torch.ones(batch.num_tokens, dtype=torch.bool)
    others[made.positions] = False
    assert torch.equal(made.inputs.tokens[others], batch.tokens[others])


def test_mntp_predicts_masked_tokens_from_the_ones_before(
    batch: PackedBatch, rule: MaskRule
) -> None:
    one, other = mlm(batch, rule), prepare(batch, "mntp", rule)
    assert (
        one.positions is not None
        and other.positions is not None
        and not other.is_causal
    )
    firsts = set(batch.cu_seqlens[:-1].tolist())
    masked = zip(one.positions.tolist(), one.labels.tolist(), strict=True)
    wanted = [(place - 1, label) for place, label in masked if place not in firsts]
    assert (
        list(zip(other.positions.tolist(), other.labels.tolist(), strict=True))
        == wanted
    )
    assert other.count == len(wanted) and torch.equal(
        one.inputs.tokens, other.inputs.tokens
    )


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_an_objective_predicts_the_same_alone_as_packed(
    objective: str, batch: PackedBatch, rule: MaskRule
) -> None:
    packed = prepare(batch, objective, rule)
    assert len(batch) > 1 and packed.inputs.cu_seqlens.equal(batch.cu_seqlens)
    places, labels, tokens = [], [], []
    starts = batch.cu_seqlens.tolist()
    for number, (start, end) in enumerate(pairwise(starts)):
        sequence = PackedBatch.of(
            [batch.tokens[start:end]],
            [int(batch.sample_ids[number])],
            epoch=batch.epoch,
        )
        alone = OBJECTIVE_OF[objective](sequence, rule)
        where = torch.arange(end - start)
        places += [
            start + int(i)
            for i in (where if alone.positions is None else alone.positions)
        ]
        labels += alone.labels.tolist()
        tokens += alone.inputs.tokens.tolist()
    assert packed.labels.tolist() == labels
    assert packed.inputs.tokens.tolist() == tokens
    assert packed.count == sum(label != -100 for label in labels)
    if packed.positions is not None:
        assert packed.positions.tolist() == places


@pytest.mark.parametrize("objective", ["clm", "mlm"])
def test_loss_and_gradients_equal_the_plain_computation(
    objective: str, tiny_model: EuroBertForMaskedLM, batch: PackedBatch, rule: MaskRule
) -> None:
    made = clm(batch) if objective == "clm" else mlm(batch, rule)
    labels = made.labels
    if made.positions is not None:
        labels = torch.full_like(batch.tokens, -100).index_copy(
            0, made.positions, made.labels
        )
    expected = plain_loss(
        tiny_model,
        made.inputs,
        list(labels.split(batch.cu_seqlens.diff().tolist())),
        made.is_causal,
    )
    expected.backward()
    theirs = grads(tiny_model)
    loss = loss_sum(tiny_model, made, chunk=17)
    loss.total.backward()
    ours = grads(tiny_model)
    assert loss.count == made.count
    torch.testing.assert_close(loss.total, expected, rtol=2e-6, atol=1e-5)
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(
            ours[name], theirs[name], rtol=1e-4, atol=2e-5, msg=name
        )


def test_labels_know_their_group(batch: PackedBatch, rule: MaskRule) -> None:
    numbers = torch.arange(len(batch)) % 3
    lengths = batch.cu_seqlens.diff().tolist()
    of_tokens = [
        int(number)
        for number, length in zip(numbers, lengths, strict=True)
        for _ in range(length)
    ]
    for made in (clm(batch), mlm(batch, rule)):
        grouped = made.grouped(numbers)
        assert grouped.groups is not None and grouped.groups.shape == made.labels.shape
        places = (
            range(batch.num_tokens)
            if made.positions is None
            else made.positions.tolist()
        )
        assert grouped.groups.tolist() == [of_tokens[place] for place in places]
        counts = grouped.counts(4)
        assert int(counts.sum()) == made.count and counts[3] == 0


def weights_of(counts: list[int], weighting: str) -> list[float]:
    return list(group_weights(torch.tensor(counts), weighting).tolist())


def test_weights() -> None:
    assert weights_of([2, 6], "token") == [1 / 8, 1 / 8]
    assert weights_of([2, 6], "equal") == [1 / 4, 1 / 12]
    assert weights_of([2, 0, 6], "equal") == [1 / 4, 0, 1 / 12]
    assert weights_of([0], "token") == weights_of([0], "equal") == [0.0]


@pytest.mark.parametrize("objective", ["clm", "mlm"])
def test_nothing_to_predict_is_no_loss_and_no_nan(
    objective: str, tiny_model: EuroBertForMaskedLM, rule: MaskRule
) -> None:
    # One end of text: nothing follows, and it is never masked
    batch = PackedBatch.of([[1]], [0])
    made = clm(batch) if objective == "clm" else mlm(batch, rule)
    loss = loss_sum(tiny_model, made)
    loss.mean.backward()
    assert loss.count == 0 and float(loss.mean.detach()) == 0
    assert all(grad.isfinite().all() for grad in grads(tiny_model).values())
