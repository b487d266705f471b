"""Commits to Neo4j: one statement in one transaction, rolled back if what it did is not what it should."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.errors import ConcurrentWrite, DataError
from semgraph.logical.schema import Graph
from semgraph.stores.base import Batch, Delete, EdgeWrite, Mark, NodeWrite, Write, Written
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.schema import statistics
from semgraph.stores.cypher.terms import MARK, quoted
from semgraph.stores.cypher.write import ORDER, compile_commit
from semgraph.stores.neo4j_bolt import Bolt, Records, RuleBroken
from semgraph.stores.refusals import KEEPS_ENDS, Refusals, no_end, other_length, still_has_edges, taken

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Records]]
FIRST = f"MERGE (m:{MARK} {{plan: '', partition: '', row: ''}}) DELETE m"
"""Until the transaction ends, others that run this wait for it: keys of marks are unique. No plan is called ''."""


@dataclass
class Lengths:
    """What is known of the lengths of vectors, by label and property.

    Args:
        known: Those that are asked for or stored.
        stored: Where there are vectors; elsewhere another process may write the first, of another length.
    """

    known: dict[tuple[str, str], int] = field(default_factory=dict)
    stored: set[tuple[str, str]] = field(default_factory=set)


async def commit(
    bolt: Bolt,
    graph: Graph,
    indexes: Indexes,
    lengths: Lengths,
    batch: Batch,
    mark: Mark | None,
) -> Written:
    """Write all of a batch, or nothing; `lengths` takes in those of vectors that are the first.

    Raises ConcurrentWrite, RowsRefused, DataError, StoreUnavailable.
    """
    new = new_lengths(bolt, graph, lengths, batch)
    if mark is None and not any(write.rows.num_rows for write in batch.writes):
        return Written()
    text = compile_commit(graph, batch, mark, indexes)

    async def work(tx: AsyncManagedTransaction) -> list[int]:
        if new:
            await bolt.run(tx, FIRST)
            await _refuse_stored_lengths(partial(bolt.run, tx), bolt, graph, new)
        records = await bolt.run(tx, text.text, text.parameters)
        if not records:
            raise ConcurrentWrite(mark.partition if mark is not None else "")
        refusals = Refusals()
        for i, write in enumerate(batch.writes):
            if not isinstance(write, Delete) and records[0][i] < write.rows.num_rows:
                await _refuse(partial(bolt.run, tx), graph, indexes, write, refusals)
        refusals.check()
        return [int(count) for count in records[0][: len(batch.writes)]]

    try:
        counts = await bolt.write(work)
    except RuleBroken as error:
        await _refuse_broken(bolt, graph, indexes, batch)
        broken = _broken(batch, str(error)).problem
        raise DataError(f"{broken.what}; nothing was written", hint=broken.hint) from error
    lengths.known.update(new)
    lengths.stored |= new.keys()
    written: dict[str, int] = {}
    for write, count in zip(batch.writes, counts, strict=True):
        written[write.label] = written.get(write.label, 0) + count
    return Written(written)


def new_lengths(bolt: Bolt, graph: Graph, lengths: Lengths, batch: Batch) -> dict[tuple[str, str], int]:
    """The lengths of vectors to write where none may be stored yet. Raises StoreUnavailable for one other than is known."""
    new: dict[tuple[str, str], int] = {}
    for write in batch.writes:
        for name in set(graph.label(write.label).vectors.values()) & set(write.rows.column_names):
            size, place = _length(write.rows.column(name)), (write.label, name)
            known = lengths.known.get(place) or new.get(place)
            if size and known not in {None, size}:
                raise other_length(bolt.uri, write.label, name, known or 0, size)
            if size and place not in lengths.stored:
                new[place] = size
    return new


def _length(vectors: Any) -> int | None:
    """The length of the vectors in a column; None if there are none."""
    if pa.types.is_fixed_size_list(vectors.type):
        size: int = vectors.type.list_size
        return size if vectors.null_count < len(vectors) else None
    return next((len(vector) for vector in vectors.drop_null()), None)


async def _refuse_stored_lengths(ask: Ask, bolt: Bolt, graph: Graph, new: Mapping[tuple[str, str], int]) -> None:
    """Refuse vectors of another length than those that are stored. Raises StoreUnavailable."""
    for label, name, stored in await ask(statistics(graph), {}):
        if name and new.get((label, name), stored) != stored:
            raise other_length(bolt.uri, label, name, stored, new[label, name])


async def _refuse(ask: Ask, graph: Graph, indexes: Indexes, write: NodeWrite | EdgeWrite, refusals: Refusals) -> None:
    """Note the rows that were passed over, but those that were because only what is there was to be written."""
    await _refuse_other_group(ask, graph, indexes, write, graph.key, refusals)
    if isinstance(write, EdgeWrite) and not write.only_existing:
        await _refuse_missing_end(ask, graph, write, refusals)
        for end in ("source", "target"):
            await _refuse_other_group(ask, graph, indexes, write, end, refusals)


async def _refuse_other_group(
    ask: Ask, graph: Graph, indexes: Indexes, write: NodeWrite | EdgeWrite, column: str, refusals: Refusals
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
        f"WHERE coalesce(n.{part}, '') <> row.p RETURN row.of, row.k"
    )
    columns = {"of": graph.key, "k": column, "p": graph.partition}
    values = [write.rows.column(name).to_pylist() for name in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    for of, key in await ask(text, {"rows": rows}):
        what = f"{label.name} {of}"
        refusals.add(write, of, taken(what) if column == graph.key else no_end(what, column, key, name))


async def _refuse_missing_end(ask: Ask, graph: Graph, write: EdgeWrite, refusals: Refusals) -> None:
    label, key = graph.label(write.label), quoted(graph.key)
    text = (
        "UNWIND $rows AS row\n"
        f"WITH row, EXISTS {{ (:{quoted(label.source)} {{{key}: row.source}}) }} AS source,\n"
        f"  EXISTS {{ (:{quoted(label.target)} {{{key}: row.target}}) }} AS target\n"
        "WHERE NOT source OR NOT target RETURN row, source"
    )
    rows = write.rows.select([graph.key, "source", "target"]).to_pylist()
    for row, source in await ask(text, {"rows": rows}):
        end, of = ("target", label.target) if source else ("source", label.source)
        refusals.add(write, row[graph.key], no_end(f"{label.name} {row[graph.key]}", end, row[end], of))


async def _refuse_broken(bolt: Bolt, graph: Graph, indexes: Indexes, batch: Batch) -> None:
    """Find the rows that break a constraint of the database. Raises RowsRefused if there are any."""
    refusals = Refusals()
    for write in batch.writes:
        if isinstance(write, EdgeWrite):  # an edge of this key may lie between ends of another partition
            await _refuse_other_group(bolt.read, graph, indexes, write, graph.key, refusals)
        elif isinstance(write, Delete) and not write.detach and graph.label(write.label).kind == "node":
            await _refuse_edges_left(bolt.read, graph, write, batch, refusals)
    refusals.check()
    rows = [(write, place) for write in _in_order(batch) for place in range(write.rows.num_rows)]
    while (broken := await _first_broken(bolt, graph, indexes, rows)) is not None:
        place, error = broken
        write, row = rows.pop(place)
        refusals.add(write, write.rows.column(graph.key)[row].as_py(), error)
    refusals.check()


async def _refuse_edges_left(ask: Ask, graph: Graph, write: Delete, batch: Batch, refusals: Refusals) -> None:
    """Refuse to delete nodes with edges that the batch does not delete."""
    key = quoted(graph.key)
    goes = {
        other.label: other.rows.column(graph.key).to_pylist()
        for other in batch.writes
        if isinstance(other, Delete) and graph.label(other.label).kind == "edge"
    }
    text = (
        f"UNWIND $keys AS k\nMATCH (n:{quoted(write.label)} {{{key}: k}})-[r]-()\n"
        f"WHERE NOT r.{key} IN coalesce($goes[type(r)], [])\n"
        f"RETURN k, type(r), r.{key}, startNode(r).{key}, endNode(r).{key}"
    )
    keys = write.rows.column(graph.key).to_pylist()
    for node, kind, edge, source, target in await ask(text, {"keys": keys, "goes": goes}):
        between = f"{kind} {edge} lies between {source} and {target}"
        refusals.add(write, node, still_has_edges(f"a {write.label}", between))


def _in_order(batch: Batch) -> list[Write]:
    """The writes of a batch as its statement does them."""
    return sorted(batch.writes, key=lambda write: ORDER[type(write)])


async def _first_broken(
    bolt: Bolt, graph: Graph, indexes: Indexes, rows: Sequence[tuple[Write, int]]
) -> tuple[int, DataError] | None:
    """The first of some rows that breaks a constraint when it is written after those before it; None if none does."""
    if (error := await _try(bolt, graph, indexes, rows)) is None:
        return None
    good, bad = 0, len(rows)  # so many of the first rows can be written; so many cannot
    while bad - good > 1:
        middle = (good + bad) // 2
        found = await _try(bolt, graph, indexes, rows[:middle])
        good, bad, error = (middle, bad, error) if found is None else (good, middle, found)
    return bad - 1, error


class _Undo(Exception):
    """Rolls back a transaction that was made to see whether it can be."""


async def _try(bolt: Bolt, graph: Graph, indexes: Indexes, rows: Sequence[tuple[Write, int]]) -> DataError | None:
    """Write some rows and roll that back; the constraint that they break, if they do."""
    places: dict[int, list[int]] = {}
    for write, place in rows:
        places.setdefault(id(write), []).append(place)
    writes = {id(write): write for write, _ in rows}
    some = Batch(tuple(replace(writes[of], rows=writes[of].rows.take(own)) for of, own in places.items()))
    text = compile_commit(graph, some, None, indexes)

    async def work(tx: AsyncManagedTransaction) -> None:
        await bolt.run(tx, text.text, text.parameters)
        raise _Undo

    try:
        await bolt.write(work)
    except RuleBroken as error:
        return _broken(some, str(error))
    except _Undo:
        pass
    return None


def _broken(batch: Batch, message: str) -> DataError:
    """Which promise a batch breaks, in the words of the graph."""
    if "still has relationships" in message:
        labels = dict.fromkeys(write.label for write in batch.writes if isinstance(write, Delete) and not write.detach)
        return still_has_edges(f"a {' or '.join(labels)}", "it still has edges")
    if message.startswith("Relationship"):
        return DataError(f"{message}, between other ends, and an edge keeps its ends", hint=KEEPS_ENDS)
    return DataError(message)
