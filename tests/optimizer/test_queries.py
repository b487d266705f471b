"""`explain --queries`: the statements of the engine, and those that the store really runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.checking.oracle import Mind, Oracle
from semgraph.stores.base import Store
from tests.optimizer.conftest import FIXTURES

PLAN = """
plan: asking
graph: graph.yaml
inputs: {asked: {q: string, group_id: string}}
steps:
  grown: [{from: {label: Person, partition: all}}, {filter: age > 20}]
  hits: [{from: asked}, {search: {over: Person, alias: hit, k: 3, by: [{fulltext: name, to: q}, {equal: name, to: q}]}}]
  known: [{from: asked}, {match: {pattern: "(a:Person {name: q})-[r:KNOWS]->(b:Person)"}}, {filter: b.age > 20}]
  both: [{from: hits}, {add: {who: hit.name}}, {filter: length(who) > 2}]
returns: [grown, both, known]
"""


@pytest.fixture(params=["memory", "neo4j"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[str | Store]:
    if request.param == "memory":
        yield "memory"
        return
    from semgraph.stores.neo4j import Neo4jStore

    server = request.getfixturevalue("neo4j_database")
    made = Neo4jStore(server.uri, server.user, server.password)
    yield made
    await made.aclose()


async def test_the_statements_of_engine_and_store_are_shown(store: str | Store, tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text((FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "asking.yaml").write_text(PLAN, encoding="utf-8")
    oracle = Oracle(Mind())
    options: dict[str, Any] = {"journal": False, "runs": "", "folder": tmp_path}
    async with semgraph.Session(llm=oracle, store=store, **options) as session:
        await session.arun(FIXTURES / "fill.yaml")
        text = await _explained(session, tmp_path / "asking.yaml")
    reads = {
        part.splitlines()[0].removeprefix("-- store: "): part.split("\n", 1)[1]
        for part in text.split("\n\n")
        if part.startswith("-- store: ")
    }
    assert set(reads) == {"grown", "hits", "known"}
    assert "age" in reads["grown"]
    assert "KNOWS" in reads["known"]
    assert "age" in reads["known"]
    assert ("bm25" if store == "memory" else "db.index.fulltext.queryNodes") in reads["hits"]
    assert "-- DuckDB: both" in text
    assert oracle.requests == []


async def _explained(session: semgraph.Session, path: Path) -> str:
    from semgraph.session.explaining import Explained, explained

    if session.settings.store == "memory":
        return await asyncio.to_thread(lambda: session.explain(path, format="queries"))
    return await explained(Explained(session.prepare(path)), session._resources, "queries")
