from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import UserError
from pretraining.data.sampler import Cut, Order
from pretraining.training.dataloader import LAYOUTS, lay_out


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    world=st.integers(1, 9),
    most=st.integers(1, 120),
    layout=st.sampled_from(list(LAYOUTS)),
)
@settings(max_examples=150, deadline=None)
def test_each_sequence_is_computed_once_and_passes_are_no_larger_than_allowed(
    lengths: list[int], world: int, most: int, layout: str
) -> None:
    if len(lengths) < world:
        with pytest.raises(ValueError, match="without any"):
            lay_out(lengths, world, most, layout)
        return
    shares = lay_out(lengths, world, most, layout)
    assert len(shares) == world and all(shares)
    passes = list(chain.from_iterable(shares))
    assert sorted(chain.from_iterable(part.tolist() for part in passes)) == list(range(len(lengths)))
    sizes = np.array(lengths)
    assert all(sizes[part].sum() <= most or len(part) == 1 for part in passes)
    assert all((np.diff(part) > 0).all() for part in passes)


def paper_lengths(step: int) -> np.ndarray:
    order = Order(samples=2_000_000, batch=2304, seed=0)
    starts, stops = Cut(shortest=12, longest=2048, seed=0).spans(order.batch_of(step)[1])
    return stops - starts


@pytest.mark.parametrize("world", [8, 64, 192])
def test_ranks_share_the_same_batch(world: int) -> None:
    """The paper's step on its 192 ranks: the fullest has at most 1 % more tokens than the mean."""
    for step in (0, 7, 500):
        lengths = paper_lengths(step)
        tokens = {
            layout: [
                sum(lengths[part].sum() for part in share)
                for share in lay_out(lengths, world, 24_576, layout)
            ]
            for layout in LAYOUTS
        }
        assert sum(tokens["balanced"]) == sum(tokens["order"]) == lengths.sum()
        assert max(tokens["balanced"]) <= 1.01 * np.mean(tokens["balanced"])
        assert max(tokens["order"]) > 1.02 * np.mean(tokens["order"])


def test_passes_are_as_few_as_fit_and_as_full() -> None:
    lengths = paper_lengths(3)
    (share,) = lay_out(lengths, 1, 24_576)
    sizes = [int(lengths[part].sum()) for part in share]
    assert len(sizes) <= -(-lengths.sum() // 24_576) + 1
    assert max(sizes) <= 1.01 * np.mean(sizes)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(UserError, match=r"unknown layout 'balance'; .*did you mean 'balanced'"):
        lay_out([1, 2], 1, 9, "balance")
