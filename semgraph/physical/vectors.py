"""Vectors of texts, embedded once for each partition, and vectors that rows bring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import accumulate

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.llm.base import Vectors
from semgraph.logical.semantic import VECTOR, Embed
from semgraph.relational.batch import Batch, conform, runtime_schema, values
from semgraph.relational.segments import column_of

Partition = str | int
"""A partition: its name, or the number that rows have for it; "" where it is not known."""
EmbedTextsOf = Callable[[Sequence[str], Partition], Awaitable[Vectors]]


def partitions_of(batch: Batch, column: str) -> Sequence[Partition]:
    """The partition of each row: the one that it names in a column, else that of its window.

    Texts of two partitions never share a request.
    """
    named = batch.owners(column)
    return named if named is not None else batch.partitions() or [""] * batch.num_rows


async def vectors_of(
    texts: Sequence[str | None], embed: EmbedTextsOf, of: Sequence[Partition]
) -> pa.Array:  # type: ignore[type-arg]
    """Vectors of texts, each distinct text of a partition embedded once; None gives NULL.

    Vectors have one element where there is no text at all: how many a vector has is not known then.
    """
    places: dict[tuple[Partition, str], int] = {}
    distinct: dict[Partition, list[str]] = {}
    for text, partition in zip(texts, of, strict=True):
        if text is not None and (partition, text) not in places:
            own = distinct.setdefault(partition, [])
            places[partition, text] = len(own)
            own.append(text)
    if not distinct:
        return pa.nulls(len(texts), pa.list_(pa.float32(), 1))
    vectors = await asyncio.gather(*(embed(own, partition) for partition, own in distinct.items()))
    starts = dict(zip(distinct, accumulate(map(len, distinct.values()), initial=0), strict=False))
    index = [
        None if text is None else starts[partition] + places[partition, text]
        for text, partition in zip(texts, of, strict=True)
    ]
    flat = pa.concat_arrays([pa.array(part.reshape(-1), pa.float32()) for part in vectors])
    return pa.FixedSizeListArray.from_arrays(flat, vectors[0].shape[1]).take(
        pa.array(index, pa.int64())
    )


async def run_embed(
    node: Embed, left: Batch, embed: EmbedTextsOf, partition: str, now: datetime | None
) -> pa.Table:
    """The rows with their vectors; texts of two partitions never share a request."""
    schema = runtime_schema(node)
    rows = left.table
    for name, scalar in node.add:
        texts = (await column_of(scalar, node.input, left, now)).column("x")
        vectors = await vectors_of(texts, embed, partitions_of(left, partition))
        rows = rows.append_column(name, vectors.cast(VECTOR))
    return conform(rows.select(schema.names), schema)


def given_vectors(column: pa.Array) -> pa.Array:  # type: ignore[type-arg]
    """A column of vectors as those of one length. Raises DataError where their lengths differ."""
    if pa.types.is_fixed_size_list(column.type):
        return column
    vectors = values(column)
    sizes = sorted({len(vector) for vector in vectors if vector is not None})
    if len(sizes) > 1:
        raise DataError(
            f"vectors of {sizes[0]:,} and of {sizes[1]:,} numbers cannot be compared with the same hits"
        )
    return pa.array(vectors, pa.list_(pa.float32(), sizes[0] if sizes and sizes[0] else 1))


def of_one_size(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:  # type: ignore[type-arg]
    """Two columns of vectors as they are; one without any vector gets the type of the other."""
    if left.null_count == len(left):
        return pa.nulls(len(left), right.type), right
    return left, pa.nulls(len(right), left.type) if right.null_count == len(right) else right
