"""Exact nearest neighbours by cosine: float32 finds the candidates for the best, float64 ranks
them.

The last bits of a float32 product depend on the shape of the batch, so two equal vectors may get
unequal products. Every score that this module returns is a float64 product of two vectors: it
depends only on the two, and ties are ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

_CHUNK = 1 << 23  # scores held at a time: 32 MB in float32


class Block:
    """The vectors of one partition by row id, without those that have no direction."""

    _kind = "f4"

    def __init__(self, size: int) -> None:
        import numpy as np

        self.size = size
        self.count = 0
        self._ids: Ints = np.empty(0, np.int64)
        self._vectors: Singles = np.empty((0, size), self._kind)
        self._norms: Floats = np.empty(0, np.float64)
        self._inverse: Singles = np.empty(0, np.float32)
        self._place: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        """The approximate memory use."""
        return self._vectors.nbytes + 128 * self.count

    @property
    def ids(self) -> Ints:
        """Ids of the rows, unordered."""
        return self._ids[: self.count]

    @property
    def vectors(self) -> Singles:
        """Vectors, in the order of `ids`."""
        return self._vectors[: self.count]

    @property
    def norms(self) -> Floats:
        """The lengths of the vectors."""
        return self._norms[: self.count]

    @property
    def inverse(self) -> Singles:
        """The factors for products with `vectors`: in float32, their reciprocal lengths."""
        return self._inverse[: self.count]

    @property
    def margin(self) -> float:
        """An upper bound of the error of a product."""
        return (self.size + 8) * 2.0**-23

    def products(self, unit: Singles) -> Singles:
        """Approximate cosines with queries of length 1."""
        found: Singles = unit @ self.vectors.T
        found *= self.inverse
        return found

    def _stored(self, vectors: Singles, norms: Floats) -> tuple[Singles, Floats]:
        """Vectors as they are held in memory, and the factors of their products."""
        return vectors, 1 / norms

    def put(self, ids: Ints, vectors: Singles) -> Ints:
        """Add or replace vectors. Returns the ids of those left out."""
        import numpy as np

        norms = lengths(vectors)
        known = self.places(ids.tolist())
        usable = np.isfinite(norms) & (norms > 0)
        for i in np.flatnonzero((known >= 0) & ~usable).tolist():
            self._remove(int(ids[i]))
        new = (known < 0) & usable
        replaced = (known >= 0) & usable
        self._write(self.places(ids[replaced].tolist()), vectors[replaced], norms[replaced])
        self._append(ids[new], vectors[new], norms[new])
        return ids[~usable]

    def reserve(self, capacity: int) -> None:
        """Allocate memory for a total number of vectors."""
        import numpy as np

        if capacity > len(self._ids):
            for name in ("_ids", "_vectors", "_norms", "_inverse"):
                old = getattr(self, name)
                grown = np.empty((capacity, *old.shape[1:]), old.dtype)
                grown[: self.count] = old[: self.count]
                setattr(self, name, grown)

    def _append(self, ids: Ints, vectors: Singles, norms: Floats) -> None:
        start, end = self.count, self.count + len(ids)
        if end > len(self._ids):
            self.reserve(max(end, 2 * start))
        self._ids[start:end] = ids
        self._write(slice(start, end), vectors, norms)
        self._place.update(zip(ids.tolist(), range(start, end), strict=True))
        self.count = end

    def _write(self, at: Any, vectors: Singles, norms: Floats) -> None:
        self._norms[at] = norms
        self._vectors[at], self._inverse[at] = self._stored(vectors, norms)

    def _remove(self, row: int) -> None:
        """Remove a row; the last row takes its place."""
        place, last = self._place.pop(row), self.count - 1
        if place != last:
            for column in (self._ids, self._vectors, self._norms, self._inverse):
                column[place] = column[last]
            self._place[int(self._ids[place])] = place
        self.count = last

    def places(self, ids: Sequence[int]) -> Ints:
        """The positions of the vectors of some rows; -1 for rows without one."""
        import numpy as np

        return np.fromiter((self._place.get(i, -1) for i in ids), np.int64, len(ids))


class Int8Block(Block):
    """A large partition in a quarter of the memory: int8 values propose, `exact` decides."""

    _kind = "i1"
    _ROWS = 1024  # larger products wake the threads of BLAS, which wait long on a busy machine

    @property
    def margin(self) -> float:
        """Four standard deviations of the products, whose rounding errors are independent."""
        return 4 * float(self.inverse.max(initial=0.0)) / math.sqrt(12)

    def products(self, unit: Singles) -> Singles:
        """Approximate cosines with queries of length 1."""
        import numpy as np

        found = np.empty((len(unit), self.count), np.float32)
        for start in range(0, self.count, self._ROWS):
            rows = self.vectors[start : start + self._ROWS].astype(np.float32)
            for query, scores in zip(unit, found, strict=True):
                np.matmul(rows, query, out=scores[start : start + self._ROWS])
        found *= self.inverse
        return found

    def _stored(self, vectors: Singles, norms: Floats) -> tuple[Singles, Floats]:
        import numpy as np

        largest = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float64)
        return np.rint(vectors * (127 / largest)[:, None]), largest / (127 * norms)


def lengths(vectors: Singles) -> Floats:
    """Euclidean lengths in float64, each computed only from its vector."""
    import numpy as np

    norms = np.empty(len(vectors), np.float64)
    step = max(1, _CHUNK // max(vectors.shape[1], 1) // 4)
    for start in range(0, len(vectors), step):
        wide = vectors[start : start + step].astype(np.float64)
        norms[start : start + step] = np.sqrt((wide * wide).sum(axis=1))
    return norms


def exact(block: Block, places: Ints, query: Floats) -> Floats:
    """Cosines in float64 of the vectors at `places` with a query."""
    import numpy as np

    cosines = np.empty(len(places), np.float64)
    norm = np.sqrt((query * query).sum())
    step = max(1, _CHUNK // max(block.size, 1) // 4)
    for start in range(0, len(places), step):
        at = places[start : start + step]
        products = (block.vectors[at].astype(np.float64) * query).sum(axis=1)
        cosines[start : start + step] = products / (block.norms[at] * norm)
    return np.clip(cosines, -1.0, 1.0)


class Candidates(NamedTuple):
    """The candidates for the best of a query; all others have a cosine below `floor`."""

    block: Ints
    places: Ints
    floor: float


def candidates(
    blocks: Sequence[Block], queries: Floats, above: float, wanted: int | None
) -> list[Candidates]:
    """For each query, at least the `wanted` nearest vectors (None: all) above a cosine."""
    import numpy as np

    total = sum(block.count for block in blocks)
    if not total:
        empty = np.empty(0, np.int64)
        return [Candidates(empty, empty, above) for _ in queries]
    unit = (queries / np.sqrt((queries * queries).sum(axis=1))[:, None]).astype(np.float32)
    margin = max(block.margin for block in blocks)
    starts = np.cumsum([0, *(block.count for block in blocks[:-1])])
    chosen = []
    step = max(1, _CHUNK // total)
    for start in range(0, len(unit), step):
        parts = [block.products(unit[start : start + step]) for block in blocks]
        for scores in parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1):
            places, floor = _best(scores, above, wanted, margin)
            number = np.searchsorted(starts, places, "right") - 1
            chosen.append(Candidates(number, places - starts[number], floor))
    return chosen


def _best(scores: Singles, above: float, wanted: int | None, margin: float) -> tuple[Ints, float]:
    """The candidates by approximate scores, and an upper bound of all other cosines."""
    import numpy as np

    bound = above - margin
    if wanted is not None and len(scores) > wanted:
        last = float(np.partition(scores, len(scores) - wanted)[len(scores) - wanted])
        if last - 2 * margin > bound:
            return np.flatnonzero(scores >= last - 2 * margin), last - margin
    return np.flatnonzero(scores > bound), above
