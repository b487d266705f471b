"""Functions of vectors that plans may call: pure, one definition each, registered in DuckDB.

A vector is a list of numbers of any length; those that meet in one call have the same. NULL and a vector of zeros have no
direction: their cosine with anything is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Vector = Sequence[float]
_DIGITS = 12  # so that ties are ties whatever the order of the sums


class Pick(NamedTuple):
    """A candidate that was chosen: which one, counted from 1, and its score when it was."""

    nth: int
    score: float


def mmr(query: Vector | None, candidates: Sequence[Vector | None], weight: float) -> list[Pick]:
    """Candidates in the order of maximal marginal relevance: the next is the one of greatest
    `weight` · cosine(query, it) − (1 − `weight`) · the greatest cosine of it and one that was chosen before (0 at first).

    All candidates are in the result; ties go by their place.

    >>> [(p.nth, p.score) for p in mmr([0.6, 0.8], [[0.8, 0.6], [1, 0], [0, 1]], 0.5)]
    [(1, 0.48), (3, 0.1), (2, -0.1)]
    """
    import numpy as np

    relevance, likeness = _cosines(query, candidates)
    relevance = weight * relevance
    nearest = np.zeros(len(candidates))
    left = list(range(len(candidates)))
    found: list[Pick] = []
    while left:
        scores = np.round(relevance[left] - (1 - weight) * nearest[left], _DIGITS)
        best = left.pop(int(np.argmax(scores)))
        found.append(Pick(best + 1, float(scores.max())))
        nearest = likeness[best] if len(found) == 1 else np.maximum(nearest, likeness[best])
    return found


def mmr_static(query: Vector | None, candidates: Sequence[Vector | None], weight: float) -> list[Pick]:
    """As `mmr`, in one sort: each candidate is compared with all others, chosen or not, and no cosine counts as less than 0.

    >>> [(p.nth, p.score) for p in mmr_static([0.6, 0.8], [[0.8, 0.6], [1, 0], [0, 1]], 0.5)]
    [(3, 0.1), (1, 0.08), (2, -0.1)]
    """
    import numpy as np

    relevance, likeness = _cosines(query, candidates)
    np.fill_diagonal(likeness, 0.0)
    nearest = likeness.max(axis=1, initial=0.0)
    scores = np.round(weight * relevance - (1 - weight) * nearest, _DIGITS)
    return [Pick(int(i) + 1, float(scores[i])) for i in np.argsort(-scores, kind="stable")]


def mean_vector(vectors: Sequence[Vector | None]) -> list[float] | None:
    """The mean of vectors; NULLs do not count, and of none it is NULL.

    >>> mean_vector([[1, 0], None, [0, 1]])
    [0.5, 0.5]
    """
    known = [vector for vector in vectors if vector is not None]
    if not known:
        return None
    found: list[float] = _matrix(known, len(known[0])).mean(axis=0).tolist()
    return found


def _cosines(query: Vector | None, candidates: Sequence[Vector | None]) -> tuple[Floats, Floats]:
    """Of each candidate with the query, and with each candidate."""
    import numpy as np

    size = next((len(vector) for vector in (query, *candidates) if vector is not None), 0)
    vectors = _matrix((query, *candidates), size)
    lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit[1:] @ unit[0], unit[1:] @ unit[1:].T


def _matrix(vectors: Iterable[Vector | None], size: int) -> Floats:
    import numpy as np

    listed = [np.zeros(size) if vector is None else np.asarray(vector, np.float64) for vector in vectors]
    other = next((len(vector) for vector in listed if len(vector) != size), None)
    if other is not None:
        raise ValueError(f"vectors of {size:,} and of {other:,} numbers cannot be compared")
    return np.stack(listed)


class VectorFunction(NamedTuple):
    """A function as it is registered: Python definition, DuckDB parameter types, result type, how many NULLs it takes.

    `nulls` says of each parameter whether it may be NULL; where another one is, the result is.
    """

    python: Callable[..., Any]
    parameters: tuple[str, ...]
    result: str
    arrow: pa.DataType
    nulls: tuple[bool, ...]


_PICKS = pa.list_(pa.struct([("nth", pa.int64()), ("score", pa.float64())]))
_RANKING = ("FLOAT[]", "FLOAT[][]", "DOUBLE"), "STRUCT(nth BIGINT, score DOUBLE)[]", _PICKS, (True, False, False)
VECTOR_FUNCTIONS: dict[str, VectorFunction] = {
    "mmr": VectorFunction(mmr, *_RANKING),
    "mmr_static": VectorFunction(mmr_static, *_RANKING),
    "mean_vector": VectorFunction(mean_vector, ("FLOAT[][]",), "FLOAT[]", pa.list_(pa.float32()), (False,)),
}


def on_vectors(function: VectorFunction) -> Callable[..., pa.Array[Any]]:
    """The same function over whole Arrow columns."""

    def compute(*columns: Any) -> pa.Array[Any]:
        found = []
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            missing = any(value is None and not may for value, may in zip(row, function.nulls, strict=True))
            result = None if missing else function.python(*row)
            found.append([pick._asdict() for pick in result] if result and isinstance(result[0], Pick) else result)
        return pa.array(found, function.arrow)

    # DuckDB counts the parameters and evaluates the annotations; pa.Array is generic for mypy only.
    def unary(one: pa.Array) -> pa.Array:  # type: ignore[type-arg]
        return compute(one)

    def ternary(one: pa.Array, two: pa.Array, three: pa.Array) -> pa.Array:  # type: ignore[type-arg]
        return compute(one, two, three)

    return unary if len(function.parameters) == 1 else ternary
