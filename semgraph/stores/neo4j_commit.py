"""Commits to Neo4j: one statement in one transaction, rolled back if what it did is not what it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.errors import ConcurrentWrite, EngineError
from semgraph.logical.schema import Graph
from semgraph.stores.base import Batch, Delete, EdgeWrite, Mark, Written
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import quoted
from semgraph.stores.cypher.write import compile_commit
from semgraph.stores.neo4j_bolt import Bolt, RuleBroken
from semgraph.stores.rows import Dimensions, other_length

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction


async def commit(
    bolt: Bolt, graph: Graph, indexes: Indexes, dimensions: Dimensions, batch: Batch, mark: Mark | None
) -> Written:
    """Write all of a batch, or nothing. Raises ConcurrentWrite, EngineError, StoreUnavailable."""
    _refuse_other_lengths(bolt, graph, dimensions, batch)
    if mark is None and not any(write.rows.num_rows for write in batch.writes):
        return Written()
    text = compile_commit(graph, batch, mark, indexes)

    async def work(tx: AsyncManagedTransaction) -> list[int]:
        records = await bolt.run(tx, text.text, text.parameters)
        if not records:
            raise ConcurrentWrite(mark.partition if mark is not None else "")
        for i, write in enumerate(batch.writes):
            if isinstance(write, EdgeWrite) and not write.only_existing and records[0][i] < write.rows.num_rows:
                await _refuse_missing_end(bolt, tx, graph, write)
        return [int(count) for count in records[0][: len(batch.writes)]]

    try:
        counts = await bolt.write(work)
    except RuleBroken as error:
        raise EngineError(f"{_broken(batch, str(error))}; nothing was written") from error
    written: dict[str, int] = {}
    for write, count in zip(batch.writes, counts, strict=True):
        written[write.label] = written.get(write.label, 0) + count
    return Written(written)


def _refuse_other_lengths(bolt: Bolt, graph: Graph, dimensions: Dimensions, batch: Batch) -> None:
    for write in batch.writes:
        for name in set(graph.label(write.label).vectors.values()) & set(write.rows.column_names):
            kind: Any = write.rows.schema.field(name).type
            stored = dimensions.get((write.label, name))
            if stored is not None and pa.types.is_fixed_size_list(kind) and kind.list_size != stored:
                raise other_length(bolt.uri, write.label, name, stored, kind.list_size)


async def _refuse_missing_end(bolt: Bolt, tx: AsyncManagedTransaction, graph: Graph, write: EdgeWrite) -> None:
    label, key = graph.label(write.label), quoted(graph.key)
    text = (
        "UNWIND $rows AS row\n"
        f"WITH row, EXISTS {{ (:{quoted(label.source)} {{{key}: row.source}}) }} AS source,\n"
        f"  EXISTS {{ (:{quoted(label.target)} {{{key}: row.target}}) }} AS target\n"
        "WHERE NOT source OR NOT target RETURN row, source LIMIT 1"
    )
    rows = write.rows.select([graph.key, "source", "target"]).to_pylist()
    for row, source in await bolt.run(tx, text, {"rows": rows}):
        end, of = ("target", label.target) if source else ("source", label.source)
        raise EngineError(
            f'{label.name} {row[graph.key]}: its {end} "{row[end]}" is no {of} in the store; nothing was written'
        )


def _broken(batch: Batch, message: str) -> str:
    """Which promise a batch breaks, in the words of the graph."""
    if "still has relationships" in message:
        labels = dict.fromkeys(write.label for write in batch.writes if isinstance(write, Delete) and not write.detach)
        return f"a {' or '.join(labels)} that is to be deleted still has edges: delete them too, or detach"
    if message.startswith("Relationship"):
        return f"{message}, between other ends, and an edge keeps its ends"
    return message
