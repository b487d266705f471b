"""Vectors: of texts, embedded once per partition, or from a column of the rows; and rows without
vectors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from math import isfinite

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.llm.base import Embeddings
from semgraph.logical.semantic import VECTOR, Embed
from semgraph.relational.batch import Batch, conform, runtime_schema, values
from semgraph.relational.segments import column_of

# A partition: its name or its number in rows; "" if it is unknown.
Partition = str | int
EmbedTextsOf = Callable[[Sequence[str], Partition], Awaitable[Embeddings]]
_SHOWN = 60  # the characters of a text that an error quotes


class NoVectors(DataError):
    """Rows of a batch lack a vector that they need; `errors` has the reasons, by their indices."""

    def __init__(self, rows: Batch, errors: Mapping[int, str]) -> None:
        self.rows, self.errors = rows, errors
        super().__init__(next(iter(errors.values())))

    @property
    def others(self) -> Batch:
        """The rows of the batch with a vector."""
        return self.rows.take([i for i in range(self.rows.num_rows) if i not in self.errors])


def partitions_of(batch: Batch, column: str) -> Sequence[Partition]:
    """The partition of each row: a column, or that of its window. Others share no request."""
    named = batch.owners(column)
    return named if named is not None else batch.partitions() or [""] * batch.num_rows


async def vectors_of(
    rows: Batch, name: str, texts: Sequence[str | None], embed: EmbedTextsOf, owner: str
) -> pa.Array:  # type: ignore[type-arg]
    """Vectors of texts. Each distinct text of a partition is embedded once; None gives NULL. The
    column `owner` names the partition of a row. Raises NoVectors if the embedder rejects some of
    the texts.

    If there is no text at all, the length of vectors is unknown, and the vectors have one element.
    """
    pairs = [
        None if text is None else (partition, text)
        for text, partition in zip(texts, partitions_of(rows, owner), strict=True)
    ]
    distinct: dict[Partition, dict[str, None]] = {}
    for partition, text in filter(None, pairs):
        distinct.setdefault(partition, {})[text] = None
    if not distinct:
        return pa.nulls(len(texts), pa.list_(pa.float32(), 1))
    listed = [(partition, list(own)) for partition, own in distinct.items()]
    done = await asyncio.gather(*(embed(own, partition) for partition, own in listed))
    failed = {
        (partition, own[place]): f"no {name} of “{_beginning(own[place])}”: {error.kind}: {error}"
        for (partition, own), part in zip(listed, done, strict=True)
        for place, error in part.failed.items()
    }
    if failed:
        raise NoVectors(rows, {n: failed[pair] for n, pair in enumerate(pairs) if pair in failed})
    every = ((partition, text) for partition, own in listed for text in own)
    number = {pair: n for n, pair in enumerate(every)}
    index = [None if pair is None else number[pair] for pair in pairs]
    vectors = [part.vectors for part in done]
    flat = pa.concat_arrays([pa.array(part.reshape(-1), pa.float32()) for part in vectors])
    return pa.FixedSizeListArray.from_arrays(flat, vectors[0].shape[1]).take(
        pa.array(index, pa.int64())
    )


def _beginning(text: str) -> str:
    line = " ".join(text[: 4 * _SHOWN].split())
    return line if line == text and len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


async def run_embed(
    node: Embed, left: Batch, embed: EmbedTextsOf, partition: str, now: datetime | None
) -> Batch:
    """The rows with their vectors; texts of two partitions never share a request."""
    schema = runtime_schema(node)
    rows = left.table
    for name, scalar in node.add:
        texts = (await column_of(scalar, node.input, left, now)).column("x")
        vectors = await vectors_of(left, f'vector "{name}"', texts, embed, partition)
        rows = rows.append_column(name, vectors.cast(VECTOR))
    return Batch.of_table(conform(rows.select(schema.names), schema)).derived_from(left)


def given_vectors(rows: Batch, column: pa.Array) -> pa.Array:  # type: ignore[type-arg]
    """The vectors of rows, of one length. Raises DataError, also for NULL, NaN or infinity."""
    vectors = values(column)
    finite = [
        vector is None or all(n is not None and isfinite(n) for n in vector) for vector in vectors
    ]
    if not all(finite):
        what = "a vector to search for has NULL, NaN or infinity in it"
        raise NoVectors(rows, {row: what for row, ok in enumerate(finite) if not ok})
    if pa.types.is_fixed_size_list(column.type):
        return column
    sizes = sorted({len(vector) for vector in vectors if vector is not None})
    if len(sizes) > 1:
        raise DataError(
            f"vectors of {sizes[0]:,} and of {sizes[1]:,} numbers cannot be compared with the same hits"
        )
    return pa.array(vectors, pa.list_(pa.float32(), sizes[0] if sizes and sizes[0] else 1))


def of_one_size(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:  # type: ignore[type-arg]
    """Two columns of vectors; a column without vectors takes the type of the other."""
    if left.null_count == len(left):
        return pa.nulls(len(left), right.type), right
    return left, pa.nulls(len(right), left.type) if right.null_count == len(right) else right
