"""Which texts have been seen, by digests of the texts in sorted arrays; this takes at most 14 bytes a text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_DIGEST = np.dtype("S12")
"""The first 96 bits of a BLAKE2b digest: among 10^10 texts, the probability that two different ones share them is
6e-10."""
_RATIO = 8
"""Least ratio of an array's length to that of the next array: there are few arrays to search, and few merges."""


class SeenTexts:
    """A set of digests, in sorted arrays: each is at least eight times as long as the next one."""

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[np.bytes_]] = []

    def add(self, digests: Sequence[bytes]) -> npt.NDArray[np.bool_]:
        """Add digests, and return for each of them whether it is new.

        A digest is new if the set does not have it and it does not stand earlier in the same sequence.
        """
        # Each different digest once, sorted, with the place at which it stands first.
        new, first_places = np.unique(np.array(digests, _DIGEST), return_index=True)
        for array in self._arrays:
            # Where each digest would be inserted: if the array has the digest, it stands there. A digest
            # above all of the array would come after its end, and is compared with the last one instead.
            places = np.minimum(array.searchsorted(new), len(array) - 1)
            is_absent = array[places] != new
            new, first_places = new[is_absent], first_places[is_absent]
        self._append(new)
        is_new = np.zeros(len(digests), np.bool_)
        is_new[first_places] = True
        return is_new

    def add_all(self, content: bytes) -> None:
        """Add digests that the set does not have, in the form that `packed` returns."""
        self._append(np.sort(np.frombuffer(content, _DIGEST)))

    def _append(self, new: npt.NDArray[np.bytes_]) -> None:
        """Append a sorted array, then merge the last two arrays while the ratio of their lengths is below `_RATIO`."""
        arrays = self._arrays
        if len(new):
            arrays.append(new)
        while len(arrays) > 1 and _RATIO * len(arrays[-1]) > len(arrays[-2]):
            # The last array is taken out first, so that `before` is the one that stood before it.
            last, before = arrays.pop(), arrays[-1]
            size = len(before)
            # In place, so that memory grows without a copy. NumPy counts the references to an array before it
            # resizes it (`refcheck`), and would refuse here: the list and `before` refer to it. No other
            # array shares its memory.
            before.resize(size + len(last), refcheck=False)
            before[size:] = last

            # A stable sort (Timsort) finds that both halves are sorted and copies only the shorter one.
            before.sort(kind="stable")


def packed(digests: Sequence[bytes]) -> bytes:
    """Return the bytes that the set keeps of each digest, one after another."""
    return np.array(digests, _DIGEST).tobytes()
