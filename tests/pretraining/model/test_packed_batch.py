import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pretraining.model.packed_batch import PackedBatch, positions_of
from tests.pretraining.packed import padded, split

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def sequences(lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(lengths))
    return [rng.integers(0, 100, length) for length in lengths]


@given(LENGTHS)
def test_tokens_positions_and_sequences_follow_the_given_arrays(lengths: list[int]) -> None:
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


@given(LENGTHS, st.integers(1, 9))
def test_micro_batches_hold_the_same_sequences(lengths: list[int], size: int) -> None:
    batch = PackedBatch.of(sequences(lengths), epoch=1, max_length=50)
    parts = split(batch, size)
    assert torch.equal(torch.cat([part.tokens for part in parts]), batch.tokens)
    positions = [positions_of(part.cu_seqlens, part.num_tokens) for part in parts]
    assert torch.equal(torch.cat(positions), positions_of(batch.cu_seqlens, batch.num_tokens))
    assert torch.equal(torch.cat([part.sample_ids for part in parts]), batch.sample_ids)
    assert all(part.max_length == 50 and part.epoch == 1 and len(part) <= size for part in parts)


@given(LENGTHS)
def test_padded_view(lengths: list[int]) -> None:
    given_sequences = sequences(lengths)
    input_ids, attention_mask = padded(PackedBatch.of(given_sequences), pad_token_id=101)
    for row, mask, sequence in zip(input_ids, attention_mask, given_sequences, strict=True):
        assert row[: len(sequence)].tolist() == sequence.tolist()
        assert (row[len(sequence) :] == 101).all()
        assert mask.tolist() == [1] * len(sequence) + [0] * (max(lengths) - len(sequence))


@pytest.mark.parametrize(
    ("bad", "ids", "message"),
    [
        ([], None, "at least one sequence"),
        ([[1], []], None, "sequence 1"),
        ([[[1, 2]]], None, "1-D"),
        ([[1.5]], None, "float64"),
        ([[1], [2]], [4], "2 sequences"),
        ([[1, 2, 3]], None, "more than 2"),
    ],
)
def test_what_cannot_be_packed_is_refused(bad: list, ids: list | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PackedBatch.of(bad, ids, max_length=2)
