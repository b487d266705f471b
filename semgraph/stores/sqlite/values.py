"""Values of tables as SQLite keeps them: times as microseconds since 1970 in UTC, dates as days,
lists and structs as canonical JSON, vectors as the bytes of little-endian float32.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError
from semgraph.expr.functions import canonical_json, terms
from semgraph.expr.types import Type
from semgraph.stores.batch_io import Vectors

AFFINITY = {
    "int64": "INTEGER",
    "boolean": "INTEGER",
    "timestamp": "INTEGER",
    "date": "INTEGER",
    "double": "REAL",
}
"""Column types by name of the type; all others are TEXT."""


_STORED = {"double": float, **dict.fromkeys(("int64", "boolean", "timestamp", "date"), int)}
"""Types of stored values by name of the type; all others are texts."""


def _kept(kind: Type) -> pa.DataType:
    if kind.item is not None:
        return pa.list_(_kept(kind.item))
    if kind.name == "struct":
        return pa.struct([pa.field(name, _kept(inner)) for name, inner in kind.fields])
    return {"timestamp": pa.int64(), "date": pa.int32()}.get(kind.name, kind.arrow)


def encode(array: pa.Array[Any], kind: Type, what: str) -> list[Any]:
    """A column of a declared type as SQLite keeps it, without the NULLs in lists. Raises DataError
    for NaN.
    """
    stored: Any = array if _kept(kind) == kind.arrow else array.cast(_kept(kind))
    values: list[Any] = stored.to_pylist()
    if kind.name == "list":
        values = [v and [item for item in v if item is not None] for v in values]
    if kind.name in ("list", "struct"):
        return [None if v is None else canonical_json(v) for v in values]
    if kind.name == "double" and any(v is not None and v != v for v in values):  # noqa: PLR0124 - NaN is not itself
        raise DataError(f"{what} is NaN, which SQLite cannot tell from NULL")
    return values


def decode(values: Sequence[Any], kind: Type) -> pa.Array[Any]:
    """What was encoded, in the type's own Arrow type. Raises one of `UNFIT` for anything else."""
    wanted = _STORED.get(kind.name, str)
    if not all(v is None or isinstance(v, wanted) for v in values):
        raise TypeError(f"a value is not {kind}")
    if kind.name in ("list", "struct", "json"):
        parsed = [None if v is None else json.loads(v, parse_constant=int) for v in values]
        values = values if kind.name == "json" else parsed
    elif kind.name == "boolean":
        values = [None if v is None else (False, True)[v] for v in values]
    array: pa.Array[Any] = pa.array(values, _kept(kind)).cast(kind.arrow)
    if kind.name in ("timestamp", "date") and len(array):
        pc.min_max(array).as_py()  # a time that Python does not know
    return array


def encode_vectors(vectors: Vectors) -> list[bytes | None]:
    """Vectors as bytes, one for each row."""
    return vectors.spread(line.tobytes() for line in vectors.numbers.astype("<f4", copy=False))


def decode_vectors(values: Sequence[bytes | None], size: int) -> pa.Array[Any]:
    """Vectors of a length from bytes."""
    import numpy as np

    flat = pa.array(
        np.frombuffer(b"".join(v or bytes(4 * size) for v in values), "<f4"), pa.float32()
    )
    missing = pa.array([v is None for v in values], pa.bool_())
    vectors: pa.Array[Any] = pa.FixedSizeListArray.from_arrays(flat, size, mask=missing)
    return vectors


# Functions that statements call. NULL adds nothing.


_SHORT = 500  # characters


def word_counts(texts: tuple[str, ...]) -> tuple[Mapping[str, int], int]:
    """How often the full-text index has each word of a row's texts, and how many words they have.
    Short texts are scored by many searches, one after another.
    """
    short = sum(map(len, texts)) <= _SHORT
    return _kept_counts(texts) if short else _counts(texts)


def _counts(texts: tuple[str, ...]) -> tuple[Mapping[str, int], int]:
    listed = [word for text in texts for word in indexed_words(text)]
    return dict(Counter(listed)), len(listed)


_kept_counts = lru_cache(maxsize=16_384)(_counts)


def indexed_words(text: str) -> list[str]:
    """The words of a text in the full-text index."""
    return terms(text) if isinstance(text, str) else []  # no bytes of another program


def partition_words(text: str | None, partition: int | None) -> str | None:
    """The indexed form of a text: each word with the number of the partition."""
    if text is None:
        return None
    return " ".join(f"{word}_{partition}" for word in indexed_words(text))


def unite(stored: str | None, new: str | None) -> str | None:
    """The first list, then the values of the second that it lacks."""
    if stored is None or new is None:
        return stored if new is None else new
    items = _parsed(stored)
    if items is None:
        return stored
    return canonical_json([*items, *dict.fromkeys(v for v in json.loads(new) if v not in items)])


def add_labels(stored: str | None, new: str | None) -> str | None:
    """Two lists of labels as one, sorted."""
    united = unite(stored, new)
    items = None if united is None else _parsed(united)
    return united if items is None else canonical_json(sorted(items, key=str))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Any, ...] | None:
    """The items of a list; None where another program stored something else."""
    try:
        items = json.loads(text)
    except (TypeError, ValueError):
        return None
    return tuple(items) if isinstance(items, list) else None


def list_holds(listed: str | None, item: Any) -> bool | None:
    """Whether a list has an item. NULL if either is NULL, but false of an empty list."""
    items = None if listed is None else _parsed(listed)
    return None if items is None or (items and item is None) else item in items


def lists_meet(left: str | None, right: str | None) -> bool | None:
    """Whether two lists have an item in common that is not NULL. NULL if either is NULL."""
    items = None if left is None else _parsed(left)
    others = None if right is None else _parsed(right)
    if items is None or others is None:
        return None
    return any(v is not None and v in others for v in items)
