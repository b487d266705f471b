"""`explain --queries`: the statements of the engine, and those that the store really runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.explain.steps import as_data
from semgraph.folders import plans_folder
from semgraph.stores.base import Store
from tests.inside import resources
from tests.optimizer.bench import FIXTURES

PLAN = """
plan: asking
graph: graph.yaml
inputs: {asked: {q: string, group_id: string}}
steps:
  grown: [{from: {label: Person, partition: all}}, {filter: age > 20}]
  hits: [{from: asked}, {search: {over: Person, alias: hit, k: 3, methods: [{fulltext: name, to: q}, {equal: name, to: q}]}}]
  known: [{from: asked}, {match: {pattern: "(a:Person {name: q})-[r:KNOWS]->(b:Person)"}}, {filter: b.age > 20}]
  both: [{from: hits}, {add: {who: hit.name}}, {filter: length(who) > 2}]
returns: [grown, both, known]
"""


@pytest.fixture(params=["memory", "neo4j"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[str | Store]:
    if request.param == "memory":
        yield "memory"
        return
    from semgraph.stores.neo4j.store import Neo4jStore

    server = request.getfixturevalue("neo4j_database")
    made = Neo4jStore(server.uri, server.user, server.password)
    yield made
    await made.aclose()


async def test_the_statements_of_engine_and_store_are_shown(
    store: str | Store, tmp_path: Path
) -> None:
    (tmp_path / "graph.yaml").write_text(
        (FIXTURES / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
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
    assert ('FROM "Person"' if store == "memory" else "db.index.fulltext.queryNodes") in reads[
        "hits"
    ]
    assert "-- DuckDB: both" in text
    assert oracle.requests == []


async def _explained(session: semgraph.Session, path: Path) -> str:
    from semgraph.session.explaining import Explanation

    if session.settings.store == "memory":
        return await asyncio.to_thread(lambda: session.explain(path, format="queries"))
    return await Explanation(session.prepare(path), resources(session)).text("queries")


async def test_that_there_is_nothing_to_ask_a_store_or_to_compute_is_said(tmp_path: Path) -> None:
    head = "plan: few\ninputs: {notes: {id: int64, text: string}}\nsteps:\n"
    asking = '  nice: [{from: notes}, {sem_filter: {prompt: "Is {text} nice?"}}]\n'
    path = tmp_path / "few.yaml"
    said = {}
    async with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        for name, more in (
            ("nothing", ""),
            ("something", "  few: [{from: nice}, {limit: {n: 1}}]\n"),
        ):
            last = "few" if more else "nice"
            path.write_text(f"{head}{asking}{more}returns: [{last}]\n", encoding="utf-8")
            said[name] = await _explained(session, path)
    assert said["nothing"] == "-- DuckDB: no statements\n\n-- store: not read"
    assert said["something"].startswith("-- DuckDB: few")
    assert said["something"].endswith("\n\n-- store: not read")


NEAR = """
plan: near
graph: graph.yaml
inputs: {asked: {q: string, group_id: string}, named: {uuid: string, name: string}}
steps:
  stored: [{from: asked}, {search: {over: Person, alias: hit, k: 3, methods: [{nearest: name, to: q, above: 0.1}]}}]
  given: [{from: asked}, {search: {over: named, alias: hit, k: 3, methods: [{nearest: name, to: q, above: 0.1}]}}]
returns: [stored, given]
"""


async def test_how_exact_the_nearest_are_is_what_the_store_says(tmp_path: Path) -> None:
    from semgraph.frontend.load import load_plan
    from semgraph.physical.planner import compile_plan
    from semgraph.semantic.library import Library
    from semgraph.stores.neo4j.store import Neo4jStore
    from semgraph.stores.sqlite.store import SqliteStore

    graph = "graph: g\nkey: uuid\npartition: group_id\nnodes: {Person: {properties: {name: string}, derived: {name_embedding: {embed: name}}}}\n"
    (tmp_path / "graph.yaml").write_text(graph, encoding="utf-8")
    (tmp_path / "near.yaml").write_text(NEAR, encoding="utf-8")
    found = {}
    for store in (SqliteStore(":memory:"), Neo4jStore("neo4j://127.0.0.1:1", "neo4j", "x")):
        steps = as_data(compile_plan(load_plan(tmp_path / "near.yaml"), store, Library(()), {}))[
            "steps"
        ]
        found[store.name.split(":")[0]] = [
            read["nearest"] for step in steps for read in step["store"]
        ]
        await store.aclose()
    assert found["memory"] == ["exact", "exact"]
    by_index, of_step = found["neo4j"]
    assert by_index.startswith("exact within a partition of less than 5,000 rows")
    assert by_index.endswith("else by the index")
    assert of_step == "exact"


async def test_a_plan_that_searches_its_own_rows_alone_reads_no_store(tmp_path: Path) -> None:
    closed: dict[str, Any] = {"store": f"sqlite:{tmp_path / 'missing.db'}", "folder": tmp_path}
    async with semgraph.Session(llm=Oracle(Mind()), journal=False, runs="", **closed) as session:
        text = await _explained(session, plans_folder() / "memories/raptor/level.yaml")
    assert text.endswith("-- store: not read")
