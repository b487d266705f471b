"""Rows that another program wrote with values that the graph does not allow: reads leave out each of
them, name it in a note, and return all others; nothing of it is changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semgraph.expr.scalar import parse_scalar
from semgraph.stores.base import Method, ScanQuery, Store
from semgraph.stores.sqlite.schema import partition_words
from semgraph.stores.sqlite.store import SqliteStore
from tests.conftest import driver_of

Put = Callable[..., list[Any]]


def _in_file(path: Path) -> Put:
    """Changes a row of an SQLite file as another program does; returns all its rows."""

    def put(label: str, key: str, name: str = "", value: Any = None) -> list[Any]:
        with sqlite3.connect(path) as con:
            con.create_function("partition_words", 2, partition_words, deterministic=True)
            if name:
                con.execute(f'UPDATE "{label}" SET "{name}" = {value} WHERE uuid = ?', (key,))
            rows = con.execute(f'SELECT * FROM "{label}" ORDER BY "#id"').fetchall()
        con.close()
        return rows

    return put


def _on_server(server: Any) -> Put:
    """The same in Neo4j."""
    driver = driver_of(server)

    def put(label: str, key: str, name: str = "", value: Any = None) -> list[Any]:
        var = "(n)" if label[1:].islower() else "()-[n]->()"
        if name:
            text = f"MATCH {var} WHERE n.uuid = $key SET n.`{name}` = {value}"
            driver.execute_query(text, key=key)
        text = (
            f"MATCH {var} UNWIND keys(n) AS k RETURN n.uuid, k, toStringOrNull(n[k]) ORDER BY 1, 2"
        )
        return [record.values() for record in driver.execute_query(text).records]

    return put


@pytest.fixture(params=["sqlite", "neo4j"])
async def places(request: pytest.FixtureRequest, tmp_path: Path, world: Any) -> Any:
    """A store with two people, two notes and two edges; and the other program."""
    if request.param == "sqlite":
        store: Store = SqliteStore(tmp_path / "graph.db")
        put = _in_file(tmp_path / "graph.db")
    else:
        from semgraph.stores.neo4j.store import Neo4jStore

        server = request.getfixturevalue("neo4j_database")
        store = Neo4jStore(server.uri, server.user, server.password)
        put = _on_server(server)
    await store.ensure(world.graph, 4)
    people = [
        {
            "uuid": key,
            "name": f"{key} Chen",
            "turn": 1,
            "aliases": ["x"],
            "name_embedding": [1, 0, 0, 0],
        }
        for key in ("ann", "bob")
    ]
    notes = [
        {
            "uuid": f"n_{key}",
            "content": "some words",
            "at": world.at(2),
            "kept": True,
            "weight": 1.5,
            "extra": "{}",
            "tags": ["t"],
        }
        for key in ("ann",)
    ]
    edges = [
        {
            "uuid": f"k_{key}",
            "source": key,
            "target": "bob",
            "fact": "they met",
            "notes": ["e"],
            "since": world.at(1),
        }
        for key in ("ann",)
    ]
    await world.commit(
        store,
        world.write("Person", *people),
        world.write("Note", *notes),
        world.write("KNOWS", *edges),
    )
    yield request.param, store, put
    await store.aclose()


ODD = [
    # label, property, in SQLite, in Neo4j
    ("Person", "name", "x'ff00'", "5"),
    ("Person", "summary", "x'ff00'", "['a', 'b']"),
    ("Person", "turn", "'many'", "'many'"),
    ("Person", "turn", "1.5", "1.5"),
    ("Person", "aliases", "'no list'", "'no list'"),
    ("Person", "aliases", "'[1, 2]'", "[1, 2]"),
    ("Person", "created_at", "'soon'", "'soon'"),
    ("Person", "created_at", "9000000000000000000", "datetime({year: 99999})"),
    ("Person", "created_at", "x'00'", "duration('P1D')"),
    ("Person", "created_at", "1.5", "5"),
    ("Note", "content", "x'ff'", "true"),
    ("Note", "at", "'no time'", "time('10:00')"),
    ("Note", "day", "'no day'", "datetime('2025-01-01T10:00:00Z')"),
    ("Note", "day", "99999999", "20250101"),
    ("Note", "weight", "'heavy'", "'heavy'"),
    ("Note", "weight", "x'01'", "0.0 / 0.0"),
    ("Note", "kept", "7", "'yes'"),
    ("Note", "extra", "'no json'", "'no json'"),
    ("Note", "tags", "'{\"a\": 1}'", "point({x: 1, y: 2})"),
    ("KNOWS", "fact", "x'ff'", "7"),
    ("KNOWS", "notes", "'x'", "'x'"),
    ("KNOWS", "since", "'once'", "'once'"),
]  # fmt: skip


KEYS = {
    "Person": ("ann", ["ann", "bob"]),
    "Note": ("n_ann", ["n_ann"]),
    "KNOWS": ("k_ann", ["k_ann"]),
}
TEXT = {"Person": "name", "Note": "content", "KNOWS": "fact"}
PATTERN = {"Person": "(a:Person)", "Note": "(a:Note)", "KNOWS": "(:Person)-[a:KNOWS]->(:Person)"}


@pytest.fixture
async def odd(places: Any, world: Any) -> Any:
    """The store with a row for each case of `ODD`."""
    kind, store, put = places
    keys: dict[str, list[str]] = {label: [] for label in KEYS}
    row = {"content": "some words", "name": "odd Chen", "fact": "they met"}
    row |= {"source": "ann", "target": "bob", "name_embedding": [1, 0, 0, 0]}
    for i, (label, *_) in enumerate(ODD):
        keys[label].append(f"odd{i}")
    for label, listed in keys.items():
        known = {*world.graph.labels[label].columns, *world.graph.labels[label].vectors.values()}
        own = {k: v for k, v in row.items() if k in known}
        await world.commit(store, world.write(label, *({"uuid": key, **own} for key in listed)))
    for i, (label, prop, in_file, on_server) in enumerate(ODD):
        put(label, f"odd{i}", prop, in_file if kind == "sqlite" else on_server)
    return store, put


async def test_rows_of_another_type_are_left_out_of_every_read_and_named(
    odd: Any, world: Any
) -> None:
    store, put = odd
    before = [put(label, "") for label in KEYS]
    rows = world.rows(words=["Chen words met"], vector=[[1, 0, 0, 0]])
    for label, (_, fine) in KEYS.items():
        properties = [n for n in world.graph.labels[label].columns if n not in ("source", "target")]
        for partitions in (["g"], None):
            scanned = await store.scan(ScanQuery(label, properties, partitions))
            assert scanned["uuid"].to_pylist() == fine
        methods = [Method("order"), Method("fulltext", TEXT[label], "words", k=99)]
        methods += [Method("nearest", TEXT[label], "vector", k=99)] * (label == "Person")
        for partition in ("group_id", None):
            query = world.query(label, *methods, properties=properties, partition=partition)
            [hits] = await store.search([query], rows)
            for n in range(len(methods)):
                assert sorted(world.keys(hits, n)[0]) == fine, (label, methods[n])
        matched = await store.match(world.pattern(PATTERN[label], a=properties), rows)
        assert sorted(row["a"]["uuid"] for row in matched.to_pylist()) == fine
    for i, (label, prop, *_) in enumerate(ODD):
        note = next(
            n for n in store.notes if f"{label} that another program wrote: {prop} is " in n
        )
        count = sum(case[:2] == (label, prop) for case in ODD)
        assert note.startswith(f"left out {count} {label} that another program wrote: {prop} is ")
        first = next(j for j, case in enumerate(ODD) if case[:2] == (label, prop))
        assert note.endswith(f"not {world.graph.labels[label].columns[prop]}. First: odd{first}"), i
    assert len(store.notes) == len({case[:2] for case in ODD})
    assert [put(label, "") for label in KEYS] == before


CONDITIONS = [
    ("Note", "at <= now() OR at > now()"),
    ("Note", "kept"),
    ("Note", "NOT kept"),
    ("Note", "list_contains(tags, 't')"),
    ("Note", "weight > 1"),
    ("Note", "day IS NOT NULL"),
    ("KNOWS", "since IS NOT NULL"),
    ("KNOWS", "list_contains(notes, 'e')"),
    ("Person", "turn > 0"),
]


async def test_conditions_over_rows_of_another_type_are_no_errors(odd: Any, world: Any) -> None:
    store, _ = odd
    for label, where in CONDITIONS:
        found = await store.scan(ScanQuery(label, (), ["g"], parse_scalar(where).conjuncts()))
        keys = {*found["uuid"].to_pylist()}
        assert KEYS[label][0] in keys or where in ("NOT kept", "day IS NOT NULL"), where
