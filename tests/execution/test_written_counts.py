"""A run counts what a store did: rows that were not there are neither deleted nor written."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.stores.sqlite.store import SqliteStore

GRAPH = """graph: people
nodes: {Person: {properties: {name: string}}}
edges: {KNOWS: {source: Person, target: Person}}
"""
PLAN = """plan: counted
graph: graph.yaml
inputs: {people: {uuid: string, group_id: string, name: string null, source: string null, target: string null}}
steps: {found: [{from: people}]}
writes: [{WRITE}]
returns: [found]
"""
WINDOWS = "windows: {input: people, partition: group_id, key: uuid, order: [name]}\nsteps"
PEOPLE = [{"uuid": f"{g}{n}", "group_id": g, "name": "Ann"} for g in "gh" for n in (1, 2, 3)]
EDGES = [{"uuid": f"{g}k", "group_id": g, "source": f"{g}1", "target": f"{g}2"} for g in "gh"]
NODES, TIES = "merge: {from: found, node: Person}", "merge: {from: found, edge: KNOWS}"


@pytest.fixture(params=["sqlite", "neo4j"])
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Runs one write over some rows, in one store, and gives what was counted."""
    if request.param == "sqlite":
        store: Any = SqliteStore(tmp_path / "graph.db")
    else:
        from semgraph.stores.neo4j.store import Neo4jStore

        server = request.getfixturevalue("neo4j_database")
        store = Neo4jStore(server.uri, server.user, server.password)
    (tmp_path / "graph.yaml").write_text(GRAPH, encoding="utf-8")
    session = semgraph.Session(
        llm=Oracle(Mind()), store=store, folder=tmp_path, runs="", journal=False
    )

    runs = itertools.count()

    async def counted(write: str, rows: list[Any], *, windows: bool = False) -> dict[str, int]:
        text = PLAN.replace("WRITE", write)
        text = text.replace("steps", WINDOWS, 1) if windows else text
        text = re.sub("plan: .*", f"plan: counted{next(runs)}", text, count=1)
        (tmp_path / "counted.yaml").write_text(text, encoding="utf-8")
        result = await session.arun(tmp_path / "counted.yaml", people=rows)
        assert not result.failed
        return {label: n for label, n in result.written.items() if n}

    await counted(NODES, PEOPLE)
    await counted(TIES, EDGES)
    yield counted
    await session.aclose()
    await store.aclose()


def row(uuid: str, group: str = "g", name: str = "x") -> dict[str, Any]:
    return {"uuid": uuid, "group_id": group, "name": name}


@pytest.mark.parametrize("windows", [False, True])
async def test_a_delete_counts_the_rows_that_were_there(run: Any, windows: bool) -> None:
    delete = "delete: {from: found, node: Person, detach: true}"
    asked = [row("g1"), row("nobody"), row("h1")]  # h1 is of another group
    assert await run(delete, asked, windows=windows) == {"Person": 1}
    assert await run(delete, [*asked[:2], row("h1", "h")], windows=windows) == {"Person": 1}
    assert await run(delete, asked, windows=windows) == {}


async def test_a_delete_of_edges_counts_those_that_were_there(run: Any) -> None:
    delete = "delete: {from: found, edge: KNOWS}"
    assert await run(delete, [row("gk"), row("none"), row("hk")]) == {"KNOWS": 1}
    assert await run(delete, [row("gk")]) == {}


async def test_a_merge_of_existing_rows_counts_those_that_were_there(run: Any) -> None:
    only = "merge: {from: found, node: Person, set: {name}, only: existing}"
    assert await run(only, [row("g1"), row("nobody")]) == {"Person": 1}
    assert await run(only, [row("nobody")]) == {}
    assert await run(NODES, [row("g1"), row("new")], windows=True) == {"Person": 2}
