"""What every store promises of its schema: a new place is set up by itself, and what rows lack is
stored when asked.
"""

from __future__ import annotations

from dataclasses import replace

from semgraph.logical.schema import Graph
from semgraph.stores.base import Method


def before(graph: Graph) -> Graph:
    """The graph as it was before a property was derived."""
    person = graph.labels["Person"]
    plain = replace(
        person,
        properties={name: kind for name, kind in person.properties.items() if name != "name_key"},
        derived={name: derived for name, derived in person.derived.items() if name != "name_key"},
        index=tuple(name for name in person.index if name != "name_key"),
    )
    return replace(graph, labels={**graph.labels, "Person": plain})


async def test_a_new_store_lacks_nothing(store, world):
    assert store.notes == ()
    assert await store.migrate(world.graph, world.dimensions, drop=False) == []


async def test_recreated_indexes_give_the_same_hits(store, world):
    await world.commit(store, world.write("Person", {"uuid": "a", "name": "Ann Lee"}))
    said = await store.migrate(world.graph, world.dimensions, drop=True)
    dropped = {line.partition(": ")[2] for line in said if line.startswith("dropped: ")}
    made = [line for line in said if line.startswith("made: ")]
    assert len(dropped) == len(made)
    query = world.query(
        "Person", Method("equal", "name_key", "key"), Method("fulltext", "name", "text")
    )
    [found] = await store.search([query], world.rows(key=["ann lee"], text=["lee"]))
    assert world.keys(found, 0) == world.keys(found, 1) == {0: ["a"]}


async def test_rows_older_than_a_derived_property_are_found_by_it(shared_home, world):
    await shared_home.reset()
    old = replace(world, graph=before(world.graph))
    async with shared_home.open(old.graph) as store:
        await old.commit(
            store,
            old.write(
                "Person",
                {"uuid": "a", "name": "Ann  LEE", "name_embedding": [1, 0, 0, 0]},
                {"uuid": "b"},
            ),
        )
    async with shared_home.open() as store:
        query = world.query("Person", Method("equal", "name_key", "key"), properties=("name_key",))
        [found] = await store.search([query], world.rows(key=["ann lee"]))
        assert [(row["uuid"], row["name_key"]) for row in found.to_pylist()] == [("a", "ann lee")]
        await store.migrate(world.graph, world.dimensions, drop=False)
        assert store.notes == ()
        assert await store.migrate(world.graph, world.dimensions, drop=False) == []
        [found] = await store.search([query], world.rows(key=["ann lee"]))
        assert world.keys(found) == {0: ["a"]}


async def test_rows_with_a_text_and_no_vector_are_counted(store, world):
    vector = [1, 0, 0, 0]
    await world.commit(
        store,
        world.write(
            "Person",
            {"uuid": "a", "name": "Ann", "name_embedding": vector},
            {"uuid": "b", "name": "Bob"},
            {"uuid": "c", "name": "Cleo", "group_id": "h"},
            {"uuid": "d"},
        ),
    )
    await world.commit(
        store,
        world.write("KNOWS", {"uuid": "ab", "source": "a", "target": "b", "fact": "Ann knows Bob"}),
    )
    why = "nothing finds them by what is near in meaning. A plan that merges their"
    people, facts = (
        f"2 Person have no name_embedding: {why} name again makes it",
        f"1 KNOWS have no fact_embedding: {why} fact again makes it",
    )
    assert await store.migrate(world.graph, world.dimensions, drop=False) == [people, facts]
    await world.commit(
        store, world.write("Person", {"uuid": "b", "name": "Bob", "name_embedding": vector})
    )
    await world.commit(
        store,
        world.write(
            "KNOWS", {"uuid": "ab", "source": "a", "target": "b", "fact_embedding": vector}
        ),
    )
    assert await store.migrate(world.graph, world.dimensions, drop=False) == [
        people.replace("2", "1")
    ]
