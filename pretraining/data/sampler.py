"""Sequences of the token stream: where each begins and ends, in which order they are trained on, in which passes.

All are pure functions of a seed, computed from counters and never stored: sample n is computed without
sample n - 1, and the batch of step s without replaying the steps before it. Every model of the study therefore
sees the same batches, whatever its objective, its number of ranks or the step it was resumed at.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from common.errors import UserError
from pretraining.paper_settings import effective_length

Int64s = npt.NDArray[np.int64]
"""Numbers of samples or tokens, or places among them."""
_CUT, _BLOCKS, _SAMPLES = 1, 2, 3
"""Keys of random numbers by their use, so that no two uses share them."""


def counter_hash(counters: npt.ArrayLike, *key: int) -> npt.NDArray[np.uint64]:
    """Return 64 well-mixed bits for each counter (any shape) under the integers of `key`.

    The mixer is SplitMix64's finaliser (Steele, Lea and Flood 2014), applied once for every integer of the key
    and once for the counter, so that the values depend on no library's version.
    """
    state = np.zeros(1, np.uint64)
    for part in key:
        # In an array, overflow is silent; NumPy would warn for single numbers.
        word = np.array([part % 2**64], np.uint64)
        state = _mix(state ^ word)
    numbers = np.asarray(counters).astype(np.uint64)
    return _mix(numbers ^ state)


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How the token stream is cut into sequences; sample numbers count the sequences in stream order."""

    mode: Literal["random", "fixed"] = "random"
    """`random`: blocks of shortest + longest tokens (2,060) are cut once at a uniformly random place, which makes the
    lengths of both parts uniform in [shortest, longest] and their mean 1,030, as in the paper; `fixed`: blocks of
    `longest` tokens."""
    shortest: int
    """Smallest length, in tokens; not used by `fixed`."""
    longest: int
    """Largest length, in tokens."""
    seed: int
    """Key of the random lengths."""

    def count(self, tokens: int) -> int:
        """Return how many whole sequences a stream of `tokens` tokens holds."""
        if self.mode == "fixed":
            return tokens // self.longest
        return 2 * (tokens // (self.shortest + self.longest))

    def spans(self, samples: npt.ArrayLike) -> tuple[Int64s, Int64s]:
        """Return the offsets of the first token and of the token after the last, for each sample number."""
        numbers = np.asarray(samples, np.int64)
        if self.mode == "fixed":
            return numbers * self.longest, (numbers + 1) * self.longest
        # A block is two sequences. Its random length follows from its number, so no sample needs those before it.
        blocks, second = numbers // 2, numbers % 2 == 1
        width = self.shortest + self.longest
        choices = np.uint64(self.longest - self.shortest + 1)
        drawn = counter_hash(blocks, self.seed, _CUT) % choices
        first = self.shortest + drawn.astype(np.int64)
        block_begin = blocks * width
        begins = block_begin + np.where(second, first, 0)
        ends = block_begin + np.where(second, width, first)
        return begins, ends

    @property
    def mean_length(self) -> float:
        """Mean tokens of a sequence."""
        if self.mode == "fixed":
            return self.longest
        return (self.shortest + self.longest) / 2

    @property
    def attended_length(self) -> float:
        """Mean length of the sequence that a token is in: what attention costs a token."""
        if self.mode == "fixed":
            return self.longest
        return effective_length(self.shortest, self.longest)


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of `samples` sequences in steps of `batch` sequences, epoch after epoch.

    An epoch is the samples in chunks of `chunk` neighbours, the chunks in random order; as many of them as make
    `block` samples are shuffled together. A block therefore comes from everywhere in the data, and few shards are
    open at a time. What does not fill a last batch is left to other epochs, which leave out others.
    """

    samples: int
    """Number of sequences in the data."""
    batch: int
    """Sequences per step, all ranks together."""
    seed: int
    """Key of the order."""
    block: int = field(default=2**20)
    """Sequences that are shuffled together."""
    chunk: int = field(default=2**20)
    """Neighbours that come into one block; `block` or more takes blocks of neighbours."""

    def __post_init__(self) -> None:
        """Refuse data that does not fill one batch."""
        if self.samples < self.batch:
            raise UserError(
                f"the data has only {self.samples} sequences, but one step needs {self.batch}; write more shards or "
                f"make the batch smaller (--set global_batch={max(self.samples, 1)})"
            )

    @property
    def together(self) -> int:
        """Neighbours of a chunk: `chunk`, but no more than a block has."""
        return min(self.chunk, self.block)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in one pass over the data."""
        return self.samples // self.batch

    def batch_of(self, step: int) -> tuple[int, Int64s]:
        """Return the epoch of a step and the sample numbers of its batch, all ranks together."""
        epoch, position = divmod(step, self.steps_per_epoch)
        return epoch, self.at(epoch, position * self.batch, (position + 1) * self.batch)

    def at(self, epoch: int, first: int, last: int) -> Int64s:
        """Return the sample numbers at places [first, last) of an epoch."""
        ends = _block_ends(self, epoch)
        parts: list[Int64s] = []
        number = int(np.searchsorted(ends, first, side="right"))
        while first < last:
            samples = _block_samples(self, epoch, number)
            end = int(ends[number])
            begin = end - len(samples)
            stop = min(last, end)
            parts.append(samples[first - begin : stop - begin])
            first = stop
            number += 1
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def block_of(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step and the number of the block that its first sample is in."""
        epoch, position = divmod(step, self.steps_per_epoch)
        first = position * self.batch
        block = np.searchsorted(_block_ends(self, epoch), first, side="right")
        return epoch, int(block)

    def stretches(self, epoch: int, block: int) -> tuple[Int64s, Int64s]:
        """Return the first sample of each chunk of a block, and the one after its last; none after the last block."""
        chunk = self.together
        per_block = self.block // chunk
        first = block * per_block
        chunks = np.sort(_chunk_order(self, epoch)[first : first + per_block])
        begins = chunks * chunk
        ends = np.minimum(begins + chunk, self.samples)
        return begins, ends


def split_documents(
    tokens: npt.NDArray[np.integer[Any]], end_of_text: int
) -> list[slice]:
    """Return the parts of a sequence that belong to one document each; end-of-text closes its document."""
    ends = np.flatnonzero(tokens == end_of_text) + 1
    bounds = sorted({0, *ends.tolist(), len(tokens)})
    return [slice(first, last) for first, last in pairwise(bounds)]


def lay_out(lengths: npt.ArrayLike, world: int, most: int) -> list[list[Int64s]]:
    """Return every rank's passes for a step: places in the step's batch, rising; tokens are shared nearly equally.

    Args:
        lengths: tokens of each sequence of the step, (batch,).
        world: number of ranks, not more than sequences.
        most: most tokens of a pass; a longer sequence is a pass of its own.
    """
    sizes = np.asarray(lengths, np.int64)
    ranks = []
    # Balanced by tokens: with equal numbers of sequences, the fullest of 192 ranks would have 1.45 times the mean.
    for places in _balanced(sizes, world):
        passes = _balanced_passes(sizes[places], most)
        ranks.append([places[part] for part in passes])
    return ranks


def _balanced(lengths: Int64s, parts: int) -> list[Int64s]:
    """Share places so that sums of lengths are nearly equal: the longest first, each to the part with least."""
    # A heap of parts, the one with the fewest tokens first, and of equal parts the lower number: alike everywhere.
    heap = [(0, number) for number in range(parts)]
    shares: list[list[int]] = [[] for _ in range(parts)]
    longest_first = np.argsort(-lengths, kind="stable")
    for place in longest_first.tolist():
        tokens, number = heap[0]
        shares[number].append(place)
        filled = tokens + int(lengths[place])
        heapq.heapreplace(heap, (filled, number))
    return [np.array(sorted(share), np.int64) for share in shares]


def _balanced_passes(lengths: Int64s, most: int) -> list[Int64s]:
    """Return as few passes of nearly equal size as fit."""
    fewest = math.ceil(int(lengths.sum()) / most)
    for count in range(max(1, fewest), len(lengths)):
        passes = _balanced(lengths, count)
        if all(lengths[part].sum() <= most for part in passes):
            return passes
    # If no such division fits, each sequence is a pass.
    return [np.array([place]) for place in range(len(lengths))]


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    # SplitMix64's constants: the golden ratio's fraction, and two multipliers that were searched for.
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=4)
def _chunk_order(order: Order, epoch: int) -> Int64s:
    count = math.ceil(order.samples / order.together)
    chunks = np.arange(count, dtype=np.int64)
    keys = counter_hash(chunks, order.seed, _BLOCKS, epoch)
    return chunks[np.argsort(keys, kind="stable")]


@lru_cache(maxsize=4)
def _block_ends(order: Order, epoch: int) -> Int64s:
    """Return the place in the epoch after each block's last sample."""
    first_samples = _chunk_order(order, epoch) * order.together
    sizes = np.minimum(order.together, order.samples - first_samples)
    per_block = order.block // order.together
    first_chunks = np.arange(0, len(sizes), per_block)
    return np.cumsum(np.add.reduceat(sizes, first_chunks))


@lru_cache(maxsize=4)
def _block_samples(order: Order, epoch: int, block: int) -> Int64s:
    """Return a block's samples, shuffled."""
    firsts, ends = order.stretches(epoch, block)
    chunks = []
    for first, end in zip(firsts, ends, strict=True):
        chunks.append(np.arange(first, end))
    samples = np.concatenate(chunks).astype(np.int64)
    keys = counter_hash(samples, order.seed, _SAMPLES, epoch)
    return samples[np.argsort(keys, kind="stable")]
