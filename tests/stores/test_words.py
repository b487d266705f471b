"""The words that an SQLite store holds in memory are those of its file, whoever writes to it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semgraph.stores.base import Method
from semgraph.stores.prepare import RowsRefused
from semgraph.stores.sqlite.store import SqliteStore
from semgraph.stores.sqlite.vectors import WordBlock, WordCache
from tests.examples import examples
from tests.inside import blocks_of, connection, memory

GROUPS = ["g", "h", ""]
PEOPLE = [f"p{i}" for i in range(5)]
_numbers = count()

texts = st.none() | st.lists(
    st.sampled_from(["red", "Red", "fox", "hen", "ΣΑΣ", "σας", "a1"]), max_size=4
).map(" ".join)
person = st.fixed_dictionaries(
    {"uuid": st.sampled_from(PEOPLE), "group_id": st.sampled_from(GROUPS)},
    optional={"name": texts, "summary": texts, "turn": st.integers(0, 3)},
)
people = st.lists(person, min_size=1, max_size=3, unique_by=lambda row: row["uuid"])
change = st.one_of(
    st.tuples(st.just("write"), people),
    st.tuples(st.just("write"), people),
    st.tuples(st.just("delete"), st.sampled_from(PEOPLE)),
    st.tuples(st.just("clear"), st.sampled_from(GROUPS)),
)
steps = st.lists(
    st.tuples(st.integers(0, 1), change, st.integers(0, 2)), min_size=1, max_size=12
)  # who writes what, and who searches then; 2: neither


async def apply(store: SqliteStore, world: Any, change: tuple[str, Any]) -> None:
    """Make a change; one that is refused changes nothing."""
    kind, what = change
    if kind == "clear":
        await store.clear([what])
        return
    write = world.write("Person", *what) if kind == "write" else world.delete("Person", what)
    with suppress(RowsRefused):
        await world.commit(store, write)


async def hits(store: SqliteStore, world: Any) -> list[Any]:
    """What full text finds in each group, and in two together."""
    methods = [
        Method("fulltext", "name", "text", k=3),
        Method("fulltext", "name", "text", k=1, rank="overlap"),
    ]
    query = world.query("Person", *methods, properties=("name", "summary"), partition="seen")
    asked = [("red fox", ["g"]), ("σας", ["h"]), ("hen a1 red", [""]), ("red hen", ["g", "h"])]
    rows = world.rows(
        {"seen": "list<string>"}, text=[text for text, _ in asked], seen=[seen for _, seen in asked]
    )
    [table] = await store.search([query], rows)
    return table.to_pylist()


def blocks(store: SqliteStore, cache: WordCache) -> list[WordBlock]:
    """The blocks of all groups by a cache."""
    table = store._tables["Person"]
    with connection(store) as con:
        return cache.blocks(con, table, "name", GROUPS)


async def compare(path: Any, world: Any, changes: Any) -> None:
    async with AsyncExitStack() as open_stores:
        stores = [SqliteStore(path), SqliteStore(path)]
        for store in stores:
            open_stores.push_async_callback(store.aclose)
            await store.ensure(world.graph, world.dimensions)
        for writer, changed, searcher in changes:
            await apply(stores[writer], world, changed)
            if searcher < 2:
                await hits(stores[searcher], world)
        fresh = SqliteStore(path)
        open_stores.push_async_callback(fresh.aclose)
        await fresh.ensure(world.graph, world.dimensions)
        expected = await hits(fresh, world)
        for store in stores:
            assert await hits(store, world) == expected
            held = blocks(store, memory(store).words)
            for block, anew in zip(held, blocks(store, WordCache()), strict=True):
                assert (block.rows, block.postings) == (anew.rows, anew.postings)
                assert block.bytes == anew.bytes


@given(steps)
@settings(
    max_examples=examples(40, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_words_kept_current_are_those_read_anew(tmp_path, world, changes):
    asyncio.run(compare(tmp_path / f"{next(_numbers)}.db", world, changes))


async def test_little_memory_for_words_changes_no_answer(world):
    store = SqliteStore(":memory:")
    await store.ensure(world.graph, world.dimensions)
    groups = [f"g{i}" for i in range(8)]
    rows = [
        {"uuid": f"{g}-{i}", "name": f"fox w{i}", "group_id": g} for g in groups for i in range(30)
    ]
    await world.commit(store, world.write("Person", *rows))
    query = world.query("Person", Method("fulltext", "name", "text", k=2))
    asked = world.rows(text=["fox w7"] * 8, group_id=groups)
    memory(store).words.limit = 1000
    for _ in range(3):
        found = world.keys((await store.search([query], asked))[0])
        assert found == {i: [f"{g}-7", f"{g}-0"] for i, g in enumerate(groups)}
    assert len(blocks_of(memory(store).words)) < 3
    await store.aclose()
