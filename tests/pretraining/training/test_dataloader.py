import shutil
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import UserError
from pretraining.data.sampler import Cut, Order, lay_out
from pretraining.data.shard_manifest import load_manifest
from pretraining.plan.study_plan import Study
from pretraining.training.dataloader import StepBatch, prefetched
from tests.pretraining.packed import sequences
from tests.pretraining.small_study import open_data


def read_of(shares: list[StepBatch]) -> dict[int, list[int]]:
    """What the model reads of each sequence, by its id, wherever it is computed."""
    found = sequences(part.inputs for share in shares for part in share.microbatches)
    return {number: tokens.tolist() for number, tokens in found.items()}


def test_passes_hold_at_most_a_microbatch_of_longest_texts(
    study: Study, data: Path
) -> None:
    for size in (1, 4, 8):
        source = open_data(study, data, f"microbatch={size}")
        for step in range(4):
            made = source.step(step, "clm")
            assert (
                max(part.inputs.num_tokens for part in made.microbatches) <= size * 64
            )
            assert len(made.microbatches) == made.passes >= made.tokens / (size * 64)


def test_ranks_share_batches_and_masks(study: Study, data: Path) -> None:
    source = open_data(study, data)
    for step in (0, 3, 50):
        for objective, ratio in (("clm", None), ("mlm", 40)):
            whole = source.step(step, objective, ratio)
            shares = [
                source.step(step, objective, ratio, rank=rank, world=2)
                for rank in range(2)
            ]
            assert (
                sum(share.fingerprint for share in shares) % 2**64 == whole.fingerprint
            )
            assert sum(share.tokens for share in shares) == whole.tokens
            assert read_of(shares) == read_of([whole])
            assert torch.equal(shares[0].counts + shares[1].counts, whole.counts)
            assert (
                sum(len(share.microbatches) for share in shares)
                == shares[0].passes
                == shares[1].passes
            )
        assert source.step(step, "clm").tokens == source.step(step, "mlm", 40).tokens
    clm, mlm = source.step(1, "clm"), source.step(1, "mlm", 40)
    originals = torch.cat([part.inputs.tokens for part in clm.microbatches])
    masked = torch.cat([part.inputs.tokens for part in mlm.microbatches])
    assert ((originals == masked) | (masked == 389)).all()
    assert source.step(1, "mlm", 20).fingerprint != mlm.fingerprint
    assert len(read_of([whole])) == study.config.batches.global_batch
    assert len(whole.counts) == 2


def test_documents_can_be_kept_apart(study: Study, data: Path) -> None:
    apart = open_data(study, data, "attention=document")
    whole = open_data(study, data)
    end, seen = load_manifest(data)["tokenizer"]["eos_id"], []
    for step in range(20):
        ours = apart.step(step, "clm").microbatches
        theirs = whole.step(step, "clm").microbatches
        assert torch.equal(
            torch.cat([p.inputs.tokens for p in ours]),
            torch.cat([p.inputs.tokens for p in theirs]),
        )
        for part in ours:
            for place in range(len(part.inputs)):
                first, last = (
                    part.inputs.cu_seqlens[place],
                    part.inputs.cu_seqlens[place + 1],
                )
                assert end not in part.inputs.tokens[first : last - 1]
            seen += part.inputs.sample_ids.tolist()
    assert len(set(seen)) == len(seen)
    fixed = open_data(study, data, "cut=fixed").step(0, "mlm", 40)
    assert {
        int(n) for part in fixed.microbatches for n in part.inputs.cu_seqlens.diff()
    } == {64}


def test_validation_masks_never_change(study: Study, data: Path) -> None:
    source = open_data(study, data)
    first, second = (list(source.validation("mlm", 40)) for _ in range(2))
    assert all(
        torch.equal(a.inputs.tokens, b.inputs.tokens)
        for a, b in zip(first, second, strict=True)
    )
    shares = [
        part.count
        for rank in range(3)
        for part in source.validation("mlm", 40, rank=rank, world=3)
    ]
    assert sum(shares) == sum(part.count for part in first)


def test_steps_load_ahead_in_order_and_errors_reach_the_reader() -> None:
    def load(step: int) -> StepBatch:
        if step == 5:
            raise UserError("a shard is damaged")
        return StepBatch(
            step=step,
            microbatches=[],
            counts=torch.zeros(1),
            passes=0,
            tokens=step,
            fingerprint=0,
        )

    assert [batch.step for batch in prefetched(load, 1, 4)] == [1, 2, 3]
    batches = prefetched(load, 3, 9)
    assert [next(batches).step, next(batches).step] == [3, 4]
    with pytest.raises(UserError, match="a shard is damaged"):
        next(batches)
    prefetched(load, 0, 100).close()


def test_ids_that_the_tokenizer_does_not_have_are_refused(
    study: Study, data: Path
) -> None:
    """Their shards' hashes fit, and the model has rows enough: only the tokenizer knows."""
    source = open_data(study, data)
    source.step(0, "clm")
    source._vocab_size = 100
    with pytest.raises(
        UserError,
        match=r"train: near token \d+ there is an id that the tokenizer does not have",
    ):
        source.step(0, "clm")


def test_an_index_of_other_shards_is_refused(
    study: Study, data: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(data, tmp_path / "copy"))
    shutil.copytree(copy / "validation", copy / "train", dirs_exist_ok=True)
    with pytest.raises(
        UserError,
        match=r"train/index\.json is not the index the manifest was made with",
    ):
        open_data(study, copy)


def test_the_next_blocks_shards_are_opened_before_their_step(
    study: Study, data: Path, tmp_path: Path
) -> None:
    words = (f"cache={tmp_path}", "shuffle_block=64", "shuffle_chunk=16")
    source = open_data(study, data, *words)
    opening = source.open_ahead(0)
    assert opening is not None
    opening.join(60)
    assert not opening.is_alive() and list(tmp_path.rglob("*.mds"))
    assert source.open_ahead(1) is None, "the block after step 1 is the same"
    assert source.open_ahead(8) is not None
    blocks = -(-source.order.samples // 64)
    assert source.open_ahead(source.order.steps_per_epoch - 1) is None, (
        f"nothing follows block {blocks}"
    )


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=60),
    world=st.integers(1, 9),
    most=st.integers(1, 120),
)
@settings(max_examples=150, deadline=None)
def test_each_sequence_is_computed_once_in_allowed_passes(
    lengths: list[int], world: int, most: int
) -> None:
    world = min(world, len(lengths))
    shares = lay_out(lengths, world, most)
    assert len(shares) == world and all(shares)
    passes = list(chain.from_iterable(shares))
    assert sorted(chain.from_iterable(part.tolist() for part in passes)) == list(
        range(len(lengths))
    )
    sizes = np.array(lengths)
    assert all(sizes[part].sum() <= most or len(part) == 1 for part in passes)
    assert all((np.diff(part) > 0).all() for part in passes)


def paper_lengths(step: int) -> np.ndarray:
    order = Order(samples=2_000_000, batch=2304, seed=0)
    starts, stops = Cut(shortest=12, longest=2048, seed=0).spans(
        order.batch_of(step)[1]
    )
    return stops - starts


@pytest.mark.parametrize("world", [8, 64, 192])
def test_ranks_share_the_same_batch(world: int) -> None:
    """The paper's step on its 192 ranks: the fullest has at most 1 % more tokens than the mean."""
    for step in (0, 7, 500):
        lengths = paper_lengths(step)
        tokens = [
            sum(lengths[part].sum() for part in share)
            for share in lay_out(lengths, world, 24_576)
        ]
        assert sum(tokens) == lengths.sum()
        assert max(tokens) <= 1.01 * np.mean(tokens)


def test_passes_are_as_few_as_fit_and_as_full() -> None:
    lengths = paper_lengths(3)
    (share,) = lay_out(lengths, 1, 24_576)
    sizes = [int(lengths[part].sum()) for part in share]
    assert len(sizes) <= -(-lengths.sum() // 24_576) + 1
    assert max(sizes) <= 1.01 * np.mean(sizes)
