"""The heads that a fine-tuning puts on an encoder."""

from __future__ import annotations

import torch

from benchmarks.finetuning.heads import SequenceHead, TokenHead


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
