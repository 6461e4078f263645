"""Which sequences of a step each rank computes, and which of them in one pass through the model.

The gradient of a step does not depend on it (`pretraining.training.objectives.group_weights`), so it serves speed
alone: ranks wait for the one with most tokens, and a pass is the faster the fuller it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from common.registry import Registry

__all__ = ["LAYOUTS", "Layout", "Share", "lay_out"]

Int64s = npt.NDArray[np.int64]
Share = list[Int64s]
"""One rank's passes: places in the step's batch, rising."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One way to lay a step's sequences out."""

    name: str
    """Value of the setting `layout`."""
    shares: Callable[[Int64s, int], list[Int64s]]
    """Places of each rank, from the lengths and the number of ranks; none of them is empty."""
    passes: Callable[[Int64s, int], Share]
    """Parts of at most so many tokens, from lengths; a longer sequence is a pass of its own."""


def lay_out(lengths: npt.ArrayLike, world: int, most: int, layout: str = "balanced") -> list[Share]:
    """Return every rank's passes for a step.

    Args:
        lengths: tokens of each sequence of the step, (batch,).
        world: number of ranks.
        most: most tokens of a pass.
        layout: a name in `LAYOUTS`.

    Raises:
        ValueError: there are more ranks than sequences.
    """
    sizes = np.asarray(lengths, np.int64)
    if len(sizes) < world:
        raise ValueError(f"{len(sizes)} sequences leave some of {world} ranks without any")
    rule = LAYOUTS[layout]
    return [
        [places[part] for part in rule.passes(sizes[places], most)] for places in rule.shares(sizes, world)
    ]


def _balanced(lengths: Int64s, parts: int) -> list[Int64s]:
    """Share places so that sums of lengths are nearly equal: the longest first, each to the part with least."""
    heap = [(0, number) for number in range(parts)]
    shares: list[list[int]] = [[] for _ in range(parts)]
    for place in np.argsort(-lengths, kind="stable").tolist():
        tokens, number = heap[0]
        shares[number].append(place)
        heapq.heapreplace(heap, (tokens + int(lengths[place]), number))
    return [np.array(sorted(share), np.int64) for share in shares]


def _balanced_passes(lengths: Int64s, most: int) -> Share:
    """Return as few passes of nearly equal size as fit."""
    for count in range(max(1, -(-int(lengths.sum()) // most)), len(lengths)):
        passes = _balanced(lengths, count)
        if all(lengths[part].sum() <= most for part in passes):
            return passes
    return [np.array([place]) for place in range(len(lengths))]


def _passes_in_order(lengths: Int64s, most: int) -> Share:
    passes: list[list[int]] = []
    room = 0
    for place, length in enumerate(lengths.tolist()):
        if length > room:
            passes.append([])
            room = max(most, length)
        passes[-1].append(place)
        room -= length
    return [np.array(part, np.int64) for part in passes]


BALANCED = Layout(name="balanced", shares=_balanced, passes=_balanced_passes)
ORDER = Layout(
    name="order",
    shares=lambda lengths, world: np.array_split(np.arange(len(lengths)), world),
    passes=_passes_in_order,
)
LAYOUTS = Registry("layout", [BALANCED, ORDER])
"""`balanced`: ranks and passes have nearly equal numbers of tokens; `order`: neighbours stay together."""
