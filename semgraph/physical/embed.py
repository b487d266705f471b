"""Columns of embeddings."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from semgraph.logical.embed import VECTOR, Embed
from semgraph.physical.relational import column_of, conform, runtime_schema
from semgraph.physical.search_vectors import Embed as Embedding
from semgraph.physical.search_vectors import vectors_of, whose


async def run_embed(node: Embed, left: pa.Table, embed: Embedding, partition: str, now: datetime | None) -> pa.Table:
    """The rows with their vectors; texts of two partitions never share a request."""
    schema = runtime_schema(node)
    found = left
    for name, scalar in node.add:
        texts = await column_of(scalar, node.input, left, now)
        vectors = await vectors_of(texts, embed, whose(left, partition))
        found = found.append_column(name, vectors.cast(VECTOR))
    return conform(found.select(schema.names), schema)
