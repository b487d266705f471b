"""What a store of shards adds to one store: where rows are, what it records, and what it refuses."""

from __future__ import annotations

import asyncio
import shutil

import pyarrow as pa
import pytest

from semgraph.errors import DataError, EngineError, PlanError, StoreUnavailable
from semgraph.logical.schema import Graph
from semgraph.redaction import redacted
from semgraph.shards import shard_of
from semgraph.stores.base import Deletion, Method, NodeWrite, PartitionState, WriteBatch
from semgraph.stores.batch_io import RowsRefused
from semgraph.stores.shards.places import MOST, FolderPlaces, places_of
from semgraph.stores.shards.store import ShardedStore
from semgraph.stores.sqlite.store import SqliteStore
from tests.stores.conftest import DIMENSIONS, GRAPH, sharded

COUNT = 3
A, B, C = "", "g", "a"  # groups of the first, the second and the third shard


@pytest.fixture
async def store(tmp_path):
    opened = sharded(tmp_path / "graphs", COUNT)
    await opened.ensure(GRAPH, DIMENSIONS)
    yield opened
    await opened.aclose()


def person(world, key, group, **more):
    return world.write("Person", {"uuid": key, "group_id": group, **more})


def anywhere(write):
    """A write whose rows name no group."""
    return type(write)(write.label, write.rows.drop_columns(["group_id"]))


async def people(store):
    rows = await store.scan("Person", ("name",), None, ())
    return [(row["uuid"], row["group_id"], row["name"]) for row in rows.to_pylist()]


async def refused(store):
    with pytest.raises(StoreUnavailable) as caught:
        await store.ensure(GRAPH, DIMENSIONS)
    await store.aclose()
    return str(caught.value)


def test_the_groups_of_these_tests_lie_apart():
    assert [shard_of(group, COUNT) for group in (A, B, C)] == [0, 1, 2]


async def test_a_file_is_made_with_the_first_row_of_its_groups(store, world, tmp_path):
    folder = tmp_path / "graphs"
    await store.states("p", {B: ["x"]})
    await people(store)
    assert not folder.exists()
    await world.commit(store, person(world, "b", B))
    assert [path.name for path in folder.glob("*.db")] == ["shard-2-of-3.db"]
    assert await people(store) == [("b", B, None)]
    assert await store.states("p", {C: ["x"]}) == {C: PartitionState()}
    await world.commit(store, person(world, "c", C))
    assert sorted(path.name for path in folder.glob("*.db")) == [
        "shard-2-of-3.db",
        "shard-3-of-3.db",
    ]


async def test_reading_makes_no_files_and_sees_those_made_meanwhile(store, world, tmp_path):
    reader = sharded(tmp_path / "graphs", COUNT)
    await reader.attach(GRAPH, DIMENSIONS)
    query = world.query("Person", Method("equal", "name", "name"), partition=None)
    assert (await reader.search([query], world.rows(name=["B"])))[0].num_rows == 0
    assert not (tmp_path / "graphs").exists()
    await world.commit(store, person(world, "b", B, name="B"))
    [hits] = await reader.search([query], world.rows(name=["B"]))
    assert world.keys(hits) == {0: ["b"]}
    assert await people(reader) == [("b", B, "B")]
    await reader.aclose()


async def test_another_count_is_refused_and_none_is_the_recorded_one(store, world, tmp_path):
    await world.commit(store, person(world, "b", B))
    folder = tmp_path / "graphs"
    with pytest.raises(StoreUnavailable, match=r"store of 3 shards.*graphs\?n=3'"):
        FolderPlaces(folder, 4)
    assert FolderPlaces(folder, None).count == COUNT
    assert [path.name for path in folder.glob("*.db")] == ["shard-2-of-3.db"]
    with pytest.raises(PlanError, match=r"no shards yet.*\?n=COUNT"):
        FolderPlaces(tmp_path / "nothing", None)


async def test_another_count_is_refused_also_by_a_store_that_was_named_before(
    store, world, tmp_path
):
    other = sharded(tmp_path / "graphs", 4)
    await world.commit(store, person(world, "b", B))
    assert "a store of 3 shards" in await refused(other)


async def test_a_file_in_the_place_of_another_shard_is_refused(store, world, tmp_path):
    await world.commit(store, person(world, "b", B))
    await store.aclose()
    folder = tmp_path / "graphs"
    shutil.move(folder / "shard-2-of-3.db", folder / "shard-3-of-3.db")
    assert "is shard 2 of 3, not shard 3 of 3" in await refused(sharded(folder, COUNT))


async def test_a_shard_is_no_whole_store_and_a_whole_store_no_shard(store, world, tmp_path):
    await world.commit(store, person(world, "b", B))
    file = tmp_path / "graphs" / "shard-2-of-3.db"
    assert "is shard 2 of 3 and has rows of some groups only" in await refused(SqliteStore(file))
    whole = SqliteStore(tmp_path / "whole.db")
    await whole.ensure(GRAPH, DIMENSIONS)
    await world.commit(whole, person(world, "x", C))
    await whole.aclose()
    (tmp_path / "others").mkdir()
    shutil.copy(tmp_path / "whole.db", tmp_path / "others" / "shard-3-of-3.db")
    message = await refused(sharded(tmp_path / "others", COUNT))
    assert "holds a graph and is not shard 3 of 3" in message


async def test_one_key_may_be_in_two_shards_and_a_row_without_a_group_cannot_name_it(store, world):
    await world.commit(store, person(world, "x", B, name="B"))
    await world.commit(store, person(world, "x", C, name="C"))
    assert await people(store) == [("x", B, "B"), ("x", C, "C")]
    for write in (anywhere(person(world, "x", B, name="?")), world.delete("Person", "x")):
        with pytest.raises(DataError, match="Person x is in the shards 2 and 3.*nothing was"):
            await world.commit(store, write)
    await world.commit(store, Deletion("Person", pa.table({"uuid": ["x"], "group_id": [C]})))
    await world.commit(store, anywhere(person(world, "x", B, name="changed")))
    assert await people(store) == [("x", B, "changed")]


async def test_rows_without_a_group_are_written_where_their_keys_are(store, world):
    await world.commit(store, person(world, "b", B), person(world, "c", C))
    rows = ({"uuid": key, "name": "new", "group_id": None} for key in ("b", "c", "new"))
    await world.commit(store, world.write("Person", *rows))
    assert await people(store) == [("b", B, "new"), ("c", C, "new"), ("new", A, "new")]
    done = await world.commit(store, world.delete("Person", "b", "c", "nobody"))
    assert done.rows["Person"] == 2
    assert await people(store) == [("new", A, "new")]
    anew = anywhere(person(world, "new", A, name="again"))
    await world.commit(store, world.delete("Person", "new"), anew)
    assert await people(store) == [("new", A, "again")]


async def test_a_row_without_a_group_is_of_the_group_that_its_batch_gives_its_key(store, world):
    await world.commit(
        store, person(world, "c", C, name="C"), anywhere(person(world, "c", C, name="changed"))
    )
    assert await people(store) == [("c", C, "changed")]


async def test_a_batch_of_several_shards_is_written_or_not(store, world):
    await world.commit(store, person(world, "b", B), person(world, "c", C))
    before = await people(store)
    batch = (
        person(world, "fine", A),
        world.write("KNOWS", {"uuid": "k", "group_id": B, "source": "b", "target": "nobody"}),
        world.write("KNOWS", {"uuid": "l", "group_id": C, "source": "c", "target": "b"}),
    )
    with pytest.raises(RowsRefused) as caught:
        await world.commit(store, *batch, marker=world.marker("h1", partition=C))
    assert [(row.write, row.key) for row in caught.value.rows] == [(batch[1], "k"), (batch[2], "l")]
    assert await people(store) == before
    assert await store.states("p", {C: ["n1"]}) == {C: PartitionState()}
    await world.commit(store, *batch[:1], marker=world.marker("h1", partition=C))
    assert (await store.states("p", {C: ["n1"]}))[C].head == "h1"
    assert [row[0] for row in await people(store)] == ["b", "c", "fine"]


async def test_batches_of_the_same_shards_do_not_wait_for_each_other_for_ever(store, world):
    async def commits(store, name):
        for turn in range(5):
            groups = (A, B, C)[:: 1 if turn % 2 else -1]
            writes = [person(world, f"{name}{turn}{group}", group) for group in groups]
            await world.commit(store, *writes)

    other = sharded(store.places.folder, COUNT)
    await other.ensure(GRAPH, DIMENSIONS)
    await asyncio.gather(commits(store, "x"), commits(other, "y"), commits(store, "z"))
    assert len(await people(store)) == 45
    await other.aclose()


async def test_a_batch_may_have_rows_of_every_shard(tmp_path):
    graph = Graph.build({"graph": "tests", "nodes": {"Note": {"properties": {}}}})
    store = sharded(tmp_path / "many", MOST)
    await store.ensure(graph, None)
    groups = [f"user-{number}" for number in range(2000)]
    assert {shard_of(group, MOST) for group in groups} == set(range(MOST))
    rows = pa.table({"uuid": groups, "group_id": groups})
    assert (await store.commit(WriteBatch((NodeWrite("Note", rows),)))).rows == {"Note": 2000}
    found = await store.scan("Note", (), None, ())
    assert found.column("uuid").to_pylist() == sorted(groups)
    await store.aclose()


async def test_what_is_written_is_told_if_a_shard_fails_when_others_have_committed(
    store, world, monkeypatch
):
    await world.commit(store, person(world, "b", B))
    commit = SqliteStore.commit

    async def fails(self, batch, marker=None, before_commit=None):
        if self.shard.number == 0:
            await before_commit()
            raise StoreUnavailable("the disk is full.")
        return await commit(self, batch, marker, before_commit)

    monkeypatch.setattr(SqliteStore, "commit", fails)
    writes = [person(world, f"new {group}", group) for group in (A, B, C)]
    with pytest.raises(StoreUnavailable, match="disk is full. The rows of the shards 2, 3 are"):
        await world.commit(store, *writes)
    monkeypatch.undo()
    await world.commit(store, *writes)
    assert [row[0] for row in await people(store)] == ["b", "new ", "new a", "new g"]


async def test_a_closed_store_is_not_opened_by_reading(store):
    await store.aclose()
    with pytest.raises(EngineError, match="is not open"):
        await people(store)


async def test_one_batch_merges_a_key_into_one_group_only(store, world):
    rows = [{"uuid": "x", "group_id": group} for group in (B, C)]
    with pytest.raises(RowsRefused, match="the key of Person x is taken"):
        await world.commit(store, world.write("Person", *rows))
    assert await people(store) == []


async def test_vectors_have_one_length_in_all_shards(tmp_path, world):
    longer = type(world)(dimensions=6)
    stores = [sharded(tmp_path / "graphs", COUNT) for _ in range(2)]
    for each in stores:
        await each.ensure(GRAPH, None)
    await world.commit(stores[0], person(world, "b", B, name="B", name_embedding=[1, 0, 0, 0]))
    other = person(longer, "c", C, name="C", name_embedding=[1, 0, 0, 0, 0, 0])
    for each in stores:
        with pytest.raises(StoreUnavailable, match=r"4-dimensional.*your embedder gives 6"):
            await world.commit(each, other)
    nearest = world.query("Person", Method("nearest", "name", "vector"))
    rows = longer.rows(vector=[[1, 0, 0, 0, 0, 0]], group_id=[C])
    with pytest.raises(StoreUnavailable, match="4-dimensional"):
        await stores[0].search([nearest], rows)
    for each in stores:
        await each.aclose()
    anew = sharded(tmp_path / "graphs", COUNT)
    with pytest.raises(StoreUnavailable, match="shard 2 of 3, .*4-dimensional"):
        await anew.ensure(GRAPH, 1024)
    await anew.aclose()


async def test_a_search_of_all_groups_ranks_the_hits_of_all_shards(store, world):
    vectors = {"b": [1, 0, 0, 0], "c": [1, 1, 0, 0], "d": [1, 0, 0, 0], "e": [0, 1, 0, 0]}
    groups = {"b": B, "c": C, "d": A, "e": B}
    for key, vector in vectors.items():
        own = {"name": "heron", "turn": ord(key), "name_embedding": vector}
        await world.commit(store, person(world, key, groups[key], **own))
    methods = (Method("nearest", "name", "vector", k=3), Method("equal", "name", "name"))
    queries = [
        world.query("Person", *methods, partition=partition) for partition in (None, "group_ids")
    ]
    order = world.query(
        "Person", Method("order", k=3), partition=None, order=(("turn", True),), alias="hit"
    )
    rows = world.rows(vector=[[1, 0, 0, 0]] * 2, name=["heron", "stork"], group_ids=[[A, B], [C]])
    before = store.round_trips
    every, some, ordered = await store.search([*queries, order], rows)
    assert store.round_trips == before + 1
    assert world.keys(every) == {0: ["b", "d", "c"], 1: ["b", "d", "c"]}
    assert world.keys(every, 1) == {0: ["b", "c", "d", "e"]}
    assert world.keys(some) == {0: ["b", "d", "e"], 1: ["c"]}
    assert world.keys(ordered) == {0: ["e", "d", "c"], 1: ["e", "d", "c"]}
    assert "turn" not in ordered.column_names
    assert every.column("rank").to_pylist() == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2]
    found = await store.scan("Person", ("turn",), None, (), limit=3)
    assert found.column("uuid").to_pylist() == ["b", "c", "d"]


async def test_notes_and_reports_name_the_shard(store, world):
    await world.commit(store, person(world, "b", B, name="Bob"), person(world, "c", C, name="Cy"))
    report = await store.migrate(GRAPH, DIMENSIONS, drop=False)
    assert [line.partition(" have")[0] for line in report] == [
        "shard 2 of 3: 1 Person",
        "shard 3 of 3: 1 Person",
    ]
    assert store.notes == ()


async def test_a_graph_that_is_shared_is_open_for_each_run(store, world):
    small = Graph.build(
        {"graph": "tests", "nodes": {"Note": {"properties": {"content": "string"}}}}
    )
    other = store.share()
    await other.ensure(small, None)
    await world.commit(store, world.write("Note", {"uuid": "n", "content": "heron"}))
    found = await other.scan("Note", ("content",), None, ())
    assert found.to_pylist() == [{"uuid": "n", "group_id": "g", "content": "heron"}]
    assert other.graph is not store.graph


async def test_a_damaged_file_is_named_with_its_shard(store, world, tmp_path):
    await world.commit(store, person(world, "b", B))
    (tmp_path / "graphs" / "shard-3-of-3.db").write_bytes(b"no database at all " * 100)
    with pytest.raises(
        StoreUnavailable, match=r"shard 3 of 3, sqlite:.*shard-3-of-3.db  is not an"
    ):
        await world.commit(store, person(world, "c", C))
    assert await store.states("p", {B: []}) == {B: PartitionState()}


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("shards:", 'unknown store "shards:"'),
        ("shards:memory", "unknown store"),
        ("shards:sqlite:", "unknown store"),
        ("shards:sqlite:graphs?n=0", "a number from 1 to 256"),
        ("shards:sqlite:graphs?n=257", "a number from 1 to 256"),
        ("shards:sqlite:graphs?n=x", "a number from 1 to 256"),
        ("shards:sqlite:graphs?n=3&m=4", "a number from 1 to 256"),
        ("shards:neo4j://a,neo4j://b,neo4j://a", "names neo4j://a twice"),
        ("shards:neo4j://a,sqlite:b", '"sqlite:b" is no address'),
        ("shards:neo4j://a,", "is no address of a server"),
    ],
)
def test_an_address_that_names_no_shards_is_refused(tmp_path, address, what):
    with pytest.raises(PlanError) as caught:
        places_of(address, tmp_path, {})
    assert what in str(caught.value)


def test_user_and_password_come_from_the_address_or_the_environment(tmp_path):
    address = "shards:neo4j://ann:s%40cret-one@a:7687,neo4j://b"
    env = {"NEO4J_USERNAME": "bob", "NEO4J_PASSWORD": "secret-two"}
    places = places_of(address, tmp_path, env)
    assert places.name == "shards:neo4j://a:7687,neo4j://b"
    stores = [store._bolt for store in places.stores()]
    assert [(bolt.uri, bolt.user, bolt._password) for bolt in stores] == [
        ("neo4j://a:7687", "ann", "s@cret-one"),
        ("neo4j://b", "bob", "secret-two"),
    ]
    assert redacted("s%40cret-one or s@cret-one") == "[secret] or [secret]"


async def test_a_server_that_does_not_answer_is_named_with_its_shard(tmp_path):
    store = ShardedStore(places_of("shards:bolt://127.0.0.1:1,bolt://127.0.0.1:2", tmp_path, {}))
    assert "shard 1 of 2, bolt://127.0.0.1:1  no answer" in await refused(store)
