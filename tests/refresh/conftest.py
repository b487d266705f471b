"""Worlds in which groups are written and refreshed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.world import StandIn
from semgraph.stores.base import Store
from semgraph.stores.sqlite.store import SqliteStore
from tests.refresh.world import World

both_stores = pytest.mark.parametrize("store", ["memory", "neo4j"], indirect=True)


@pytest.fixture
async def model() -> AsyncIterator[StandIn]:
    """The simulated model."""
    async with StandIn() as server:
        yield server


@pytest.fixture
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store: SQLite's in memory, or the one that the test asks for."""
    kind = getattr(request, "param", "memory")
    made: Store
    if kind == "neo4j":
        from semgraph.stores.neo4j.store import Neo4jStore

        server = request.getfixturevalue("neo4j_database")
        made = Neo4jStore(server.uri, server.user, server.password)
    else:
        made = SqliteStore(":memory:" if kind == "memory" else tmp_path / "graph.db")
    yield made
    await made.aclose()


@pytest.fixture
async def world(model: StandIn, store: Store, tmp_path: Path) -> AsyncIterator[World]:
    """A world with nothing in it."""
    made = World(model, store, tmp_path)
    yield made
    await made.aclose()
