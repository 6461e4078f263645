"""Heads and poolings; each model class's own head gives the logits of the class itself, loaded after `set_seed`."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    set_seed,
)

from benchmarks.finetuning.encoders import load_model
from benchmarks.finetuning.heads import (
    MEAN,
    POOLINGS,
    ClassHead,
    SequenceHead,
    TokenHead,
    sequence_head,
    token_head,
)
from benchmarks.protocol import HeadName, get_dataset
from common.errors import UserError
from tests.benchmarks.tiny import resettable_of


def test_a_head_is_drawn_as_after_set_seed() -> None:
    head = SequenceHead(16, 3)
    head.draw(0.02, seed=4)
    torch.manual_seed(4)
    torch.testing.assert_close(head.dense.weight, torch.empty(16, 16).normal_(0, 0.02))
    torch.testing.assert_close(head.out.weight, torch.empty(3, 16).normal_(0, 0.02))
    assert not head.dense.bias.any() and not head.out.bias.any()
    other, state = TokenHead(16, 2), torch.get_rng_state()
    other.draw(0.02, seed=9)
    assert torch.equal(state, torch.get_rng_state())


def test_pooling_reads_the_real_tokens_only() -> None:
    hidden = torch.arange(12.0).view(2, 3, 2)
    lengths = torch.tensor([3, 2])
    assert MEAN.pool(hidden, lengths).tolist() == [[2.0, 3.0], [7.0, 8.0]]
    assert POOLINGS["first"].pool(hidden, lengths).tolist() == [[0.0, 1.0], [6.0, 7.0]]
    assert POOLINGS["last"].pool(hidden, lengths).tolist() == [[4.0, 5.0], [8.0, 9.0]]
    late, linear = SequenceHead(2, 2, POOLINGS["late"]), SequenceHead(2, 2, MEAN)
    late.load_state_dict(linear.state_dict())
    one = hidden[:, :1]
    torch.testing.assert_close(
        late(one, torch.ones(2, dtype=torch.long)), linear(one, torch.tensor([1, 1]))
    )
    with pytest.raises(UserError, match="did you mean 'mean'"):
        _ = POOLINGS["meen"]


OWN = ("bert", "roberta", "modernbert")


def logits_of(
    auto: Any,
    folder: Path,
    labels: int,
    seed: int,
    ids: torch.Tensor,
    lengths: torch.Tensor,
) -> Any:
    set_seed(seed)
    model = auto.from_pretrained(
        folder, num_labels=labels, attn_implementation="sdpa"
    ).eval()
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask.long()).logits


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize(
    ("name", "auto"),
    [
        ("mnli_m", AutoModelForSequenceClassification),
        ("uner_en", AutoModelForTokenClassification),
    ],
)
def test_the_logits_are_those_of_the_class_after_set_seed(
    kind: str, name: str, auto: Any, model_folder: Callable[..., Path]
) -> None:
    folder, dataset = model_folder(kind), get_dataset(name)
    ids, lengths = (
        torch.randint(3, 300, (3, 11), generator=torch.Generator().manual_seed(0)),
        torch.tensor([11, 4, 7]),
    )
    resettable = resettable_of(folder)
    seen = []
    for seed in (3, 4, 3):  # what ran before leaves nothing behind
        model = resettable.reset(dataset, seed).eval()
        assert isinstance(model.head, ClassHead)
        with torch.no_grad():
            ours = model(ids, lengths)
        assert dataset.labels is not None
        theirs = logits_of(auto, folder, dataset.labels, seed, ids, lengths)
        if ours.dim() == 3:
            real = torch.arange(11) < lengths[:, None]
            ours, theirs = ours[real], theirs[real]
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        seen.append(ours)
        for parameter in model.parameters():
            parameter.data += 1
    assert not torch.equal(seen[0], seen[1]) and torch.equal(seen[0], seen[2])


def test_missing_pooler_is_drawn_with_the_seed(
    model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(model_folder("bert"), tmp_path / "bert"))
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: value for name, value in weights.items() if "pooler" not in name},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    ids, lengths = torch.randint(3, 300, (2, 6)), torch.tensor([6, 4])
    resettable = resettable_of(folder)
    with torch.no_grad():
        ours = resettable.reset(get_dataset("sst2"), 7).eval()(ids, lengths)
    theirs = logits_of(AutoModelForSequenceClassification, folder, 2, 7, ids, lengths)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["ours", "llama", "bert"])
def test_own_heads_are_used_when_asked_for_or_needed(
    kind: str, model_folder: Callable[..., Path]
) -> None:
    encoder = load_model(str(model_folder(kind))).encoder
    for name in get_args(HeadName)[-1:] if kind == "bert" else get_args(HeadName):
        assert isinstance(
            sequence_head(encoder, 2, POOLINGS["last"], name), SequenceHead
        )
        assert isinstance(token_head(encoder, 2, name), TokenHead)


def test_mntp_logits_come_from_the_state_before_a_token() -> None:
    head, hidden = TokenHead(8, 3, shift=1), torch.randn(2, 6, 8)
    plain = TokenHead(8, 3)
    plain.load_state_dict(head.state_dict())
    with torch.no_grad():
        found, wanted = (one(hidden, torch.tensor([6, 4])) for one in (head, plain))
    assert torch.equal(found[:, 1:], wanted[:, :-1]) and torch.equal(
        found[:, 0], wanted[:, 0]
    )


def test_token_types_reach_a_model_that_takes_them(
    model_folder: Callable[..., Path],
) -> None:
    ids, lengths = torch.randint(3, 300, (1, 6)), torch.tensor([6])
    kinds = torch.tensor([[0, 0, 0, 1, 1, 1]])
    for kind, takes in (("bert", True), ("ours", False)):
        encoder = load_model(str(model_folder(kind))).encoder.eval()
        assert encoder.takes_kinds == takes
        with torch.no_grad():
            same = torch.equal(encoder(ids, lengths), encoder(ids, lengths, kinds))
        assert same != takes
