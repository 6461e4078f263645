"""Rows of unequal length in one flat array: how tokenised text is stored, padded and cut into batches. NumPy only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of unequal length: row `i` is `values[offsets[i]:offsets[i + 1]]`."""

    values: NDArray[Any]
    """All rows end to end."""
    offsets: NDArray[np.int64]
    """Where each row starts, and where the last one ends; one longer than there are rows."""

    @classmethod
    def of(
        cls,
        rows: Iterable[Sequence[int] | NDArray[Any]],
        dtype: type[np.generic] = np.int32,
    ) -> Ragged:
        """Return `rows` as one flat array of `dtype`."""
        arrays = [np.asarray(row, dtype=dtype) for row in rows]
        lengths = np.array([len(array) for array in arrays], dtype=np.int64)
        # NumPy does not join an empty list.
        values = np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)
        return cls(values, _offsets(lengths))

    @classmethod
    def join(cls, parts: Sequence[Ragged]) -> Ragged:
        """Return the rows of all `parts`, in order."""
        if not parts:
            return cls.of([])
        lengths = np.concatenate([part.lengths for part in parts])
        values = np.concatenate([part.values for part in parts])
        return cls(values, _offsets(lengths))

    def equals(self, other: Ragged) -> bool:
        """Return whether the other has the same rows."""
        same_lengths = np.array_equal(self.offsets, other.offsets)
        return same_lengths and np.array_equal(self.values, other.values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.offsets)

    @property
    def row_of(self) -> NDArray[np.int64]:
        """For each value, the number of its row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def padded(
        self, rows: Sequence[int] | NDArray[np.int64], fill: float, width: int = 0
    ) -> NDArray[Any]:
        """Return the chosen rows side by side, filled up on the right.

        Args:
            rows: row numbers, in the order wanted.
            fill: value after a row's end.
            width: smallest width; the longest row decides when it is longer.

        Returns:
            An array of shape (rows, width).
        """
        chosen = [self[int(row)] for row in rows]
        lengths = np.array([len(row) for row in chosen], dtype=np.int64)
        width = max(width, int(lengths.max(initial=0)))
        out = np.full((len(chosen), width), fill, dtype=self.values.dtype)
        if chosen:
            is_filled = np.arange(width) < lengths[:, None]
            # A mask is filled row by row, each from the left: the order of the values end to end.
            out[is_filled] = np.concatenate(chosen)
        return out


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where rows of these lengths start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def padded_batches(
    widths: NDArray[np.int64], budget: int, overhead: int = 0
) -> list[NDArray[np.int64]]:
    """Sort items by width and cut them into batches of at most `budget` padded positions, widest first.

    The widest batch comes first so that too little memory shows at once. An item wider than `budget` is a
    batch of its own. Equal widths keep their order, so the batches follow from the arguments alone.

    Args:
        widths: length of each item, in tokens.
        budget: largest number of positions in a batch, padding included.
        overhead: cost of a batch in addition to its positions, counted in positions. The batches are then those whose
            costs have the least sum; with 0 they are as few as the budget allows.

    Returns:
        Item numbers of each batch; every item occurs once.
    """
    # Of the negative widths, so that the widest come first.
    order = np.argsort(-widths, kind="stable")
    sorted_widths = widths[order]
    starts = _fewest(sorted_widths, budget)
    if overhead:
        starts = _cheapest(sorted_widths, budget, overhead)
    # The first batch starts at 0, where there is nothing to cut; without items there is no batch.
    return np.split(order, starts[1:]) if starts else []


_ROWS_SHARE = 0.25
"""Cost of a position in a packed pass, counted in tokens: attention still computes padded rows."""


def packed_cost(tokens: int, positions: int) -> float:
    """Return the cost of a packed forward pass, whose layers compute real tokens only, in positions of a padded pass.

    A padded pass of the same rows costs `positions`, so packing pays where this cost is lower.

    Args:
        tokens: number of real tokens.
        positions: number of rows times the length of the longest row.
    """
    return tokens + _ROWS_SHARE * positions


def packed_batches(widths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Sort items by width and cut them into as few batches as possible of about equally many tokens, widest first.

    Args:
        widths: length of each item, in tokens.
        budget: most tokens of a batch, which may exceed it by less than one item.

    Returns:
        Item numbers of each batch; every item occurs once.
    """
    order = np.argsort(-widths, kind="stable")
    # Tokens of the items up to and including each.
    sums = np.cumsum(widths[order])
    tokens = int(sums[-1]) if len(sums) else 0
    number = -(-tokens // budget)  # rounded up
    # Cut where the sum of tokens reaches 1/number of all, then 2/number, and so on: the item with which the
    # sum reaches it is the first of the next batch.
    goals = [tokens * part / number for part in range(1, number)]
    batches = np.split(order, np.searchsorted(sums, goals))
    # Two goals within one item cut at the same place: drop the empty batch between them.
    return [batch for batch in batches if len(batch)]


def _fewest(widths: NDArray[np.int64], budget: int) -> list[int]:
    """Return where the fewest batches start, of items whose widths fall."""
    starts = []
    start = 0
    while start < len(widths):
        starts.append(start)
        # The first item of a batch is its widest, to which the others are padded.
        width = max(1, int(widths[start]))
        start += max(1, budget // width)
    return starts


def _cheapest(widths: NDArray[np.int64], budget: int, overhead: int) -> list[int]:
    """Return where the batches of least total cost start, of items whose widths fall.

    This is dynamic programming over the first n items, for n = 1, 2, ...: their cheapest batches are those of the items
    before the last batch, plus the last batch.
    """
    number = len(widths)
    # Of the first n items at place n: the least cost, and where the last of their cheapest batches starts.
    costs = np.zeros(number + 1, dtype=np.int64)
    last_starts = np.zeros(number + 1, dtype=np.int64)
    first = 0
    for end in range(1, number + 1):
        # The last batch starts at `first` or later: widths fall, so an earlier start would exceed the budget. One item
        # alone is always a batch.
        while first < end - 1 and widths[first] * (end - first) > budget:
            first += 1
        # For each start from `first` to the last item: rows of the last batch, each as wide as the item at the start.
        rows = np.arange(end - first, 0, -1)
        totals = costs[first:end] + widths[first:end] * rows
        best = int(np.argmin(totals))
        costs[end] = totals[best] + overhead
        last_starts[end] = first + best

    starts = []
    # Go back from the end: where the last batch starts, the batch before it ends.
    end = number
    while end:
        end = int(last_starts[end])
        starts.append(end)

    return starts[::-1]
