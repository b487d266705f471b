"""Neo4j as a store: 5.26 or later, any edition, over Bolt.

Labels, properties and indexes are those of the graph, without wrapping, so other programs can read
what semgraph writes, and semgraph can read what they write. Commit markers and heads are nodes with
labels of semgraph's own.

The server computes cosines in float32: two stores agree on them to about 1e-6.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from semgraph.errors import EngineError, StoreUnavailable
from semgraph.expr import Scalar
from semgraph.logical.graph import elements_of
from semgraph.logical.schema import Graph
from semgraph.stores import base, prepare
from semgraph.stores.conditions import Prop, parts_of, read
from semgraph.stores.neo4j import cypher, schema
from semgraph.stores.neo4j.bolt import Bolt, Records
from semgraph.stores.neo4j.match import compile_match, compile_scan
from semgraph.stores.neo4j.schema import (
    Indexes,
    MissingDerived,
    Setup,
    compared,
    compared_in_match,
    compile_history,
    compile_states,
)
from semgraph.stores.neo4j.search import Searches
from semgraph.stores.neo4j.search_cypher import EXACT_BELOW
from semgraph.stores.neo4j.write import GraphCommits, Lengths
from semgraph.stores.writes import history_of, window_of


@dataclass(frozen=True)
class OpenedState:
    """What a database had when it was last opened for a graph and a length of vectors."""

    graph: Graph
    dimensions: int | None
    indexes: Sequence[schema.Index]
    stored: Mapping[tuple[str, str], int]

    @property
    def lengths(self) -> dict[tuple[str, str], int]:
        """The lengths of vectors: those of the stored ones, if none was given."""
        if self.dimensions is None:
            return dict(self.stored)
        labels = self.graph.labels.values()
        return {(each.name, n): self.dimensions for each in labels for n in each.vectors.values()}

    def serves(self, graph: Graph, dimensions: int | None) -> bool:
        """Whether the store can be opened for a graph and a vector length without further reads."""
        return dimensions in {None, self.dimensions} and graph == self.graph and self._lacks_nothing

    @cached_property
    def _lacks_nothing(self) -> bool:
        lacking = schema.missing(self.graph, self.dimensions, self.indexes)
        internal = schema.missing_internal(self.indexes)
        return self.dimensions is not None and not (lacking or internal)


def _committed(marker: Sequence[Any]) -> base.CommittedRow:
    row, fingerprint, now, run, content = marker[1:]
    return base.CommittedRow(row, fingerprint, cypher.time_of(now), run, content)


def local_store(folder: str | Path) -> Neo4jStore:
    """A store over the local server of a folder, which must be running. Raises StoreUnavailable."""
    from semgraph.stores.neo4j.local.server import status

    server = status(folder)
    if not server.running:
        raise StoreUnavailable(f"no Neo4j runs in {server.folder}. Start it: semgraph neo4j start")
    return Neo4jStore(server.uri, server.user, server.password)


class Neo4jStore:
    """A store in a Neo4j database. Opening connects; construction does not. Without a `user` there
    is no authentication; without a `database` it is the user's home database.
    """

    def __init__(self, uri: str, user: str, password: str, database: str | None = None) -> None:
        self._bolt = Bolt(uri, user, password, database)
        self.cypher = self._bolt.table
        self._outdated: dict[tuple[str, str], int] = {}
        self._begin()

    def _begin(self) -> None:
        self._graph: Graph | None = None
        self._opened: OpenedState | None = None
        self._part = ""  # a description, if an earlier version recorded it as a part of a store
        self._lengths = Lengths()
        self._indexes = Indexes()
        self._missing_derived = MissingDerived(self._bolt, Graph("", "", "", {}))
        self._measuring = asyncio.Lock()
        self._undone: list[str] = []
        self._unrecorded: list[str] = []  # labels without a recorded layout
        self._left_out = prepare.LeftOut()
        self._searches = Searches(self._bolt, self._left_out, self._missing_derived)

    def share(self) -> Self:
        other = copy(self)
        other._begin()  # noqa: SLF001 - its own copy
        return other

    @property
    def name(self) -> str:
        return self._bolt.uri

    @property
    def graph(self) -> Graph:
        """The graph that it was opened for. Raises EngineError before opening."""
        if self._graph is None:
            raise EngineError("the store is not open: call ensure() or attach() first")
        return self._graph

    @property
    def nearest(self) -> str:
        return f"exact within a partition of less than {EXACT_BELOW:,} rows, or where both ends are known; else by the index"

    def takes(self, expr: Scalar, alias: base.Alias) -> bool:
        term = read(expr, alias)
        return term is not None and not any(
            isinstance(part, Prop) and part.name == "attributes" for part in parts_of(term)
        )

    def observe(self, callback: Callable[[str], None] | None) -> None:
        self._bolt.observer = callback

    async def attach(self, graph: Graph, dimensions: int | None = None) -> list[schema.Wanted]:
        """A user with read access can do so. Returns missing parts, except vector indexes."""
        if self._reopened(graph, dimensions):
            return []
        existing, statistics = await self._inspect(graph, dimensions)
        left = Setup(self._bolt, graph).left_out(dimensions, existing, statistics.counts)
        self._undone = schema.external_note(left)
        empty = frozenset(name for name in graph.labels if not statistics.counts.get(name))
        self._take(OpenedState(graph, dimensions, existing, statistics.dimensions), empty)
        return schema.missing(graph, None, existing)

    async def _inspect(
        self, graph: Graph, dimensions: int | None
    ) -> tuple[list[schema.Index], base.Statistics]:
        await self._bolt.open()
        self._unrecorded = await Setup(self._bolt, graph).check_layout()
        self._graph, self._opened = graph, None
        existing, statistics = await Setup(self._bolt, graph).indexes(), await self.statistics()
        for (label, name), stored in statistics.dimensions.items():
            prepare.check_length(self.name, label, name, stored, dimensions)
        self._lengths.stored = set(statistics.dimensions)
        return existing, statistics

    def _reopened(self, graph: Graph, dimensions: int | None) -> bool:
        """Whether the state of the last opening is still valid; if so, it is used."""
        if self._opened is None or not self._opened.serves(graph, dimensions):
            return False
        self._take(self._opened)
        return True

    def _take(self, opened: OpenedState, empty: frozenset[str] = frozenset()) -> None:
        """Use this state; rows that lack derived properties are recounted."""
        self._opened, self._graph, self._lengths.known = opened, opened.graph, opened.lengths
        self._missing_derived = MissingDerived(self._bolt, opened.graph, self._outdated)
        self._use(replace(schema.usable(opened.graph, opened.indexes), empty=empty))

    def _use(self, indexes: Indexes) -> None:
        self._indexes = replace(indexes, incomplete=self._missing_derived.places)
        self._searches.opened(self._indexes, self._lengths.known, self._missing_derived)

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        if not self._part and self._reopened(graph, dimensions):
            return
        existing, statistics = await self._inspect(graph, dimensions)
        if self._part:
            raise StoreUnavailable(f"{self.name}  {self._part}. Nothing was written.")
        setup = Setup(self._bolt, graph)
        self._undone = await setup.create_missing(dimensions, existing, statistics.counts)
        if not self._undone:
            await setup.record_layout(self._unrecorded)
        self._take(OpenedState(graph, dimensions, await setup.indexes(), statistics.dimensions))

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        await self._bolt.open()
        setup = Setup(self._bolt, graph)
        new = await setup.check_layout()
        self._graph = graph
        report = await setup.migrate(dimensions, drop=drop)
        await setup.record_layout(new)
        self._outdated.clear()
        existing, statistics = await self._inspect(graph, dimensions)
        self._take(OpenedState(graph, dimensions, existing, statistics.dimensions))
        self._undone = []
        return report

    @property
    def notes(self) -> tuple[str, ...]:
        part = [f"{self.name} {self._part}"] if self._part else []
        return (*part, *self._undone, *self._missing_derived.notes, *self._left_out.notes)

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        if await self._missing_derived.look(places):
            self._use(self._indexes)

    async def search(self, queries: Sequence[base.SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`, in more round trips if an index must be read further."""
        if rows.num_rows:
            await self.check_derived(place for query in queries for place in compared(query))
        return await self._searches.run(self.graph, queries, rows)

    async def match(self, query: base.MatchQuery, rows: pa.Table) -> pa.Table:
        wanted = prepare.match_schema(self.graph, query, self._lengths.known)
        if not rows.num_rows:
            return wanted.empty_table()
        by, elements = query.partition, elements_of(self.graph, query.pattern)
        several = by is not None and pa.types.is_list(prepare.column(rows, by).type)
        await self.check_derived(compared_in_match(query, elements))
        text = compile_match(self.graph, query, self._indexes, several=several)
        labels = (label.name for _, label in elements if label is not None)
        await self._missing_derived.read(labels, prepare.all_partitions(rows, by))
        more = {short: cypher.sent_column(rows, path) for path, short in text.columns.items()}
        more |= {} if by is None else {"p0": cypher.sent_column(rows, by)}
        lists = {"rows": cypher.fields(rows, text.bound.values, more)}
        records = await self._records(text.text, text.bound, lists)
        columns = partial(cypher.columns_of, self._left_out, self.graph)
        return prepare.match_table(self.graph, query, wanted, self._left_out, records, columns)

    async def _records(self, text: str, bound: cypher.Bound, lists: Mapping[str, Any]) -> Records:
        derived = self._missing_derived.parameters(text)
        return await self._bolt.read(text, {cypher.LISTS: lists, **bound.constants, **derived})

    async def scan(self, query: base.ScanQuery) -> pa.Table:
        label, names = query.label, (name for each in query.where for name in each.columns)
        wanted = prepare.scan_schema(self.graph, query, self._lengths.known)
        await self.check_derived((label, name) for name in names)
        text = compile_scan(self.graph, query, self._indexes)
        await self._missing_derived.read([label], query.partitions)
        lists = {"partitions": list(query.partitions or ())}
        records = [hit for (hit,) in await self._records(text.text, text.bound, lists)]
        declared = self.graph.label(label)
        columns = cypher.columns_of(self._left_out, self.graph, declared, wanted, records)
        return prepare.without_left_out(pa.table(columns, schema=wanted), [self.graph.key])

    async def states(self, plan: str, rows: base.RowIds) -> Mapping[str, base.PartitionState]:
        asked = [{"partition": name, "rows": [*dict.fromkeys(own)]} for name, own in rows.items()]
        records = await self._asked(compile_states(self.graph, self._indexes), plan, asked)
        return {
            partition: base.PartitionState(head, {row[1]: _committed(row) for row in markers})
            for partition, head, markers in records
        }

    async def _asked(self, statement: str, plan: str, asked: Sequence[Any]) -> Records:
        parameters = {"plan": plan, cypher.LISTS: {"asked": asked}}
        return await self._bolt.read(statement, parameters) if asked else []

    async def history(self, plan: str, partitions: Sequence[str]) -> Mapping[str, base.History]:
        asked = list(dict.fromkeys(partitions))
        records = await self._asked(compile_history(self.graph, self._indexes), plan, asked)
        heads: dict[str, str | None] = {}
        windows: dict[str, dict[int, base.CommittedWindow]] = {name: {} for name in asked}
        rows = defaultdict[str, list[tuple[int | None, int | None, base.CommittedRow]]](list)
        for name, head, number, now, begun, parts, writes, markers in records:
            heads[name] = head
            rows[name] += ((number, row[0], _committed(row)) for row in markers)
            if number is not None:
                times = cypher.time_of(now), begun and cypher.time_of(begun)
                windows[name][number] = window_of(*times, parts, writes)
        return {name: history_of(heads[name], rows[name], windows[name]) for name in asked}

    async def commit(
        self, batch: base.WriteBatch, marker: base.CommitMarker | None = None
    ) -> base.Written:
        return await self._commit(base.NewContent.of(batch, marker))

    async def replace(self, new: base.NewContent) -> base.Written:
        return await self._commit(new, whole=True)

    async def _commit(self, new: base.NewContent, *, whole: bool = False) -> base.Written:
        if whole or new.batch.deletes:  # partitions may become small
            self._searches.large.clear()
        commits = GraphCommits(self._bolt, self.graph, self._indexes, self._lengths)
        # the first vectors fix the length
        async with self._measuring if commits.new_lengths(new.batch) else nullcontext():
            return await commits.commit(new, whole=whole)

    async def statistics(self) -> base.Statistics:
        records = await self._bolt.read(schema.statistics(self.graph))
        counts = {label: number for label, name, number in records if not name}
        found = ((number, int(n)) for label, n, number in records if label == cypher.SHARD)
        parts = [base.part_of(*of) for of in found]
        self._part = next(iter(parts), "")
        lengths = {(label, n): size for label, n, size in records if n and label != cypher.SHARD}
        return base.Statistics(counts, lengths)

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """As `Store.clear`, but not in one transaction: a partition may exceed a server's memory.
        Commit markers go first.
        """
        self._searches.large.clear()
        by = cypher.quoted(self.graph.partition)
        confined = "" if partitions is None else f" WHERE x.{by} IN $partitions"
        marked = "" if partitions is None else " WHERE x.partition IN $partitions"
        nodes = "|".join(cypher.quoted(label.name) for label in self.graph.nodes)
        patterns = (*(cypher.pattern_of(label, "x") for label in self.graph.edges), f"(x:{nodes})")
        parts = [
            f"MATCH (x:{cypher.HEAD}|{cypher.MARK}|{cypher.WINDOW}|{cypher.PARTS}){marked} RETURN x",
            *(f"MATCH {pattern}{confined} RETURN x" for pattern in patterns),
        ]
        await self._bolt.in_batches(
            "CALL () {\n" + "\nUNION ALL ".join(parts) + "\n}\n"
            "CALL (x) { DETACH DELETE x } IN TRANSACTIONS OF 2000 ROWS",
            {"partitions": list(partitions or ())},
        )

    async def aclose(self) -> None:
        await self._bolt.aclose()
