"""The stores under test, one graph for all of them, and the words in which the tests speak of rows.

A new store joins the whole suite by one entry in `HOMES`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semgraph.expr import Type
from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.expr.scalar import parse_scalar
from semgraph.frontend.graph_files import graph_of
from semgraph.logical.graph import parse_pattern
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import (
    CommitMarker,
    Deletion,
    EdgeWrite,
    MatchQuery,
    Method,
    NodeWrite,
    SearchQuery,
    Store,
    WriteBatch,
    Written,
)

DIMENSIONS = 4
GRAPH = graph_of(
    {
        "graph": "tests",
        "key": "uuid",
        "partition": "group_id",
        "common": {"created_at": "timestamp"},
        "nodes": {
            "Person": {
                "open": ["labels", "attributes"],
                "properties": {
                    "name": "string",
                    "summary": "string",
                    "turn": "int64",
                    "aliases": "list<string>",
                },
                "derived": {"name_key": "key(name)", "name_embedding": {"embed": "name"}},
                "fulltext": {"person_text": ["name", "summary"]},
                "index": ["name", "name_key", "created_at"],
            },
            "Note": {
                "properties": {
                    "content": "string",
                    "at": "timestamp",
                    "day": "date",
                    "weight": "double",
                    "kept": "boolean",
                    "extra": "json",
                    "tags": "list<string>",
                },
                "fulltext": {"note_text": ["content"]},
                "index": ["at"],
            },
        },
        "edges": {
            "KNOWS": {
                "source": "Person",
                "target": "Person",
                "open": ["attributes"],
                "properties": {
                    "fact": "string",
                    "notes": "list<string>",
                    "since": "timestamp",
                    "until": "timestamp",
                },
                "derived": {"fact_embedding": {"embed": "fact"}},
                "fulltext": {"knows_text": ["fact"]},
                "index": ["since", "until"],
            },
            "NAMES": {"source": "Note", "target": "Person"},
        },
    }
)


def at(day: int, second: int = 0) -> datetime:
    """A time in January 2025."""
    return datetime(2025, 1, day, 12, 0, second, 123456, tzinfo=UTC)


async def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Home:
    """A place where data lives.

    Args:
        name: Of the kind of store.
        connect: A new, unopened store over this place. Where `shared` is false, each has data of
            its own.
        shared: Whether two stores, or two processes, see the same data.
        nul: Whether texts may hold the character NUL.
        longest: Bytes of keys, partitions and properties with an index; None: any number.
        reset: Empties the place; awaited before each test.
    """

    name: str
    connect: Callable[[], Store]
    shared: bool = True
    nul: bool = True
    longest: int | None = None
    reset: Callable[[], Awaitable[None]] = _nothing

    @asynccontextmanager
    async def open(
        self, graph: Graph = GRAPH, dimensions: int | None = DIMENSIONS
    ) -> AsyncIterator[Store]:
        """A store that is ready, and closed afterwards."""
        opened = self.connect()
        try:
            await opened.ensure(graph, dimensions)
            yield opened
        finally:
            await opened.aclose()


def _memory(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    from semgraph.stores.sqlite.store import SqliteStore

    return Home("memory", lambda: SqliteStore(":memory:"), shared=False)


def _sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    from semgraph.stores.sqlite.store import SqliteStore

    return Home("sqlite", lambda: SqliteStore(tmp_path / "graph.db"))


def _neo4j(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    from semgraph.stores.neo4j.store import Neo4jStore

    server = request.getfixturevalue("neo4j_database")
    return Home("neo4j", lambda: Neo4jStore(server.uri, server.user, server.password), longest=8000)


HOMES: dict[str, Callable[[pytest.FixtureRequest, Path], Home]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "neo4j": _neo4j,
}
SHARED = [name for name in HOMES if name != "memory"]
PAIRS = [("memory", "sqlite")]


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """Each kind of place in turn."""
    return HOMES[request.param](request, tmp_path)


@pytest.fixture(params=SHARED)
def shared_home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """Each kind of place that two stores can share."""
    return HOMES[request.param](request, tmp_path)


@pytest.fixture(params=PAIRS, ids=" and ".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Home, Home]:
    """Two kinds of places that must answer alike."""
    left, right = (HOMES[name](request, tmp_path) for name in request.param)
    return left, right


@pytest.fixture
def neo4j_pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Home, Home]:
    """The simplest store, and Neo4j."""
    return _memory(request, tmp_path), _neo4j(request, tmp_path)


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    """An empty store, opened for `GRAPH`."""
    await home.reset()
    async with home.open() as opened:
        yield opened


@dataclass(frozen=True)
class World:
    """How the tests build rows, queries and writes over a graph."""

    graph: Graph = GRAPH
    dimensions: int = DIMENSIONS
    at: Callable[..., datetime] = field(default=at)

    def types(self, label: Label) -> dict[str, pa.DataType]:
        """Arrow types of all that can be written."""
        vectors = dict.fromkeys(label.vectors.values(), pa.list_(pa.float32(), self.dimensions))
        return {name: kind.arrow for name, kind in label.columns.items()} | vectors

    def table(self, label: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Rows of a label; group "g" and the derived text properties unless given; columns that no
        row has are left out.
        """
        declared = self.graph.label(label)
        full = [{self.graph.partition: "g", **self._derived(declared, row), **row} for row in rows]
        full = [
            {k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()} for row in full
        ]
        named = {name for row in full for name in row} | {self.graph.key, self.graph.partition}
        fields = [(name, kind) for name, kind in self.types(declared).items() if name in named]
        return pa.Table.from_pylist(full, schema=pa.schema(fields))

    def _derived(self, label: Label, row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            d.name: TEXT_FUNCTIONS[d.by].python(row[d.of])
            for d in label.derived.values()
            if d.by != "embed" and row.get(d.of) is not None
        }

    def write(self, label: str, *rows: Mapping[str, Any], **how: Any) -> NodeWrite | EdgeWrite:
        """A merge of a label's rows."""
        kind = NodeWrite if self.graph.label(label).kind == "node" else EdgeWrite
        return kind(label, self.table(label, rows), **how)

    def delete(self, label: str, *keys: str, detach: bool = False) -> Deletion:
        """A delete by key."""
        return Deletion(label, pa.table({self.graph.key: pa.array(keys, pa.string())}), detach)

    async def commit(
        self,
        store: Store,
        *writes: NodeWrite | EdgeWrite | Deletion,
        marker: CommitMarker | None = None,
    ) -> Written:
        """Commit some writes."""
        return await store.commit(WriteBatch(writes), marker)

    def marker(
        self, head: str, before: str | None = None, rows: Iterable[str] = ("n1",), **more: Any
    ) -> CommitMarker:
        """A commit marker of plan "p" in group "g"."""
        given = {
            "plan": "p",
            "partition": "g",
            "fingerprint": "f",
            "now": at(1),
            "run": "r",
            **more,
        }
        return CommitMarker(rows=tuple(rows), before=before, head=head, **given)

    def rows(self, types: Mapping[str, str] | None = None, /, **columns: Sequence[Any]) -> pa.Table:
        """Rows that ask, with their ordinals; texts unless `types` says otherwise. Group "g" unless
        given.
        """
        from semgraph.expr import parse_type

        count = len(next(iter(columns.values()))) if columns else 1
        columns.setdefault(self.graph.partition, ["g"] * count)
        kinds = {
            "vector": Type("vector", size=self.dimensions),
            "group_ids": parse_type("list<string>"),
        }
        kinds |= {name: parse_type(text) for name, text in (types or {}).items()}
        table = {"_q": pa.array(range(count), pa.int64())}
        for name, values in columns.items():
            table[name] = pa.array(values, kinds.get(name, Type("string")).arrow)
        return pa.table(table)

    def query(
        self,
        label: str,
        *methods: Method,
        properties: Sequence[str] = (),
        where: str = "",
        **how: Any,
    ) -> SearchQuery:
        """A search; `where` as the plan would say it, with the alias `hit`."""
        conjuncts = parse_scalar(where).conjuncts() if where else ()
        return SearchQuery(label, methods, tuple(properties), where=conjuncts, **how)

    def pattern(
        self,
        text: str,
        where: str = "",
        partition: str | None = "group_id",
        **properties: Sequence[str],
    ) -> MatchQuery:
        """A match; `properties` says what is returned of each variable besides its key and ends."""
        pattern = parse_pattern(text)
        wanted = {
            element.var: tuple(properties.get(element.var, ())) for element in pattern.variables
        }
        return MatchQuery(
            pattern, wanted, parse_scalar(where).conjuncts() if where else (), partition
        )

    def keys(self, hits: pa.Table, method: int = 0) -> dict[int, list[str]]:
        """Keys of the hits of one method, best first, by the ordinal of their row."""
        found: dict[int, list[str]] = {}
        for hit in hits.to_pylist():
            if hit["method"] == method:
                found.setdefault(hit["_q"], []).append(hit[self.graph.key])
        return found


@pytest.fixture(scope="session")
def world() -> World:
    """How the tests build rows, queries and writes."""
    return World()
