"""The protocol of a store: searches, matches, scans, and commits of a whole window.

All reads are set-at-a-time: rows have an ordinal `_q`, each hit has the `_q` of its row, and any
number of rows takes one round trip. Values are always bound parameters. Labels and property names
come from the `Graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

from semgraph.expr import Scalar
from semgraph.logical.graph import Pattern
from semgraph.logical.schema import Derived, Graph, Label

Via = Literal["equal", "fulltext", "nearest", "order"]
OVERFETCH = 4  # the ratio of the full-text hits that `overlap` ranks to those that it returns
# The names of hits and variables in a conjunct: of a hit, or of a hit and its ends. None: any
# variable of a pattern. "": names without an alias are properties.
Alias = str | tuple[str, ...] | None
RowIds = Mapping[str, Sequence[str]]  # of input rows, by partition


@dataclass(frozen=True)
class Method:
    """A method by which a search finds hits: `equal` (a property equals the row's value),
    `fulltext` (the store's BM25), `nearest` (raw cosine of the embedding) or `order` (no ranking:
    `SearchQuery.order` decides).

    `prop` is the property; for `nearest` the embedded text (`name`, not `name_embedding`). Full
    text searches all properties of the first index that has it. The `column` of the rows has the
    value: a scalar, plain words, of which any makes a hit, or a vector. A NULL, a text without
    words and a zero vector have no hits. A similarity must exceed `above`.

    There are at most `k` hits per row, after `where`; None: all. With the rank `overlap`, the
    store's best `ranked` hits are reranked by the `overlap` of the row's words and their texts,
    which becomes their score; ties by key. The query must then return all properties of the index.
    """

    via: Via
    prop: str = ""
    column: str = ""
    above: float = -1.0
    k: int | None = None
    rank: Literal["store", "overlap"] = "store"

    @property
    def ranked(self) -> int | None:
        """The number of hits that the store ranks for a row; None: all."""
        return self.k and self.k * (OVERFETCH if self.rank == "overlap" else 1)


@dataclass(frozen=True)
class SearchQuery:
    """One search over a label, for all rows at once. Each method ranks separately; the engine fuses
    the rankings.

    `properties` are returned in addition to the key (and `source`, `target` of edges); a vector
    only if named (`name_embedding`). `labels` are sorted and never NULL, without the label itself;
    `attributes` are canonical JSON, `{}` if there are none. `where` has conjuncts over properties
    of the hit (`alias.prop`) and row columns that the store `takes`. All must hold before k is
    counted.

    The column `partition` has the row's partition, or a list of several; None means all. A NULL or
    an empty list has no hits. `ends` are nodes at an edge's ends: `source` or `target`, the name in
    `where`, and further properties. They are in a struct column `#source` or `#target` of the hit,
    NULL if the node does not exist. The method `order` sorts by pairs of property and whether it
    descends; NULLs last, ties by key.
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
    """A pattern, matched for all rows at once. As in openCypher there is one row per path, and no
    path uses an edge twice. Property maps name columns of `rows`.

    `properties` are returned for each variable in addition to the key (and `source` and `target` of
    edges). `where` is over all variables. All nodes and edges of a path are in the row's
    `partition`; if the row has several, in a single one of them. Otherwise as in `SearchQuery`.
    """

    pattern: Pattern
    properties: Mapping[str, tuple[str, ...]]
    where: tuple[Scalar, ...] = ()
    partition: str | None = "group_id"


@dataclass(frozen=True)
class ScanQuery:
    """The rows of a label: key, partition, ends of an edge, and some properties, sorted by key.
    `partitions` are those to read (None: all); `where` names properties without an alias; `limit` is
    over all partitions.
    """

    label: str
    properties: Sequence[str] = ()
    partitions: Sequence[str] | None = None
    where: Sequence[Scalar] = ()
    limit: int | None = None


@dataclass(frozen=True)
class MergeWrite:
    """Merge nodes or edges by key. `rows` has the key, the partition and every property to write, including
    vectors.

    A property in `create` is written only to a new row. One in `unite` is a list that is united
    with the stored one (stored values first, then new values in order). All others overwrite, but
    NULL never overwrites. `labels`, if it is a column, adds labels if the graph has `open: labels`.
    `attributes`, a JSON object, replaces all attributes (null attributes are dropped).
    `only_existing` creates no rows. JSON is stored in canonical form. `replace` sets each column,
    also to NULL, and `labels` to these labels.

    A key that is stored under a different partition is an error, and the batch is not written. Rows
    without a partition are merged wherever their key is. The same holds for `Deletion`.
    """

    label: str
    rows: pa.Table
    create: frozenset[str] = frozenset()
    unite: frozenset[str] = frozenset()
    only_existing: bool = False
    replace: bool = False


class NodeWrite(MergeWrite):
    """Merge nodes."""


class EdgeWrite(MergeWrite):
    """Merge edges. `rows` has `source` and `target`, keys of nodes of the type's end labels. An edge
    is an error if its ends do not exist or are in another partition than its row, or if it gives new
    ends to an existing edge. Then the batch is not written.
    """


@dataclass(frozen=True)
class Deletion:
    """Delete nodes or edges by key; `rows` has the key and the partition. A key that is stored
    under a different partition is ignored. A node with edges is an error unless `detach`. Commit
    markers with a deleted witness are deleted, too.
    """

    label: str
    rows: pa.Table
    detach: bool = False


Write = NodeWrite | EdgeWrite | Deletion


@dataclass(frozen=True)
class CommitMarker:
    """The record that a window writes on commit, in the same transaction: for each of its rows, by
    id, the fingerprints of the plan, parameters and implementations, and of the row's values.

    `before` is the partition's head that this run last saw (None: it has none), `head` the new one,
    which is unique. `begun` is `$now` of the steps that ran ahead. `parts` are the fingerprints of
    what the rows were made by: `prompt facts`, `model facts`, `parameter history`. `writes` is what
    the window wrote, without its content (`semgraph.stores.writes`). The marker counts as long as a
    node of the label `witness` is stored by the row id; None: always.
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
    contents: tuple[str, ...] = ()
    begun: datetime | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    writes: str = ""


@dataclass(frozen=True)
class CommittedRow:
    """An input row that is committed; `content` is "" if an earlier version wrote it."""

    row: str
    fingerprint: str
    now: datetime
    run: str
    content: str = ""


@dataclass(frozen=True)
class PartitionState:
    """The head of one partition, and the commit markers of some of its input rows for one plan."""

    head: str | None = None
    committed: Mapping[str, CommittedRow] = field(default_factory=dict)


@dataclass(frozen=True)
class CommittedWindow:
    """A window that a plan committed, with its input rows that still have a marker. The other fields
    are those of its marker; `writes` is None if an earlier version wrote it.
    """

    rows: tuple[CommittedRow, ...]
    now: datetime
    begun: datetime | None
    parts: Mapping[str, str]
    writes: str | None


@dataclass(frozen=True)
class History:
    """What one plan committed in one partition: the partition's head, and the windows in the order of
    their commits. The windows of an earlier version, one for each row, come first, by `now`.
    """

    head: str | None = None
    windows: tuple[CommittedWindow, ...] = ()


@dataclass(frozen=True)
class NewContent:
    """New content for what one plan committed in some partitions, written in one transaction: all
    of the plan's markers there are deleted. `heads` has, by partition, the head that must still be
    there and the new one; `before` and `head` of the new `markers` do not count.
    """

    batch: WriteBatch
    plan: str
    heads: Mapping[str, tuple[str | None, str]]
    markers: tuple[CommitMarker, ...]

    @classmethod
    def of(cls, batch: WriteBatch, marker: CommitMarker | None = None) -> NewContent:
        """The content of one commit."""
        own = (marker,) if marker is not None else ()
        return cls(batch, "", {each.partition: (each.before, each.head) for each in own}, own)


def in_pieces(rows: RowIds, size: int = 10_000) -> Iterator[dict[str, Sequence[str]]]:
    """Ids of input rows in pieces whose markers take some megabytes; each partition is in one, even
    without ids.
    """
    piece: dict[str, Sequence[str]] = {}
    left = size
    for partition, own in rows.items():
        rest: Sequence[str] | None = own
        while rest is not None:
            piece[partition], rest = rest[:left], rest[left:] or None
            left -= len(piece[partition])
            if not left:
                yield piece
                piece, left = {}, size
    if piece:
        yield piece


@dataclass(frozen=True)
class WriteBatch:
    """The writes of one transaction: deletes (of edges, then of nodes), then nodes, then edges."""

    writes: tuple[Write, ...]

    @property
    def rows(self) -> int:
        """The number of rows that it writes and deletes."""
        return sum(write.rows.num_rows for write in self.writes)

    @property
    def deletes(self) -> bool:
        """Whether it deletes rows."""
        return any(isinstance(write, Deletion) and write.rows.num_rows for write in self.writes)


@dataclass(frozen=True)
class Written:
    """Rows merged or deleted per label, {"Person": 3}; skipped rows do not count."""

    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics:
    """Counts per label, and dimensions of the stored vectors per (label, vector property)."""

    counts: Mapping[str, int]
    dimensions: Mapping[tuple[str, str], int]


def part_of(number: int, count: int) -> str:
    """A sentence about part `number`, from 0, of a store that an earlier version divided."""
    return (
        f"is part {number + 1} of {count} of a store that an earlier version divided: it has rows of some groups "
        "only, and is only read. To write, run the plans that filled it again with another --store: the journal "
        "answers their requests"
    )


class StoreReads(Protocol):
    """The reads of a store: searches, matches and scans."""

    def takes(self, expr: Scalar, alias: Alias) -> bool:
        """Whether the store can evaluate a conjunct over `alias.*` and row columns."""

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """Run searches over the same `rows` (column `_q`: int64 ordinal), in one round trip.

        Returns one table per query: `_q` int64, `via` string, `method` int32 (index into
        `methods`), `rank` int64 (from 0 within `_q` and `method`), `score` double (1.0 for equal
        and order; raw cosine; the store's BM25), then the key, `source` and `target` for edges, and
        the properties. Sorted by `_q`, `method`, `rank`; ties in score are ordered by key.
        """

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """Match a pattern.

        Returns `_q`, then one struct column per variable. A variable-length path is a list of
        structs (key, `label`, `source`, `target`), its edges in order. Sorted by `_q` and the keys
        of the variables; variable-length paths first by length.
        """

    async def scan(self, query: ScanQuery) -> pa.Table:
        """The rows of a label."""


@runtime_checkable
class Store(StoreReads, Protocol):
    """A property graph with full-text and vector search. One instance serves one run and is not
    shared between event loops. It calls `record_round_trip` for each Bolt RUN, or transaction in
    SQLite.
    """

    @property
    def name(self) -> str:
        """Its name in messages: `sqlite:.semgraph/graph.db`, `neo4j://127.0.0.1:7687`, `memory`."""

    @property
    def nearest(self) -> str:
        """The exactness of a nearest-neighbour search, in words: `exact`, or its limits."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The parts that the store lacks and that are computed in memory instead; for the user."""

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        """Create missing parts: tables, constraints, indexes. Idempotent. A store that another
        program created is left unchanged.

        Raises StoreUnavailable if the store does not answer, rejects the password, is read-only, or
        holds vectors of another length: label, both lengths and the remedy are named.
        """

    async def attach(self, graph: Graph, dimensions: int | None = None) -> object:
        """Open the store for a graph, to read only; `dimensions` is the length of query vectors.
        Nothing is created. Raises as `ensure`.
        """

    def share(self) -> Store:
        """A store over the same connection, for another graph. Closing one closes all."""

    def observe(self, callback: Callable[[str], None] | None) -> None:
        """Call `callback` with the text of each statement from now on; None: stop."""

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        """Count the rows that lack derived text properties, by label and name; `notes` then reports
        them. A search that compares such properties counts them itself.
        """

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Create all missing parts, whoever created the store, and fill in derived text properties.
        With `drop`, the indexes with names of the graph are dropped first and recreated.

        Nothing created by another program is dropped or changed; duplicate keys are reported and
        kept. Returns the created, dropped and filled-in parts, the parts that could not be created,
        and the number of rows that lack vectors; for the user. Raises StoreUnavailable.
        """

    async def states(self, plan: str, rows: RowIds) -> Mapping[str, PartitionState]:
        """The heads of some partitions, and the valid commit markers of some of their input rows,
        which may repeat and may be unknown; no others are read. Each requested partition has a
        state.

        A commit between the two reads is never missed: the head is read first, or at the same time.
        One round trip, or one per piece of many rows.
        """

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        """Write all of a batch, or nothing, in one transaction and one round trip.

        Raises:
            ConcurrentWrite: `marker.before` is no longer the partition's head.
            DataError: A missing end, another partition, a node with edges, an invalid value; the
                message names label, key and `write`.
            StoreUnavailable: The connection is lost, the disk is full, or vectors differ in length.
        """

    async def history(self, plan: str, partitions: Sequence[str]) -> Mapping[str, History]:
        """What a plan committed in some partitions, with heads that were read first, or at the same
        time. Rows without their witness, and windows without rows, are left out.
        """

    async def replace(self, new: NewContent) -> Written:
        """Write a batch and replace the markers of a plan, all at once. Raises as `commit`."""

    async def statistics(self) -> Statistics:
        """Counts and dimensions, for EXPLAIN, `doctor` and checks."""

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """Delete all nodes, edges and commit markers of some partitions, or of all."""

    async def aclose(self) -> None:
        """Close connections. Safe to call twice."""


def derived_report(label: Label, derived: Derived, count: int) -> list[str]:
    """A line about rows that lacked a derived property: a migration makes texts, no vectors."""
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
    """Count the round trips made within the context, by this task and the tasks that it starts."""
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
