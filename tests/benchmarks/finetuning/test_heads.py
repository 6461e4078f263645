"""The heads that a fine-tuning puts on an encoder."""

from __future__ import annotations

import pytest
import torch

from benchmarks.finetuning.heads import SequenceHead, TokenHead, initialise_head, pool
from common.errors import UserError


def test_a_head_is_drawn_as_after_set_seed() -> None:
    head = SequenceHead(16, 3)
    initialise_head(head, 0.02, seed=4)
    torch.manual_seed(4)
    torch.testing.assert_close(head.dense.weight, torch.empty(16, 16).normal_(0, 0.02))
    torch.testing.assert_close(head.out.weight, torch.empty(3, 16).normal_(0, 0.02))
    assert not head.dense.bias.any() and not head.out.bias.any()
    other, state = TokenHead(16, 2), torch.get_rng_state()
    initialise_head(other, 0.02, seed=9)
    assert torch.equal(state, torch.get_rng_state())


def test_pooling_reads_the_real_tokens_only() -> None:
    hidden = torch.arange(12.0).view(2, 3, 2)
    lengths = torch.tensor([3, 2])
    assert pool(hidden, lengths).tolist() == [[2.0, 3.0], [7.0, 8.0]]
    assert pool(hidden, lengths, "first").tolist() == [[0.0, 1.0], [6.0, 7.0]]
    assert pool(hidden, lengths, "last").tolist() == [[4.0, 5.0], [8.0, 9.0]]
    late, linear = SequenceHead(2, 2, "late"), SequenceHead(2, 2, "mean")
    late.load_state_dict(linear.state_dict())
    one = hidden[:, :1]
    torch.testing.assert_close(late(one, torch.ones(2, dtype=torch.long)), linear(one, torch.tensor([1, 1])))
    with pytest.raises(UserError, match="did you mean 'mean'"):
        SequenceHead(2, 2, "meen")
