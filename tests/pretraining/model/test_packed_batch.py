import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pretraining.model.packed_batch import PackedBatch, positions_of

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def sequences(lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(lengths))
    return [rng.integers(0, 100, length) for length in lengths]


@given(LENGTHS)
def test_tokens_positions_and_sequences_follow_the_given_arrays(
    lengths: list[int],
) -> None:
    given_sequences = sequences(lengths)
    batch = PackedBatch.of(given_sequences, list(range(7, 7 + len(lengths))), epoch=3)
    assert batch.tokens.tolist() == np.concatenate(given_sequences).tolist()
    assert positions_of(batch.cu_seqlens, batch.num_tokens).tolist() == [
        p for length in lengths for p in range(length)
    ]
    assert batch.cu_seqlens.diff().tolist() == lengths
    assert (batch.max_length, batch.epoch, len(batch), batch.num_tokens) == (
        max(lengths),
        3,
        len(lengths),
        sum(lengths),
    )
    assert batch.tokens.dtype == batch.sample_ids.dtype == torch.int64
    assert batch.cu_seqlens.dtype == torch.int32


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[1], []], "sequence 1"),
        ([[[1, 2]]], "1-D"),
        ([[1.5]], "float64"),
        ([[1, 2, 3]], "more than 2"),
    ],
)
def test_what_cannot_be_packed_is_refused(bad: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackedBatch.of(bad, max_length=2)
