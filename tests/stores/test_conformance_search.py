"""What every store promises of `search`."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

from semgraph.stores.base import Method, ScanQuery, count_round_trips

NAME = Method("equal", "name", "name")
WORDS = Method("fulltext", "name", "text")
NEAR = Method("nearest", "name", "vector")


@pytest.fixture
async def people(store, world):
    """Five people in group g, one of the same name in group h."""
    await world.commit(
        store,
        world.write(
            "Person",
            {
                "uuid": "p1",
                "name": "Alice Chen",
                "name_embedding": [1, 0, 0, 0],
                "turn": 1,
                "created_at": world.at(1),
            },
            {
                "uuid": "p2",
                "name": "Bob",
                "name_embedding": [3, 4, 0, 0],
                "turn": 2,
                "created_at": world.at(2),
            },
            {
                "uuid": "p3",
                "name": "Bob",
                "name_embedding": [0, 1, 0, 0],
                "turn": 3,
                "created_at": world.at(3),
            },
            {
                "uuid": "p4",
                "name": "Carol",
                "name_embedding": [-1, 0, 0, 0],
                "summary": "knows Alice",
            },
            {"uuid": "p5", "name": "Dan"},
            {"uuid": "h1", "name": "Bob", "name_embedding": [1, 0, 0, 0], "group_id": "h"},
        ),
    )
    return store


async def search(store, query, rows):
    [found] = await store.search([query], rows)
    return found


async def test_equal_finds_by_value_with_ties_by_key(people, world):
    found = await search(
        people, world.query("Person", NAME), world.rows(name=["Bob", "Nobody", None, "Dan"])
    )
    assert world.keys(found) == {0: ["p2", "p3"], 3: ["p5"]}
    assert found.column("score").to_pylist() == [1.0, 1.0, 1.0]
    assert found.column("rank").to_pylist() == [0, 1, 0]
    assert set(found.column("via").to_pylist()) == {"equal"}


async def test_equal_among_given_keys(people, world):
    query = world.query("Person", NAME, where="hit.uuid = wanted")
    found = await search(people, query, world.rows(name=["Bob", "Bob"], wanted=["p3", "p1"]))
    assert world.keys(found) == {0: ["p3"]}


async def test_equal_by_number_and_time(people, world):
    rows = world.rows(
        {"turn": "int64", "at": "timestamp"}, turn=[2, None], at=[world.at(3), world.at(9)]
    )
    query = world.query(
        "Person", Method("equal", "turn", "turn"), Method("equal", "created_at", "at")
    )
    found = await search(people, query, rows)
    assert world.keys(found, 0) == {0: ["p2"]}
    assert world.keys(found, 1) == {0: ["p3"]}


async def test_k_counts_per_row(people, world):
    query = world.query("Person", Method("equal", "name", "name", k=1))
    assert world.keys(await search(people, query, world.rows(name=["Bob", "Bob"]))) == {
        0: ["p2"],
        1: ["p2"],
    }


async def test_fulltext_finds_any_of_the_words_in_the_whole_index(people, world):
    rows = world.rows(text=["alice", "bob dan", "nobody", None, "", "ALICE"])
    found = await search(people, world.query("Person", WORDS), rows)
    by_row = {q: set(keys) for q, keys in world.keys(found).items()}
    assert by_row == {0: {"p1", "p4"}, 1: {"p2", "p3", "p5"}, 5: {"p1", "p4"}}


async def test_fulltext_ranks_more_and_rarer_words_first(store, world):
    texts = [
        "the red fox",
        "the red hen",
        "the red dog",
        "the blue fox in the snow",
        "the fox",
        "the cat",
    ]
    texts += ["the cow", "the pig"]
    await world.commit(
        store, world.write("Note", *({"uuid": f"n{i}", "content": t} for i, t in enumerate(texts)))
    )
    query = world.query("Note", Method("fulltext", "content", "text", k=1))
    found = await search(store, query, world.rows(text=["red fox", "the snow"]))
    assert world.keys(found) == {0: ["n0"], 1: ["n3"]}
    everything = world.query("Note", Method("fulltext", "content", "text"))
    found = await search(store, everything, world.rows(text=["red fox"]))
    scores = found.column("score").to_pylist()
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1] > 0
    assert set(world.keys(found)[0]) == {"n0", "n1", "n2", "n3", "n4"}


async def test_fulltext_breaks_ties_by_key(store, world):
    rows = ({"uuid": key, "content": "same words here"} for key in ("c", "a", "d", "b"))
    await world.commit(store, world.write("Note", *rows))
    query = world.query("Note", Method("fulltext", "content", "text", k=3))
    assert world.keys(await search(store, query, world.rows(text=["words"]))) == {
        0: ["a", "b", "c"]
    }


async def test_fulltext_breaks_the_ties_of_many_by_key(store, world):
    keys = [f"k{i:03}" for i in range(400)]
    rows = (
        {"uuid": key, "content": f"{'rare' if key == 'k300' else 'often'} word"}
        for key in reversed(keys)
    )
    await world.commit(store, world.write("Note", *rows))
    query = world.query("Note", Method("fulltext", "content", "text", k=3))
    found = await search(store, query, world.rows(text=["rare word"]))
    assert world.keys(found) == {0: ["k300", "k000", "k001"]}


async def test_fulltext_follows_what_is_written(store, world):
    query = world.query("Note", Method("fulltext", "content", "text"))
    rows = world.rows(text=["heron", "stork"])
    await world.commit(store, world.write("Note", {"uuid": "n", "content": "a heron"}))
    assert world.keys(await search(store, query, rows)) == {0: ["n"]}
    await world.commit(store, world.write("Note", {"uuid": "n", "content": "a stork"}))
    assert world.keys(await search(store, query, rows)) == {1: ["n"]}
    await world.commit(store, world.delete("Note", "n"))
    assert world.keys(await search(store, query, rows)) == {}


async def test_nearest_gives_raw_cosine(people, world):
    rows = world.rows(vector=[[2, 0, 0, 0], [0, 0.5, 0, 0]])
    found = await search(people, world.query("Person", NEAR), rows)
    assert world.keys(found) == {0: ["p1", "p2", "p3"], 1: ["p3", "p2", "p1", "p4"]}
    assert found.column("score").to_pylist() == pytest.approx([1, 0.6, 0, 1, 0.8, 0, 0], abs=1e-6)


async def test_nearest_finds_nothing_without_a_direction(people, world):
    rows = world.rows(vector=[None, [0, 0, 0, 0], [1, 0, 0, 0]])
    assert set(world.keys(await search(people, world.query("Person", NEAR), rows))) == {2}


async def test_above_is_strict(people, world):
    query = world.query("Person", Method("nearest", "name", "vector", above=0.0))
    assert world.keys(await search(people, query, world.rows(vector=[[1, 0, 0, 0]]))) == {
        0: ["p1", "p2"]
    }


async def test_nearest_breaks_ties_by_key_and_keeps_k(store, world):
    keys = [f"k{i:02}" for i in range(40)]
    rows = [
        {"uuid": key, "name": key, "name_embedding": [0.3, 0.1, 0.7, 0.2]} for key in reversed(keys)
    ]
    await world.commit(store, world.write("Person", *rows))
    query = world.query("Person", Method("nearest", "name", "vector", k=7))
    found = await search(
        store, query, world.rows(vector=[[0.1, 0.2, 0.3, 0.4], [0.3, 0.1, 0.7, 0.2]])
    )
    assert world.keys(found) == {0: keys[:7], 1: keys[:7]}


async def test_nearest_follows_what_is_written(store, world):
    query, rows = (
        world.query("Person", Method("nearest", "name", "vector", above=0.9)),
        world.rows(vector=[[1, 0, 0, 0]]),
    )

    async def found():
        return world.keys(await search(store, query, rows)).get(0, [])

    assert await found() == []
    await world.commit(
        store, world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0]})
    )
    assert await found() == ["p"]
    await world.commit(
        store, world.write("Person", {"uuid": "q", "name": "y", "name_embedding": [1, 0.1, 0, 0]})
    )
    assert await found() == ["p", "q"]
    await world.commit(
        store, world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [0, 1, 0, 0]})
    )
    assert await found() == ["q"]
    await world.commit(store, world.delete("Person", "q"))
    assert await found() == []
    await world.commit(store, world.write("Person", {"uuid": "p", "name_embedding": [1, 0, 0, 0]}))
    assert await found() == ["p"]
    await store.clear(["g"])
    assert await found() == []


async def test_a_vector_of_zeros_is_as_none(store, world):
    await world.commit(
        store, world.write("Person", {"uuid": "p", "name": "x", "name_embedding": [1, 0, 0, 0]})
    )
    await world.commit(
        store, world.write("Person", {"uuid": "p", "name_embedding": [0, -0.0, 0, 0]})
    )
    await world.commit(
        store, world.write("Person", {"uuid": "q", "name_embedding": [-0.0, 0, 0, 0]})
    )
    rows = world.rows(vector=[[1, 0, 0, 0]])
    assert world.keys(await search(store, world.query("Person", NEAR), rows)) == {}
    stored = await store.scan(ScanQuery("Person", ("name_embedding",)))
    assert stored.column("name_embedding").to_pylist() == [None, None]
    await world.commit(store, world.write("Person", {"uuid": "p", "name_embedding": [0, 1, 0, 0]}))
    assert world.keys(await search(store, world.query("Person", NEAR), rows)) == {0: ["p"]}


async def test_order_has_nulls_last_and_ties_by_key(store, world):
    days = {"a": 3, "b": None, "c": 1, "d": 3, "e": 2}
    rows = ({"uuid": key, "at": day and world.at(day), "content": key} for key, day in days.items())
    await world.commit(store, world.write("Note", *rows))
    first = world.query("Note", Method("order", k=4), order=(("at", False),))
    last = world.query("Note", Method("order"), order=(("at", True), ("content", True)))
    up, down = await store.search([first, last], world.rows(name=["x"]))
    assert world.keys(up) == {0: ["c", "e", "a", "d"]}
    assert world.keys(down) == {0: ["d", "a", "e", "c", "b"]}
    assert set(down.column("via").to_pylist()) == {"order"}
    assert set(down.column("score").to_pylist()) == {1.0}


@pytest.mark.parametrize(
    "method", [NAME, WORDS, NEAR, Method("order")], ids=lambda method: method.via
)
async def test_where_acts_before_k(store, world, method):
    rows = [
        {"uuid": f"n{i:02}", "name": "same", "turn": i, "name_embedding": [1, 1 - i / 20, 0, 0]}
        for i in range(10)
    ]
    await world.commit(store, world.write("Person", *rows))
    asked = world.rows(
        {"least": "int64"}, name=["same"], text=["same"], vector=[[0, 1, 0, 0]], least=[8]
    )
    query = world.query(
        "Person", replace(method, k=2), where="hit.turn >= least", order=(("turn", False),)
    )
    assert world.keys(await search(store, query, asked)) == {0: ["n08", "n09"]}


async def test_nearest_is_read_on_until_k_have_passed(store, world):
    rows = [
        {"uuid": f"n{i:04}", "name": "x", "turn": i, "name_embedding": [1, i / 1000, 0, 0]}
        for i in range(600)
    ]
    await world.commit(store, world.write("Person", *rows))
    query = world.query(
        "Person", Method("nearest", "name", "vector", k=3), where="hit.turn >= least"
    )
    asked = world.rows({"least": "int64"}, vector=[[1, 0, 0, 0], [1, 0, 0, 0]], least=[590, 2])
    assert world.keys(await search(store, query, asked)) == {
        0: ["n0590", "n0591", "n0592"],
        1: ["n0002", "n0003", "n0004"],
    }


async def test_hits_of_edges_between_given_ends(people, world):
    facts = [("f1", "p1", "p2"), ("f2", "p2", "p1"), ("f3", "p1", "p3")]
    rows = (
        {"uuid": k, "source": s, "target": t, "fact": "one knows", "fact_embedding": [1, 0, 0, 0]}
        for k, s, t in facts
    )
    await world.commit(people, world.write("KNOWS", *rows))
    ends = "hit.source = a AND hit.target = b OR hit.source = b AND hit.target = a"
    methods = (
        Method("nearest", "fact", "vector", k=5),
        Method("fulltext", "fact", "text", k=5),
        Method("order", k=1),
    )
    query = world.query("KNOWS", *methods, where=ends, order=(("fact", False),))
    rows = world.rows(
        a=["p2", "p3", "p2"], b=["p1", "p1", "p3"], text=["knows"] * 3, vector=[[1, 1, 0, 0]] * 3
    )
    found = await search(people, query, rows)
    assert world.keys(found, 0) == {0: ["f1", "f2"], 1: ["f3"]}
    assert world.keys(found, 1) == {0: ["f1", "f2"], 1: ["f3"]}
    assert world.keys(found, 2) == {0: ["f1"], 1: ["f3"]}
    pair = world.query(
        "KNOWS", methods[0], where="list_sort([hit.source, hit.target]) = list_sort([a, b])"
    )
    assert people.takes(pair.where[0], "hit")
    assert world.keys(await search(people, pair, rows)) == {0: ["f1", "f2"], 1: ["f3"]}
    higher = world.query("KNOWS", Method("nearest", "fact", "vector", above=0.8), where=ends)
    assert world.keys(await search(people, higher, rows)) == {}


async def test_edges_come_with_their_ends(people, world):
    await world.commit(
        people, world.write("KNOWS", {"uuid": "f", "source": "p1", "target": "p2", "fact": "x"})
    )
    found = await search(
        people, world.query("KNOWS", Method("order"), properties=("fact", "source")), world.rows()
    )
    assert found.column_names == [
        "_q",
        "via",
        "method",
        "rank",
        "score",
        "uuid",
        "source",
        "target",
        "fact",
    ]
    assert found.select(["uuid", "source", "target", "fact"]).to_pylist() == [
        {"uuid": "f", "source": "p1", "target": "p2", "fact": "x"}
    ]


@pytest.mark.parametrize(
    "method", [NAME, WORDS, NEAR, Method("order")], ids=lambda method: method.via
)
async def test_hits_are_of_the_rows_own_partition(people, world, method):
    await world.commit(
        people,
        world.write(
            "Person", {"uuid": "e1", "name": "Bob", "name_embedding": [3, 4, 0, 0], "group_id": ""}
        ),
    )
    values = {"name": ["Bob"] * 4, "text": ["bob"] * 4, "vector": [[3, 4, 0, 0]] * 4}
    rows = world.rows(**values, group_id=["h", "", "none", None])
    query = world.query("Person", method, order=(("name", False),))
    assert world.keys(await search(people, query, rows)) == {0: ["h1"], 1: ["e1"]}


@pytest.mark.parametrize(
    "method", [NAME, WORDS, NEAR, Method("order")], ids=lambda method: method.via
)
async def test_a_list_of_partitions_and_all_of_them(people, world, method):
    await world.commit(
        people,
        world.write(
            "Person", {"uuid": "i1", "name": "Bob", "name_embedding": [3, 4, 0, 0], "group_id": "i"}
        ),
    )
    lists = [["h", "i"], ["i", "i"], [], None, ["none"]]
    values = {"name": ["Bob"] * 5, "text": ["bob"] * 5, "vector": [[3, 4, 0, 0]] * 5}
    rows = world.rows(**values, group_ids=lists)
    how = {"where": "hit.name = 'Bob'", "order": (("name", False),)}
    found = world.keys(
        await search(people, world.query("Person", method, partition="group_ids", **how), rows)
    )
    assert {q: set(keys) for q, keys in found.items()} == {0: {"h1", "i1"}, 1: {"i1"}}
    found = world.keys(
        await search(people, world.query("Person", method, partition=None, **how), rows)
    )
    assert {q: set(keys) for q, keys in found.items()} == {
        q: {"p2", "p3", "h1", "i1"} for q in range(5)
    }


async def test_several_searches_are_one_round_trip(people, world):
    rows = world.rows(name=["Bob", "Dan"], text=["alice", "bob"], vector=[[1, 0, 0, 0], None])
    queries = [
        world.query("Person", NAME, WORDS, NEAR, properties=("name",)),
        world.query("Person", Method("order", k=1), order=(("name", True),)),
        world.query("Note", Method("order")),
    ]
    with count_round_trips() as trips:
        both, last, notes = await people.search(queries, rows)
        assert trips.number == 1
    assert world.keys(both, 0) == {0: ["p2", "p3"], 1: ["p5"]}
    assert set(world.keys(both, 2)) == {0}
    assert world.keys(last) == {0: ["p5"], 1: ["p5"]}
    assert notes.num_rows == 0
    order = list(
        zip(*(both.column(name).to_pylist() for name in ("_q", "method", "rank")), strict=True)
    )
    assert order == sorted(order)


async def test_without_rows_there_is_no_round_trip(people, world):
    rows = world.rows(name=["x"], vector=[[1, 0, 0, 0]]).slice(0, 0)
    with count_round_trips() as trips:
        [found] = await people.search(
            [world.query("Person", NAME, NEAR, properties=("aliases", "name_embedding"))], rows
        )
        assert trips.number == 0
        assert found.num_rows == 0
        assert found.schema.field("aliases").type == pa.list_(pa.string())
        assert await people.search([], world.rows()) == []
        assert trips.number == 0


async def test_ordinals_need_not_be_in_order(people, world):
    rows = world.rows(name=["Bob", "Dan"]).set_column(0, "_q", pa.array([17, 4], pa.int64()))
    assert world.keys(await search(people, world.query("Person", NAME), rows)) == {
        4: ["p5"],
        17: ["p2", "p3"],
    }


async def test_values_of_struct_columns(people, world):
    rows = world.rows(name=["x", "y"]).append_column("seen", pa.array([{"name": "Dan"}, None]))
    query = world.query("Person", Method("order"), where="hit.name = seen.name")
    assert world.keys(await search(people, query, rows)) == {0: ["p5"]}


async def test_every_type_comes_back(store, world):
    written = {
        "uuid": "n",
        "group_id": "g",
        "created_at": world.at(1),
        "content": "text",
        "at": world.at(2),
        "day": dt.date(2025, 1, 31),
        "weight": 0.1,
        "kept": True,
        "extra": '{"a":[1,2.5,null],"b":{"c":"ü"}}',
        "tags": ["x", "y"],
    }
    await world.commit(store, world.write("Note", written, {"uuid": "z"}))
    names = tuple(written)[1:]
    found = await search(
        store, world.query("Note", Method("order"), properties=names), world.rows()
    )
    assert found.schema.field("at").type == pa.timestamp("us", tz="UTC")
    one, none = found.select(["uuid", *names]).to_pylist()
    assert one == written
    assert none == dict.fromkeys(written) | {"uuid": "z", "group_id": "g"}


async def test_vectors_come_back_when_named(people, world):
    query = world.query("Person", NEAR, properties=("name_embedding",))
    found = await search(people, query, world.rows(vector=[[3, 4, 0, 0]]))
    assert found.schema.field("name_embedding").type == pa.list_(pa.float32(), 4)
    assert found.column("name_embedding").to_pylist()[:2] == [[3, 4, 0, 0], [0, 1, 0, 0]]


async def test_open_columns_are_never_null(people, world):
    await world.commit(
        people,
        world.write(
            "Person", {"uuid": "p5", "labels": ["Zoo", "Ape"], "attributes": {"b": 1, "a": "x"}}
        ),
    )
    query = world.query("Person", NAME, properties=("labels", "attributes"))
    found = await search(people, query, world.rows(name=["Dan", "Carol"]))
    assert found.column("labels").to_pylist() == [["Ape", "Zoo"], []]
    assert found.column("attributes").to_pylist() == ['{"a":"x","b":1}', "{}"]
