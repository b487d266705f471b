"""What is particular to Neo4j: databases that another program wrote, errors of a server, its
indexes, and races for a head.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import DataError, EngineError, StoreUnavailable
from semgraph.expr import parse_scalar
from semgraph.frontend.graph_files import graph_of
from semgraph.session import Session
from semgraph.stores.base import (
    Method,
    NewContent,
    NodeWrite,
    ScanQuery,
    WriteBatch,
    count_round_trips,
)
from semgraph.stores.neo4j import bolt as neo4j_bolt
from semgraph.stores.neo4j import search_cypher
from semgraph.stores.neo4j.schema import Setup
from semgraph.stores.neo4j.store import Neo4jStore
from semgraph.stores.prepare import RowsRefused
from tests.conftest import Server, driver_of, without_schema
from tests.inside import bolt

MEMORY = graph_of(YAML(typ="safe").load(Path(__file__).parents[2] / "plans" / "graph.yaml"))
JANUARY = datetime(2025, 1, 15, 10, 0, tzinfo=UTC)

# As Graphiti leaves a database: its indexes, whole maps set as properties, vectors by procedure.
INDEXES = [
    "CREATE INDEX entity_uuid IF NOT EXISTS FOR (n:Entity) ON (n.uuid)",
    "CREATE INDEX entity_group_id IF NOT EXISTS FOR (n:Entity) ON (n.group_id)",
    "CREATE INDEX relation_uuid IF NOT EXISTS FOR ()-[e:RELATES_TO]-() ON (e.uuid)",
    "CREATE INDEX mention_uuid IF NOT EXISTS FOR ()-[e:MENTIONS]-() ON (e.uuid)",
    "CREATE FULLTEXT INDEX node_name_and_summary IF NOT EXISTS FOR (n:Entity) ON EACH [n.name, n.summary, n.group_id]",
    "CREATE FULLTEXT INDEX edge_name_and_fact IF NOT EXISTS FOR ()-[e:RELATES_TO]-() ON EACH [e.name, e.fact, e.group_id]",
]
NODES = """
UNWIND $nodes AS node
MERGE (n:Entity {uuid: node.uuid})
SET n:$(node.labels)
SET n = node
WITH n, node CALL db.create.setNodeVectorProperty(n, "name_embedding", node.name_embedding)
RETURN count(*)
"""
EPISODE = "MERGE (n:Episodic {uuid: $e.uuid}) SET n = $e"
EDGES = """
UNWIND $edges AS edge
MATCH (source:Entity {uuid: edge.source_node_uuid})
MATCH (target:Entity {uuid: edge.target_node_uuid})
MERGE (source)-[e:RELATES_TO {uuid: edge.uuid}]->(target)
SET e = edge
WITH e, edge CALL db.create.setRelationshipVectorProperty(e, "fact_embedding", edge.fact_embedding)
RETURN count(*)
"""
MENTION = """
MATCH (episode:Episodic {uuid: 'e1'}) MATCH (node:Entity {uuid: 'alice'})
MERGE (episode)-[e:MENTIONS {uuid: 'm1'}]->(node)
SET e = {uuid: 'm1', group_id: 'g', created_at: $now}
"""

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(neo4j_database: Server) -> Run:
    """Plain Cypher, beside the store."""
    driver = driver_of(neo4j_database)
    return lambda text, **values: [
        dict(record) for record in driver.execute_query(text, values).records
    ]


@pytest.fixture
def bare(run: Run, neo4j_database: Server) -> Iterator[Run]:
    """The same over a database without any index; no index of it stays for the next test."""
    without_schema(driver_of(neo4j_database))
    yield run
    without_schema(driver_of(neo4j_database))


@pytest.fixture
async def store(neo4j_database: Any) -> AsyncIterator[Neo4jStore]:
    """A store that is not opened for a graph yet."""
    made = Neo4jStore(neo4j_database.uri, neo4j_database.user, neo4j_database.password)
    yield made
    await made.aclose()


@pytest.fixture
def written(bare: Run) -> Run:
    """A database as Graphiti writes it."""
    for index in INDEXES:
        bare(index)
    node = {"group_id": "g", "created_at": JANUARY, "summary": ""}
    alice = {
        "uuid": "alice",
        "name": "Alice Chen",
        "labels": ["Entity", "Person"],
        "role": "engineer",
        "since": JANUARY,
    }
    corp = {
        "uuid": "corp",
        "name": "TechCorp",
        "labels": ["Entity"],
        "summary": "Alice Chen works here.",
    }
    bare(
        NODES,
        nodes=[
            node | alice | {"name_embedding": [1.0, 0, 0, 0]},
            node | corp | {"name_embedding": [0, 1.0, 0, 0]},
        ],
    )
    episode = {
        "uuid": "e1",
        "group_id": "g",
        "name": "turn 1",
        "source": "message",
        "source_description": "chat",
    }
    bare(
        EPISODE,
        e=episode
        | {
            "content": "Alice works at TechCorp.",
            "entity_edges": ["f1"],
            "valid_at": JANUARY,
            "created_at": JANUARY,
        },
    )
    edge = {
        "uuid": "f1",
        "source_node_uuid": "alice",
        "target_node_uuid": "corp",
        "name": "WORKS_AT",
        "group_id": "g",
    }
    edge |= {
        "fact": "Alice Chen works at TechCorp",
        "episodes": ["e1"],
        "created_at": JANUARY,
        "valid_at": JANUARY,
    }
    bare(
        EDGES,
        edges=[
            edge
            | {
                "expired_at": None,
                "invalid_at": None,
                "seniority": 3,
                "fact_embedding": [0, 0, 1.0, 0],
            }
        ],
    )
    bare(MENTION, now=JANUARY)
    return bare


async def test_a_graphiti_database_is_read(written: Run, store: Neo4jStore, world: Any) -> None:
    await store.ensure(MEMORY, 4)
    entity = world.query(
        "Entity",
        Method("equal", "name", "name"),
        Method("fulltext", "name", "text", k=5),
        Method("nearest", "name", "vector", above=0.5, k=5),
        properties=("name", "labels", "attributes", "summary", "created_at", "name_key"),
    )
    fact = world.query(
        "RELATES_TO",
        Method("fulltext", "fact", "text", k=5),
        Method("nearest", "fact", "vector", k=5),
        properties=("fact", "episodes", "valid_at", "invalid_at", "attributes"),
        where="hit.valid_at <= TIMESTAMPTZ '2025-02-01' AND hit.invalid_at IS NULL",
    )
    with count_round_trips() as trips:
        entities, facts = await store.search(
            [entity, fact],
            world.rows(name=["Alice Chen"], text=["alice works"], vector=[[1, 0.1, 0.2, 0]]),
        )
        assert trips.number == 1
    assert world.keys(entities, 0) == {0: ["alice"]}
    assert {*world.keys(entities, 1)[0]} == {"alice", "corp"}
    assert world.keys(entities, 2) == {0: ["alice"]}
    found = entities.to_pylist()[0]
    assert found["labels"] == ["Person"]
    assert json.loads(found["attributes"]) == {
        "role": "engineer",
        "since": "2025-01-15T10:00:00.000000000+00:00",
    }
    assert (found["summary"], found["created_at"], found["name_key"]) == ("", JANUARY, "alice chen")
    [by_text, by_vector] = facts.to_pylist()
    assert (by_text["uuid"], by_text["source"], by_text["target"]) == ("f1", "alice", "corp")
    assert (by_text["episodes"], by_text["valid_at"], by_text["invalid_at"]) == (
        ["e1"],
        JANUARY,
        None,
    )
    assert json.loads(by_text["attributes"]) == {"seniority": 3}
    assert by_vector["uuid"] == "f1"

    mentioned = world.pattern(
        "(e:Episodic {uuid: name})-[:MENTIONS]->(n:Entity)", e=("entity_edges",), n=("labels",)
    )
    [row] = (await store.match(mentioned, world.rows(name=["e1"]))).to_pylist()
    assert row == {
        "_q": 0,
        "e": {"uuid": "e1", "entity_edges": ["f1"]},
        "n": {"uuid": "alice", "labels": ["Person"]},
    }
    assert (await store.statistics()).counts == {
        "Episodic": 1, "Entity": 2, "Community": 0, "Saga": 0,
        "RELATES_TO": 1, "MENTIONS": 1, "HAS_MEMBER": 0, "HAS_EPISODE": 0, "NEXT_EPISODE": 0,
    }  # fmt: skip


async def test_what_is_written_is_as_graphiti_reads_it(
    written: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(MEMORY, 4)
    memory = replace(world, graph=MEMORY)
    phoenix = {
        "uuid": "phoenix",
        "name": "Project Phoenix",
        "labels": ["Project"],
        "attributes": {"budget": 4},
        "summary": "s",
    }
    fact = {
        "uuid": "f2",
        "source": "alice",
        "target": "phoenix",
        "name": "LEADS",
        "fact": "Alice leads",
        "episodes": ["e2"],
    }
    await memory.commit(
        store,
        memory.write(
            "Entity",
            phoenix | {"created_at": JANUARY, "name_embedding": [0, 0, 0, 1]},
            {"uuid": "alice", "summary": "new"},
        ),
        memory.write(
            "RELATES_TO",
            fact | {"valid_at": JANUARY, "fact_embedding": [0, 0, 0, 1]},
            {"uuid": "f1", "source": "alice", "target": "corp", "episodes": ["e2"]},
            unite=frozenset({"episodes"}),
        ),
    )
    nodes = written(
        "MATCH (n:Entity) RETURN labels(n) AS labels, properties(n) AS all ORDER BY n.uuid"
    )
    assert nodes[0]["all"]["role"] == "engineer"
    assert (nodes[0]["all"]["summary"], nodes[0]["all"]["name"]) == ("new", "Alice Chen")
    assert sorted(nodes[2]["labels"]) == ["Entity", "Project"]
    assert nodes[2]["all"] == {
        "uuid": "phoenix", "name": "Project Phoenix", "group_id": "g", "summary": "s", "budget": 4,
        "created_at": nodes[2]["all"]["created_at"], "name_key": "project phoenix", "name_embedding": [0, 0, 0, 1],
    }  # fmt: skip
    assert nodes[2]["all"]["created_at"].to_native() == JANUARY
    edges = written(
        "MATCH (n)-[e:RELATES_TO]->(m) RETURN n.uuid AS n, m.uuid AS m, e.episodes AS episodes, e.name AS name ORDER BY e.uuid"
    )
    assert edges == [
        {"n": "alice", "m": "corp", "episodes": ["e1", "e2"], "name": "WORKS_AT"},
        {"n": "alice", "m": "phoenix", "episodes": ["e2"], "name": "LEADS"},
    ]
    for index in INDEXES:
        written(index)


SHOW_ALL = "SHOW INDEXES YIELD name, type, labelsOrTypes, properties WHERE type <> 'LOOKUP' RETURN * ORDER BY name"


def theirs(run: Run) -> list[dict[str, Any]]:
    """The indexes and constraints that are not over labels of semgraph's own."""
    return [
        index for index in run(SHOW_ALL) if not index["labelsOrTypes"][0].startswith("_Semgraph")
    ]


async def test_attaching_changes_nothing_and_reports_what_is_missing(
    written: Run, store: Neo4jStore, world: Any
) -> None:
    before = written(SHOW_ALL)
    wanted = await store.attach(MEMORY)
    assert written(SHOW_ALL) == before
    unique = {one.label: one.blocked for one in wanted if one.what == "unique uuid"}
    assert unique == dict.fromkeys(MEMORY.labels, "") | {
        "Entity": "entity_uuid", "RELATES_TO": "relation_uuid", "MENTIONS": "mention_uuid",
    }  # fmt: skip
    assert not any("node_name_and_summary" in one.what for one in wanted)
    query = world.query(
        "Entity", Method("nearest", "name", "vector", k=1), Method("fulltext", "name", "text", k=1)
    )
    [found] = await store.search([query], world.rows(vector=[[1, 0, 0, 0]], text=["techcorp"]))
    assert found.column("uuid").to_pylist() == ["alice", "corp"]


async def test_a_new_database_is_set_up_by_itself(bare: Run, store: Neo4jStore) -> None:
    await store.ensure(MEMORY, 4)
    assert store.notes == ()
    assert await store.attach(MEMORY) == []
    assert (
        len(theirs(bare)) == len(MEMORY.labels) * 2 + 11 + 4 + 3
    )  # keys, partitions, others, full text, vectors


async def test_a_database_created_by_another_program_is_left_unchanged(
    written: Run, store: Neo4jStore
) -> None:
    before, rows = theirs(written), written("MATCH (n) RETURN properties(n) AS all ORDER BY n.uuid")
    await store.ensure(MEMORY, 4)
    assert theirs(written) == before
    assert written("MATCH (n) RETURN properties(n) AS all ORDER BY n.uuid") == rows
    await store.check_derived(
        [("Entity", "name_key"), ("Entity", "name"), ("RELATES_TO", "fact_embedding")]
    )
    undone, keys = store.notes
    assert undone.startswith(
        "this database was created by another program and was left unchanged. Missing: unique uuid of Episodic,"
    )
    assert "vector index on name_embedding of Entity" in undone
    assert keys == "2 Entity have no name_key: it is computed from name in memory, for this run"


async def test_indexes_that_appear_during_set_up_make_a_database_external(
    bare: Run, store: Neo4jStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    async def indexes(setup: Setup) -> list[Any]:
        looks.append(await looked(setup))
        if len(looks) == 1:
            bare("CREATE INDEX entity_uuid FOR (n:Entity) ON (n.uuid)")
        return looks[-1]

    looked = Setup.indexes
    monkeypatch.setattr(Setup, "indexes", indexes)
    await store.ensure(MEMORY, 4)
    assert [index["name"] for index in theirs(bare)] == ["entity_uuid"]
    assert store.notes[0].startswith("this database was created by another program")


async def test_a_label_without_rows_is_searched_without_an_index_where_nothing_is_written(
    bare: Run, store: Neo4jStore, world: Any
) -> None:
    await store.attach(MEMORY, 4)
    by_text = world.query("Entity", Method("fulltext", "name", "name"))
    [hits] = await store.search([by_text], world.rows(name=["alice"], group_id=["g"]))
    assert world.keys(hits) == {}
    bare("CREATE (:Entity {uuid: 'a', name: 'alice', group_id: 'g'})")
    await store.attach(MEMORY, 4)
    with pytest.raises(StoreUnavailable, match='has no full-text index "node_name_and_summary"'):
        await store.search([by_text], world.rows(name=["alice"], group_id=["g"]))


async def test_derived_texts_that_rows_lack_are_computed_in_every_kind_of_read(
    written: Run, store: Neo4jStore, world: Any
) -> None:
    written("CREATE (:Entity {uuid: 'other', name: 'alice  CHEN', group_id: 'h'})")
    written("CREATE (:Entity {uuid: 'ours', name: 'Bob', name_key: 'bob', group_id: 'g'})")
    await store.ensure(MEMORY, 4)
    rows = world.rows(name_key=["alice chen", "bob", None], group_id=["g", "g", "g"])
    by_key = world.query(
        "Entity", Method("equal", "name_key", "name_key"), properties=("name_key",)
    )
    [found] = await store.search([by_key], rows)
    assert world.keys(found) == {0: ["alice"], 1: ["ours"]}
    assert found.column("name_key").to_pylist() == ["alice chen", "bob"]
    with count_round_trips() as trips:
        where = world.query(
            "Entity", Method("order"), where="hit.name_key = name_key AND hit.name_key IS NOT NULL"
        )
        [found] = await store.search([where], rows)
        assert world.keys(found) == {0: ["alice"], 1: ["ours"]}
        node = world.pattern("(n:Entity {name_key: name_key})", n=("name_key",))
        matched = (await store.match(node, rows)).to_pylist()
        assert [(row["_q"], row["n"]["uuid"], row["n"]["name_key"]) for row in matched] == [
            (0, "alice", "alice chen"),
            (1, "ours", "bob"),
        ]
        edge = world.pattern(
            "(n:Entity {name_key: name_key})-[:RELATES_TO]->(m:Entity)", "m.name_key = 'techcorp'"
        )
        assert (await store.match(edge, rows)).column("n").to_pylist() == [{"uuid": "alice"}]
        trail = world.pattern("(n:Entity {name_key: name_key})-[way:RELATES_TO*1..2]-(m)")
        assert (await store.match(trail, rows)).column("m").to_pylist() == [{"uuid": "corp"}]
        scanned = await store.scan(
            ScanQuery("Entity", ("name_key",), ["g"], parse_scalar("name_key <> 'bob'").conjuncts())
        )
        assert scanned.column("name_key").to_pylist() == ["alice chen", "techcorp"]
        assert trips.number == 5
    everywhere = world.query("Entity", Method("equal", "name_key", "name_key"), partition=None)
    [found] = await store.search([everywhere], rows)
    assert world.keys(found) == {0: ["alice", "other"], 1: ["ours"]}


async def test_a_migration_creates_all_that_can_be_created(
    written: Run, store: Neo4jStore, world: Any
) -> None:
    before = theirs(written)
    await store.ensure(MEMORY, 4)
    said = await store.migrate(MEMORY, 4, drop=False)
    assert "made: index on name_key of Entity" in said
    assert "made: vector index on fact_embedding of RELATES_TO" in said
    assert "filled: name_key of 2 Entity" in said
    [why] = [line for line in said if line.startswith("unique uuid of Entity: not made")]
    assert "DROP INDEX entity_uuid" in why
    assert [index for index in theirs(written) if index in before] == before
    keys = written("MATCH (n:Entity) RETURN n.name_key AS key ORDER BY key")
    assert keys == [{"key": "alice chen"}, {"key": "techcorp"}]
    written("DROP INDEX entity_uuid")
    again = await store.migrate(MEMORY, 4, drop=False)
    assert [line for line in again if "not made" not in line] == ["made: unique uuid of Entity"]


async def test_a_migration_counts_rows_without_a_vector(written: Run, store: Neo4jStore) -> None:
    written("MATCH (n:Entity {uuid: 'corp'}) REMOVE n.name_embedding")
    said = await store.migrate(MEMORY, 4, drop=False)
    [line] = [line for line in said if "name_embedding: " in line]
    assert line == (
        "1 Entity have no name_embedding: nothing finds them by what is near in meaning. "
        "A plan that merges their name again makes it"
    )


async def test_a_node_may_lack_a_property_that_is_called_as_the_end_of_an_edge(
    written: Run, store: Neo4jStore, world: Any
) -> None:
    written("CREATE (:Episodic {uuid: 'bare', group_id: 'g', content: 'Hello.'})")
    await store.attach(MEMORY, 4)
    for properties in ((), ("source", "content")):
        scanned = await store.scan(ScanQuery("Episodic", properties, ["g"]))
        assert "bare" in scanned.column("uuid").to_pylist()
    node = world.pattern("(e:Episodic {uuid: k})", e=("source",))
    [found] = (await store.match(node, world.rows(k=["bare"]))).to_pylist()
    assert found["e"] == {"uuid": "bare", "source": None}
    assert not any("left out" in note for note in store.notes)


READS = """
plan: looks
graph: graph.yaml
inputs: {asked: {text: string, group_id: string}}
steps:
  found: [{from: asked}, {search: {over: Entity, alias: e, k: 3, methods: [{equal: name_key, to: key(text)}, {fulltext: name, to: text}]}}]
  tied: [{from: found}, {match: {pattern: "(:Entity {uuid: e.uuid})-[f:RELATES_TO]->(:Entity)"}}, {project: {fact: f.uuid}}]
returns: [tied]
"""


async def test_a_plan_that_reads_sends_nothing_that_writes_to_another_programs_database(
    written: Run, store: Neo4jStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is sent in transactions of access mode READ, in which a server refuses what writes."""
    before = written(SHOW_ALL)

    async def writes(*_: Any) -> None:
        raise AssertionError("something is written")

    monkeypatch.setattr(neo4j_bolt.Bolt, "write", writes)
    monkeypatch.setattr(neo4j_bolt.Bolt, "in_batches", writes)
    (tmp_path / "graph.yaml").write_text(
        (Path(__file__).parents[2] / "plans" / "graph.yaml").read_text()
    )
    (tmp_path / "looks.yaml").write_text(READS)
    async with Session(
        llm=Oracle(Mind()), store=store, journal=False, runs="", folder=tmp_path
    ) as session:
        found = await session.arun("looks.yaml", asked=[{"text": "Alice Chen", "group_id": "g"}])
    assert found.tables["tied"].to_pylist() == [{"fact": "f1"}]
    assert found.notes[0].startswith(
        "this database was created by another program and was left unchanged. Missing: unique uuid"
    )
    assert written(SHOW_ALL) == before


async def test_a_migration_drops_only_indexes_with_names_of_the_graph(
    written: Run, store: Neo4jStore
) -> None:
    written("CREATE INDEX mine FOR (n:Entity) ON (n.role)")
    said = await store.migrate(MEMORY, 4, drop=True)
    assert "dropped: node_name_and_summary" in said
    assert "made: full-text index node_name_and_summary of Entity" in said
    names = {index["name"] for index in theirs(written)}
    assert {"mine", "entity_uuid", "relation_uuid", "node_name_and_summary"} <= names
    assert sum(line.startswith("dropped") for line in said) == 2
    again = await store.migrate(MEMORY, 4, drop=True)
    assert sum(line.startswith("dropped") for line in again) == sum(
        line.startswith("made") for line in again
    )


async def test_duplicate_keys_are_reported_and_left(bare: Run, store: Neo4jStore) -> None:
    bare(
        "UNWIND ['a', 'a', 'b', 'b', 'c'] AS k CREATE (:Entity {uuid: k, group_id: 'g', name: 'n'})"
    )
    await store.ensure(MEMORY, None)
    said = await store.migrate(MEMORY, None, drop=False)
    [twice] = [line for line in said if "duplicates" in line]
    assert twice.startswith("2 uuid of Entity are duplicates (such as ")
    assert "MATCH (n:`Entity`)" in twice
    assert "filled: name_key of 5 Entity" in said
    assert bare("MATCH (n:Entity) RETURN count(n) AS n") == [{"n": 5}]
    assert not any(index["name"] == "Entity_uuid" for index in theirs(bare))


async def test_rows_without_a_key_and_edges_to_them_are_left_out(
    bare: Run, store: Neo4jStore, world: Any
) -> None:
    bare("CREATE (:Person {name: 'Ann', group_id: 'g'})-[:KNOWS {uuid: 'k', group_id: 'g'}]->"
         "(:Person {uuid: 'b', name: 'Bob', group_id: 'g'})-[:KNOWS {group_id: 'g'}]->"
         "(:Person {uuid: 7, name: 5, group_id: 'g'})")  # fmt: skip
    bare("CREATE (:Person:Note:`two words` {uuid: 'c', group_id: 'g', name: 'Cy'})")
    await store.migrate(world.graph, 4, drop=False)
    people = await store.scan(ScanQuery("Person", ("name", "labels"), ["g"]))
    assert [(r["uuid"], r["labels"]) for r in people.to_pylist()] == [
        ("b", []),
        ("c", ["two words"]),
    ]
    assert not (await store.scan(ScanQuery("KNOWS", (), ["g"]))).num_rows
    path = world.pattern("(a:Person)-[p:KNOWS*1..2]-(b:Person)")
    assert not (await store.match(path, world.rows(x=["y"]))).num_rows
    missing = [note for note in store.notes if "left out" in note]
    assert any(note.startswith("left out 2 Person") and "uuid is 7" in note for note in missing)
    assert any("KNOWS that another program wrote" in note for note in missing), missing
    [labels] = (await store.match(world.pattern("(a:Person {uuid: key})", a=("labels",)),
                                  world.rows(key=["c"]))).to_pylist()  # fmt: skip
    row = {"uuid": "c", "labels": labels["a"]["labels"], "name": "Cy"}
    await world.commit(store, world.write("Person", row))
    [kept] = bare("MATCH (n:Person {uuid: 'c'}) RETURN labels(n) AS labels")
    assert sorted(kept["labels"]) == ["Note", "Person", "two words"]


async def test_equal_instants_are_equal_in_any_zone(
    run: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    east = JANUARY.astimezone(timezone(timedelta(hours=9)))
    run("CREATE (:Note {uuid: 'n', group_id: 'g', at: $east})", east=east)
    run("CREATE (:Note {uuid: 'local', group_id: 'g', at: localdatetime('2025-01-15T10:00:00')})")
    rows = world.rows({"at": "timestamp"}, at=[JANUARY])
    for where in (
        "hit.at = at",
        "hit.at <= at AND hit.at >= at",
        "NOT hit.at < at AND NOT hit.at > at",
        "hit.at IN (at)",
    ):
        [found] = await store.search(
            [world.query("Note", Method("order"), properties=("at",), where=where)], rows
        )
        assert found.column("at").to_pylist() == [JANUARY, JANUARY], where
    matched = await store.match(world.pattern("(n:Note {at: at})"), rows)
    assert matched.column("n").to_pylist() == [{"uuid": "local"}, {"uuid": "n"}]


async def test_commit_markers_are_not_nodes_of_the_graph(
    run: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    await world.commit(
        store, world.write("Note", {"uuid": "n1"}), marker=world.marker("h1", witness="Note")
    )
    assert run("MATCH (n) UNWIND labels(n) AS label RETURN DISTINCT label ORDER BY label") == [
        {"label": "Note"}, {"label": "_SemgraphHead"}, {"label": "_SemgraphLayout"}, {"label": "_SemgraphMark"},
        {"label": "_SemgraphParts"}, {"label": "_SemgraphWindow"},
    ]  # fmt: skip
    assert sum((await store.statistics()).counts.values()) == 1
    run(
        "MATCH (n:Note) DETACH DELETE n"
    )  # by another program, which knows nothing of commit markers
    assert not (await store.states("p", {"g": ["n1"]}))["g"].committed


async def test_nothing_of_a_window_stays_in_the_database_without_its_rows(
    run: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)

    def left() -> list[int]:
        labels = ("_SemgraphMark", "_SemgraphWindow", "_SemgraphParts")
        return [run(f"MATCH (n:{label}) RETURN count(n) AS n")[0]["n"] for label in labels]

    async def commit(head: str, before: str | None, *rows: str, **more: Any) -> None:
        marker = world.marker(head, before, rows, witness="Note", contents=rows, **more)
        notes = world.write("Note", *({"uuid": row} for row in rows))
        await world.commit(store, notes, marker=marker)

    await commit("h1", None, "n1", "n2", parts={"model": "a"})
    await commit("h2", "h1", "n3", parts={"model": "a"})
    await commit("h3", "h2", "n4", parts={"model": "b"})
    assert left() == [4, 3, 2]
    await world.commit(store, world.delete("Note", "n1", "n4", "n4"))
    assert left() == [2, 2, 1]
    await commit("h4", "h3", "n3", parts={"model": "c"})
    assert left() == [2, 2, 2]
    await world.commit(store, world.delete("Note", "n2", "n3"))
    assert left() == [0, 0, 0]
    await commit("h5", "h4", "n5")
    await store.replace(NewContent(WriteBatch(()), "p", {"g": ("h5", "h6")}, ()))
    assert left() == [0, 0, 0]
    await commit("h7", "h6", "n6")
    await store.clear(["g"])
    assert left() == [0, 0, 0]


async def test_the_server_plans_a_commit_once_whatever_writes_have_rows(
    store: Neo4jStore, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.ensure(world.graph, 4)
    sent: list[tuple[str, Any]] = []
    run = type(bolt(store)).run

    async def noted(self: Any, tx: Any, text: str, parameters: Any = None) -> Any:
        sent.append((text, parameters))
        return await run(self, tx, text, parameters)

    people = [{"uuid": f"p{i}", "name": "x", "name_embedding": [1, 0, 0, 0]} for i in range(30)]
    full = [
        world.delete("Note", "n"),
        world.write("Note", {"uuid": "n", "content": "x"}),
        world.write("Person", *people),
        world.write("KNOWS", {"uuid": "k", "source": "p1", "target": "p2", "fact": "x"}),
    ]
    await world.commit(store, *full)
    monkeypatch.setattr(type(bolt(store)), "run", noted)
    head = None
    for n in range(5):
        some = [write if place < n else replace(write, rows=write.rows.slice(0, 0))
                for place, write in enumerate(full)]  # fmt: skip
        written = await world.commit(store, *some, marker=world.marker(f"h{n}", head))
        assert written.rows["Person"] == some[2].rows.num_rows
        head = f"h{n}"
    assert len({text for text, _ in sent}) == 1
    kinds = {name: type(value) for _, parameters in sent for name, value in parameters.items()}
    assert set(kinds.values()) == {dict}, "the server plans a list of another length anew"


async def test_an_edge_keeps_its_ends(store: Neo4jStore, world: Any) -> None:
    await store.ensure(world.graph, 4)
    people = world.write("Person", *({"uuid": key} for key in "abc"))
    await world.commit(
        store, people, world.write("KNOWS", {"uuid": "k", "source": "a", "target": "b"})
    )
    with pytest.raises(DataError, match=r"'k'.*an edge keeps its ends; nothing was written"):
        await world.commit(store, world.write("KNOWS", {"uuid": "k", "source": "a", "target": "c"}))


async def test_rows_that_break_a_constraint_of_the_user_are_named(
    run: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    run("CREATE CONSTRAINT one_content FOR (n:Note) REQUIRE n.content IS UNIQUE")
    try:
        texts = {
            f"n{i}": "Ann" if i in (5, 9) else "Ben" if i in (7, 11) else f"text {i}"
            for i in range(12)
        }
        notes = world.write(
            "Note", *({"uuid": key, "content": text} for key, text in texts.items())
        )
        people = world.write("Person", {"uuid": "p"})
        with pytest.raises(
            RowsRefused, match="already exists with label `Note` and property `content`"
        ) as caught:
            await world.commit(store, people, notes, marker=world.marker("h1"))
        assert sorted(row.key for row in caught.value.rows) == ["n11", "n9"], (
            "the first of a text is not at fault"
        )
        assert {row.write.label for row in caught.value.rows} == {"Note"}
        assert sum((await store.statistics()).counts.values()) == 0
    finally:
        run("DROP CONSTRAINT one_content")


@pytest.mark.parametrize("label", ["Note", "_SemgraphMark"])
async def test_labels_of_the_graph_are_rejected_as_further_labels(
    store: Neo4jStore, world: Any, label: str
) -> None:
    await store.ensure(world.graph, 4)
    with pytest.raises(DataError, match=f'"{label}" cannot be a further label of Person p'):
        await world.commit(store, world.write("Person", {"uuid": "p", "labels": [label]}))


def test_attributes_are_not_compared_in_the_store() -> None:
    store = Neo4jStore("bolt://127.0.0.1:1", "", "")
    assert store.takes(parse_scalar("hit.name = name"), "hit")
    assert not store.takes(parse_scalar("hit.attributes = name"), "hit")
    assert not store.takes(parse_scalar("lower(hit.name) = name"), "hit")


def nearest_queries(world: Any, k: int | None = None) -> list[Any]:
    """Searches by vector, of some hits each or of `k`."""

    def method(name: str, some: int, **more: Any) -> Method:
        return Method("nearest", name, "vector", k=k or some, **more)

    return [
        world.query("Person", method("name", 5), method("name", 300, above=0.9)),
        world.query("Person", method("name", 4), where="hit.turn IN (0, 130, 370)"),
        world.query("Person", method("name", 6), partition="group_ids"),
        world.query("Person", method("name", 6), partition=None),
        world.query("KNOWS", method("fact", 5)),
    ]


def scores(tables: list[Any]) -> dict[tuple[Any, ...], float]:
    """The score of each hit, by query, row, method and key."""
    return {
        (number, hit["_q"], hit["method"], hit["uuid"]): hit["score"]
        for number, table in enumerate(tables)
        for hit in table.to_pylist()
    }


async def test_the_index_finds_nearly_all_that_reading_all_finds(
    store: Neo4jStore, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is approximate: it may pass over a row, but never invents one, shows one of another group,
    or gives a wrong score.
    """
    draw = random.Random(1)

    def anywhere() -> list[float]:
        return [draw.gauss(0, 1) for _ in range(4)]

    await store.ensure(world.graph, 4)
    people = [
        {
            "uuid": f"p{i:03}",
            "name": f"n{i}",
            "turn": i,
            "group_id": "few" if i % 10 else "g",
            "name_embedding": anywhere(),
        }
        for i in range(400)
    ]
    facts = [
        {
            "uuid": f"k{i:03}",
            "source": "p000",
            "target": f"p{i % 40 * 10:03}",
            "fact": "x",
            "fact_embedding": anywhere(),
        }
        for i in range(200)
    ]
    await world.commit(store, world.write("Person", *people), world.write("KNOWS", *facts))
    queries = nearest_queries(world)
    vectors = [*(anywhere() for _ in range(11)), [0, 0, 0, 0]]
    rows = world.rows(vector=vectors, group_ids=[["g", "few"], ["few"], ["g"]] * 4)
    exact, whole = (
        scores(await store.search(queries, rows)),
        scores(await store.search(nearest_queries(world, 400), rows)),
    )
    monkeypatch.setattr(search_cypher, "EXACT_BELOW", 20)
    store._searches._texts.clear()  # statements are made anew
    with count_round_trips() as trips:
        by_index = await store.search(queries, rows)
        assert trips.number > 1  # hits of other groups had to be read past
    for found in (
        by_index,
        await store.search(queries, rows),
    ):  # what is large is not counted any more
        near = scores(found)
        assert near == {hit: pytest.approx(whole[hit], abs=1e-6) for hit in near}
        assert Counter(hit[:3] for hit in near) <= Counter(hit[:3] for hit in exact)
        assert len(near.keys() & exact.keys()) >= 0.9 * len(exact)
        assert all(table.column("score").to_pylist() for table in found)


async def test_a_partition_that_became_small_is_read_whole_again(
    monkeypatch: pytest.MonkeyPatch, store: Neo4jStore, world: Any
) -> None:

    monkeypatch.setattr(search_cypher, "EXACT_BELOW", 20)
    await store.ensure(world.graph, 4)
    people = [{"uuid": f"p{i:03}", "name_embedding": [i, 1, 1, 1]} for i in range(60)]
    await world.commit(store, world.write("Person", *people))
    query, rows = (
        world.query("Person", Method("nearest", "name", "vector", k=3)),
        world.rows(vector=[[1, 1, 1, 1]]),
    )

    async def known_as_large() -> bool:
        """Whether a search says that nothing has to be counted before its index is read."""
        asked: list[tuple[str, Any]] = []
        read = type(bolt(store)).read

        async def noted(self: Any, text: str, parameters: Any = None) -> Any:
            asked.append((text, parameters))
            return await read(self, text, parameters)

        monkeypatch.setattr(type(bolt(store)), "read", noted)
        await store.search([query], rows)
        monkeypatch.setattr(type(bolt(store)), "read", read)
        return any(
            group["l0"] for _, parameters in asked for group in parameters["lists"]["groups"]
        )

    assert [await known_as_large() for _ in range(3)] == [False, True, True]
    await store.ensure(world.graph, 4)  # as each run does
    assert await known_as_large()
    await world.commit(store, world.delete("Person", *(f"p{i:03}" for i in range(5, 60))))
    assert await known_as_large() is False
    [found] = await store.search([query], rows)
    assert world.keys(found) == {0: ["p001", "p002", "p000"]}


async def test_full_text_is_read_on_until_k_have_passed(store: Neo4jStore, world: Any) -> None:
    await store.ensure(world.graph, 4)
    notes = [{"uuid": f"n{i:04}", "content": "heron", "weight": float(i)} for i in range(1200)]
    await world.commit(store, world.write("Note", *notes))
    query = world.query(
        "Note", Method("fulltext", "content", "text", k=3), where="hit.weight >= 1197"
    )
    [found] = await store.search([query], world.rows(text=["heron"]))
    assert world.keys(found) == {0: ["n1197", "n1198", "n1199"]}


async def test_vectors_of_another_length_are_refused_everywhere(
    run: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    await world.commit(store, world.write("Person", {"uuid": "p", "name_embedding": [1, 0, 0, 0]}))
    with pytest.raises(StoreUnavailable, match=r"Person.*4-dimensional.*3\. Nothing was written"):
        await store.ensure(world.graph, 3)
    short = replace(world, dimensions=3)
    with pytest.raises(StoreUnavailable, match=r"Person.*4-dimensional.*3\. Nothing was written"):
        await short.commit(store, short.write("Person", {"uuid": "q", "name_embedding": [1, 0, 0]}))
    with pytest.raises(StoreUnavailable, match=r"4-dimensional"):
        await store.search(
            [world.query("Person", Method("nearest", "name", "vector"))],
            short.rows(vector=[[1, 0, 0]]),
        )
    assert run("MATCH (n:Person) RETURN n.uuid AS k") == [{"k": "p"}]


@pytest.mark.parametrize("lengths", [(4, 3), (None, None)], ids=["known", "not known"])
async def test_of_two_programs_the_first_to_write_decides_on_the_length_of_vectors(
    run: Run,
    store: Neo4jStore,
    world: Any,
    neo4j_database: Any,
    lengths: tuple[int | None, int | None],
) -> None:
    other, short = (
        Neo4jStore(neo4j_database.uri, neo4j_database.user, neo4j_database.password),
        replace(world, dimensions=3),
    )
    try:
        await store.ensure(world.graph, lengths[0])
        await other.ensure(world.graph, lengths[1])  # neither has written yet
        ends = await asyncio.gather(
            world.commit(
                store, world.write("Person", {"uuid": "p", "name_embedding": [1, 0, 0, 0]})
            ),
            short.commit(other, short.write("Person", {"uuid": "q", "name_embedding": [1, 0, 0]})),
            return_exceptions=True,
        )
    finally:
        await other.aclose()
    [refused] = [end for end in ends if isinstance(end, BaseException)]
    assert isinstance(refused, StoreUnavailable)
    assert "Person here has" in str(refused)
    assert len(run("MATCH (n:Person) RETURN n.uuid AS k")) == 1
    assert run("MATCH (n) WHERE NOT n:Person|_SemgraphLayout RETURN labels(n) AS l") == [], (
        "nothing is left of how they took turns"
    )


async def test_an_empty_database_takes_any_length(bare: Run, store: Neo4jStore, world: Any) -> None:
    await store.ensure(world.graph, 3)
    await store.ensure(world.graph, 4)
    await world.commit(store, world.write("Person", {"uuid": "p", "name_embedding": [1, 0, 0, 0]}))
    shown = bare(
        "SHOW VECTOR INDEXES YIELD name, options RETURN name, options.indexConfig['vector.dimensions'] AS d"
    )
    assert {(index["name"], index["d"]) for index in shown} == {
        ("Person_name_embedding", 4),
        ("KNOWS_fact_embedding", 4),
    }


async def test_a_server_that_does_not_answer_is_an_error(world: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = Neo4jStore(f"bolt://127.0.0.1:{port}", "neo4j", "x")
    said = rf"bolt://127.0.0.1:{port}  no answer in 5 s \(connection refused\).*semgraph neo4j start.*sqlite:graph.db"
    with pytest.raises(StoreUnavailable, match=said):
        await store.ensure(world.graph, 4)
    await store.aclose()
    await store.aclose()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"password": "wrong"}, 'rejects user "neo4j".*NEO4J_PASSWORD'),
        (
            {"uri": "ftp://127.0.0.1"},
            "ftp://127.0.0.1  is no address of a Neo4j server.*bolt://host:7687",
        ),
        ({"database": "nothing"}, 'has no database "nothing".*NEO4J_DATABASE'),
        ({"uri": "bolt://nowhere.invalid"}, r"no answer in 5 s \(unknown host\)"),
    ],
    ids=["password", "address", "database", "host"],
)
async def test_connection_errors_name_the_cause(
    neo4j_database: Any, world: Any, how: dict[str, str], said: str
) -> None:
    right = {
        "uri": neo4j_database.uri,
        "user": neo4j_database.user,
        "password": neo4j_database.password,
    }
    store = Neo4jStore(**(right | how))
    with pytest.raises(StoreUnavailable, match=said):
        await store.ensure(world.graph, 4)
    await store.aclose()


class Flaky:
    """A way to a server that breaks off connections: so many of the next ones, and all that are
    open when told to.
    """

    def __init__(self, uri: str) -> None:
        self.host, _, port = uri.split("//")[1].partition(":")
        self.to = int(port)
        self.breaks = self.seen = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.break_off(0)
        await self._server.wait_closed()

    def break_off(self, count: int) -> None:
        """Break off what is open, and the next `count` connections."""
        self.breaks, self.seen = count, 0
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen += 1
        if self.seen <= self.breaks:
            writer.transport.abort()
            return
        there, to = await asyncio.open_connection(self.host, self.to)
        self._open |= {writer, to}
        try:
            await asyncio.gather(_pass_on(reader, to), _pass_on(there, writer))
        finally:
            self._open -= {writer, to}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.transport.abort()


async def test_connections_that_break_off_are_tried_again(
    neo4j_database: Any, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More often than the driver tries by itself; the first time before the server has answered at
    all.
    """
    monkeypatch.setattr(neo4j_bolt, "SECONDS", 0.1)
    async with Flaky(neo4j_database.uri) as way:
        store = Neo4jStore(
            f"bolt://127.0.0.1:{way.port}", neo4j_database.user, neo4j_database.password
        )
        way.break_off(3)
        await store.ensure(world.graph, 4)
        assert way.seen > 3
        for count in (3, 5):
            way.break_off(count)
            await world.commit(store, world.write("Person", {"uuid": f"p{count}"}))
            assert way.seen > count
        found = await store.scan(ScanQuery("Person", ["uuid"]))
        assert found.column("uuid").to_pylist() == ["p3", "p5"]
        await store.aclose()


async def test_a_connection_that_stays_broken_is_an_error(
    neo4j_database: Any, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neo4j_bolt, "PATIENCE", 0.5)
    async with Flaky(neo4j_database.uri) as way:
        store = Neo4jStore(
            f"bolt://127.0.0.1:{way.port}", neo4j_database.user, neo4j_database.password
        )
        await store.ensure(world.graph, 4)
        way.break_off(1_000_000)
        with pytest.raises(StoreUnavailable, match=r"no answer in .* Is it running\?"):
            await world.commit(store, world.write("Person", {"uuid": "p"}))
        assert way.seen > 1
        await store.aclose()


@pytest.mark.parametrize(
    "uri", ["neo4j://127.0.0.1:{port}?policy=eu", "neo4j+ssc://127.0.0.1:{port}/?policy=eu&a=b"]
)
async def test_an_address_may_have_routing_settings(world: Any, uri: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = Neo4jStore(uri.format(port=port), "neo4j", "x")
    with pytest.raises(StoreUnavailable, match="no answer"):
        await store.ensure(world.graph, 4)
    await store.aclose()


async def test_an_old_server_is_refused(
    store: Neo4jStore, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neo4j_bolt, "OLDEST", (9999, 1))
    with pytest.raises(StoreUnavailable, match=r"is Neo4j/\d.*needs Neo4j 9999\.1 or later"):
        await store.ensure(world.graph, 4)


async def test_a_store_that_is_not_open_is_an_error(world: Any) -> None:
    store = Neo4jStore("bolt://127.0.0.1:1", "", "")
    with pytest.raises(EngineError, match="ensure"):
        await store.statistics()
    with pytest.raises(EngineError, match="ensure"):
        await store.search([world.query("Person", Method("order"))], world.rows())


RACER = """
import asyncio, sys, importlib.util

spec = importlib.util.spec_from_file_location("conftest", sys.argv[1])
conftest = importlib.util.module_from_spec(spec)
sys.modules["conftest"] = conftest
spec.loader.exec_module(conftest)
from semgraph.errors import ConcurrentWrite
from semgraph.stores.neo4j.store import Neo4jStore

world, me = conftest.World(), sys.argv[2]


async def main():
    store = Neo4jStore(*sys.stdin.readline().split())
    await store.ensure(world.graph, 4)
    print("ready", flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).split():
        turn, before = line
        key = f"{turn}-{me}"
        marker = world.marker(key, before=None if before == "none" else before, rows=(key,), witness="Note")
        try:
            await world.commit(store, world.write("Note", {"uuid": key}), marker=marker)
            print("won", key, flush=True)
        except ConcurrentWrite:
            print("lost", key, flush=True)
    await store.aclose()


asyncio.run(main())
"""


def start(name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RACER, str(Path(__file__).with_name("conftest.py")), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_concurrent_commits_of_two_processes_have_one_winner(
    neo4j_database: Any, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    racers = [start(name) for name in ("one", "two")]

    def say(line: str) -> None:
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{line}\n")
            racer.stdin.flush()

    def heard() -> list[list[str]]:
        return [racer.stdout.readline().split() for racer in racers if racer.stdout is not None]

    say(f"{neo4j_database.uri} {neo4j_database.user} {neo4j_database.password}")
    assert heard() == [["ready"], ["ready"]]
    winners: list[str] = []
    for turn in range(12):
        say(f"{turn:02} {winners[-1] if winners else 'none'}")
        said = heard()
        assert sorted(word for word, _ in said) == ["lost", "won"]
        winners += [key for word, key in said if word == "won"]
    for racer in racers:
        racer.communicate()
    assert (await store.scan(ScanQuery("Note"))).column("uuid").to_pylist() == winners
    state = (await store.states("p", {"g": winners}))["g"]
    assert (state.head, sorted(state.committed)) == (winners[-1], winners)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("turn", ["three"], "turn of Person cannot be stored as int64"),
        ("name_embedding", [[1.0, float("nan"), 0.0, 0.0]], "NULL, NaN or infinity"),
        ("aliases", [["a", None]], "aliases of Person p is a list with NULL in it"),
    ],
)
async def test_values_that_neo4j_cannot_store_are_refused(
    store: Neo4jStore, world: Any, column: str, value: Any, said: str
) -> None:
    await store.ensure(world.graph, 4)
    rows = pa.table({"uuid": ["p"], "group_id": ["g"], column: value})
    with pytest.raises(DataError, match=said):
        await store.commit(WriteBatch((NodeWrite("Person", rows),)))
    assert (await store.statistics()).counts["Person"] == 0


async def test_vectors_need_not_have_a_fixed_length_in_their_type(
    store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    vectors = pa.array([[1.0, 0.0, 0.0, 0.0], None, [0.0, 0.0, 0.0, 0.0]], pa.list_(pa.float64()))
    rows = pa.table({"uuid": ["a", "b", "c"], "group_id": ["g"] * 3, "name_embedding": vectors})
    await store.commit(WriteBatch((NodeWrite("Person", rows),)))
    found = await store.scan(ScanQuery("Person", ("name_embedding",)))
    assert found.column("name_embedding").to_pylist() == [[1, 0, 0, 0], None, None]


async def test_attributes_that_neo4j_has_no_form_for_are_kept_as_json(
    run: Run, store: Neo4jStore, world: Any
) -> None:
    await store.ensure(world.graph, 4)
    given = {
        "deep": {"a": [1]},
        "mixed": [1, "x"],
        "huge": 1 << 70,
        "flat": ["x", "y"],
        "none": None,
        "empty": [],
    }
    await world.commit(store, world.write("Person", {"uuid": "p", "attributes": given}))
    [row] = run("MATCH (n:Person) RETURN n {.deep, .mixed, .huge, .flat, .none, .empty} AS n")
    assert row["n"] == {
        "deep": '{"a":[1]}', "mixed": '[1,"x"]', "huge": str(1 << 70), "flat": ["x", "y"], "none": None, "empty": [],
    }  # fmt: skip


async def test_a_complete_database_is_inspected_once(bare: Run, store: Neo4jStore) -> None:
    heard: list[str] = []
    await store.ensure(MEMORY, 4)
    store.observe(heard.append)
    await store.ensure(MEMORY, 4)
    await store.attach(MEMORY, 4)
    await store.attach(MEMORY)
    assert heard == []
    bare(
        "CREATE (:Entity {uuid: 'a', group_id: 'g', name: 'n', name_embedding: [1.0, 0.0, 0.0, 0.0]})"
    )
    with pytest.raises(StoreUnavailable):
        await store.ensure(MEMORY, 8)


async def test_an_incomplete_database_is_inspected_at_each_opening(
    written: Run, store: Neo4jStore
) -> None:
    heard: list[str] = []
    store.observe(heard.append)
    assert await store.attach(MEMORY, 4)
    once = len(heard)
    written("CREATE INDEX mention_group FOR ()-[e:MENTIONS]-() ON (e.group_id)")
    assert await store.attach(MEMORY, 4)
    assert len(heard) == 2 * once > 0


async def test_one_new_row_is_looked_up_without_reading_the_markers_of_its_group(
    run: Run, store: Neo4jStore, world: Any, neo4j_database: Any
) -> None:
    await store.ensure(world.graph, 4)
    rows = [f"n{i}" for i in range(2_000)]
    marker = world.marker("h1", rows=rows, witness="Note")
    await world.commit(store, world.write("Note", {"uuid": "n7"}), marker=marker)
    statements: list[str] = []
    store.observe(statements.append)
    assert list((await store.states("p", {"g": ["n7", "new"]}))["g"].committed) == ["n7"]
    [statement] = statements
    values = {"plan": "p", "lists": {"asked": [{"partition": "g", "rows": ["n7", "new"]}]}}
    executed = driver_of(neo4j_database).execute_query("PROFILE " + statement, values)
    profile = executed.summary.profile
    operators = list(operators_of(profile))
    seeks = [one for one in operators if "IndexSeek" in one["operatorType"]]
    assert len(seeks) >= 2
    assert not [one for one in operators if "Scan" in one["operatorType"]]
    assert sum(one["dbHits"] for one in operators) < 50


def operators_of(profile: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The operators of an executed statement."""
    yield profile
    for child in profile.get("children", ()):
        yield from operators_of(child)
