"""Stores with a graph of a chosen number of facts, filled once: in a temporary folder until this
process ends, or, a large Neo4j, in `.semgraph/benchmarks` for later runs too.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Callable
from contextlib import aclosing
from functools import cache
from pathlib import Path

from benchmarks.frame.lines import ROOT, content_hash
from benchmarks.search.memory import DIMENSIONS, memory_of
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
from semgraph.logical.schema import Graph
from semgraph.stores.base import Store
from semgraph.stores.neo4j.local.server import start, status, stop
from semgraph.stores.neo4j.store import local_store
from semgraph.stores.sqlite.store import SqliteStore

KEPT = 100_000
"""The number of facts from which on a Neo4j is kept: to fill it takes minutes."""
_SOURCES = (
    "benchmarks/search/memory.py", "benchmarks/world", "semgraph/stores/neo4j", "plans/graphs"
)  # fmt: skip


def store_of(kind: str, facts: int) -> Callable[[], Store]:
    """A function that opens a store of a kind with this many facts; the first call fills it. Not
    inside an event loop.
    """
    if kind == "SQLite":
        file = file_of(facts)
        return lambda: SqliteStore(file)
    folder = _server(facts)
    return lambda: local_store(folder)


def bolt(facts: int) -> list[str]:
    """Address, user and password of the Neo4j with this many facts."""
    server = status(_server(facts))
    return [server.uri, server.user, server.password]


def graph() -> Graph:
    """The graph schema of the shipped plans."""
    return load_plan(plans_folder() / "search.yaml").graph


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="semgraph-search-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def file_of(facts: int) -> Path:
    """The SQLite file with this many facts, filled by the first call. Not inside an event loop."""
    file = Path(tempfile.mkdtemp(prefix=f"sqlite-{facts}-", dir=_folder())) / "graph.db"
    asyncio.run(_filled(SqliteStore(file), facts))
    return file


@cache
def _server(facts: int) -> Path:
    """The folder of a separate Neo4j server: full-text and vector indexes span the whole database.
    A large one is kept until its content would differ.
    """
    kept, name = ROOT / ".semgraph" / "benchmarks", f"neo4j-{facts}-"
    if facts >= KEPT:
        folder = kept / f"{name}{content_hash(_SOURCES)}"
        for old in () if (folder / "filled").exists() else kept.glob(f"{name}*"):
            shutil.rmtree(old)
    else:
        folder = Path(tempfile.mkdtemp(dir=_folder()))
    filled = folder / "filled"
    atexit.register(stop, folder)  # before what is in the temporary folder goes
    start(folder)
    if not filled.exists():
        asyncio.run(_filled(local_store(folder), facts))
        filled.touch()
    return folder


async def _filled(store: Store, facts: int) -> None:
    async with aclosing(store):
        await store.ensure(graph(), DIMENSIONS)
        for batch in memory_of(facts).batches():
            await store.commit(batch)
