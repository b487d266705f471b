"""The protocol of a store: searches, matches, scans, and commits of a whole window.

All reads are set-at-a-time: rows have an ordinal `_q`, each hit has the `_q` of its row, and any
number of rows takes one round trip. Values are always bound parameters; labels and property names
come from the `Graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.expr import Scalar
from semgraph.logical.graph import Pattern
from semgraph.logical.schema import Derived, Graph, Label

Via = Literal["equal", "fulltext", "nearest", "order"]
OVERFETCH = 4  # how many hits by full text `overlap` ranks, as a multiple of those that it gives
# The names of which a conjunct reads properties: of a hit, or of a hit and its ends; None: any
# variable of a pattern; "": plain names are properties.
Alias = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Method:
    """A method by which a search finds hits.

    Args:
        via: `equal` (property equals the row's value), `fulltext` (the store's own BM25), `nearest`
            (raw cosine of the property's embedding), or `order` (no ranking of its own:
            `SearchQuery.order` decides).
        prop: The property of the label; for `nearest` the embedded text property (`name`, not
            `name_embedding`). Full text looks into all properties of the first full-text index that
            has this one.
        column: The column of `rows` that holds the row's value: a scalar for `equal`, a string of
            words for `fulltext` (already reduced to plain words, never query syntax; any of them
            makes a hit), a vector for `nearest`. Empty for `order`. A NULL, a text without words
            and a vector of zeros find nothing.
        above: For `nearest`: the similarity that a hit must exceed, strictly.
        k: How many hits to give per row at most, after `where`; None for all.
        rank: For `fulltext`: `overlap` ranks the best `ranked` hits of the store anew, by the
            `overlap` of the row's words and their texts, which is their score; ties by key. All
            properties of the index must be among those that the query returns.
    """

    via: Via
    prop: str = ""
    column: str = ""
    above: float = -1.0
    k: int | None = None
    rank: Literal["store", "overlap"] = "store"

    @property
    def ranked(self) -> int | None:
        """How many hits the store ranks for a row; None: all."""
        return self.k and self.k * (OVERFETCH if self.rank == "overlap" else 1)


@dataclass(frozen=True)
class SearchQuery:
    """One search over a label, for all rows at once.

    Args:
        label: A node label or an edge type of the graph.
        methods: How to find hits; each ranks for itself, fusing is the engine's business.
        properties: The properties to return in addition to the key (and `source`, `target` of edges); a
            vector property only if it is named (`name_embedding`). `labels` are sorted and never
            NULL, without the label itself; `attributes` are canonical JSON, `{}` if there are none.
        alias: What `where` and `order` call the hit.
        where: Conjuncts over hit properties (`alias.prop`) and row columns that the store `takes`;
            all must hold before k is counted.
        partition: The column of `rows` with the partition value; a list column means several; None
            means all. A NULL or an empty list finds nothing.
        ends: Nodes at an edge's ends: `source` or `target`, what `where` calls it, and the
            properties to return in addition to its key, in a struct column `#source` or `#target` of the
            hit; NULL where the node does not exist.
        order: For the method `order`: (property, descending) pairs; NULLs last; ties by key
            ascending.
    """

    label: str
    methods: tuple[Method, ...]
    properties: tuple[str, ...]
    alias: str = "hit"
    where: tuple[Scalar, ...] = ()
    partition: str | None = "group_id"
    order: tuple[tuple[str, bool], ...] = ()
    ends: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class MatchQuery:
    """A pattern, matched for all rows at once.

    As in openCypher there is a row for each path, and no path uses an edge twice.

    Args:
        pattern: The pattern; its property maps name columns of `rows`.
        properties: The properties to return for each variable, in addition to the key (and `source`
            and `target` of edges).
        where: As in `SearchQuery`, over all variables.
        partition: As in `SearchQuery`. Every node and edge of a path is in the row's partition; if
            the row has several, in the same one.
    """

    pattern: Pattern
    properties: Mapping[str, tuple[str, ...]]
    where: tuple[Scalar, ...] = ()
    partition: str | None = "group_id"


@dataclass(frozen=True)
class NodeWrite:
    """Merge nodes by key. `rows` has the key, the partition and every property to write, vectors
    included.

    A property in `create` is written only when the node is new; one in `unite` is a list that is
    united with the stored one (stored first, then new values in order); all others overwrite,
    except that NULL never overwrites. `labels`, if it is a column, adds labels where the graph has
    `open: labels`; `attributes`, a JSON object, replaces all attributes (one that is null is left
    out). `only_existing` creates no nodes. JSON is stored in canonical form.

    A key that is stored under a different partition is an error, and nothing of the batch is
    written. Rows without a partition are merged wherever their key is; so it is with
    `EdgeWrite` and `Deletion`.
    """

    label: str
    rows: pa.Table
    create: frozenset[str] = frozenset()
    unite: frozenset[str] = frozenset()
    only_existing: bool = False


@dataclass(frozen=True)
class EdgeWrite:
    """Merge edges by key, as `NodeWrite`; `rows` has `source` and `target`, keys of nodes of the
    type's end labels. An edge whose ends do not exist, or are in a different partition than its row,
    is an error, and so are new ends for an existing edge: nothing of the batch is written.
    """

    label: str
    rows: pa.Table
    create: frozenset[str] = frozenset()
    unite: frozenset[str] = frozenset()
    only_existing: bool = False


@dataclass(frozen=True)
class Deletion:
    """Delete nodes or edges by key; `rows` has the key and the partition. A key that is stored
    under a different partition is ignored. A node with edges is an error unless `detach`. Commit markers
    with a deleted witness are deleted too.
    """

    label: str
    rows: pa.Table
    detach: bool = False


Write = NodeWrite | EdgeWrite | Deletion


@dataclass(frozen=True)
class CommitMarker:
    """The record that a window leaves when it commits, in the same transaction.

    Args:
        plan: Name of the plan.
        partition: The partition value.
        rows: Ids of the window's input rows.
        fingerprint: Of the plan, parameters and choices.
        now: The window's `$now`.
        run: Id of the run.
        before: The partition's head that this run last saw (None: the partition has none).
        head: The new head; unique.
        witness: Label of the node, keyed by the row id, without which the commit marker does not count;
            None: always counts.
    """

    plan: str
    partition: str
    rows: tuple[str, ...]
    fingerprint: str
    now: datetime
    run: str
    before: str | None
    head: str
    witness: str | None = None


@dataclass(frozen=True)
class CommittedRow:
    """An input row that is committed already."""

    row: str
    fingerprint: str
    now: datetime
    run: str


@dataclass(frozen=True)
class PartitionState:
    """Head of one partition, and the commit markers of some of its input rows for one plan."""

    head: str | None = None
    committed: Mapping[str, CommittedRow] = field(default_factory=dict)


def in_pieces(rows: Mapping[str, Sequence[str]], size: int) -> Iterator[dict[str, Sequence[str]]]:
    """Ids of input rows by partition, in pieces of at most `size` ids. Each partition is in a piece,
    also if it has no ids; one with many is in several.
    """
    piece: dict[str, Sequence[str]] = {}
    count = 0
    for partition, own in rows.items():
        start = 0
        while start == 0 or start < len(own):
            piece[partition] = own[start : start + size - count]
            count += len(piece[partition])
            start += max(len(piece[partition]), 1)
            if count == size:
                yield piece
                piece, count = {}, 0
    if piece:
        yield piece


@dataclass(frozen=True)
class WriteBatch:
    """The writes of one transaction: deletes first (of edges, then of nodes), then nodes, then
    edges. Writes without rows do nothing.
    """

    writes: tuple[Write, ...]

    @property
    def rows(self) -> int:
        """How many rows it writes and deletes."""
        return sum(write.rows.num_rows for write in self.writes)

    @property
    def deletes(self) -> bool:
        """Whether it deletes anything."""
        return any(isinstance(write, Deletion) and write.rows.num_rows for write in self.writes)


@dataclass(frozen=True)
class Written:
    """Rows merged or deleted per label, {"Person": 3}; labels without any may be missing. Rows that
    are passed over do not count.
    """

    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """Counts per label, and dimensions of the stored vectors per (label, vector property)."""

    counts: Mapping[str, int]
    dimensions: Mapping[tuple[str, str], int]


def part_of(number: int, count: int) -> str:
    """A sentence for a file or server that an earlier version recorded as part `number`, from 0, of
    a store.
    """
    return (
        f"is part {number + 1} of {count} of a store that an earlier version divided: it has rows of some groups "
        "only, and is only read. To write, run the plans that filled it again with another --store: the journal "
        "answers their requests"
    )


class StoreReads(Protocol):
    """The reads of a store: searches, matches and scans."""

    def takes(self, expr: Scalar, alias: Alias) -> bool:
        """Whether a conjunct over `alias.*` (None: any pattern variable) and row columns can run in
        the store.
        """
        ...

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """Search; all queries over the same `rows` (column `_q`: int64 ordinal), in one round trip.

        Returns one table per query: `_q` int64, `via` string, `method` int32 (index into
        `methods`), `rank` int64 (from 0 within `_q` and `method`), `score` double (1.0 for equal
        and order; raw cosine; the store's BM25), then the key, `source` and `target` for edges, and
        the properties. Sorted by `_q`, `method`, `rank`; ties in score go by key.
        """
        ...

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """Match a pattern.

        Returns `_q`, then one struct column per variable; for a variable-length path a list of
        structs (key, `label`, `source`, `target`), its edges in order. Sorted by `_q` and the keys
        of the variables, variable-length paths by their length first.
        """
        ...

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """The rows of a label: key, partition, an edge's ends and some properties, sorted by key.

        Args:
            label: The label.
            properties: The properties to return.
            partitions: The partitions to read; None: all.
            where: Conjuncts that all rows fulfil; they name properties without an alias.
            limit: How many rows to return at most, over all partitions.
        """
        ...


@runtime_checkable
class Store(StoreReads, Protocol):
    """A property graph with full-text and vector search. One instance serves one run; not shared
    between event loops.

    `round_trips` counts Bolt RUNs, or transactions in SQLite. A store also calls `record_round_trip()` for
    each, so that a caller knows its own where several use the store at once.
    """

    @property
    def name(self) -> str:
        """Its name in messages: `sqlite:.semgraph/graph.db`, `neo4j://127.0.0.1:7687`, `memory`."""
        ...

    @property
    def round_trips(self) -> int:
        """Round trips made so far."""
        ...

    @property
    def nearest(self) -> str:
        """How exact a search for nearest neighbours is, in words: `exact`, or within which limits."""
        ...

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        """Create what is missing: tables, constraints, indexes. Idempotent.

        Raises:
            StoreUnavailable: It does not answer, rejects the password, is read-only, or holds
                vectors of another length; the message names the label, both lengths and what to do.
                Nothing was written.
        """
        ...

    async def states(
        self, plan: str, rows: Mapping[str, Sequence[str]]
    ) -> Mapping[str, PartitionState]:
        """The heads of some partitions, and the valid commit markers of some of their input rows.

        It reads what is asked for, however many commit markers a partition has. A commit between
        the two reads is never missed: the head is read first, or at the same time. One round trip,
        or one for each so many rows.

        Args:
            plan: Name of the plan.
            rows: Ids of input rows, by partition; they may repeat, and need not be known.

        Returns:
            A state for each partition that was asked for.
        """
        ...

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        """Write all of a batch, or nothing, in one transaction and one round trip. If it raises,
        nothing was written.

        Raises:
            ConcurrentWrite: `marker.before` is no longer the partition's head.
            DataError: A missing end, another partition, a node with edges, an odd value; names
                label, key and `write`.
            StoreUnavailable: Connection lost, disk full, or vectors of another length than the
                stored.
        """
        ...

    async def statistics(self) -> Statistics:
        """Counts and dimensions, for EXPLAIN, `doctor` and checks."""
        ...

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """Delete all nodes, edges and commit markers of some partitions, or of all labels that the
        graph declares.
        """
        ...

    async def aclose(self) -> None:
        """Close connections. Safe to call twice."""
        ...


# Optional capabilities of a store.


@runtime_checkable
class Observable(Protocol):
    """A store that reports the statements it runs."""

    def observe(self, callback: Callable[[str], None] | None) -> None:
        """Call `callback` with the text of each statement from now on; None: stop."""
        ...


@runtime_checkable
class Shareable(Protocol):
    """A store that lets runs share its connection, each for its own graph."""

    def share(self) -> Store:
        """A store over the same connection, not opened for a graph yet. Closing one closes the
        connection of all.
        """
        ...


@runtime_checkable
class Attachable(Protocol):
    """A store that can be opened without creating anything in it."""

    async def attach(self, graph: Graph, dimensions: int | None = None) -> object:
        """Open the store for a graph, to read only; `dimensions` is the length of query vectors.

        Raises as `Store.ensure`.
        """
        ...


@runtime_checkable
class Migratable(Protocol):
    """A store that can be migrated to a graph.

    `ensure` migrates a new store by itself, and leaves one created by another program unchanged.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """What the store lacks, and what is computed in memory instead; for the user."""
        ...

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        """Count the rows that lack derived text properties, by label and name; `notes` then
        reports them. A search that compares such properties does the same by itself.
        """
        ...

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Create all that is missing, whoever created the store, and fill in derived text
        properties.

        Nothing created by another program is dropped or changed; duplicate keys are reported and
        left.

        Args:
            graph: What is needed.
            dimensions: Length of its vectors; None: not known yet.
            drop: First drop the indexes that bear names of the graph, so that they are created
                again.

        Returns:
            What was created, dropped and filled in, what could not be created, and how many rows
            lack vectors; for the user.

        Raises:
            StoreUnavailable: It does not answer, or the user may not write.
        """
        ...


async def open_for_reading(store: Store, graph: Graph, dimensions: int | None = None) -> None:
    """Open a store for a graph without creating anything, if the store can do that.

    Raises as `Store.ensure`.
    """
    if isinstance(store, Attachable):
        await store.attach(graph, dimensions)
    else:
        await store.ensure(graph, dimensions)


def derived_report(label: Label, derived: Derived, count: int) -> list[str]:
    """The line of a migration about `count` rows that lacked a derived property. Texts are filled
    in; vectors stay missing, as a migration does not call the embedder.
    """
    if not count:
        return []
    if derived.by != "embed":
        return [f"filled: {derived.name} of {count:,} {label.name}"]
    lost = "nothing finds them by what is near in meaning"
    made = f"A plan that merges their {derived.of} again makes it"
    return [f"{count:,} {label.name} have no {derived.name}: {lost}. {made}"]


@dataclass
class RoundTrips:
    """The number of round trips made."""

    number: int = 0


_COUNTED: ContextVar[RoundTrips | None] = ContextVar("_COUNTED", default=None)


@contextmanager
def count_round_trips() -> Iterator[RoundTrips]:
    """Count the round trips made within, by this task and those that it starts."""
    trips = RoundTrips()
    token = _COUNTED.set(trips)
    try:
        yield trips
    finally:
        _COUNTED.reset(token)


def record_round_trip() -> None:
    """Count one round trip; called by stores."""
    trips = _COUNTED.get()
    if trips is not None:
        trips.number += 1


_ONLY = "_only"  # no column of a plan begins so


class ConfinedStore:
    """A store over the rows of one partition. See `Store` for what each method promises; one that
    names another partition to write raises PlanError.

    `statistics` counts the rows of all partitions, because stores keep no counts of one.

    Args:
        store: The store; closing it is its owner's business.
        partition: The partition.
    """

    def __init__(self, store: Store, partition: str) -> None:
        self._store, self._partition = store, partition
        self._column = ""
        self.takes = store.takes

    @property
    def name(self) -> str:
        """As the store's."""
        return self._store.name

    @property
    def round_trips(self) -> int:
        """As the store's."""
        return self._store.round_trips

    @property
    def nearest(self) -> str:
        """As the store's."""
        return self._store.nearest

    @property
    def notes(self) -> tuple[str, ...]:
        """As `Migratable.notes`."""
        return self._store.notes if isinstance(self._store, Migratable) else ()

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        """As `Store.ensure`."""
        self._column = graph.partition
        await self._store.ensure(graph, dimensions)

    async def attach(self, graph: Graph, dimensions: int | None = None) -> None:
        """As `Attachable.attach`."""
        self._column = graph.partition
        await open_for_reading(self._store, graph, dimensions)

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        own = _OwnRows(self._partition, rows)
        confined = [replace(q, partition=own.column(q.partition)) for q in queries]
        return await self._store.search(confined, own.rows)

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """As `Store.match`."""
        own = _OwnRows(self._partition, rows)
        return await self._store.match(
            replace(query, partition=own.column(query.partition)), own.rows
        )

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """As `Store.scan`."""
        only = [self._partition] if partitions is None or self._partition in partitions else []
        return await self._store.scan(label, properties, only, where, limit)

    async def states(
        self, plan: str, rows: Mapping[str, Sequence[str]]
    ) -> Mapping[str, PartitionState]:
        """As `Store.states`."""
        self._require(rows)
        return await self._store.states(plan, rows)

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        """As `Store.commit`."""
        self._require([marker.partition] if marker is not None else [])
        for write in batch.writes:
            if write.rows.num_rows:
                self._require(_values(write.rows, self._column))
        return await self._store.commit(batch, marker)

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        """As `Migratable.check_derived`."""
        if isinstance(self._store, Migratable):
            await self._store.check_derived(places)

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Refuse, because indexes belong to all partitions."""
        del dimensions, drop
        what = f'the schema of {self.name} belongs to all groups, and this session has the group "{self._partition}" alone'
        raise PlanError(
            Problem(what, hint=f"run plans that write the schema of {graph.name} without a group")
        )

    async def statistics(self) -> Statistics:
        """As `Store.statistics`."""
        return await self._store.statistics()

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """As `Store.clear`; of all partitions it clears this one."""
        self._require(partitions or ())
        await self._store.clear([self._partition] if partitions is None else partitions)

    async def aclose(self) -> None:
        """As `Store.aclose`."""
        await self._store.aclose()

    def _require(self, partitions: Collection[Any]) -> None:
        """Refuse to write another partition, or a row without one. Raises PlanError."""
        others = [name for name in partitions if name != self._partition]
        if others:
            named = f'the group "{others[0]}"' if others[0] is not None else "rows without a group"
            what = (
                f'the plan writes {named}, and this session has the group "{self._partition}" alone'
            )
            raise PlanError(Problem(what, hint="nothing of these rows was written"))


def _values(rows: pa.Table, column: str) -> list[Any]:
    """The different partitions of rows; None for those without one."""
    if column not in rows.column_names:
        return [None]
    values: list[Any] = rows.column(column).unique().to_pylist()
    return values


class _OwnRows:
    """Rows of a read, with columns that name one partition where they named it, or all."""

    def __init__(self, partition: str, rows: pa.Table) -> None:
        self.rows = rows
        self._partition = partition
        self._names: dict[str | None, str] = {}

    def column(self, name: str | None) -> str:
        """The column in place of a partition column; of None, which means all partitions."""
        if name not in self._names:
            own = self._names[name] = f"{_ONLY}{len(self._names)}"
            every = pa.array([self._partition] * self.rows.num_rows, pa.string())
            values = every if name is None else self._confined(self.rows.column(name))
            self.rows = self.rows.append_column(own, values)
        return self._names[name]

    def _confined(self, column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
        """The partition where a cell is it or lists it, elsewhere NULL."""
        listed = pa.types.is_list(column.type)
        cells = column.to_pylist()
        values = [
            self._partition if self._partition == cell or (listed and self._partition in (cell or ())) else None
            for cell in cells
        ]  # fmt: skip
        return pa.array(values, pa.string())
