"""Masks for MLM, from a counter-based generator: a sample's mask depends only on (seed, sample id, epoch).

A sample is a sequence of tokens; its id is a number that it has in the data. Whatever the batch, the rank, the worker,
the order or the number of resumptions, the same sample in the same epoch gets the same mask. The paper masks from a
global generator that is never seeded, so that its own masks cannot be reproduced. Their distribution is the same: each
token that is not special is masked independently of the others, and always replaced by the mask token (BERT replaced
80 % of masked tokens by it, 10 % by a random token, and left 10 % as they were).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pretraining.model.configuration import EncoderConfig
from pretraining.model.packed_batch import PackedBatch
from pretraining.paper_settings import SPECIAL_TOKENS

MLM_STREAM = 0
"""Number for masks of training. A generator's key is (seed, stream), so that no two purposes share random numbers."""
VALIDATION_STREAM = 1
"""Number for masks of validation, which are the same in every epoch."""


@dataclass(frozen=True, kw_only=True)
class MaskRule:
    """Rule of masking: which tokens, how often, and by which generator."""

    ratio: float
    """Probability that a token which is not special is masked, in (0, 1): 0.2, 0.3, 0.4 or 0.5 in the paper."""
    seed: int
    """Seed of the masks."""
    mask_token_id: int = SPECIAL_TOKENS.mask_id
    """What a masked token is replaced by."""
    special_ids: tuple[int, ...] = (
        SPECIAL_TOKENS.begin_id,
        SPECIAL_TOKENS.end_id,
        SPECIAL_TOKENS.mask_id,
    )
    """Tokens that are never masked: begin and end of text (which is also the padding), the mask, and others."""
    stream: int = MLM_STREAM
    """`MLM_STREAM`, or `VALIDATION_STREAM` for masks that stay the same in every epoch."""

    @classmethod
    def of(
        cls,
        config: EncoderConfig,
        *,
        ratio: float,
        seed: int,
        stream: int = MLM_STREAM,
        others: Iterable[int] = (),
    ) -> MaskRule:
        """Return a rule for which the special tokens of a model's configuration are never masked.

        Args:
            config: the model's configuration.
            ratio: probability that another token is masked, in (0, 1).
            seed: seed of the masks.
            stream: `MLM_STREAM` or `VALIDATION_STREAM`.
            others: ids of further tokens that are never masked.
        """
        ends = config.bos_token_id, config.eos_token_id, config.pad_token_id
        special = set(others)
        for token in (*ends, config.mask_token_id):
            # Not every tokenizer has all these tokens.
            if token is not None:
                special.add(token)

        return cls(
            ratio=ratio,
            seed=seed,
            mask_token_id=config.mask_token_id,
            special_ids=tuple(sorted(special)),
            stream=stream,
        )


def sample_mask(
    tokens: npt.NDArray[np.int64], rule: MaskRule, *, sample_id: int, epoch: int
) -> npt.NDArray[np.bool_]:
    """Return which tokens of one sequence are masked, shape (L,).

    Philox is a generator whose numbers are a function of a key and a counter. Token i is masked when the i-th uniform
    number after the counter (0, 0, sample id, epoch), with the key (seed, stream), is below the ratio. Two ratios
    therefore give nested masks: a token that is masked at 20 % is masked at 40 % as well.

    Args:
        tokens: ids of the sequence's L tokens.
        rule: how to mask.
        sample_id: number of the sequence in the data.
        epoch: number of the pass over the data.
    """
    # The same tokens are masked in every validation, so that losses of different steps can be compared.
    epoch = 0 if rule.stream == VALIDATION_STREAM else epoch
    counter = np.array([0, 0, sample_id, epoch], dtype=np.uint64)
    key = np.array([rule.seed, rule.stream], dtype=np.uint64)
    generator = np.random.Generator(np.random.Philox(counter=counter, key=key))
    uniform = generator.random(len(tokens))
    is_special = np.isin(tokens, rule.special_ids)
    return (uniform < rule.ratio) & ~is_special


def batch_mask(batch: PackedBatch, rule: MaskRule) -> npt.NDArray[np.bool_]:
    """Return which of a packed batch's T tokens are masked, shape (T,); the batch must be on the CPU."""
    tokens = batch.tokens.numpy()
    # The first token of each sequence and the one after its last.
    bounds = pairwise(batch.cu_seqlens.tolist())
    masks = []
    for (first, end), sample_id in zip(bounds, batch.sample_ids.tolist(), strict=True):
        mask = sample_mask(
            tokens[first:end], rule, sample_id=sample_id, epoch=batch.epoch
        )
        masks.append(mask)
    return np.concatenate(masks)
