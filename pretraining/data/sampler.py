"""Sequences of the token stream: where each begins and ends, in which order they are trained on, in which passes.

These words are used throughout:

- sample: a sequence of the stream; its number is its place in the stream, from 0.
- block: samples that are shuffled together, gathered from chunks of neighbouring samples all over the data.
- rank: one of the processes that train together, each on a part of a step's batch.
- pass: one forward and backward computation of a rank, on as many sequences as fit into memory.

All of this is computed from a seed and from numbers (of samples, blocks and epochs), and nothing is stored: sample n is
computed without sample n - 1, and the batch of step s without replaying the steps before it. Every model of the study
therefore sees the same batches, whatever its objective, its number of ranks or the step it was resumed at.
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
"""Numbers of samples or tokens, or places in an array of them."""
_CUT, _BLOCKS, _SAMPLES = 1, 2, 3
"""Keys of random numbers, one for each use (lengths, order of chunks, order within a block), so that no two uses have
the same numbers."""


def counter_hash(counters: npt.ArrayLike, *key: int) -> npt.NDArray[np.uint64]:
    """Return a random 64-bit number for each counter, always the same for equal counters and keys.

    The mixer is SplitMix64's finaliser (Steele, Lea and Flood 2014), applied once for every integer of the key
    and once for the counter, so that the values depend on no library's version.

    Args:
        counters: whole numbers, in an array of any shape, which the result has, too.
        key: whole numbers such as a seed and a use; another key gives other numbers for the same counters.
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
    """`random`: each stretch of shortest + longest tokens (2,060) is cut into a pair of sequences at a random place,
    which makes the lengths of both uniform in [shortest, longest] and their mean 1,030, as in the paper; `fixed`: every
    sequence has `longest` tokens."""
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
        """Return where samples begin and end in the stream.

        Args:
            samples: numbers of samples, in an array of any shape.

        Returns:
            The offsets of each sample's first token, and those of the token after its last, both of the same shape.
        """
        numbers = np.asarray(samples, np.int64)
        if self.mode == "fixed":
            return numbers * self.longest, (numbers + 1) * self.longest

        # Samples 2n and 2n + 1 are the two parts of pair n. The pair's random cut follows from n, so that no sample
        # needs those before it.
        pairs, is_second = numbers // 2, numbers % 2 == 1
        pair_length = self.shortest + self.longest
        choices = np.uint64(self.longest - self.shortest + 1)
        drawn = counter_hash(pairs, self.seed, _CUT) % choices

        # The first part's length is one of [shortest, longest], all with the same chance (a remainder of 64 random
        # bits favours none that could be noticed); the second has the rest.
        first_length = self.shortest + drawn.astype(np.int64)
        pair_begins = pairs * pair_length
        begins = pair_begins + np.where(is_second, first_length, 0)
        ends = pair_begins + np.where(is_second, pair_length, first_length)
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
    """The order in which samples are trained on: in steps of a batch each, epoch after epoch.

    In each epoch, chunks of `chunk` neighbouring samples are put into a random order. As many chunks as make `block`
    samples are then shuffled together: they are a block, the next ones another block, and so on. A block therefore
    comes from everywhere in the data, and yet few shards are open at a time. The last samples of an epoch that do not
    fill a batch are left out; another epoch leaves out others.
    """

    samples: int
    """Number of sequences in the data."""
    batch: int
    """Sequences per step, all ranks together."""
    seed: int
    """Key of the random order."""
    block: int = field(default=2**20)
    """Number of sequences that are shuffled together."""
    chunk: int = field(default=2**20)
    """Number of neighbouring sequences that always come into the same block. If it is `block` or more, a block is one
    stretch of the data."""

    def __post_init__(self) -> None:
        """Refuse data that do not fill one batch."""
        if self.samples < self.batch:
            raise UserError(
                f"the data has only {self.samples} sequences, but one step needs {self.batch}; write more shards or "
                f"make the batch smaller (--set global_batch={max(self.samples, 1)})"
            )

    @property
    def together(self) -> int:
        """Number of samples of a chunk: `chunk`, but not more than a block has."""
        return min(self.chunk, self.block)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of an epoch, in which training goes over the data once."""
        return self.samples // self.batch

    def batch_of(self, step: int) -> tuple[int, Int64s]:
        """Return the epoch of a step and the sample numbers of its batch, all ranks together."""
        epoch, position = divmod(step, self.steps_per_epoch)
        return epoch, self.at(epoch, position * self.batch, (position + 1) * self.batch)

    def at(self, epoch: int, first: int, last: int) -> Int64s:
        """Return the numbers of the samples at the places [first, last) in the order of an epoch.

        An epoch has `samples` places, so `last` is at most that.
        """
        block_ends = _block_ends(self, epoch)
        parts: list[Int64s] = []
        # The block that the place `first` is in: the first one that ends after it.
        block = int(np.searchsorted(block_ends, first, side="right"))

        # Take the wanted part of each block, until the next place to take is `last`.
        place = first
        while place < last:
            samples = _block_samples(self, epoch, block)
            block_end = int(block_ends[block])
            block_begin = block_end - len(samples)
            stop = min(last, block_end)
            parts.append(samples[place - block_begin : stop - block_begin])
            place = stop
            block += 1

        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def block_of(self, step: int) -> tuple[int, int]:
        """Return the epoch of a step and the number of the block that its first sample is in."""
        epoch, position = divmod(step, self.steps_per_epoch)
        first = position * self.batch
        block = np.searchsorted(_block_ends(self, epoch), first, side="right")
        return epoch, int(block)

    def stretches(self, epoch: int, block: int) -> tuple[Int64s, Int64s]:
        """Return the chunks of a block: the number of each one's first sample, and that of the sample after its last.

        The chunks are sorted by their place in the data. For a number above that of the last block there are none.
        """
        # `self.chunk` may be more than a block has, so the size of a chunk is `together`.
        chunk_size = self.together
        # Only whole chunks: a block has fewer samples than `block` where that is not a multiple of a chunk.
        per_block = self.block // chunk_size
        first = block * per_block
        chunks = np.sort(_chunk_order(self, epoch)[first : first + per_block])
        begins = chunks * chunk_size
        # The last chunk of the data may be shorter.
        ends = np.minimum(begins + chunk_size, self.samples)
        return begins, ends


def split_documents(
    tokens: npt.NDArray[np.integer[Any]], end_of_text: int
) -> list[slice]:
    """Return the parts of a sequence that belong to one document each, in order.

    Args:
        tokens: the sequence, (L,).
        end_of_text: id of the token that closes a document, and is a part of it.
    """
    ends = np.flatnonzero(tokens == end_of_text) + 1
    # A set, since the sequence may end with a document's end.
    bounds = sorted({0, *ends.tolist(), len(tokens)})
    return [slice(first, last) for first, last in pairwise(bounds)]


def lay_out(lengths: npt.ArrayLike, world: int, most: int) -> list[list[Int64s]]:
    """Return which sequences of a step each rank trains on, and in which passes.

    All ranks have nearly equal numbers of tokens.

    Args:
        lengths: tokens of each sequence of the step, (batch,).
        world: number of ranks, not more than sequences.
        most: most tokens of a pass; a longer sequence is a pass of its own.

    Returns:
        For each rank a list of passes, each of which is an array of rising places in `lengths`.
    """
    sizes = np.asarray(lengths, np.int64)
    ranks = []
    # Balanced by tokens: with equal numbers of sequences, the fullest of 192 ranks would have 1.45 times the mean.
    for places in _balanced(sizes, world):
        # A pass has places among this rank's sequences. They are turned into places among all of the step.
        passes = _balanced_passes(sizes[places], most)
        ranks.append([places[part] for part in passes])
    return ranks


def _balanced(lengths: Int64s, parts: int) -> list[Int64s]:
    """Divide sequences into parts of nearly equal numbers of tokens.

    From the longest sequence to the shortest, each goes into the part that has the fewest tokens so far.

    Args:
        lengths: tokens of each sequence, (n,).
        parts: number of parts.

    Returns:
        The places in `lengths` of each part's sequences, rising.
    """
    # A heap has its smallest entry first: the part with the fewest tokens, and of equal parts the lower number, so that
    # every rank finds the same division.
    heap = [(0, part) for part in range(parts)]
    shares: list[list[int]] = [[] for _ in range(parts)]
    longest_first = np.argsort(-lengths, kind="stable")
    for place in longest_first.tolist():
        tokens, part = heap[0]
        shares[part].append(place)
        new_tokens = tokens + int(lengths[place])
        heapq.heapreplace(heap, (new_tokens, part))
    return [np.array(sorted(share), np.int64) for share in shares]


def _balanced_passes(lengths: Int64s, most: int) -> list[Int64s]:
    """Divide sequences into as few passes of nearly equal size as have at most `most` tokens each.

    Args:
        lengths: tokens of each sequence, (n,).
        most: most tokens of a pass.

    Returns:
        The places in `lengths` of each pass's sequences, rising.
    """
    # Try the smallest number of passes that could hold all tokens, then one more, and so on.
    fewest = math.ceil(int(lengths.sum()) / most)
    for count in range(max(1, fewest), len(lengths)):
        passes = _balanced(lengths, count)
        if all(lengths[part].sum() <= most for part in passes):
            return passes
    # If no such division fits, each sequence is a pass.
    return [np.array([place]) for place in range(len(lengths))]


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return each number with its bits mixed, so that neighbouring numbers give unrelated ones."""
    # SplitMix64's constants: the golden ratio's fraction, and two multipliers that were searched for.
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = x ^ (x >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = x ^ (x >> np.uint64(27))
    x = x * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=4)
def _chunk_order(order: Order, epoch: int) -> Int64s:
    """Return the numbers of all chunks in the random order of an epoch."""
    count = math.ceil(order.samples / order.together)
    chunks = np.arange(count, dtype=np.int64)
    keys = counter_hash(chunks, order.seed, _BLOCKS, epoch)
    return chunks[np.argsort(keys, kind="stable")]


@lru_cache(maxsize=4)
def _block_ends(order: Order, epoch: int) -> Int64s:
    """Return, for each block of an epoch, the place in the epoch's order after the block's last sample."""
    first_samples = _chunk_order(order, epoch) * order.together
    # The last chunk of the data may have fewer samples, and stands anywhere in the order.
    chunk_sizes = np.minimum(order.together, order.samples - first_samples)
    per_block = order.block // order.together
    # Sums of `per_block` chunks each, of fewer in the last block.
    first_chunks = np.arange(0, len(chunk_sizes), per_block)
    block_sizes = np.add.reduceat(chunk_sizes, first_chunks)
    return np.cumsum(block_sizes)


@lru_cache(maxsize=4)
def _block_samples(order: Order, epoch: int, block: int) -> Int64s:
    """Return the numbers of a block's samples, shuffled."""
    firsts, ends = order.stretches(epoch, block)
    chunks = []
    for first, end in zip(firsts, ends, strict=True):
        chunks.append(np.arange(first, end))
    samples = np.concatenate(chunks).astype(np.int64)
    keys = counter_hash(samples, order.seed, _SAMPLES, epoch)
    return samples[np.argsort(keys, kind="stable")]
