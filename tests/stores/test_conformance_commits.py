"""What every store promises of markers, heads, opening, counting and clearing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from semgraph.errors import ConcurrentWrite, EngineError, StoreUnavailable
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.base import (
    CommittedRow,
    Method,
    PartitionState,
    ScanQuery,
    Store,
    count_round_trips,
    in_pieces,
)
from semgraph.stores.prepare import RowsRefused


async def notes(store):
    return (await store.scan(ScanQuery("Note"))).column("uuid").to_pylist()


def test_it_is_a_store(home):
    store = home.connect()
    assert isinstance(store, Store)
    assert home.name.split("-")[0] in store.name or "://" in store.name


async def test_a_commit_marker_is_written_with_its_rows(store, world):
    assert await store.states("p", {"g": ["n1"], "h": []}) == {
        "g": PartitionState(),
        "h": PartitionState(),
    }
    now = datetime(2025, 3, 1, 1, 2, 3, 456789, tzinfo=UTC)
    marker = world.marker(
        "h1", rows=("n1", "n2"), now=now, fingerprint="f1", run="r1", witness="Note"
    )
    await world.commit(store, world.write("Note", {"uuid": "n1"}, {"uuid": "n2"}), marker=marker)
    with count_round_trips() as trips:
        found = await store.states("p", {"h": ["n1"], "g": ["n1", "n2"]})
        assert trips.number == 1
    assert found["h"] == PartitionState()
    assert found["g"].head == "h1"
    assert dict(found["g"].committed) == {
        key: CommittedRow(key, "f1", now, "r1") for key in ("n1", "n2")
    }


async def test_only_markers_of_the_rows_asked_for_are_read(store, world):
    await world.commit(store, marker=world.marker("h1", rows=("n1", "n2", "n3")))
    await world.commit(store, marker=world.marker("i1", partition="h", rows=("m1",)))
    found = await store.states("p", {"g": ["n2", "unknown", "m1", "n2"], "none": ["n1"], "h": []})
    assert {name: (state.head, list(state.committed)) for name, state in found.items()} == {
        "g": ("h1", ["n2"]), "none": (None, []), "h": ("i1", []),
    }  # fmt: skip


async def test_100_000_rows_are_asked_for_at_once(store, world):
    keys = [f"n{i}" for i in range(100_000)]
    known = keys[::1000]
    await world.commit(store, marker=world.marker("h1", rows=known))
    await world.commit(store, marker=world.marker("i1", partition="h", rows=("last",)))
    found = await store.states("p", {"": [], "g": keys, "h": ["first", "last"]})
    assert found[""] == PartitionState()
    assert (found["g"].head, list(found["g"].committed)) == ("h1", known)
    assert (found["h"].head, list(found["h"].committed)) == ("i1", ["last"])


async def test_rows_have_any_text_as_their_id(store, world):
    keys = ("", " ", "á", "a\u0301", "日本", "\U0001f600", "a\nb", "'\"`\\", "[1]")
    await world.commit(store, marker=world.marker("h1", partition="日\n", rows=keys))
    found = await store.states("p", {"日\n": [*keys, "a", "ａ"]})
    assert sorted(found["日\n"].committed) == sorted(keys)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_rows_in_pieces_are_all_rows_in_their_order(size):
    rows = {"a": ["1", "2", "3"], "b": [], "c": ["4"], "d": ["5", "6", "7", "8"], "e": []}
    pieces = list(in_pieces(rows, size))
    assert max(sum(map(len, piece.values())) for piece in pieces) <= size
    assert {name: [k for piece in pieces for k in piece.get(name, ())] for name in rows} == rows
    assert all(any(name in piece for piece in pieces) for name in rows)


async def test_no_partitions_no_round_trip(store):
    with count_round_trips() as trips:
        assert dict(await store.states("p", {})) == {}
        assert trips.number == 0


async def test_commit_markers_belong_to_a_plan_and_heads_to_a_partition(store, world):
    await world.commit(store, marker=world.marker("h1", plan="p"))
    await world.commit(store, marker=world.marker("h2", before="h1", plan="q", rows=("n9",)))
    p, q = [(await store.states(plan, {"g": ["n1", "n9"]}))["g"] for plan in ("p", "q")]
    assert (p.head, list(p.committed)) == ("h2", ["n1"])
    assert (q.head, list(q.committed)) == ("h2", ["n9"])


async def test_a_row_committed_twice_has_the_latest_commit_marker(store, world):
    await world.commit(store, marker=world.marker("h1", fingerprint="old", rows=("n1", "n2")))
    await world.commit(
        store, marker=world.marker("h2", before="h1", fingerprint="new", run="r2", now=world.at(5))
    )
    found = (await store.states("p", {"g": ["n1", "n2"]}))["g"].committed
    assert found["n1"] == CommittedRow("n1", "new", world.at(5), "r2")
    assert found["n2"].fingerprint == "old"


async def test_a_commit_marker_counts_while_its_witness_exists(store, world):
    markers = [
        world.marker("h1", rows=("n1", "n2"), witness="Note"),
        world.marker("h2", before="h1", rows=("x",), witness="Person"),
        world.marker("h3", before="h2", rows=("free",)),
    ]
    await world.commit(store, world.write("Note", {"uuid": "n1"}), marker=markers[0])
    await world.commit(store, marker=markers[1])
    await world.commit(store, marker=markers[2])
    rows = {"g": ["n1", "n2", "x", "free"]}
    assert set((await store.states("p", rows))["g"].committed) == {"n1", "free"}


async def test_deleting_a_witness_deletes_its_commit_marker(store, world):
    marker = world.marker("h1", rows=("n1", "n2"), witness="Note")
    await world.commit(store, world.write("Note", {"uuid": "n1"}, {"uuid": "n2"}), marker=marker)
    await world.commit(store, world.delete("Note", "n1"))
    await world.commit(store, world.write("Note", {"uuid": "n1"}))
    assert set((await store.states("p", {"g": ["n1", "n2"]}))["g"].committed) == {"n2"}


async def test_deleting_the_same_key_of_another_label_leaves_the_commit_marker(store, world):
    marker = world.marker("h1", rows=("same",), witness="Note")
    await world.commit(
        store,
        world.write("Note", {"uuid": "same"}),
        world.write("Person", {"uuid": "same"}),
        marker=marker,
    )
    await world.commit(store, world.delete("Person", "same"))
    assert set((await store.states("p", {"g": ["same"]}))["g"].committed) == {"same"}


@pytest.mark.parametrize("before", [None, "other"])
async def test_a_changed_head_rejects_the_commit_and_nothing_is_written(store, world, before):
    await world.commit(store, marker=world.marker("h1"))
    await world.commit(store, world.write("Note", {"uuid": "kept"}))
    with pytest.raises(ConcurrentWrite, match='"g"') as stopped:
        await world.commit(
            store,
            world.write("Note", {"uuid": "lost"}),
            world.delete("Note", "kept"),
            marker=world.marker("h2", before=before, rows=("n2",)),
        )
    assert stopped.value.partition == "g"
    assert await notes(store) == ["kept"]
    state = (await store.states("p", {"g": ["n1", "n2"]}))["g"]
    assert (state.head, list(state.committed)) == ("h1", ["n1"])


async def test_a_missing_head_rejects_the_commit_too(store, world):
    with pytest.raises(ConcurrentWrite):
        await world.commit(
            store, world.write("Note", {"uuid": "lost"}), marker=world.marker("h2", before="h1")
        )
    assert await notes(store) == []
    assert await store.states("p", {"g": ["n1"]}) == {"g": PartitionState()}


async def test_heads_of_partitions_are_independent(store, world):
    await world.commit(store, marker=world.marker("g1"))
    await world.commit(store, marker=world.marker("h1", partition="h"))
    await world.commit(store, marker=world.marker("e1", partition=""))
    await world.commit(store, marker=world.marker("g2", before="g1"))
    found = await store.states("p", {"g": [], "h": [], "": []})
    assert {name: state.head for name, state in found.items()} == {"g": "g2", "h": "h1", "": "e1"}


async def test_two_stores_race_and_one_wins_each_time(shared_home, world):
    await shared_home.reset()
    async with shared_home.open() as one, shared_home.open() as two:
        head, winners = None, []
        for turn in range(12):
            writes = [world.write("Note", {"uuid": f"{turn}-{name}"}) for name in ("one", "two")]
            markers = [
                world.marker(
                    f"{turn}-{name}", before=head, rows=(f"{turn}-{name}",), witness="Note"
                )
                for name in ("one", "two")
            ]
            tries = [
                world.commit(store, write, marker=marker)
                for store, write, marker in zip((one, two), writes, markers, strict=True)
            ]
            done = await asyncio.gather(*tries, return_exceptions=True)
            assert sorted(isinstance(result, ConcurrentWrite) for result in done) == [False, True]
            winners.append(
                markers[0].head if not isinstance(done[0], ConcurrentWrite) else markers[1].head
            )
            head = winners[-1]
        assert await notes(one) == await notes(two) == sorted(winners)
        rows = {"g": [f"{turn}-{name}" for turn in range(12) for name in ("one", "two")]}
        assert set((await two.states("p", rows))["g"].committed) == set(winners)


async def test_two_stores_see_each_others_writes(shared_home, world):
    await shared_home.reset()
    rows = world.rows(vector=[[1, 0, 0, 0]], text=["heron"])
    query = world.query(
        "Person", Method("nearest", "name", "vector", above=0.5), Method("fulltext", "name", "text")
    )

    async def found(store):
        [hits] = await store.search([query], rows)
        return world.keys(hits, 0).get(0, []), world.keys(hits, 1).get(0, [])

    async with shared_home.open() as one, shared_home.open() as two:
        assert await found(one) == await found(two) == ([], [])
        await world.commit(
            one,
            world.write("Person", {"uuid": "a", "name": "heron", "name_embedding": [1, 0, 0, 0]}),
        )
        assert await found(two) == (["a"], ["a"])
        await world.commit(
            two,
            world.write(
                "Person", {"uuid": "b", "name": "heron two", "name_embedding": [1, 0.5, 0, 0]}
            ),
        )
        assert await found(one) == (["a", "b"], ["a", "b"])
        await world.commit(
            one,
            world.write("Person", {"uuid": "a", "name": "stork", "name_embedding": [0, 1, 0, 0]}),
        )
        assert await found(two) == (["b"], ["b"])
        await world.commit(two, world.delete("Person", "b"))
        assert await found(one) == ([], [])
        await world.commit(
            two,
            world.write("Person", {"uuid": "c", "name": "heron", "name_embedding": [1, 0, 0, 0]}),
        )
        assert await found(one) == (["c"], ["c"])
        await two.clear()
        assert await found(one) == ([], [])


async def test_what_was_written_is_there_when_opened_again(shared_home, world):
    await shared_home.reset()
    async with shared_home.open() as store:
        await world.commit(
            store,
            world.write("Note", {"uuid": "n", "content": "heron"}),
            world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0]}),
            marker=world.marker("h1", rows=("n",), witness="Note"),
        )
    async with shared_home.open() as store:
        assert await notes(store) == ["n"]
        assert (await store.states("p", {"g": []}))["g"].head == "h1"
        near = world.query("Person", Method("nearest", "name", "vector"))
        assert (await store.search([near], world.rows(vector=[[1, 0, 0, 0]])))[0].num_rows == 1


async def test_opening_again_changes_nothing(store, world):
    await world.commit(store, world.write("Note", {"uuid": "n"}), marker=world.marker("h1"))
    await store.ensure(world.graph, world.dimensions)
    await store.ensure(world.graph, None)
    assert await notes(store) == ["n"]
    assert (await store.states("p", {"g": []}))["g"].head == "h1"


async def test_another_embedder_is_refused(shared_home, world):
    await shared_home.reset()
    async with shared_home.open() as store:
        await world.commit(
            store, world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0]})
        )
    other = shared_home.connect()
    try:
        with pytest.raises(
            StoreUnavailable,
            match=r"Person here has 4-dimensional vectors \(index .*your embedder gives 1,024",
        ):
            await other.ensure(world.graph, 1024)
    finally:
        await other.aclose()
    async with shared_home.open(dimensions=None) as store:
        assert (await store.statistics()).dimensions["Person", "name_embedding"] == 4
        assert (await store.statistics()).counts["Person"] == 1


async def test_a_query_of_another_length_is_refused(store, world):
    await world.commit(
        store, world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0]})
    )
    rows = type(world)(dimensions=3).rows(vector=[[1, 0, 0]])
    with pytest.raises(StoreUnavailable, match="4-dimensional"):
        await store.search([world.query("Person", Method("nearest", "name", "vector"))], rows)


async def test_a_graph_may_gain_properties_and_labels(shared_home, world):
    await shared_home.reset()
    async with shared_home.open() as store:
        await world.commit(store, world.write("Note", {"uuid": "n", "content": "heron"}))
    grown = {
        "graph": "tests",
        "common": {"created_at": "timestamp"},
        "nodes": {
            "Note": {
                "properties": {"content": "string", "title": "string", "stars": "int64"},
                "fulltext": {"note_text": ["content"], "note_title": ["title"]},
                "index": ["title"],
            },
            "Place": {"properties": {"name": "string"}},
        },
    }
    graph = graph_of(grown)
    larger = type(world)(graph=graph)
    async with shared_home.open(graph) as store:
        await world.commit(
            store,
            larger.write("Note", {"uuid": "n", "title": "Birds", "stars": 3}),
            larger.write("Place", {"uuid": "x"}),
        )
        found = await store.scan(ScanQuery("Note", ("content", "title", "stars"), ["g"]))
        assert found.to_pylist() == [
            {"uuid": "n", "group_id": "g", "content": "heron", "title": "Birds", "stars": 3}
        ]
        query = larger.query("Note", Method("fulltext", "title", "text"))
        assert (await store.search([query], world.rows(text=["birds"])))[0].num_rows == 1
        assert (await store.statistics()).counts == {"Note": 1, "Place": 1}


async def test_statistics_count_labels_and_know_dimensions(store, world):
    empty = await store.statistics()
    assert empty.counts == {"Person": 0, "Note": 0, "KNOWS": 0, "NAMES": 0}
    await world.commit(
        store,
        world.write(
            "Person", {"uuid": "a", "name": "A", "name_embedding": [1, 0, 0, 0]}, {"uuid": "b"}
        ),
        world.write("KNOWS", {"uuid": "k", "source": "a", "target": "b"}),
        marker=world.marker("h1", rows=("x", "y")),
    )
    found = await store.statistics()
    assert found.counts == {"Person": 2, "Note": 0, "KNOWS": 1, "NAMES": 0}
    assert found.dimensions["Person", "name_embedding"] == 4


OF_GROUPS = {group: [f"{group}1"] for group in ("g", "h", "")}


@pytest.fixture
async def groups(store, world):
    """A node, an edge and a commit marker in each of three groups."""
    for group in ("g", "h", ""):
        await world.commit(
            store,
            world.write(
                "Person",
                {"uuid": f"{group}1", "name": "x", "group_id": group},
                {"uuid": f"{group}2", "group_id": group},
            ),
            world.write(
                "KNOWS",
                {
                    "uuid": f"{group}k",
                    "source": f"{group}1",
                    "target": f"{group}2",
                    "group_id": group,
                    "fact": "f",
                },
            ),
            marker=world.marker(
                f"head {group}", partition=group, rows=(f"{group}1",), witness="Person"
            ),
        )
    return store


async def test_clear_some_partitions(groups):
    await groups.clear(["g", "", "none"])
    assert (await groups.statistics()).counts == {"Person": 2, "Note": 0, "KNOWS": 1, "NAMES": 0}
    found = await groups.states("p", OF_GROUPS)
    assert found["g"] == found[""] == PartitionState()
    assert (found["h"].head, list(found["h"].committed)) == ("head h", ["h1"])


async def test_clear_deletes_edges_of_deleted_nodes(groups, world):
    await world.commit(
        groups,
        world.write("KNOWS", {"uuid": "over", "source": "g1", "target": "h1", "group_id": None}),
    )
    await groups.clear(["g"])
    assert (await groups.scan(ScanQuery("KNOWS"))).column("uuid").to_pylist() == ["hk", "k"]


async def test_clear_nothing(groups):
    await groups.clear([])
    assert (await groups.statistics()).counts["Person"] == 6


async def test_clear_all(groups, world):
    await groups.clear()
    assert set((await groups.statistics()).counts.values()) == {0}
    assert await groups.states("p", OF_GROUPS) == {
        name: PartitionState() for name in ("g", "h", "")
    }
    query = world.query("KNOWS", Method("fulltext", "fact", "text"), partition=None)
    assert (await groups.search([query], world.rows(text=["f"])))[0].num_rows == 0
    await world.commit(groups, world.write("Note", {"uuid": "n"}), marker=world.marker("h1"))
    assert await notes(groups) == ["n"]


async def test_unknown_labels_and_columns_are_named(store, world):
    with pytest.raises(EngineError, match='"nme"'):
        await store.scan(ScanQuery("Person", ("nme",)))
    with pytest.raises(EngineError, match='"nobody"'):
        await store.search([world.query("Person", Method("equal", "name", "nobody"))], world.rows())
    table = world.table("Note", [{"uuid": "n"}]).append_column("colour", [["red"]])
    with pytest.raises(EngineError, match="colour"):
        await world.commit(store, type(world.write("Note", {"uuid": "n"}))("Note", table))


async def test_concurrent_calls_on_one_store(store, world):
    async def life(i):
        await world.commit(store, world.write("Note", {"uuid": f"n{i:02}", "content": f"word{i}"}))
        query = world.query("Note", Method("fulltext", "content", "text"))
        [found] = await store.search([query], world.rows(text=[f"word{i}"]))
        return found.column("uuid").to_pylist()

    assert await asyncio.gather(*map(life, range(20))) == [[f"n{i:02}"] for i in range(20)]


async def test_closing_twice_is_safe(home, world):
    await home.reset()
    async with home.open() as store:
        await world.commit(store, world.write("Note", {"uuid": "n"}))
        await store.aclose()
        await store.aclose()


async def test_a_store_opened_without_a_length_takes_vectors_of_one_length_only(shared_home, world):
    person = {"uuid": "a", "name": "A"}
    longer = type(world)(dimensions=6)
    await shared_home.reset()
    async with (
        shared_home.open(dimensions=None) as store,
        shared_home.open(dimensions=None) as other,
    ):
        both = (
            world.write("Person", person | {"name_embedding": [1, 0, 0, 0]}),
            longer.write("Person", person | {"uuid": "b", "name_embedding": [1, 0, 0, 0, 0, 0]}),
        )
        with pytest.raises(StoreUnavailable, match="Person here has 4-dimensional vectors"):
            await world.commit(store, *both)
        await world.commit(store, both[0])
        for each in (store, other):
            with pytest.raises(
                StoreUnavailable,
                match="Person here has 4-dimensional vectors.*your embedder gives 6",
            ):
                await world.commit(each, both[1])
        assert (await store.statistics()).counts["Person"] == 1


async def test_of_two_first_writes_at_once_only_one_decides_on_the_length_of_vectors(
    shared_home, world
):
    writes = [
        type(world)(dimensions=n).write(
            "Person", {"uuid": f"p{n}", "name": "A", "name_embedding": [1.0] * n}
        )
        for n in (4, 6)
    ]
    await shared_home.reset()
    async with shared_home.open(dimensions=None) as store:
        ends = await asyncio.gather(
            *(world.commit(store, write) for write in writes), return_exceptions=True
        )
        assert sorted(type(end).__name__ for end in ends) == ["StoreUnavailable", "Written"]
        assert (await store.statistics()).counts["Person"] == 1


async def test_each_row_that_cannot_be_written_is_named_once(store, world):
    await world.commit(
        store, world.write("Person", {"uuid": "x", "name": "X", "group_id": "other"})
    )
    people = world.write(
        "Person",
        {"uuid": "x", "name": "mine"},
        {"uuid": "a", "name": "A"},
        {"uuid": "b", "name": "B"},
    )
    knows = world.write(
        "KNOWS",
        {"uuid": "ab", "source": "a", "target": "b"},
        {"uuid": "ax", "source": "a", "target": "x"},
        {"uuid": "no", "source": "no", "target": "b"},
    )
    with pytest.raises(RowsRefused) as caught:
        await world.commit(store, people, knows)
    assert [(row.write.label, row.key) for row in caught.value.rows] == [
        ("Person", "x"), ("KNOWS", "no"), ("KNOWS", "ax"),
    ]  # fmt: skip
    assert (await store.statistics()).counts["Person"] == 1
