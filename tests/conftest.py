"""A real Neo4j for whoever asks: the one that `NEO4J_URI` names, else a local server that all test processes share."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Server:
    """How to reach a Neo4j server."""

    uri: str
    user: str
    password: str


@pytest.fixture(scope="session")
def neo4j_folder() -> Path:
    """Where the shared server of this checkout lives, and the locks of those who use it."""
    checkout = hashlib.sha256(str(Path(__file__).resolve().parents[1]).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"semgraph-tests-{checkout}"
    (folder / "users").mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def neo4j_server(neo4j_folder: Path) -> Iterator[Server]:
    """A server that answers; the last test process that uses it stops it."""
    if uri := os.environ.get("NEO4J_URI"):
        user = os.environ.get("NEO4J_USERNAME") or os.environ.get("NEO4J_USER") or "neo4j"
        yield Server(uri, user, os.environ.get("NEO4J_PASSWORD", ""))
        return
    from filelock import FileLock

    from semgraph.stores.neo4j_local import start, stop

    counted = FileLock(neo4j_folder / "users.lock")
    user_file = neo4j_folder / "users" / str(os.getpid())
    using = FileLock(user_file)
    with counted:
        using.acquire()
    try:
        with pytest.MonkeyPatch.context() as patch:
            # One compiler, the quick one: a short life is mostly start and first plans.
            patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
            found = start(neo4j_folder / "server")
        yield Server(found.uri, found.user, found.password)
    finally:
        with counted:
            using.release()
            user_file.unlink(missing_ok=True)
            if not any(_in_use(other) for other in (neo4j_folder / "users").iterdir()):
                stop(neo4j_folder / "server")


def _in_use(lock: Path) -> bool:
    """Whether the process that made this file still runs; the files of others are removed."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0):
            pass
    except Timeout:
        return True
    lock.unlink(missing_ok=True)
    return False


@pytest.fixture
def neo4j_database(neo4j_server: Server, neo4j_folder: Path) -> Iterator[Server]:
    """The server with an empty database, for this test alone: test processes take turns. Indexes stay."""
    import neo4j
    from filelock import FileLock

    with (
        FileLock(neo4j_folder / "database.lock"),
        neo4j.GraphDatabase.driver(neo4j_server.uri, auth=(neo4j_server.user, neo4j_server.password)) as driver,
    ):
        with driver.session() as session:
            session.run("MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 1000 ROWS").consume()
        yield neo4j_server
