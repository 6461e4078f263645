import pytest
import torch
from torch import Tensor

from common.errors import UserError
from pretraining.model.configuration import EncoderConfig
from pretraining.model.heads import EuroBertForSequenceClassification
from pretraining.model.pooling import POOLINGS, Pooling

HIDDEN = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]]])
MASK = torch.tensor([[1, 1, 0]])


@pytest.mark.parametrize(
    ("name", "expected"), [("mean", [4.0, 9.0]), ("bos", [1.0, 4.0]), ("late", [5.0, 10.0])]
)
def test_each_pooling_by_hand(name: str, expected: list[float]) -> None:
    logits = POOLINGS[name].logits(HIDDEN, MASK, lambda states: states**2)
    assert logits.tolist() == [expected]


def test_without_a_mask_every_token_counts() -> None:
    assert POOLINGS["mean"].logits(HIDDEN, None, lambda states: states)[0, 0] == pytest.approx(104 / 3)


def test_a_made_up_pooling_is_used_under_its_name(tiny_config: EncoderConfig) -> None:
    def last(hidden: Tensor, mask: Tensor | None, classify: object) -> Tensor:
        del mask, classify
        return hidden[:, -1, : tiny_config.num_labels] * 0 + 3

    POOLINGS.register(Pooling(name="threes", logits=last))
    try:
        fields = {**tiny_config.to_dict(), "classifier_pooling": "threes"}
        model = EuroBertForSequenceClassification(EncoderConfig(**fields))
        assert (model(torch.tensor([[4, 5]])).logits == 3).all()
    finally:
        POOLINGS.pop("threes")
    with pytest.raises(UserError, match="unknown classifier_pooling 'threes'"):
        EncoderConfig(**fields)
