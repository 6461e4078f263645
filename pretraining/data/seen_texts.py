"""Which texts have been seen: their digests in sorted arrays, 14 bytes a text at most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_DIGEST = np.dtype("S12")
"""96 bits of a BLAKE2b digest: among 10^10 texts two that differ share them with a probability of 6e-10."""
_RATIO = 8
"""How many times as long as the next an array is at least: few arrays to look in, and few merges."""


class SeenTexts:
    """A set of digests: sorted arrays, each at least eight times as long as the next."""

    def __init__(self) -> None:
        self._levels: list[npt.NDArray[np.bytes_]] = []

    def add(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Add digests, and return for each whether neither the set nor a place before it had it."""
        fresh, first_places = np.unique(np.array(digests, _DIGEST), return_index=True)
        for level in self._levels:
            places = np.minimum(level.searchsorted(fresh), len(level) - 1)
            is_fresh = level[places] != fresh
            fresh, first_places = fresh[is_fresh], first_places[is_fresh]
        self._merge(fresh)
        is_new = np.zeros(len(digests), np.bool_)
        is_new[first_places] = True
        return is_new

    def add_all(self, content: bytes) -> None:
        """Add new digests, in the form that `packed` returns."""
        self._merge(np.sort(np.frombuffer(content, _DIGEST)))

    def _merge(self, fresh: npt.NDArray[np.bytes_]) -> None:
        """Append a sorted array, and merge arrays while one is longer than an eighth of the array before it."""
        levels = self._levels
        if len(fresh):
            levels.append(fresh)
        while len(levels) > 1 and _RATIO * len(levels[-1]) > len(levels[-2]):
            shorter, longer = levels.pop(), levels[-1]
            size = len(longer)
            # In place, so that memory grows without a copy; Timsort finds the two runs and copies only the shorter.
            longer.resize(size + len(shorter), refcheck=False)
            longer[size:] = shorter
            longer.sort(kind="stable")


def packed(digests: Sequence[bytes]) -> bytes:
    """Return what the set keeps of each digest, joined."""
    return np.array(digests, _DIGEST).tobytes()
