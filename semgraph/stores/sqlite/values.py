"""Values of tables as SQLite keeps them: times as microseconds since 1970 in UTC, dates as days,
lists and structs as canonical JSON, vectors as the bytes of little-endian float32.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.stores.batch_io import json_form

AFFINITY = {
    "int64": "INTEGER",
    "boolean": "INTEGER",
    "timestamp": "INTEGER",
    "date": "INTEGER",
    "double": "REAL",
}
"""Column types by name of the type; all others are TEXT."""


def _kept(kind: Type) -> pa.DataType:
    if kind.item is not None:
        return pa.list_(_kept(kind.item))
    if kind.name == "struct":
        return pa.struct([pa.field(name, _kept(inner)) for name, inner in kind.fields])
    return {"timestamp": pa.int64(), "date": pa.int32()}.get(kind.name, kind.arrow)


def encode(array: pa.Array[Any], kind: Type, what: str) -> list[Any]:
    """A column as SQLite keeps it; a NULL in a list is not kept. `what` names it in errors. Raises
    DataError for what does not fit its type.
    """
    try:
        array = array if array.type == kind.arrow else array.cast(kind.arrow)
        array = array if _kept(kind) == kind.arrow else array.cast(_kept(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"{what} cannot be stored as {kind}: {str(error).splitlines()[0]}"
        ) from None
    values = array.to_pylist()
    if kind.name == "json":
        return [None if v is None else json_form(v, what) for v in values]
    if kind.name == "list":
        return [
            None if v is None else canonical_json([item for item in v if item is not None])
            for v in values
        ]
    if kind.name == "struct":
        return [None if v is None else canonical_json(v) for v in values]
    if kind.name == "double" and any(v is not None and v != v for v in values):  # noqa: PLR0124 - NaN is not itself
        raise DataError(f"{what} is NaN, which SQLite cannot tell from NULL")
    return values


def decode(values: Sequence[Any], kind: Type) -> pa.Array[Any]:
    """What was encoded, in the type's own Arrow type."""
    if kind.name in ("list", "struct"):
        values = [None if v is None else json.loads(v) for v in values]
    elif kind.name == "boolean":
        values = [None if v is None else bool(v) for v in values]
    return pa.array(values, _kept(kind)).cast(kind.arrow)


def encode_vectors(array: pa.Array[Any], what: str) -> tuple[list[bytes | None], int | None]:
    """Vectors as bytes, and their length (None: all are NULL). Raises DataError for what is no
    vector of numbers.
    """
    import numpy as np

    given: Any = array.drop_null()
    if not len(given):
        return [None] * len(array), None
    if not pa.types.is_fixed_size_list(given.type):
        lengths = pc.unique(pc.list_value_length(given)).to_pylist()
        if len(lengths) != 1:
            raise DataError(
                f"{what} has vectors of different lengths: {', '.join(map(str, sorted(lengths)))}"
            )
        given = given.cast(pa.list_(given.type.value_type, lengths[0]))
    size = given.type.list_size
    flat = given.flatten()
    numbers = np.asarray(flat.cast(pa.float32()).to_numpy(zero_copy_only=False), "<f4").reshape(
        -1, size
    )
    numbers = numbers + np.float32(0)  # no -0.0: a vector of zeros is zero bytes
    if flat.null_count or not np.isfinite(numbers).all():
        raise DataError(f"{what} has a vector with NULL, NaN or infinity in it")
    blobs = iter(numbers[i].tobytes() for i in range(len(numbers)))
    return [next(blobs) if ok else None for ok in array.is_valid().to_pylist()], size


def decode_vectors(values: Sequence[bytes | None], size: int) -> pa.Array[Any]:
    """Vectors of a length from bytes."""
    import numpy as np

    flat = pa.array(
        np.frombuffer(b"".join(v or bytes(4 * size) for v in values), "<f4"), pa.float32()
    )
    missing = pa.array([v is None for v in values], pa.bool_())
    found: pa.Array[Any] = pa.FixedSizeListArray.from_arrays(flat, size, mask=missing)
    return found


def unite(stored: str | None, new: str | None) -> str | None:
    """Two lists as they are stored: the first, then the values of the second that it lacks. NULL
    adds nothing.
    """
    if stored is None or new is None:
        return stored if new is None else new
    kept = json.loads(stored)
    known = set(kept)
    return canonical_json(
        [*kept, *(item for item in dict.fromkeys(json.loads(new)) if item not in known)]
    )


def add_labels(stored: str | None, new: str | None) -> str | None:
    """Two lists of labels as they are stored, as one."""
    if stored is None or new is None:
        return stored if new is None else new
    return canonical_json(sorted({*json.loads(stored), *json.loads(new)}))
