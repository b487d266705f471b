"""A store whose shards are two real servers. The conformance suite runs over them in
`make nightly`.
"""

from __future__ import annotations

import pytest

from semgraph.errors import StoreUnavailable
from semgraph.stores.base import Method, PartitionState
from semgraph.stores.batch_io import RowsRefused
from semgraph.stores.neo4j.store import Neo4jStore
from tests.stores.conftest import DIMENSIONS, GRAPH, address_of, on_servers

A, B = "g", "other"  # groups of the first and the second server


@pytest.fixture
async def store(neo4j_databases):
    opened = on_servers(address_of(*neo4j_databases))
    await opened.ensure(GRAPH, DIMENSIONS)
    yield opened
    await opened.aclose()


async def fill(store, world):
    """A person in a group of each server."""
    for key, group in (("a", A), ("b", B)):
        row = {"uuid": key, "group_id": group, "name": "heron", "name_embedding": [1, 0, 0, 0]}
        await world.commit(store, world.write("Person", row))


async def people(store):
    rows = await store.scan("Person", ("name",), None, ())
    return [(row["uuid"], row["group_id"], row["name"]) for row in rows.to_pylist()]


async def refused(store):
    with pytest.raises(StoreUnavailable) as caught:
        await store.ensure(GRAPH, DIMENSIONS)
    await store.aclose()
    return str(caught.value)


async def test_each_server_has_the_rows_of_its_groups(store, world):
    await fill(store, world)
    assert await people(store) == [("a", A, "heron"), ("b", B, "heron")]
    own = [await shard.scan("Person", (), None, ()) for shard in store._stores.values()]
    assert [rows.column("uuid").to_pylist() for rows in own] == [["a"], ["b"]]
    methods = (
        Method("nearest", "name", "vector", k=2),
        Method("fulltext", "name", "text"),
        Method("equal", "name", "text"),
    )
    query = world.query("Person", *methods, partition=None)
    rows = world.rows(vector=[[1, 0, 0, 0]], text=["heron"])
    before = store.round_trips
    [hits] = await store.search([query], rows)
    assert [world.keys(hits, method)[0] for method in range(3)] == [["a", "b"]] * 3
    assert store.round_trips <= before + 2  # one counts what lacks derived texts
    assert (await store.statistics()).counts["Person"] == 2


async def test_a_batch_of_both_servers_is_written_or_not(store, world):
    await fill(store, world)
    new = [world.write("Person", {"uuid": f"n{group}", "group_id": group}) for group in (A, B)]
    edge = {"uuid": "k", "group_id": B, "source": "b", "target": "nobody"}
    marker = world.marker("h1", partition=A)
    with pytest.raises(RowsRefused, match="KNOWS k has the target"):
        await world.commit(store, *new, world.write("KNOWS", edge), marker=marker)
    assert len(await people(store)) == 2
    assert await store.states("p", {A: ["n1"]}) == {A: PartitionState()}
    await world.commit(store, *new, marker=marker)
    assert len(await people(store)) == 4
    await world.commit(store, world.delete("Person", "ng", "nother"))
    assert [row[0] for row in await people(store)] == ["a", "b"]


async def test_another_order_another_count_and_a_whole_store_are_refused(
    store, neo4j_databases, world
):
    await fill(store, world)
    first, second = neo4j_databases
    right = ",".join(server.uri.replace("neo4j", "bolt") for server in neo4j_databases)
    message = await refused(on_servers(address_of(second, first)))
    assert (
        f"named in another order than before. Nothing was written. Name them so: --store shards:{right}"
        in message
    )
    assert "servers of a store of 2 shards, and 1 are named" in await refused(
        on_servers(address_of(first))
    )
    alone = Neo4jStore(second.uri, second.user, second.password)
    assert "is shard 2 of 2 and has rows of some groups only" in await refused(alone)
    assert await people(store) == [("a", A, "heron"), ("b", B, "heron")]


async def test_a_new_server_in_the_place_of_one_with_rows_is_refused(store, neo4j_databases, world):
    await fill(store, world)
    await store._stores[1]._bolt.write(
        lambda tx: store._stores[1]._bolt.run(tx, "MATCH (n) DETACH DELETE n")
    )
    message = await refused(on_servers(address_of(*neo4j_databases)))
    assert "is new, and" in message
    assert "Name that server in its place" in message


async def test_servers_that_hold_a_graph_are_no_shards(neo4j_databases, world):
    first, _ = neo4j_databases
    whole = Neo4jStore(first.uri, first.user, first.password)
    await whole.ensure(GRAPH, DIMENSIONS)
    await world.commit(whole, world.write("Person", {"uuid": "a"}))
    assert "holds a graph and is not shard 1 of 2" in await refused(
        on_servers(address_of(*neo4j_databases))
    )
    assert await people(whole) == [("a", "g", None)]
    await whole.aclose()


async def test_a_server_that_does_not_answer_is_named_and_the_others_are_left_alone(
    neo4j_databases, world
):
    right = address_of(*neo4j_databases)
    message = await refused(on_servers(f"{right.partition(',')[0]},bolt://127.0.0.1:1"))
    assert message.startswith("shard 2 of 2, bolt://127.0.0.1:1  no answer")
    first = neo4j_databases[0]
    alone = Neo4jStore(first.uri, first.user, first.password)
    await alone.ensure(GRAPH, DIMENSIONS)
    assert alone.recorded is None
    await alone.aclose()
