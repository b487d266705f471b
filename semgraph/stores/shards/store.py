"""The store of shards: reads and writes go to the shards of their partitions, side by side, and
their answers are one.

What differs from one store:

- a key is one for all groups of a shard, not of the store;
- an edge, and the witness of a commit marker, lie in the shard of their group;
- full text is weighed by the words of a shard;
- a batch with rows of several shards is one transaction in each: all write, and then all commit. If
  a server or the disk fails between two commits, the rows of some shards are written. A window has
  rows of one group, so it is written or not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from operator import methodcaller
from typing import Any, Self, TypeVar

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr import Scalar
from semgraph.logical.graph import elements_of
from semgraph.logical.schema import Graph
from semgraph.shards import shard_of
from semgraph.stores.base import (
    Alias,
    CommitMarker,
    Deletion,
    MatchQuery,
    Method,
    PartitionState,
    RoundTrips,
    SearchQuery,
    Shard,
    Statistics,
    WriteBatch,
    Written,
    count_round_trips,
    record_round_trip,
)
from semgraph.stores.batch_io import (
    column,
    match_schema,
    other_length,
    search_schema,
)
from semgraph.stores.shards.answers import (
    Routes,
    are_shared,
    joined_hits,
    joined_paths,
    joined_rows,
    places_by_shard,
    routes_of,
)
from semgraph.stores.shards.batches import ShardBatch, divided, only_shard
from semgraph.stores.shards.joint import JointCommit, naming
from semgraph.stores.shards.places import Places, ShardStore
from semgraph.turns import Turns

T = TypeVar("T")
_NOBODY = -1
"""In place of shards that do not exist yet: a store without rows, which checks what is asked."""


class ShardedStore:
    """A store whose partitions are divided among stores. See `Store` for what each method promises.

    Args:
        places: Where the shards are.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self._stores = dict(enumerate(places.stores()))
        self._trips = RoundTrips()
        self._observer: Callable[[str], None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._graph: Graph | None = None
        self._dimensions: int | None = None
        self._writes = False
        self._ready: set[int] = set()
        self._lengths: dict[tuple[str, str], int] = {}
        self._opening = Turns()
        self._measuring = Turns()

    def share(self) -> Self:
        """As `Shareable.share`."""
        other = copy(self)
        other._stores = {number: store.share() for number, store in self._stores.items()}  # noqa: SLF001 - its own copy
        other._begin()  # noqa: SLF001
        return other

    @property
    def name(self) -> str:
        """`shards:neo4j://a,neo4j://b` or `shards:sqlite:FOLDER?n=64`."""
        return self.places.name

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return self.places.count

    @property
    def round_trips(self) -> int:
        """Round trips made so far; those that shards make side by side are one."""
        return self._trips.number

    @property
    def nearest(self) -> str:
        """As in each shard."""
        return self._stores[0].nearest

    @property
    def graph(self) -> Graph:
        """The graph that it was opened for. Raises EngineError before that."""
        if self._graph is None:
            raise EngineError(f"{self.name}  is not open: call ensure first")
        return self._graph

    def takes(self, expr: Scalar, alias: Alias) -> bool:
        """Whether a conjunct can run in the shards."""
        return self._stores[0].takes(expr, alias)

    def observe(self, callback: Callable[[str], None] | None) -> None:
        """Call `callback` with the text of each statement of all shards from now on."""
        self._observer = callback
        for store in self._stores.values():
            store.observe(callback)

    # Opening.

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        """Open the shards, or make ready to create each with its first row. Raises
        StoreUnavailable, PlanError.
        """
        await self._open_for(graph, dimensions, writes=True)

    async def attach(self, graph: Graph, dimensions: int | None = None) -> None:
        """Open the shards to read; nothing is created or changed. Raises StoreUnavailable,
        PlanError.
        """
        await self._open_for(graph, dimensions, writes=False)

    async def _open_for(self, graph: Graph, dimensions: int | None, *, writes: bool) -> None:
        self._begin()
        self._graph, self._dimensions, self._writes = graph, dimensions, writes
        existing = self._existing()
        if self.places.lazy:
            await self.places.join((), writes=writes)
            await self._side_by_side(dict.fromkeys(existing[:1], _nothing))  # lengths of vectors
            return
        await self._side_by_side(dict.fromkeys(existing, _nothing))
        opened = [self._stores[number] for number in existing]
        await self.places.join(opened, writes=writes)

    def _existing(self) -> list[int]:
        """The shards that may hold rows."""
        return [n for n in range(self.places.count) if n in self._ready or self.places.exists(n)]

    def _readable(self, numbers: Iterable[int]) -> dict[int, int]:
        """For each shard the store to read: the empty one if it does not exist."""
        return {
            number: number if number in self._ready or self.places.exists(number) else _NOBODY
            for number in numbers
        }

    async def _opened(self, number: int) -> ShardStore:
        """A shard, opened at its first use. Raises StoreUnavailable."""
        if number not in self._ready:
            async with self._opening:
                if number not in self._ready:
                    with count_round_trips():  # opening is part of no read
                        await self._open(number)
        return self._stores[number]

    async def _open(self, number: int) -> None:
        store = self._stores.get(number) or self._make_nobody()
        if self._observer is not None:
            store.observe(None)  # what opening runs is no read
        if number == _NOBODY:
            await store.ensure(self.graph, None)
        elif self._writes:
            await store.ensure(self.graph, self._dimensions)
        else:
            await store.attach(self.graph, self._dimensions)
        if self._observer is not None:
            store.observe(self._observer)
        lengths = store.lengths
        for (label, name), size in lengths.items():
            self._check_length(label, name, size)
        self._lengths.update(lengths)
        self._ready.add(number)

    def _make_nobody(self) -> ShardStore:
        from semgraph.stores.sqlite.store import SqliteStore

        return self._stores.setdefault(_NOBODY, SqliteStore(":memory:"))

    async def _side_by_side(
        self, work: Mapping[int, Callable[[ShardStore], Awaitable[T]]]
    ) -> dict[int, T]:
        """Do work in several shards at one time; it counts as the round trips of the one with most.
        If one fails, its error is raised when all have ended.
        """
        trips = [0]

        async def one(number: int) -> T:
            with naming(Shard(number, self.places.count)), count_round_trips() as own:
                try:
                    return await work[number](await self._opened(number))
                finally:
                    trips.append(own.number)

        try:
            if len(work) == 1:
                return {number: await one(number) for number in work}
            results = await asyncio.gather(*map(one, work), return_exceptions=True)
        finally:
            self._count(max(trips))
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return dict(zip(work, results, strict=True))  # type: ignore[arg-type]  # no exceptions are left

    def _count(self, trips: int) -> None:
        self._trips.number += trips
        for _ in range(trips):
            record_round_trip()

    # Reads.

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """Search; each row in the shards of its partitions."""
        if rows.num_rows:
            self._check_query_lengths(queries, rows)
        routes = [self._routes(rows, query.partition) for query in queries]
        inner = [
            _with_order(query) if are_shared(of) else query
            for query, of in zip(queries, routes, strict=True)
        ]
        places = [places_by_shard(of) for of in routes]
        work: dict[int, Callable[[ShardStore], Awaitable[list[pa.Table]]]] = {}
        asked: dict[int, list[int]] = {}
        for shard in sorted({shard for of in places for shard in of}):
            asked[shard] = [n for n, of in enumerate(places) if shard in of]
            own = _taken(rows, {place for n in asked[shard] for place in places[n][shard]})
            some = [inner[n] for n in asked[shard]]
            work[shard] = methodcaller("search", some, own)
        answers = await self._side_by_side(work) if work else {}
        joined = []
        for n, query in enumerate(queries):
            tables = [answers[shard][asked[shard].index(n)] for shard in places[n]]
            if len(tables) == 1:
                joined += tables
                continue
            wanted = search_schema(self.graph, query, self._lengths)
            if not tables:
                joined.append(wanted.empty_table())
                continue
            hits = joined_hits(query, self.graph.key, tables, shared=are_shared(routes[n]))
            joined.append(hits.select(wanted.names))
        return joined

    def _routes(self, rows: pa.Table, partition: str | None) -> Routes:
        """For each row the stores to read."""
        if not rows.num_rows:
            return []
        everywhere = (self._existing() or [_NOBODY]) if partition is None else ()
        routes = routes_of(rows, partition, self.places.count, everywhere)
        stores = self._readable({shard for shards in routes for shard in shards} - {_NOBODY})
        stores[_NOBODY] = _NOBODY
        return [tuple(sorted({stores[shard] for shard in shards})) for shards in routes]

    def _check_query_lengths(self, queries: Sequence[SearchQuery], rows: pa.Table) -> None:
        """Refuse query vectors of another length than the vectors of any shard."""
        for query in queries:
            label = self.graph.label(query.label)
            for method in query.methods:
                if method.via == "nearest" and method.prop in label.vectors:
                    size = _length(column(rows, method.column))
                    self._check_length(label.name, label.vectors[method.prop], size)

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """Match a pattern; the nodes and edges of a path are in one shard."""
        routes = self._routes(rows, query.partition)
        work: dict[int, Callable[[ShardStore], Awaitable[pa.Table]]] = {}
        for shard, places in places_by_shard(routes).items():
            own = _taken(rows, places)
            work[shard] = methodcaller("match", query, own)
        if not work:
            return match_schema(self.graph, query, self._lengths).empty_table()
        answers = await self._side_by_side(work)
        if len(answers) == 1:
            return next(iter(answers.values()))
        named = [
            (element, label)
            for element, label in elements_of(self.graph, query.pattern)
            if element.var
        ]
        return joined_paths(named, list(answers.values()), shared=are_shared(routes))

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """The rows of a label in some partitions, of all their shards."""
        own: dict[int, Sequence[str] | None] = dict.fromkeys(self._existing() or [_NOBODY])
        if partitions is not None:
            own = {
                store: [
                    value for value in partitions if of[shard_of(value, self.places.count)] == store
                ]
                for of in [self._of_partitions(partitions)]
                for store in sorted(set(of.values()))
            }
        tables: dict[int, pa.Table] = await self._side_by_side(
            {
                store: methodcaller("scan", label, properties, some, where, limit)
                for store, some in (own or {_NOBODY: []}).items()
            }
        )
        if len(tables) == 1:
            return next(iter(tables.values()))
        return joined_rows(self.graph.key, list(tables.values()), limit)

    def _of_partitions(self, partitions: Iterable[str]) -> dict[int, int]:
        """The shards of partitions, and for each the store to read."""
        return self._readable(shard_of(value, self.places.count) for value in partitions)

    async def states(
        self, plan: str, rows: Mapping[str, Sequence[str]]
    ) -> Mapping[str, PartitionState]:
        """Heads and commit markers, each of the shard of its partition."""
        of = self._of_partitions(rows)
        own: dict[int, dict[str, Sequence[str]]] = {}
        for value, keys in rows.items():
            own.setdefault(of[shard_of(value, self.places.count)], {})[value] = keys
        states: dict[int, Mapping[str, PartitionState]] = await self._side_by_side(
            {store: methodcaller("states", plan, some) for store, some in own.items()}
        )
        known = {value: state for of_shard in states.values() for value, state in of_shard.items()}
        return {value: known[value] for value in rows}

    async def statistics(self) -> Statistics:
        """Counts of all shards together, and lengths of their vectors."""
        every: dict[int, Statistics] = await self._side_by_side(
            dict.fromkeys(self._existing() or [_NOBODY], methodcaller("statistics"))
        )
        counts: Counter[str] = Counter()
        dimensions: dict[tuple[str, str], int] = {}
        for statistics in every.values():
            counts.update(statistics.counts)
            dimensions.update(statistics.dimensions)
        return Statistics(dict(counts), dimensions)

    # Writes.

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        """Write a batch: in one transaction if its rows are of one shard, else in one in each. Raises
        ConcurrentWrite, DataError, StoreUnavailable.
        """
        graph = self.graph
        if not batch.rows and marker is None:
            return Written()
        first = await self._new_lengths(batch)
        if not first:
            return await self._commit(graph, batch, marker)
        async with self._measuring:  # the first vectors fix the length
            self._check_lengths(first)
            written = await self._commit(graph, batch, marker)
            self._lengths.update(first)
            return written

    async def _commit(
        self, graph: Graph, batch: WriteBatch, marker: CommitMarker | None
    ) -> Written:
        number = only_shard(graph, batch, marker, self.places.count)
        if number is not None:
            one: dict[int, Written] = await self._side_by_side(
                {number: methodcaller("commit", batch, marker)}
            )
            return one[number]
        existing = self._existing()
        parts = await divided(graph, batch, marker, self.places.count, existing, self._locate)
        return await self._commit_together(parts)

    async def _commit_together(self, parts: Sequence[ShardBatch]) -> Written:
        """Write several shards. As they follow each other, each counts as a round trip."""
        trips = RoundTrips()
        try:
            with count_round_trips() as trips:
                return await JointCommit(parts, self._opened, self.places.count).run()
        finally:
            self._count(trips.number)

    async def _locate(self, label: str, keys: Sequence[str]) -> dict[str, list[int]]:
        """The shards that have some keys of a label."""
        key = self.graph.key
        distinct = list(dict.fromkeys(keys))
        rows = pa.table(
            {"_q": pa.array(range(len(distinct)), pa.int64()), key: pa.array(distinct, pa.string())}
        )
        query = SearchQuery(label, (Method("equal", key, key),), (), partition=None)
        answers: dict[int, list[pa.Table]] = await self._side_by_side(
            dict.fromkeys(self._existing(), methodcaller("search", [query], rows))
        )
        shards: dict[str, list[int]] = {}
        for number, [hits] in answers.items():
            for value in hits.column(key).to_pylist():
                shards.setdefault(str(value), []).append(number)
        return shards

    async def _new_lengths(self, batch: WriteBatch) -> dict[tuple[str, str], int]:
        """The lengths of a batch's vectors that are the first of their property in all shards. Raises
        StoreUnavailable for vectors of another length than the stored ones.
        """
        lengths = {
            (write.label, name): size
            for write in batch.writes
            if not isinstance(write, Deletion)
            for name in self.graph.label(write.label).vectors.values()
            if name in write.rows.column_names
            if (size := _length(column(write.rows, name))) is not None
        }
        if lengths.keys() - self._lengths.keys() and self._dimensions is None:
            stored = (await self.statistics()).dimensions
            self._check_lengths(stored)
            self._lengths.update(stored)
        self._check_lengths(lengths)
        return {at: size for at, size in lengths.items() if at not in self._lengths}

    def _check_lengths(self, lengths: Mapping[tuple[str, str], int]) -> None:
        for (label, name), size in lengths.items():
            self._check_length(label, name, size)

    def _check_length(self, label: str, name: str, size: int | None) -> None:
        stored = self._lengths.get((label, name), self._dimensions)
        if stored is not None and size is not None and stored != size:
            raise other_length(self.name, label, name, stored, size)

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """Delete the rows and commit markers of some partitions, or of all; one transaction in each
        shard.
        """
        existing = self._existing()
        own: dict[int, list[str] | None] = dict.fromkeys(existing)
        if partitions is not None:
            of = {value: shard_of(value, self.places.count) for value in partitions}
            own = {
                number: [value for value, shard in of.items() if shard == number]
                for number in existing
                if number in of.values()
            }
        await self._side_by_side(
            {number: methodcaller("clear", some) for number, some in own.items()}
        )

    # Migration.

    @property
    def notes(self) -> tuple[str, ...]:
        """What shards lack."""
        shards = sorted(self._ready - {_NOBODY})
        return tuple(
            f"{Shard(number, self.places.count)}: {note}"
            for number in shards
            for note in self._stores[number].notes
        )

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        """As `Migratable.check_derived`, in each shard."""
        wanted = list(places)
        await self._side_by_side(
            dict.fromkeys(self._existing(), methodcaller("check_derived", wanted))
        )

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """As `Migratable.migrate`, in each shard."""
        await self.ensure(graph, dimensions)
        reports: dict[int, list[str]] = await self._side_by_side(
            dict.fromkeys(self._existing(), methodcaller("migrate", graph, dimensions, drop=drop))
        )
        return [
            f"{Shard(number, self.places.count)}: {line}"
            for number, lines in reports.items()
            for line in lines
        ]

    async def aclose(self) -> None:
        """Close all shards. Safe to call twice."""
        self._begin()
        for store in self._stores.values():
            await store.aclose()


async def _nothing(_: ShardStore) -> None:
    """Only open the shard."""


def _taken(rows: pa.Table, places: Collection[int]) -> pa.Table:
    """Some rows, in their order."""
    return rows if len(places) == rows.num_rows else rows.take(sorted(places))


def _with_order(query: SearchQuery) -> SearchQuery:
    """A search that returns what its hits are ordered by too."""
    order = [name for name, _ in query.order]
    return replace(query, properties=tuple(dict.fromkeys((*query.properties, *order))))


def _length(vectors: pa.Array[Any]) -> int | None:
    """The length of vectors; None if all are NULL."""
    if vectors.null_count == len(vectors):
        return None
    if isinstance(vectors.type, pa.FixedSizeListType):
        return int(vectors.type.list_size)
    return len(vectors.drop_null()[0])
