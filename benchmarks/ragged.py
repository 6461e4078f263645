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
        overhead: what a batch costs in addition to its positions, counted in positions; the cuts are those of the least
            sum of both. 0: as few batches as the budget allows.

    Returns:
        Item numbers of each batch; every item occurs once.
    """
    order = np.argsort(-widths, kind="stable")
    sorted_widths = widths[order]
    starts = _fewest(sorted_widths, budget)
    if overhead:
        starts = _cheapest(sorted_widths, budget, overhead)
    return np.split(order, starts[1:]) if starts else []


_ROWS_SHARE = 0.25
"""What a position of padding costs where tokens alone are computed, in tokens: attention still sees padded rows."""


def packed_cost(tokens: int, positions: int) -> float:
    """Return what a pass over tokens alone costs, in positions of a padded one; not worth it from `positions` on.

    Args:
        tokens: number of tokens.
        positions: rows times longest row.
    """
    return tokens + _ROWS_SHARE * positions


def packed_batches(widths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Sort items by width and cut them into as few batches as possible of about equally many tokens, widest first.

    Args:
        widths: length of each item, in tokens.
        budget: tokens that a batch may exceed by those of one item.
    """
    order = np.argsort(-widths, kind="stable")
    ends = np.cumsum(widths[order])
    tokens = int(ends[-1]) if len(ends) else 0
    number = -(-tokens // budget)
    shares = [tokens * part / number for part in range(1, number)]
    batches = np.split(order, np.searchsorted(ends, shares))
    # An item with more tokens than a share leaves the next batch empty: drop that batch.
    return [batch for batch in batches if len(batch)]


def _fewest(widths: NDArray[np.int64], budget: int) -> list[int]:
    starts, start = [], 0
    while start < len(widths):
        starts.append(start)
        start += max(1, budget // max(1, int(widths[start])))
    return starts


def _cheapest(widths: NDArray[np.int64], budget: int, overhead: int) -> list[int]:
    """Return where the batches of least cost start: the cheapest way to the first n items, for n = 1, 2, ..."""
    number = len(widths)
    costs = np.zeros(number + 1, dtype=np.int64)
    cut = np.zeros(number + 1, dtype=np.int64)
    first = 0
    for end in range(1, number + 1):
        # The last batch starts at `first` or later: widths fall, so an earlier start would exceed the budget.
        while first < end - 1 and widths[first] * (end - first) > budget:
            first += 1
        rows = np.arange(end - first, 0, -1)
        ways = costs[first:end] + widths[first:end] * rows
        best = int(np.argmin(ways))
        costs[end] = ways[best] + overhead
        cut[end] = first + best
    starts = []
    # The cheapest cuts are known from the end: follow them back to the start.
    end = number
    while end:
        end = int(cut[end])
        starts.append(end)
    return starts[::-1]
