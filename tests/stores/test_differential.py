"""Two stores that are told the same give the same answers, whatever they are told and asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semgraph.errors import SemgraphError
from semgraph.expr.functions import overlap
from semgraph.stores.base import Method, NewContent, ScanQuery, WriteBatch
from tests.examples import examples

WORDS = ["red", "blue", "fox", "hen", "a1", "b22"]
PEOPLE = [f"p{i}" for i in range(6)]
NOTES = [f"n{i}" for i in range(4)]
EDGES = [f"k{i}" for i in range(5)]
WHERES = [
    "",
    "hit.turn >= least",
    "coalesce(hit.turn < least, TRUE)",
    "hit.name = name OR hit.summary IS NULL",
    "NOT hit.turn IN (1, 2)",
]
PATTERNS = [
    "(a:Person {uuid: who})-[k:KNOWS]-(b:Person)",
    "(a:Person)-[k:KNOWS]->(b:Person {uuid: who})",
    "(n:Note)-[m:NAMES]->(a:Person)-[k:KNOWS]-(b:Person {uuid: who})",
    "(a:Person)<-[k:KNOWS]-(b:Person)-[j:KNOWS]-(c:Person {name: name})",
    "(a {uuid: who})-[way:KNOWS|NAMES*1..3]-(b)",
    "(a:Person {name: name})<-[way:KNOWS*2..3]-(b:Person)",
]

texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
vectors = st.lists(st.integers(-2, 2), min_size=4, max_size=4)
numbers = st.integers(-3, 3)
attributes = st.dictionaries(
    st.sampled_from(["role", "level"]), st.one_of(numbers, texts, st.booleans()), max_size=2
)


def group_of(key: str) -> str:
    return "g" if int(key[1:]) % 3 else "h"


def mostly_in(group: str, keys: list[str]) -> st.SearchStrategy[str]:
    """Keys of a partition, seldom of another."""
    return st.sampled_from([key for key in keys if group_of(key) == group] * 4 + keys)


def rows_of(
    keys: list[str], **columns: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows with distinct keys, each in the partition of its key; any other value may be NULL."""
    values = {name: st.none() | values for name, values in columns.items()}
    row = st.fixed_dictionaries({"uuid": st.sampled_from(keys)}, optional=values)
    rows = st.lists(row, min_size=1, max_size=4, unique_by=lambda row: row["uuid"])
    return rows.map(lambda rows: [{**row, "group_id": group_of(row["uuid"])} for row in rows])


people = rows_of(
    PEOPLE,
    name=texts, summary=texts, turn=numbers, aliases=st.lists(st.sampled_from(WORDS), max_size=3, unique=True),
    name_embedding=vectors, labels=st.lists(st.sampled_from(["Boss", "Cook"]), max_size=2), attributes=attributes,
)  # fmt: skip
notes = rows_of(
    NOTES,
    content=texts,
    weight=st.floats(-9, 9),
    kept=st.booleans(),
    tags=st.lists(texts, max_size=2, unique=True),
)
strangers = people.map(lambda rows: [{**row, "group_id": "g"} for row in rows])
edges = st.sampled_from(["g", "h"]).flatmap(
    lambda group: st.tuples(
        rows_of(
            [key for key in EDGES if group_of(key) == group],
            fact=texts, notes=st.lists(texts, max_size=2, unique=True), fact_embedding=vectors,
        ),
        mostly_in(group, PEOPLE),
        mostly_in(group, PEOPLE),
    )
)  # fmt: skip
named = st.sampled_from(NOTES).flatmap(
    lambda note: st.fixed_dictionaries(
        {
            "source": st.just(note),
            "target": mostly_in(group_of(note), PEOPLE),
            "group_id": st.just(group_of(note)),
        }
    )
)
names = st.lists(named, min_size=1, max_size=3)
how = st.fixed_dictionaries(
    {name: st.booleans() for name in ("only_existing", "unite", "create", "replace")}
)
writes = st.one_of(
    st.tuples(st.just("Person"), st.one_of(people, people, people, strangers), how),
    st.tuples(st.just("Note"), notes, how),
    st.tuples(
        st.just("KNOWS"),
        edges.map(lambda e: [{**row, "source": e[1], "target": e[2]} for row in e[0]]),
        how,
    ),
    st.tuples(
        st.just("NAMES"),
        names.map(lambda rows: [{**r, "uuid": r["source"] + r["target"]} for r in rows]),
        how,
    ),
    st.tuples(
        st.sampled_from(["Person", "Note", "KNOWS"]),
        st.sampled_from(PEOPLE + NOTES + EDGES),
        st.booleans(),
    ),
)
batches = st.lists(writes, min_size=1, max_size=3)
# A tuple replaces the windows of its group, a list adds one, and a text clears a group.
steps = st.lists(batches | batches.map(tuple) | st.sampled_from(["g", "h"]), min_size=1, max_size=6)
questions = st.lists(
    st.fixed_dictionaries(
        {
            "who": st.sampled_from(PEOPLE), "name": texts, "text": texts, "vector": vectors, "least": numbers,
            "group_id": st.sampled_from(["g", "h", "none"]), "group_ids": st.lists(st.sampled_from(["g", "h"]), max_size=2),
        }
    ),
    min_size=1, max_size=3,
)  # fmt: skip


def write_of(world, step):
    label, rows, options = step
    if isinstance(rows, str):
        return world.delete(label, rows, detach=options)
    lists, stamps = {
        "Person": ("aliases", "turn"),
        "Note": ("tags", "weight"),
        "KNOWS": ("notes", "fact"),
        "NAMES": ("", ""),
    }[label]
    merges = not options["replace"]
    unite = frozenset({lists} if options["unite"] and lists and merges else ())
    create = frozenset({stamps} if options["create"] and stamps and merges else ())
    unique = list({row["uuid"]: row for row in rows}.values())
    flags = {name: options[name] for name in ("only_existing", "replace")}
    return world.write(label, *unique, unite=unite, create=create, **flags)


async def tell(store, world, turn, step) -> str:
    """Commit, or clear a group; the kind of error if there is one."""
    if isinstance(step, str):
        await store.clear([step])
        return "cleared"
    batch = WriteBatch(tuple(write_of(world, one) for one in step))
    group = group_of(f"p{turn}")
    head = (await store.states("p", {group: []}))[group].head
    marker = world.marker(
        str(turn), before=head, partition=group, rows=(f"p{turn}", f"p{turn % 3}"), witness="Person"
    )
    heads = {group: (head, str(turn))}
    try:
        if isinstance(step, tuple):
            await store.replace(
                NewContent(
                    batch, "p", heads, (marker, replace(marker, rows=("other",), witness=None))
                )
            )
        else:
            await store.commit(batch, marker)
    except SemgraphError as error:
        return type(error).__name__
    return "written"


async def everything(store, world) -> dict[str, Any]:
    """All that is stored."""
    found: dict[str, Any] = {}
    for label in world.graph.labels.values():
        properties = (*label.columns, *label.vectors.values())
        rows = (await store.scan(ScanQuery(label.name, properties))).to_pylist()
        for row in rows:  # a vector of zeros is as none, and lengths may be normalised
            row |= {name: bool(row[name] and any(row[name])) for name in label.vectors.values()}
        found[label.name] = rows
    state = await store.states("p", {"g": PEOPLE, "h": PEOPLE})
    found["history"] = await store.history("p", ["g", "h"])
    found["marks"] = {name: (one.head, sorted(one.committed)) for name, one in state.items()}
    found["counts"] = (await store.statistics()).counts
    return found


def hits(table, query, asked) -> list[Any]:
    """Hits as every store must give them: full text by what it found, cosines as far as float32
    goes.
    """
    found = []
    for hit in table.to_pylist():
        method = query.methods[hit["method"]]
        score: float = hit["score"]
        if method.via == "fulltext":
            text = " ".join(t for t in (hit["name"], hit["summary"]) if t)
            score = overlap(asked[hit["_q"]]["text"], text)
        found.append(
            (
                hit["_q"],
                hit["method"],
                -round(score, 4),
                hit["uuid"] if method.via != "order" else hit["rank"],
                hit["uuid"],
            )
        )
    return sorted(found)


async def ask(
    store, world, asked: list[Mapping[str, Any]], where: str, partition: str | None
) -> list[Any]:
    """Answers to searches and matches."""
    columns = {name: [row[name] for row in asked] for name in asked[0]}
    rows = world.rows({"least": "int64"}, **columns)
    methods = (
        Method("equal", "name", "name"),
        Method("fulltext", "name", "text"),
        Method("fulltext", "name", "text", k=2, rank="overlap"),
        Method("nearest", "name", "vector", above=0.3123),
        Method("nearest", "name", "vector"),
        Method("equal", "turn", "least", k=2),
    )
    ranked = world.query(
        "Person", *methods, properties=("name", "summary"), where=where, partition=partition
    )
    order = (("turn", True), ("name", False))
    ordered = world.query(
        "Person",
        Method("order", k=3),
        properties=("name", "summary"),
        where=where,
        partition=partition,
        order=order,
    )
    found: list[Any] = []
    for query, table in zip(
        (ranked, ordered), await store.search([ranked, ordered], rows), strict=True
    ):
        found.append(hits(table, query, asked))
    queries = [world.pattern(text, partition=partition) for text in PATTERNS]
    return [*found, *[(await store.match(query, rows)).to_pylist() for query in queries]]


async def compare(pair, world, steps, asked, where, partition):
    async with pair[0].open() as left, pair[1].open() as right:
        for store in (left, right):
            await store.clear()
        for turn, step in enumerate(steps):
            told = [await tell(store, world, turn, step) for store in (left, right)]
            assert told[0] == told[1]
            assert await everything(left, world) == await everything(right, world)
            assert await ask(left, world, asked, where, partition) == await ask(
                right, world, asked, where, partition
            )


@given(steps, questions, st.sampled_from(WHERES), st.sampled_from(["group_id", "group_ids", None]))
@settings(
    max_examples=examples(20, 40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_two_stores_agree(pair, world, steps, asked, where, partition):
    asyncio.run(compare(pair, world, steps, asked, where, partition))


@given(steps, questions, st.sampled_from(WHERES), st.sampled_from(["group_id", "group_ids", None]))
@settings(
    max_examples=examples(6, 15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_neo4j_agrees_with_them(neo4j_pair, world, steps, asked, where, partition):
    asyncio.run(compare(neo4j_pair, world, steps, asked, where, partition))


@pytest.mark.parametrize("name", ["stored", "answers"])
async def test_the_comparison_detects_differences(world, name):
    """A store that loses the last row of each write is told apart from one that does not."""
    from semgraph.stores.sqlite.store import SqliteStore

    class Forgetful(SqliteStore):
        async def commit(self, batch, marker=None):
            shorter = (
                replace(write, rows=write.rows.slice(0, write.rows.num_rows - 1))
                for write in batch.writes
            )
            return await super().commit(WriteBatch(tuple(shorter)), marker)

    plain = dict.fromkeys(("unite", "create", "only_existing", "replace"), False)
    step = [("Person", [{"uuid": "p1", "name": "red"}, {"uuid": "p2", "name": "red"}], plain)]
    row = {
        "who": "p1",
        "name": "red",
        "text": "red",
        "vector": [1, 0, 0, 0],
        "least": 0,
        "group_id": "g",
        "group_ids": ["g"],
    }
    found = []
    for store in (SqliteStore(":memory:"), Forgetful(":memory:")):
        await store.ensure(world.graph, world.dimensions)
        await tell(store, world, 0, step)
        found.append(
            {
                "stored": await everything(store, world),
                "answers": await ask(store, world, [row], "", "group_id"),
            }
        )
        await store.aclose()
    assert found[0][name] != found[1][name]
