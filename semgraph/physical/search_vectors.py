"""Vectors of columns of texts, as searches and writes need them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.llm.base import Vectors
from semgraph.physical.columns import values
from semgraph.physical.sql import PARTITION

Whom = str | int
"""A partition: its name, or the number that rows have for it; "" where it is not known."""
Embed = Callable[[Sequence[str], Whom], Awaitable[Vectors]]


def whose(table: pa.Table, partition: str) -> list[Whom]:
    """For each row its partition: texts of two never share a request."""
    if partition in table.column_names and table.schema.field(partition).type == pa.string():
        return [name or "" for name in values(table.column(partition))]
    return values(table.column(PARTITION)) if PARTITION in table.column_names else [""] * table.num_rows


async def vectors_of(texts: pa.Array, embed: Embed, of: Sequence[Whom]) -> pa.Array:  # type: ignore[type-arg]
    """Vectors of a column of texts, each distinct text of a partition embedded once; NULL stays NULL.

    Vectors have one element where there is no text at all: how many a vector has is not known then.
    """
    asked: dict[Whom, dict[str, int]] = {}
    for text, whom in zip(values(texts), of, strict=True):
        if text is not None:
            asked.setdefault(whom, {}).setdefault(text, len(asked.get(whom, ())))
    if not asked:
        return pa.nulls(len(texts), pa.list_(pa.float32(), 1))
    vectors = await asyncio.gather(*(embed(list(distinct), whom) for whom, distinct in asked.items()))
    starts = dict(zip(asked, _starts([len(distinct) for distinct in asked.values()]), strict=True))
    index = [
        None if text is None else starts[whom] + asked[whom][text] for text, whom in zip(values(texts), of, strict=True)
    ]
    flat = pa.concat_arrays([pa.array(found.reshape(-1), pa.float32()) for found in vectors])
    return pa.FixedSizeListArray.from_arrays(flat, vectors[0].shape[1]).take(pa.array(index, pa.int64()))


def given_vectors(column: pa.Array) -> pa.Array:  # type: ignore[type-arg]
    """A column of vectors as those of one length. Raises DataError where their lengths differ."""
    if pa.types.is_fixed_size_list(column.type):
        return column
    found = values(column)
    sizes = sorted({len(vector) for vector in found if vector is not None})
    if len(sizes) > 1:
        raise DataError(f"vectors of {sizes[0]:,} and of {sizes[1]:,} numbers cannot be compared with the same hits")
    return pa.array(found, pa.list_(pa.float32(), sizes[0] if sizes and sizes[0] else 1))


def _starts(lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[:i]) for i in range(len(lengths))]


def of_one_size(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:  # type: ignore[type-arg]
    """Two columns of vectors as they are; one without any vector gets the type of the other."""
    if left.null_count == len(left):
        return pa.nulls(len(left), right.type), right
    return left, pa.nulls(len(right), left.type) if right.null_count == len(right) else right
