import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pretraining.model.masking import (
    MLM_STREAM,
    VALIDATION_STREAM,
    MaskRule,
    batch_mask,
    sample_mask,
)
from pretraining.model.packed_batch import PackedBatch
from tests.pretraining.packed import split
from tests.pretraining.sizes import config_for

RATIOS = (0.2, 0.3, 0.4, 0.5)
IDS = st.integers(0, 2**62)


def rule(ratio: float = 0.4, seed: int = 0, **other: int) -> MaskRule:
    return MaskRule(ratio=ratio, seed=seed, **other)


def test_golden_mask() -> None:
    # python -c "import numpy as np; from pretraining.model.masking import *; print(np.flatnonzero(sample_mask(
    #     np.arange(40), MaskRule(ratio=0.4, seed=42), sample_id=7, epoch=1)).tolist())"
    expected = [7, 8, 15, 19, 20, 21, 23, 30, 31, 33, 34, 36]
    found = sample_mask(np.arange(40), rule(seed=42), sample_id=7, epoch=1)
    assert np.flatnonzero(found).tolist() == expected


@pytest.mark.parametrize(
    ("stream", "epoch", "counted"), [(MLM_STREAM, 1, 1), (VALIDATION_STREAM, 3, 0)]
)
def test_generator_is_philox_with_documented_key_and_counter(
    stream: int, epoch: int, counted: int
) -> None:
    """The streams' numbers are part of the protocol: another one would give every validation loss other masks."""
    counter = np.array([0, 0, 7, counted], dtype=np.uint64)
    expected = (
        np.random.Generator(np.random.Philox(key=[42, stream], counter=counter)).random(
            500
        )
        < 0.3
    )
    found = sample_mask(
        np.zeros(500, np.int64), rule(0.3, 42, stream=stream), sample_id=7, epoch=epoch
    )
    assert (found == expected).all()


def test_neighbouring_tokens_samples_and_seeds_are_independent() -> None:
    tokens = np.zeros(100_000, np.int64)
    base = sample_mask(tokens, rule(), sample_id=5, epoch=0)
    others = {
        "next token": np.roll(base, 1),
        "next sample": sample_mask(tokens, rule(), sample_id=6, epoch=0),
        "next epoch": sample_mask(tokens, rule(), sample_id=5, epoch=1),
        "next seed": sample_mask(tokens, rule(seed=1), sample_id=5, epoch=0),
        "swapped": sample_mask(tokens, rule(), sample_id=0, epoch=5),
        "validation": sample_mask(
            tokens, rule(stream=VALIDATION_STREAM), sample_id=5, epoch=0
        ),
    }
    for name, other in others.items():
        correlation = np.corrcoef(base, other)[0, 1]
        assert abs(correlation) < 4 / np.sqrt(len(tokens)), name


@given(
    st.lists(IDS, min_size=1, max_size=6, unique=True), st.integers(0, 5), st.randoms()
)
@settings(deadline=None)
def test_masks_know_nothing_of_the_batch(
    ids: list[int], epoch: int, random: object
) -> None:
    sequences = {
        i: np.random.default_rng(i).integers(0, 128_256, 12 + i % 30) for i in ids
    }
    batch = PackedBatch.of(list(sequences.values()), ids, epoch=epoch)
    alone = {
        i: sample_mask(tokens, rule(), sample_id=i, epoch=epoch).tolist()
        for i, tokens in sequences.items()
    }
    shuffled = list(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for order in (ids, shuffled):
        again = PackedBatch.of([sequences[i] for i in order], order, epoch=epoch)
        assert batch_mask(again, rule()).tolist() == [
            m for i in order for m in alone[i]
        ]
    parts = [batch_mask(part, rule()) for part in split(batch, 2)]
    assert (np.concatenate(parts) == batch_mask(batch, rule())).all()


@given(IDS, st.integers(0, 2**40))
def test_ratios_are_nested(sample_id: int, epoch: int) -> None:
    tokens = np.zeros(200, np.int64)
    masks = [
        sample_mask(tokens, rule(r), sample_id=sample_id, epoch=epoch) for r in RATIOS
    ]
    for smaller, larger in itertools.pairwise(masks):
        assert not (smaller & ~larger).any()


@given(st.integers(0, 2**32))
def test_special_tokens_are_never_masked(sample_id: int) -> None:
    tokens = np.random.default_rng(sample_id).choice(
        [128_000, 128_001, 128_002, 5, 128_003], 200
    )
    masked = sample_mask(tokens, rule(0.5), sample_id=sample_id, epoch=0)
    assert set(tokens[masked]) <= {5, 128_003}


def test_specials_do_not_shift_the_draws() -> None:
    plain = sample_mask(np.full(100, 5), rule(), sample_id=1, epoch=0)
    tokens = np.full(100, 5)
    tokens[::2] = 128_001
    assert (
        sample_mask(tokens, rule(), sample_id=1, epoch=0)[1::2] == plain[1::2]
    ).all()


def test_rule_of_a_configuration() -> None:
    assert (
        MaskRule.of(config_for("610m"), ratio=0.3, seed=1, others=(7,)).special_ids[0]
        == 7
    )
    made = MaskRule.of(config_for("610m"), ratio=0.3, seed=1)
    assert (
        made.special_ids == (128_000, 128_001, 128_002)
        and made.mask_token_id == 128_002
    )
