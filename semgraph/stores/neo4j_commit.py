"""Commits to Neo4j: one statement in one transaction, rolled back if what it did is not what it should."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.errors import ConcurrentWrite, DataError
from semgraph.logical.schema import Graph
from semgraph.stores.base import Batch, Delete, EdgeWrite, Mark, NodeWrite, Write, Written
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import quoted
from semgraph.stores.cypher.write import compile_commit
from semgraph.stores.neo4j_bolt import Bolt, Records, RuleBroken
from semgraph.stores.refusals import KEEPS_ENDS, no_end, other_length, still_has_edges, taken, writing
from semgraph.stores.rows import Dimensions, check_partitions

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Records]]


async def commit(
    bolt: Bolt, graph: Graph, indexes: Indexes, dimensions: Dimensions, batch: Batch, mark: Mark | None
) -> Written:
    """Write all of a batch, or nothing. Raises ConcurrentWrite, DataError, StoreUnavailable."""
    _refuse_other_lengths(bolt, graph, dimensions, batch)
    if mark is None and not any(write.rows.num_rows for write in batch.writes):
        return Written()
    text = compile_commit(graph, batch, mark, indexes)
    check_partitions(graph, batch)

    async def work(tx: AsyncManagedTransaction) -> list[int]:
        records = await bolt.run(tx, text.text, text.parameters)
        if not records:
            raise ConcurrentWrite(mark.partition if mark is not None else "")
        for i, write in enumerate(batch.writes):
            if not isinstance(write, Delete) and records[0][i] < write.rows.num_rows:
                with writing(write):
                    await _refuse(partial(bolt.run, tx), graph, indexes, write)
        return [int(count) for count in records[0][: len(batch.writes)]]

    try:
        counts = await bolt.write(work)
    except RuleBroken as error:
        for write in batch.writes:
            if isinstance(write, EdgeWrite):  # an edge of this key may lie between ends of another partition
                with writing(write):
                    await _refuse_other_group(bolt.read, graph, indexes, write, graph.key)
        raise _broken(batch, str(error)) from error
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


async def _refuse(ask: Ask, graph: Graph, indexes: Indexes, write: NodeWrite | EdgeWrite) -> None:
    """Say why rows were passed over. Raises DataError, unless it was because only what is there was to be written."""
    await _refuse_other_group(ask, graph, indexes, write, graph.key)
    if isinstance(write, EdgeWrite) and not write.only_existing:
        await _refuse_missing_end(ask, graph, write)
        for end in ("source", "target"):
            await _refuse_other_group(ask, graph, indexes, write, end)


async def _refuse_other_group(
    ask: Ask, graph: Graph, indexes: Indexes, write: NodeWrite | EdgeWrite, column: str
) -> None:
    """Refuse what is stored under another partition: the row's own key, or, where `column` is one, the key of an end."""
    if graph.partition not in write.rows.column_names:
        return
    label = graph.label(write.label)
    name = {"source": label.source, "target": label.target}.get(column, label.name)
    found = f"n:{quoted(name)} {{{quoted(graph.key)}: row.k}}"
    is_node = graph.label(name).kind == "node"
    part = quoted(graph.partition)
    text = (
        f"UNWIND $rows AS row\nMATCH {f'({found})' if is_node else f'()-[{found}]->()'}"
        f"{indexes.hint('n', name, graph.key)}\n"
        f"WHERE coalesce(n.{part}, '') <> row.p RETURN row.of, row.k LIMIT 1"
    )
    columns = {"of": graph.key, "k": column, "p": graph.partition}
    values = [write.rows.column(name).to_pylist() for name in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    for of, key in await ask(text, {"rows": rows}):
        what = f"{label.name} {of}"
        raise taken(what) if column == graph.key else no_end(what, column, key, name)


async def _refuse_missing_end(ask: Ask, graph: Graph, write: EdgeWrite) -> None:
    label, key = graph.label(write.label), quoted(graph.key)
    text = (
        "UNWIND $rows AS row\n"
        f"WITH row, EXISTS {{ (:{quoted(label.source)} {{{key}: row.source}}) }} AS source,\n"
        f"  EXISTS {{ (:{quoted(label.target)} {{{key}: row.target}}) }} AS target\n"
        "WHERE NOT source OR NOT target RETURN row, source LIMIT 1"
    )
    rows = write.rows.select([graph.key, "source", "target"]).to_pylist()
    for row, source in await ask(text, {"rows": rows}):
        end, of = ("target", label.target) if source else ("source", label.source)
        raise no_end(f"{label.name} {row[graph.key]}", end, row[end], of)


def _broken(batch: Batch, message: str) -> DataError:
    """Which promise a batch breaks, in the words of the graph."""
    kind: type[Write] | None = None
    found = DataError(message)
    if "still has relationships" in message:
        labels = dict.fromkeys(write.label for write in batch.writes if isinstance(write, Delete) and not write.detach)
        kind, found = Delete, still_has_edges(f"a {' or '.join(labels)}", "it still has edges")
    elif message.startswith("Relationship"):
        what = f"{message}, between other ends, and an edge keeps its ends"
        kind, found = EdgeWrite, DataError(what, hint=KEEPS_ENDS)
    own = [write for write in batch.writes if kind is not None and isinstance(write, kind)]
    refused = DataError(f"{found.problem.what}; nothing was written", hint=found.problem.hint)
    refused.write = own[0] if len(own) == 1 else None
    return refused
