"""How many different keys there are, in few bytes for each."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

_RECENT = 16_384  # hashes that are held as Python numbers, some 70 bytes each


class DistinctKeys:
    """Counts different keys, in 8 bytes for each.

    It holds 64-bit hashes in place of keys. Two different keys of n have equal hashes, and the count
    is one too small, with a probability below n² / 2^65: 1 in 150,000 for 15 million keys, those of
    a million rows. Hashes of texts differ from process to process, so no input hits one again.

    New hashes gather in a set. A full set becomes a sorted array, and arrays of about one size become
    one, so that there are few to search: the logarithm of the number of keys. No hash is in two of
    them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._recent: set[int] = set()
        self._sorted: list[npt.NDArray[np.int64]] = []  # the longest first

    def add(self, keys: Iterable[Hashable]) -> None:
        """Take in some keys, known or new."""
        new = set(map(hash, keys)) - self._recent
        if new and self._sorted:
            new -= self._found(np.fromiter(new, np.int64, len(new)))
        self._recent |= new
        self.count += len(new)
        if len(self._recent) >= _RECENT:
            self._sort_recent()

    def _found(self, hashes: npt.NDArray[np.int64]) -> set[int]:
        """Those of some hashes that are in an array."""
        found: set[int] = set()
        for array in self._sorted:
            places = np.minimum(np.searchsorted(array, hashes), len(array) - 1)
            found.update(hashes[array[places] == hashes].tolist())
        return found

    def _sort_recent(self) -> None:
        arrays = [np.fromiter(self._recent, np.int64, len(self._recent))]
        self._recent = set()
        while self._sorted and len(self._sorted[-1]) <= 2 * sum(map(len, arrays)):
            arrays.append(self._sorted.pop())
        merged = np.concatenate(arrays)
        merged.sort()
        self._sorted.append(merged)
