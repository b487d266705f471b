"""A conjunct that a store takes keeps exactly the hits that DuckDB would keep, NULLs and all."""

from __future__ import annotations

import datetime as dt

import duckdb
import pyarrow as pa
import pytest

from semgraph.expr.scalar import parse_scalar
from semgraph.stores.base import Method, NodeWrite, SearchQuery

PEOPLE = [
    {"name": "Ann", "turn": 1, "summary": "a", "aliases": ["x", "y"], "labels": ["Boss"]},
    {"name": "Bob", "turn": 2, "summary": None, "aliases": []},
    {"name": None, "turn": None, "summary": "Ann", "aliases": None, "labels": ["Boss", "Cook"]},
    {"name": "", "turn": -3, "summary": "", "aliases": ["Ann"]},
    {"name": "ann", "turn": 2, "summary": "b'c", "aliases": ["y"]},
]
TAKEN = [
    "hit.name = word",
    "hit.name <> word",
    "hit.name < word OR hit.name >= 'b'",
    "NOT hit.name = word",
    "NOT (hit.name = word OR hit.turn > least)",
    "hit.name IS NULL",
    "hit.name IS NOT NULL AND word IS NULL",
    "hit.turn > least",
    "hit.turn >= least AND hit.turn <= 2",
    "hit.turn BETWEEN least AND 2",
    "NOT hit.turn BETWEEN least AND 2",
    "hit.turn > 1.5",
    "hit.turn = -3",
    "hit.turn IN (1, -3)",
    "hit.turn IN (1, NULL)",
    "hit.turn NOT IN (1, NULL)",
    "NOT hit.name IN ('Ann', 'b''c')",
    "coalesce(hit.name, hit.summary) = word",
    "coalesce(hit.turn < least, TRUE)",
    "coalesce(hit.turn < least, FALSE)",
    "coalesce(NULL < least, TRUE)",
    "NULL = hit.name",
    "hit.created_at < at",
    "hit.created_at >= '2025-01-02'",
    "hit.created_at >= TIMESTAMP '2025-01-02 13:00:00+01' OR hit.created_at IS NULL",
    "hit.created_at BETWEEN '2025-01-01' AND at",
    "flag",
    "flag AND hit.turn = 2",
    "NOT flag OR hit.name = 'Ann'",
    "hit.turn > least + 1",
    "hit.name = lower(word)",
    "TRUE",
    "FALSE OR hit.turn = 1",
    "NULL",
    "hit.group_id = group_id",
    "hit.uuid = 'p1' OR hit.uuid = who",
    "hit.name IS NOT DISTINCT FROM word",
    "hit.name IS DISTINCT FROM word",
    "list_contains(hit.aliases, word)",
    "NOT list_contains(hit.aliases, 'y')",
    "list_contains(hit.labels, 'Boss')",
    "hit.name IN names",
    "NOT hit.name IN names",
    "list_has_any(hit.aliases, names)",
    "NOT list_has_any(hit.aliases, names)",
]
NOTES = [
    {"content": "a", "kept": True, "weight": 0.5, "day": dt.date(2025, 1, 1), "tags": ["x"]},
    {"content": "b", "kept": False, "weight": 2.0, "day": dt.date(2025, 1, 2), "tags": []},
    {"content": None, "kept": None, "weight": None, "day": None, "tags": None},
    {
        "content": "",
        "kept": True,
        "weight": -1e300,
        "day": dt.date(1969, 12, 31),
        "tags": ["x", "y"],
    },
    {"content": "é", "kept": False, "weight": 1.0, "day": dt.date(2025, 1, 3), "tags": ["Ann"]},
]
TAKEN_OF_NOTES = [
    "hit.kept",
    "NOT hit.kept",
    "hit.kept = flag",
    "hit.kept OR hit.content = word",
    "hit.kept IS NULL OR NOT hit.kept",
    "coalesce(hit.kept, TRUE)",
    "hit.weight > 0.5",
    "hit.weight >= least",
    "hit.weight = 1",
    "hit.weight IN (0.5, 2)",
    "hit.day < '2025-01-02'",
    "hit.day = DATE '2025-01-02' OR hit.day < DATE '1970-01-01'",
    "hit.day BETWEEN '2025-01-01' AND '2025-01-02'",
    "hit.content > 'b'",
    "list_contains(hit.tags, word)",
    "NOT list_contains(hit.tags, word)",
    "list_contains(hit.tags, word) IS NULL",
    "hit.created_at IS NOT DISTINCT FROM at",
]
NEVER = [
    "lower(hit.name) = word",
    "hit.turn + 1 > least",
    "hit.name LIKE 'A%'",
    "length(hit.name) = 3",
]


@pytest.fixture(scope="module")
def asked(world):
    """Rows that ask, NULLs among them."""
    types = {"least": "int64", "at": "timestamp", "flag": "boolean", "names": "list<string>"}
    return world.rows(
        types,
        word=["Ann", None, "", "ann", "y"],
        who=["p2", "p3", None, "p9", "p1"],
        least=[1, None, -5, 2, 100],
        at=[world.at(2), world.at(9), None, world.at(1), world.at(3)],
        flag=[True, False, None, True, False],
        names=[["Ann", "x"], [], None, ["", "y"], ["Bob", None]],
    )


@pytest.fixture(scope="module")
def people(world):
    """Rows of the store."""
    days = [world.at(1), world.at(2), world.at(2, 30), None, world.at(3)]
    rows = [
        {"uuid": f"p{i}", "created_at": day, **row}
        for i, (day, row) in enumerate(zip(days, PEOPLE, strict=True))
    ]
    return world.table("Person", [{"labels": [], **row} for row in rows])


@pytest.fixture(scope="module")
def notes(world):
    """Rows of the store, with times by which those that ask find some."""
    days = [world.at(1), world.at(2), None, world.at(9), world.at(3)]
    rows = [
        {"uuid": f"n{i}", "created_at": day, **row}
        for i, (day, row) in enumerate(zip(days, NOTES, strict=True))
    ]
    return world.table("Note", rows)


Pairs = list[tuple[int, str]]


def kept_by_duckdb(conditions: list[str], rows: pa.Table, asked: pa.Table) -> dict[str, Pairs]:
    """For each condition the ordinals and keys of the pairs for which it is true."""
    fields = ", ".join(f'"{name}" := rows."{name}"' for name in rows.column_names)
    pairs = f"SELECT asked.*, struct_pack({fields}) AS hit FROM asked, rows"
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("rows", rows)
        con.register("asked", asked)
        return {
            where: con.execute(
                f"SELECT _q, hit.uuid FROM ({pairs}) AS j "
                f"WHERE {parse_scalar(where).sql} ORDER BY ALL"
            ).fetchall()
            for where in conditions
        }


@pytest.fixture(scope="module")
def kept_people(people, asked) -> dict[str, Pairs]:
    """What DuckDB keeps of the people, by condition."""
    return kept_by_duckdb(TAKEN, people, asked)


async def searched(store, label: str, where: str, asked: pa.Table) -> Pairs:
    """Ordinals and keys of the hits of a search with a condition."""
    conjuncts = parse_scalar(where).conjuncts()
    assert all(store.takes(part, "hit") for part in conjuncts), where
    [hits] = await store.search(
        [SearchQuery(label, (Method("order"),), (), where=conjuncts)], asked
    )
    return sorted(zip(hits.column("_q").to_pylist(), hits.column("uuid").to_pylist(), strict=True))


async def matched(store, world, where: str, asked: pa.Table) -> Pairs:
    """Ordinals and keys of the nodes of a match with a condition."""
    assert all(store.takes(part, None) for part in parse_scalar(where).conjuncts()), where
    rows = await store.match(world.pattern("(hit:Person)", where=where), asked)
    return [(row["_q"], row["hit"]["uuid"]) for row in rows.to_pylist()]


async def test_searches_keep_what_duckdb_keeps(store, world, people, asked, kept_people):
    await world.commit(store, NodeWrite("Person", people))
    kept = {where: await searched(store, "Person", where, asked) for where in TAKEN}
    assert kept == kept_people


async def test_searches_of_every_type_keep_what_duckdb_keeps(store, world, notes, asked):
    await world.commit(store, NodeWrite("Note", notes))
    kept = {where: await searched(store, "Note", where, asked) for where in TAKEN_OF_NOTES}
    assert kept == kept_by_duckdb(TAKEN_OF_NOTES, notes, asked)


async def test_matches_keep_what_duckdb_keeps(store, world, people, asked, kept_people):
    await world.commit(store, NodeWrite("Person", people))
    conditions = [where for where in TAKEN if "hit." in where]
    kept = {where: await matched(store, world, where, asked) for where in conditions}
    assert kept == {where: kept_people[where] for where in conditions}


def test_conditions_only_duckdb_can_evaluate_are_not_taken(home):
    store = home.connect()
    assert not [where for where in NEVER if store.takes(parse_scalar(where), "hit")]
