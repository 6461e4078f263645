"""The paper's ways to make a validation split, as functions of row counts and ids (protocol, section 2)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["CARVE_SEED", "HALVES_SEED", "TRAIN_SHARE", "carve", "halve"]

TRAIN_SHARE = 0.95
CARVE_SEED = 42
HALVES_SEED = 42
"""Ours: the release draws NQ's halves from an unseeded global generator, again in every run."""


def carve(
    rows: int, share: float = TRAIN_SHARE, seed: int = CARVE_SEED
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of (train, validation) as `datasets.train_test_split(train_size=share, seed=seed)`.

    Both are shuffled. SST-2's 67,349 rows give 63,981 and 3,368.
    """
    trained = math.floor(share * rows)
    order = np.random.default_rng(seed).permutation(rows)
    return order[rows - trained :], order[: rows - trained]


def halve(ids: Iterable[str], seed: int = HALVES_SEED) -> set[str]:
    """Return the half of the query ids that is NQ's validation split; the rest is test.

    The release's own draw, `random.sample` of the sorted ids, with the seed that it lacks.
    """
    unique = sorted(set(ids))
    return set(random.Random(seed).sample(unique, round(0.5 * len(unique))))
