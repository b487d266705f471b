"""A Neo4j database of version 0.1.0 is read as the same data written by this version; a file of it is
refused.

`fixtures/stores/0.1.0.json` holds the constraints, indexes, nodes and edges that `fill` of that
version made. It is never made anew.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import neo4j
import pytest
import yaml

from semgraph.errors import StoreUnavailable
from semgraph.expr.functions import key
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.base import Method, ScanQuery, Store, WriteBatch
from semgraph.stores.neo4j.store import Neo4jStore
from semgraph.stores.sqlite.store import SqliteStore
from tests.conftest import without_schema
from tests.stores.conftest import GRAPH, World

FIXTURES = Path(__file__).parents[1] / "fixtures" / "stores"
MEMORY = graph_of(yaml.safe_load((FIXTURES.parents[2] / "plans" / "graph.yaml").read_text("utf-8")))


async def fill(store: Store, world: World) -> None:
    """Write two commits of plan `p`: nodes, edges, vectors, open columns, head and markers."""
    at = world.at
    people = [
        {"uuid": "p1", "name": "Ann Lee", "summary": "a pilot", "turn": 1, "aliases": ["Ann", "A."],
         "labels": ["Pilot"], "attributes": {"age": 41, "city": "Oslo"}, "created_at": at(1),
         "name_embedding": [1.0, 0.0, 0.0, 0.0]},
        {"uuid": "p2", "name": "Bo", "summary": None, "turn": 2, "aliases": [], "created_at": at(2),
         "name_embedding": [0.5, 0.5, 0.0, 0.0]},
        {"uuid": "p3", "name": "Cy", "group_id": "other", "created_at": at(3)},
    ]  # fmt: skip
    notes = [
        {"uuid": "n1", "content": "Ann flies to Oslo", "at": at(1), "day": at(1).date(),
         "weight": 0.5, "kept": True, "extra": {"b": [1, None], "a": "x"}, "tags": ["t"]},
        {"uuid": "n2", "content": "Bo stays", "at": at(2), "kept": False},
    ]  # fmt: skip
    knows = [
        {"uuid": "k1", "source": "p1", "target": "p2", "fact": "Ann knows Bo", "notes": ["n1"],
         "since": at(1), "fact_embedding": [0.0, 1.0, 0.0, 0.0], "attributes": {"how": "work"}},
    ]  # fmt: skip
    names = [{"uuid": "m1", "source": "n1", "target": "p1"}]
    writes = [
        world.write("Person", *people),
        world.write("Note", *notes),
        world.write("KNOWS", *knows),
        world.write("NAMES", *names),
    ]
    await world.commit(
        store, *writes, marker=world.marker("h1", None, ["n1", "n2"], witness="Note", now=at(4))
    )
    await world.commit(
        store,
        world.delete("Note", "n2"),
        marker=world.marker("h2", "h1", ["x1"], now=at(5), run="s"),
    )


async def read(store: Store, world: World) -> list[Any]:
    """All that the store holds, by each kind of read."""
    scans = [
        (await store.scan(ScanQuery(label.name, [*label.columns, *label.vectors.values()]))).to_pylist()
        for label in GRAPH.labels.values()
    ]  # fmt: skip
    rows = world.rows({"v": "vector"}, q=["ann"], k=["p1"], v=[[1.0, 0.2, 0.0, 0.0]])
    methods = [Method("fulltext", "name", "q", k=5), Method("equal", "name_key", "q", k=5)]
    queries = [
        world.query("Person", *methods, Method("nearest", "name", "v", k=5), properties=["name"]),
        world.query("KNOWS", Method("fulltext", "fact", "q", k=5)),
    ]
    found = await store.search(queries, rows)
    hits = [hits.drop_columns(["score"]).to_pylist() for hits in found]
    paths = await store.match(world.pattern("(a:Person {uuid: k})-[e:KNOWS]->(b:Person)"), rows)
    states = await store.states("p", {"g": ["n1", "x1", "x2"], "other": ["n1"]})
    return [scans, hits, paths.to_pylist(), states]


@pytest.fixture
async def expected(world: World) -> list[Any]:
    """What a new store holds after the same writes."""
    store = SqliteStore(":memory:")
    await store.ensure(GRAPH, world.dimensions)
    await fill(store, world)
    contents = await read(store, world)
    await store.aclose()
    return contents


async def test_an_older_file_is_refused_in_a_sentence(world: World, tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    store = SqliteStore(path)
    await store.ensure(GRAPH, world.dimensions)
    await store.aclose()
    with sqlite3.connect(path) as con:
        con.execute("PRAGMA user_version = 1")
    con.close()
    store = SqliteStore(path)
    for opened in (store.ensure, store.attach):
        with pytest.raises(StoreUnavailable, match="Open it once with semgraph 0.2.0"):
            await opened(GRAPH, world.dimensions)
    await store.aclose()


async def test_an_older_database_is_read_and_needs_no_new_index(
    world: World, expected: list[Any], neo4j_database: Any
) -> None:
    server = neo4j_database
    auth = (server.user, server.password)
    with neo4j.GraphDatabase.driver(server.uri, auth=auth) as driver:

        def run(text: str, **values: Any) -> list[dict[str, Any]]:
            return [dict(record) for record in driver.execute_query(text, values).records]

        without_schema(driver)
        restore(json.loads((FIXTURES / "0.1.0.json").read_text()), run)
        before = schema(run)
        store = Neo4jStore(server.uri, server.user, server.password)
        await store.ensure(GRAPH, world.dimensions)
        assert await read(store, world) == expected
        marker = world.marker("h3", "h2", ["x2"])
        await world.commit(
            store, world.write("Person", {"uuid": "p9", "name": "Di"}), marker=marker
        )
        assert sorted((await store.states("p", {"g": ["n1", "x1", "x2"]}))["g"].committed) == [
            "n1",
            "x1",
            "x2",
        ]
        await store.aclose()
        assert schema(run) == before
        without_schema(driver)


def schema(run: Callable[..., list[dict[str, Any]]]) -> list[str]:
    """The statements that make the indexes and constraints of a database."""
    indexes = run("SHOW INDEXES YIELD type, owningConstraint, createStatement AS text")
    plain = [i["text"] for i in indexes if i["type"] != "LOOKUP" and not i["owningConstraint"]]
    constraints = run("SHOW CONSTRAINTS YIELD createStatement AS text")
    return sorted([*plain, *(constraint["text"] for constraint in constraints)])


def restore(data: dict[str, Any], run: Callable[..., list[dict[str, Any]]]) -> None:
    """Make what a fixture holds: times as `{"time": ISO 8601}`, dates as `{"date": ...}`."""

    def native(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "date" in value:
            return datetime.fromisoformat(value["date"]).date()
        return neo4j.time.DateTime.from_iso_format(value["time"]).to_native().astimezone(UTC)

    for statement in data["schema"]:
        run(statement)
    for labels, properties in data["nodes"]:
        values = {name: native(value) for name, value in properties.items()}
        run("CREATE (n) SET n:$($labels), n = $values", labels=labels, values=values)
    for kind, source, target, properties in data["edges"]:
        values = {name: native(value) for name, value in properties.items()}
        run(
            f"MATCH (a {{uuid: $a}}), (b {{uuid: $b}}) CREATE (a)-[r:{kind}]->(b) SET r = $values",
            a=source, b=target, values=values,
        )  # fmt: skip
    run("CALL db.awaitIndexes(600)")


async def test_a_file_that_was_a_part_of_a_divided_store_is_only_read(
    tmp_path: Path, world: World
) -> None:
    path = tmp_path / "shard-2-of-3.db"
    store = SqliteStore(path)
    await store.ensure(GRAPH, 4)
    await world.commit(store, world.write("Person", {"uuid": "a", "name": "Ann"}))
    assert not store.notes
    await store.aclose()
    with sqlite3.connect(path) as file:
        file.executemany('INSERT INTO "#meta" VALUES (?, ?)', [("shard", 1), ("shards", 3)])
    before = path.read_bytes()
    part = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match="is part 2 of 3 of a store .* run the plans"):
        await part.ensure(GRAPH, 4)
    assert path.read_bytes() == before
    await part.attach(GRAPH)
    rows = await part.scan(ScanQuery("Person", ["name"]))
    assert rows.column("name").to_pylist() == ["Ann"]
    [note] = part.notes
    assert "rows of some groups only" in note
    await part.aclose()


async def test_a_server_that_was_a_part_of_a_divided_store_is_only_read(
    neo4j_database: Any, world: World
) -> None:
    server = neo4j_database
    store = Neo4jStore(server.uri, server.user, server.password)
    await store.ensure(GRAPH, 4)
    await world.commit(store, world.write("Person", {"uuid": "a", "name": "Ann"}))
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        driver.execute_query("CREATE (:_SemgraphShard {number: 1, count: 2})")
    part = Neo4jStore(server.uri, server.user, server.password)
    await part.attach(GRAPH, 4)
    rows = await part.scan(ScanQuery("Person", ["name"]))
    assert rows.column("name").to_pylist() == ["Ann"]
    assert any("is part 2 of 2 of a store" in note for note in part.notes)
    with pytest.raises(StoreUnavailable, match="is part 2 of 2 of a store .* run the plans"):
        await part.ensure(GRAPH, 4)
    await part.aclose()
    await store.aclose()


OLD_NAMES = ["Mu\u0308ller", "清华大学", "हिन्दी", "Ada Lovelace", "\u0130zmir"]
"""As version 0.2 stored them: each word a run of letters, with simple case folding."""


def _old_words(text: str, partition: int) -> str:
    found = re.findall(r"[^\W_]+", text.lower())
    return " ".join(f"{word}_{partition}" for word in found)


def file_of_0_2(path: Path) -> None:
    """A file of version 0.2 with entities of some names, as its code wrote them."""
    shutil.copy(FIXTURES.parent / "v0_2" / "graph.db", path)
    con = sqlite3.connect(path)
    con.create_function("partition_words", 2, lambda t, n: t and _old_words(t, n))
    rows = [(f"n{i}", name, name.lower()) for i, name in enumerate(OLD_NAMES)]
    sql = "INSERT INTO \"Entity\" (uuid, group_id, name, name_key) VALUES (?, 'demo', ?, ?)"
    con.executemany(sql, rows)
    con.commit()
    con.close()


async def found_by(store: Store, world: World, *texts: str) -> list[set[tuple[str, int]]]:
    """The names that each text finds, by its words or as a whole."""
    methods = [Method("fulltext", "name", "text", k=3), Method("equal", "name_key", "key", k=3)]
    query = world.query("Entity", *methods, properties=("name",))
    groups = ["demo"] * len(texts)
    rows = world.rows(text=list(texts), key=[key(text) for text in texts], group_id=groups)
    [hits] = await store.search([query], rows)
    found: list[set[tuple[str, int]]] = [set() for _ in texts]
    for hit in hits.to_pylist():
        found[hit["_q"]].add((hit["name"], hit["method"]))
    return found


@pytest.mark.parametrize("writes", [False, True])
async def test_the_words_and_keys_of_a_file_of_0_2_are_recomputed(
    world: World, tmp_path: Path, writes: bool
) -> None:
    path = tmp_path / "graph.db"
    file_of_0_2(path)
    before = path.read_bytes()
    store = SqliteStore(path)
    await (store.ensure if writes else store.attach)(MEMORY, None)
    texts = ["M\u00fcller", "我在清华大学学习", "हिन्दी", "Izmir"]
    named, sentence, whole, dotted = await found_by(store, world, *texts)
    assert named == {(OLD_NAMES[0], 0), (OLD_NAMES[0], 1)}
    assert sentence == {(OLD_NAMES[1], 0)}
    assert whole == {(OLD_NAMES[2], 0), (OLD_NAMES[2], 1)}
    assert dotted == {(OLD_NAMES[4], 0), (OLD_NAMES[4], 1)}
    assert writes or path.read_bytes() == before
    if writes:
        await store.commit(
            WriteBatch([world.delete("Entity", *(f"n{i}" for i in range(len(OLD_NAMES))))])
        )
        assert await found_by(store, world, *texts) == [set()] * 4
        await store.aclose()
        with sqlite3.connect(path) as con:
            full = '"Entity#text#node_name_and_summary"'
            con.execute(f"INSERT INTO {full} ({full}) VALUES ('integrity-check')")
            [version] = con.execute("PRAGMA user_version").fetchone()
        assert version == 5
    await store.aclose()


@pytest.mark.parametrize("writes", [False, True])
async def test_the_commit_markers_of_a_file_of_0_2_are_windows_of_one_row(
    world: World, tmp_path: Path, writes: bool
) -> None:
    path = tmp_path / "graph.db"
    shutil.copy(FIXTURES.parent / "v0_2" / "graph.db", path)
    before = path.read_bytes()
    store = SqliteStore(path)
    await (store.ensure if writes else store.attach)(MEMORY, None)
    old = (await store.history("add_episode", ["demo"]))["demo"]
    assert old.head is not None
    assert [window.rows[0].row[:4] for window in old.windows] == ["fb1a", "7064", "2433"]
    assert {(len(w.rows), w.begun, w.writes, len(w.parts)) for w in old.windows} == {
        (1, None, None, 0)
    }
    times = [window.now for window in old.windows]
    assert times == sorted(times) == [window.rows[0].now for window in old.windows]
    rows = [window.rows[0].row for window in old.windows]
    states = (await store.states("add_episode", {"demo": rows}))["demo"]
    assert [row.content for row in states.committed.values()] == ["", "", ""]
    if not writes:
        await store.aclose()
        assert path.read_bytes() == before
        return
    marker = world.marker(
        "new", old.head, rows[:1], plan="add_episode", partition="demo", writes="w"
    )
    await world.commit(store, marker=marker)
    await store.aclose()
    store = SqliteStore(path)
    await store.attach(MEMORY, None)
    new = (await store.history("add_episode", ["demo"]))["demo"]
    assert [(w.rows[0].row, w.writes) for w in new.windows] == [
        (rows[1], None), (rows[2], None), (rows[0], "w"),
    ]  # fmt: skip
    await store.aclose()


async def test_the_commit_markers_of_a_database_of_0_2_are_windows_of_one_row(
    world: World, neo4j_database: Any
) -> None:
    server = neo4j_database
    store = Neo4jStore(server.uri, server.user, server.password)
    await store.ensure(GRAPH, None)
    old = (
        "CREATE (:_SemgraphHead {partition: 'g', head: 'h2', lock: 'h2'})\n"
        "WITH 1 AS one UNWIND [['n1', 5], ['n2', 3], ['gone', 1]] AS row\n"
        "CREATE (:_SemgraphMark {plan: 'p', partition: 'g', row: row[0], fingerprint: 'f', run: 'r',"
        " witness: 'Note', now: datetime({year: 2025, month: 1, day: row[1]})})"
    )
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        driver.execute_query(old)
    await world.commit(store, world.write("Note", {"uuid": "n1"}, {"uuid": "n2"}))

    async def windows() -> list[tuple[str, str | None]]:
        history = (await store.history("p", ["g"]))["g"]
        return [(row.row, window.writes) for window in history.windows for row in window.rows]

    assert await windows() == [("n2", None), ("n1", None)]
    assert (await store.states("p", {"g": ["n1"]}))["g"].committed["n1"].content == ""
    await world.commit(store, marker=world.marker("h3", "h2", ["n2"], writes="w", now=world.at(1)))
    assert await windows() == [("n1", None), ("n2", "w")]
    await store.aclose()


async def test_graphs_of_a_file_are_brought_up_to_date_one_by_one(
    world: World, tmp_path: Path
) -> None:
    path = tmp_path / "graph.db"
    file_of_0_2(path)
    other = SqliteStore(path)
    await other.ensure(GRAPH, None)
    await other.aclose()
    store = SqliteStore(path)
    await store.ensure(MEMORY, None)
    [named] = await found_by(store, world, "M\u00fcller")
    assert named == {(OLD_NAMES[0], 0), (OLD_NAMES[0], 1)}
    await store.aclose()


async def test_the_keys_of_a_database_of_0_2_are_recomputed_on_request(
    world: World, neo4j_database: Any
) -> None:
    server = neo4j_database
    store = Neo4jStore(server.uri, server.user, server.password)
    await store.ensure(MEMORY, None)
    with neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password)) as driver:
        for n, name in enumerate(OLD_NAMES):
            values = {"uuid": f"n{n}", "group_id": "demo", "name": name, "name_key": name.lower()}
            driver.execute_query("CREATE (n:Entity) SET n = $values", values=values)
        driver.execute_query("CALL db.awaitIndexes(60)")
    for opened in (store.ensure, store.attach):
        await opened(MEMORY, None)
        await found_by(store, world, "Ada")
        [note] = store.notes
        assert note.startswith("2 Entity have a name_key of an earlier version")
        assert "build_indices_and_constraints" in note
    [named] = await found_by(store, world, "M\u00fcller")
    assert named == {(OLD_NAMES[0], 0)}
    report = await store.migrate(MEMORY, None, drop=False)
    assert "filled: name_key of 2 Entity" in report
    assert "filled: name_key of 2 Entity" not in await store.migrate(MEMORY, None, drop=False)
    [named] = await found_by(store, world, "M\u00fcller")
    assert named == {(OLD_NAMES[0], 0), (OLD_NAMES[0], 1)}
    assert store.notes == ()
    await store.aclose()
