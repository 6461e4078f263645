import hashlib
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from common.errors import UserError
from pretraining.data.sampler import Cut, Order, counter_hash, split_documents

PAPER_CUT = Cut(shortest=12, longest=2048, seed=0)


def test_lengths_are_uniform_with_the_papers_mean() -> None:
    starts, stops = PAPER_CUT.spans(np.arange(200_000))
    lengths = stops - starts
    assert (lengths.min(), lengths.max()) == (12, 2048)
    assert lengths.mean() == 1030.0
    for half in (lengths[::2], lengths[1::2]):
        assert stats.chisquare(np.bincount(half - 12, minlength=2037)).pvalue > 1e-3
    expected = (2037**2 - 1) / 12
    assert lengths[::2].var() == pytest.approx(expected, rel=0.02)


@given(
    mode=st.sampled_from(["random", "fixed"]),
    shortest=st.integers(1, 20),
    extra=st.integers(0, 40),
    tokens=st.integers(0, 3000),
    seed=st.integers(0, 2**63),
)
@settings(max_examples=50, deadline=None)
def test_sequences_tile_the_stream(
    mode: str, shortest: int, extra: int, tokens: int, seed: int
) -> None:
    cut = Cut(mode=mode, shortest=shortest, longest=shortest + extra, seed=seed)
    count = cut.count(tokens)
    starts, stops = cut.spans(np.arange(count))
    assert (stops > starts).all()
    assert (stops - starts <= cut.longest).all()
    if count:
        assert starts[0] == 0
        assert (starts[1:] == stops[:-1]).all()
        assert tokens - 2 * cut.longest < stops[-1] <= tokens


def test_a_sample_is_found_alone() -> None:
    starts, stops = PAPER_CUT.spans(np.arange(1000))
    for sample in (0, 1, 998, 999):
        start, stop = PAPER_CUT.spans([sample])
        assert (start[0], stop[0]) == (starts[sample], stops[sample])


def test_other_seeds_cut_elsewhere() -> None:
    other = Cut(shortest=12, longest=2048, seed=1)
    assert (
        other.spans(np.arange(100))[1] != PAPER_CUT.spans(np.arange(100))[1]
    ).mean() > 0.4


@given(
    samples=st.integers(1, 300),
    batch=st.integers(1, 20),
    block=st.integers(1, 80),
    chunk=st.integers(1, 80),
    epoch=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_an_epoch_is_a_permutation(
    samples: int, batch: int, block: int, chunk: int, epoch: int
) -> None:
    if samples < batch:
        return
    order = Order(samples=samples, batch=batch, seed=5, block=block, chunk=chunk)
    assert sorted(order.at(epoch, 0, samples).tolist()) == list(range(samples))
    steps = range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch)
    batches = [order.batch_of(step) for step in steps]
    assert all(found == epoch for found, _ in batches)
    trained = np.concatenate([ids for _, ids in batches])
    assert (trained == order.at(epoch, 0, len(trained))).all()


def test_blocks_and_epochs_are_shuffled() -> None:
    order = Order(samples=4096, batch=64, seed=3, block=512)
    first, second = order.at(0, 0, 4096), order.at(1, 0, 4096)
    assert (first != second).mean() > 0.9
    assert len(set((first[:512] // 512).tolist())) == 1
    assert abs(np.corrcoef(first[:512], np.arange(512))[0, 1]) < 0.2


def test_the_order_never_changes() -> None:
    """Golden: sha256 of Order(samples=10_000, batch=96, seed=7, block=1024).at(e, 0, 10_000) for e in 0, 1."""
    order = Order(samples=10_000, batch=96, seed=7, block=1024)
    data = b"".join(
        order.at(epoch, 0, 10_000).astype("<i8").tobytes() for epoch in (0, 1)
    )
    order_hash = "2cb8c25e4e68879d21ff8bccbd9fd0e37c9c88090b30deebeab5392e94c27702"
    assert hashlib.sha256(data).hexdigest() == order_hash
    lengths = np.diff(PAPER_CUT.spans(np.arange(10_000)), axis=0)
    lengths_hash = "0d1b7b3756a4db3c22d49ee410c2356e860f25c28f0e0fbcb24f7ddf4e4766b4"
    assert hashlib.sha256(lengths.astype("<i8").tobytes()).hexdigest() == lengths_hash


def test_a_block_of_chunks_comes_from_everywhere() -> None:
    """The paper's 97 M sequences: a step spans them all and the 2,000 decay steps hold some of each twentieth."""
    order = Order(samples=97_000_000, batch=2304, seed=0, chunk=2**14)
    neighbours = Order(samples=97_000_000, batch=2304, seed=0)
    _, step = order.batch_of(0)
    assert np.ptp(step) > 0.95 * order.samples
    assert np.ptp(neighbours.batch_of(0)[1]) < 0.02 * order.samples
    decay = order.at(0, 40_000 * 2304, 42_000 * 2304)
    shares = np.histogram(decay, bins=20, range=(0, order.samples))[0] / len(decay)
    assert (shares > 0.02).all() and (shares < 0.10).all()
    assert order.block_of(0) == (0, 0) and order.block_of(456) == (0, 1)
    starts, stops = order.stretches(0, 1)
    assert len(starts) == 64 and (stops - starts == 2**14).all()
    inside = order.at(0, 2**20, 2**20 + 5000)
    assert (np.searchsorted(starts, inside, side="right") > 0).all()
    places = np.searchsorted(starts, inside, side="right") - 1
    assert (inside < stops[places]).all()


def test_data_of_one_block_have_one_order_whatever_the_chunks() -> None:
    """Small studies and committed losses therefore stay what they are."""
    orders = [
        Order(samples=10_000, batch=96, seed=7, chunk=chunk)
        for chunk in (100, 2**14, 2**20)
    ]
    for epoch in (0, 1):
        first, *others = (order.at(epoch, 0, 10_000) for order in orders)
        assert all((first == other).all() for other in others)


def test_hash_is_splitmix64() -> None:
    """The first output of SplitMix64 seeded with 0 is 0xE220A8397B1DCDAF (Vigna's reference implementation)."""
    assert int(counter_hash([0])[0]) == _reference(0)
    assert _reference(0) == 0xE220A8397B1DCDAF
    assert int(counter_hash([5], 3)[0]) == _reference(5 ^ _reference(3))
    for key in (-1, 2**63, 2**64 + 7):
        assert int(counter_hash([5], key)[0]) == _reference(5 ^ _reference(key % 2**64))


def _reference(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def test_documents_end_after_their_end_of_text() -> None:
    tokens = np.array([4, 5, 0, 0, 6, 7])
    assert [tokens[part].tolist() for part in split_documents(tokens, 0)] == [
        [4, 5, 0],
        [0],
        [6, 7],
    ]
    assert [tokens[part].tolist() for part in split_documents(tokens[:3], 0)] == [
        [4, 5, 0]
    ]
    assert split_documents(np.array([1, 2]), 0) == [slice(0, 2)]


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(UserError, match="but one step needs 12"):
        Order(samples=11, batch=12, seed=0)


@pytest.mark.parametrize("mode", ["random", "fixed"])
def test_mean_lengths_are_those_of_the_spans(mode: Literal["random", "fixed"]) -> None:
    cut = Cut(mode=mode, shortest=12, longest=96, seed=3)
    starts, stops = cut.spans(np.arange(20_000))
    lengths = (stops - starts).astype(float)
    assert lengths.mean() == pytest.approx(cut.mean_length, rel=0.01)
    assert (lengths**2).sum() / lengths.sum() == pytest.approx(
        cut.attended_length, rel=0.01
    )
