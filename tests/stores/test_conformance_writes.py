"""What every store promises of merges and deletes."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from semgraph.errors import DataError, StoreUnavailable
from semgraph.expr import parse_type
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.base import Method, NodeWrite, ScanQuery, WriteBatch, count_round_trips


async def scan(store, label, *properties):
    """Rows by key."""
    return {
        row["uuid"]: row for row in (await store.scan(ScanQuery(label, properties))).to_pylist()
    }


async def values(store, label, prop):
    return {key: row[prop] for key, row in (await scan(store, label, prop)).items()}


async def test_merge_creates_new_nodes_and_overwrites_properties(store, world):
    await world.commit(store, world.write("Note", {"uuid": "a", "content": "old", "weight": 1.0}))
    done = await world.commit(
        store, world.write("Note", {"uuid": "a", "content": "new"}, {"uuid": "b", "content": "two"})
    )
    assert done.rows["Note"] == 2
    assert await values(store, "Note", "content") == {"a": "new", "b": "two"}
    assert await values(store, "Note", "weight") == {"a": 1.0, "b": None}


async def test_rows_in_several_chunks_are_written_whole(store, world):
    parts = [world.table("Note", [{"uuid": key, "content": key}]) for key in "ab"]
    await world.commit(store, NodeWrite("Note", pa.concat_tables(parts)))
    assert await values(store, "Note", "content") == {"a": "a", "b": "b"}


async def test_null_never_overwrites(store, world):
    full = {
        "uuid": "a",
        "content": "x",
        "tags": ["t"],
        "kept": True,
        "at": world.at(1),
        "extra": {"k": 1},
    }
    await world.commit(store, world.write("Note", full))
    before = await scan(store, "Note", *full)
    await world.commit(
        store, world.write("Note", dict.fromkeys(full) | {"uuid": "a", "group_id": None})
    )
    assert await scan(store, "Note", *full) == before


async def test_empty_values_overwrite(store, world):
    await world.commit(store, world.write("Note", {"uuid": "a", "content": "x", "tags": ["t"]}))
    await world.commit(store, world.write("Note", {"uuid": "a", "content": "", "tags": []}))
    assert await values(store, "Note", "content") == {"a": ""}
    assert await values(store, "Note", "tags") == {"a": []}


async def test_create_is_written_to_new_nodes_only(store, world):
    first = {"uuid": "a", "name": "A", "created_at": world.at(1), "name_embedding": [1, 0, 0, 0]}
    create = frozenset({"created_at", "name_embedding"})
    await world.commit(store, world.write("Person", first, create=create))
    again = {"uuid": "a", "name": "AA", "created_at": world.at(2), "name_embedding": [0, 1, 0, 0]}
    new = {"uuid": "b", "name": "B", "created_at": world.at(3), "name_embedding": [0, 0, 1, 0]}
    await world.commit(store, world.write("Person", again, new, create=create))
    assert await values(store, "Person", "name") == {"a": "AA", "b": "B"}
    assert await values(store, "Person", "created_at") == {"a": world.at(1), "b": world.at(3)}
    assert await values(store, "Person", "name_embedding") == {"a": [1, 0, 0, 0], "b": [0, 0, 1, 0]}


async def test_create_does_not_fill_what_was_left_empty(store, world):
    await world.commit(store, world.write("Person", {"uuid": "a", "name": "A"}))
    late = {
        "uuid": "a",
        "summary": "late",
        "name_embedding": [1, 0, 0, 0],
        "labels": ["Late"],
        "attributes": {"late": 1},
    }
    create = frozenset({"summary", "name_embedding", "labels", "attributes"})
    await world.commit(store, world.write("Person", late, create=create))
    found = await scan(store, "Person", "summary", "name_embedding", "labels", "attributes")
    assert found["a"]["summary"] is None
    assert found["a"]["name_embedding"] is None
    assert found["a"]["labels"] == []
    assert found["a"]["attributes"] == "{}"


async def test_lists_are_united_in_order(store, world):
    unite = frozenset({"aliases"})
    await world.commit(
        store,
        world.write("Person", {"uuid": "a", "aliases": ["x", "y"]}, {"uuid": "b"}, unite=unite),
    )
    rows = [
        {"uuid": "a", "aliases": ["z", "y", "w"]},
        {"uuid": "b", "aliases": ["q"]},
        {"uuid": "c", "aliases": ["p", "o", "p"]},
    ]
    await world.commit(store, world.write("Person", *rows, unite=unite))
    await world.commit(store, world.write("Person", {"uuid": "a", "aliases": None}, unite=unite))
    assert await values(store, "Person", "aliases") == {
        "a": ["x", "y", "z", "w"],
        "b": ["q"],
        "c": ["p", "o"],
    }


async def test_lists_are_replaced_otherwise(store, world):
    await world.commit(store, world.write("Person", {"uuid": "a", "aliases": ["x", "y"]}))
    await world.commit(store, world.write("Person", {"uuid": "a", "aliases": ["y"]}))
    assert await values(store, "Person", "aliases") == {"a": ["y"]}


async def test_only_existing_creates_nothing(store, world):
    await world.commit(store, world.write("Person", {"uuid": "a", "name": "A"}))
    rows = {"uuid": "a", "name": "AA"}, {"uuid": "b", "name": "B"}
    done = await world.commit(store, world.write("Person", *rows, only_existing=True))
    assert done.rows["Person"] == 1
    assert await values(store, "Person", "name") == {"a": "AA"}


async def test_labels_are_added(store, world):
    await world.commit(
        store, world.write("Person", {"uuid": "a", "labels": ["Writer", "Person"]}, {"uuid": "b"})
    )
    rows = [
        {"uuid": "a", "labels": ["Boss", "Writer"]},
        {"uuid": "b", "labels": None},
        {"uuid": "c", "labels": []},
    ]
    await world.commit(store, world.write("Person", *rows))
    assert await values(store, "Person", "labels") == {"a": ["Boss", "Writer"], "b": [], "c": []}


async def test_attributes_are_replaced_whole(store, world):
    given = {
        "role": "boss",
        "level": 2,
        "share": 0.5,
        "active": True,
        "known_as": ["x", "y"],
        "gone": None,
    }
    await world.commit(
        store,
        world.write(
            "Person", {"uuid": "a", "attributes": given}, {"uuid": "b", "attributes": {"k": 1}}
        ),
    )
    expected = '{"active":true,"known_as":["x","y"],"level":2,"role":"boss","share":0.5}'
    assert await values(store, "Person", "attributes") == {"a": expected, "b": '{"k":1}'}
    await world.commit(
        store,
        world.write(
            "Person", {"uuid": "a", "attributes": {"level": 3}}, {"uuid": "b", "attributes": None}
        ),
    )
    assert await values(store, "Person", "attributes") == {"a": '{"level":3}', "b": '{"k":1}'}
    await world.commit(store, world.write("Person", {"uuid": "a", "attributes": {}, "name": "A"}))
    assert await values(store, "Person", "attributes") == {"a": "{}", "b": '{"k":1}'}
    assert await values(store, "Person", "name") == {"a": "A", "b": None}


@pytest.mark.parametrize(
    "row",
    [
        {"labels": [""]},
        {"labels": ["Note"]},
        {"attributes": {"": 1}},
        {"attributes": {"uuid": "other"}},
        {"attributes": {"group_id": "other"}},
        {"attributes": {"name_embedding": [1.0]}},
        {"attributes": {"_SemgraphJson": ["a"]}},
        {"attributes": '["no object"]'},
        {"attributes": "{not json"},
    ],
    ids=str,
)
async def test_names_that_rows_bring_are_checked(store, world, row):
    with pytest.raises(DataError, match=r"Person|JSON"):
        await world.commit(store, world.write("Person", {"uuid": "a", **row}))
    assert (await store.statistics()).counts["Person"] == 0


async def test_labels_and_attributes_are_any_text(store, world):
    labels = ["N/A", "a`) DETACH DELETE (n", "two words", "描述"]
    attributes = {"full name": 1, "a.b`": 2, "描述": 3}
    row = {"uuid": "a", "labels": labels, "attributes": attributes}
    for _ in range(2):
        await world.commit(store, world.write("Person", row))
        [read] = (await store.scan(ScanQuery("Person", ("labels", "attributes")))).to_pylist()
        assert read["labels"] == labels
        assert json.loads(read["attributes"]) == attributes


NESTED = {
    "address": {"city": "Porto", "lines": ["a", None], "geo": {"at": [41.1, -8.6]}},
    "children": [{"name": "Bo"}, {"name": "Cy"}],
    "grid": [[1, 2], [3]],
    "mixed": [1, 2.5, "x", None, True],
    "holes": [None],
    "empty": {},
    "none": [],
    "large": 2**70,
    "looks": '{"a":1}',
    "list": "[1, 2]",
    "plain": ["x", "y"],
    "text": "naïve",
}


@pytest.mark.parametrize("create", [False, True])
async def test_nested_attributes_are_what_was_written(store, world, create):
    how = {"create": frozenset({"attributes"})} if create else {}
    edge = {"uuid": "k", "source": "a", "target": "b", "attributes": NESTED}
    await world.commit(
        store,
        world.write("Person", {"uuid": "a", "attributes": NESTED}, {"uuid": "b"}, **how),
        world.write("KNOWS", edge, **how),
    )
    for label, key in (("Person", "a"), ("KNOWS", "k")):
        assert json.loads((await values(store, label, "attributes"))[key]) == NESTED
    pattern = world.pattern("(p:Person {uuid: k})", p=("attributes",))
    [hit] = (await store.match(pattern, world.rows(k=["a"]))).column("p").to_pylist()
    assert json.loads(hit["attributes"]) == NESTED
    await world.commit(store, world.write("Person", {"uuid": "a", "attributes": {"plain": "x"}}))
    assert (await values(store, "Person", "attributes"))["a"] == '{"plain":"x"}'


async def test_nested_properties_are_what_was_written(home, world):
    kinds = {
        "one": "struct<a: int64, b: list<string>>",
        "many": "list<struct<a: int64, at: timestamp>>",
        "grid": "list<list<double>>",
        "free": "json",
        "frees": "list<json>",
        "times": "list<timestamp>",
        "days": "list<date>",
    }
    graph = graph_of(
        {"graph": "nested", "key": "uuid", "partition": "group_id",
         "nodes": {"Thing": {"properties": kinds}}, "edges": {}}
    )  # fmt: skip
    row = {
        "uuid": "a",
        "one": {"a": 1, "b": ["x", "y"]},
        "many": [{"a": 1, "at": world.at(1)}, {"a": None, "at": None}],
        "grid": [[1.5], [], [2.0, 3.0]],
        "free": '{"a":[1,{"b":null}]}',
        "frees": ['{"a":1}', "[1,2]", '"x"'],
        "times": [world.at(1), world.at(2)],
        "days": [world.at(1).date()],
    }
    async with home.open(graph, None) as store:
        kinds_of = {name: parse_type(kind).arrow for name, kind in kinds.items()}
        schema = pa.schema([("uuid", pa.string()), ("group_id", pa.string()), *kinds_of.items()])
        table = pa.Table.from_pylist([{"group_id": "g", **row}], schema=schema)
        await store.commit(WriteBatch([NodeWrite("Thing", table)]))
        [read] = (await store.scan(ScanQuery("Thing", list(kinds)))).to_pylist()
    assert {name: read[name] for name in kinds} == {name: row[name] for name in kinds}


async def test_json_is_kept_in_canonical_form(store, world):
    await world.commit(
        store, world.write("Note", {"uuid": "a", "extra": '{ "b" : 1, "a": [ 1.50, "\\u00e9" ] }'})
    )
    assert await values(store, "Note", "extra") == {"a": '{"a":[1.5,"é"],"b":1}'}


async def test_edges_merge_as_nodes_do(store, world):
    await world.commit(store, world.write("Person", {"uuid": "a"}, {"uuid": "b"}))
    first = {
        "uuid": "k",
        "source": "a",
        "target": "b",
        "fact": "x",
        "notes": ["1"],
        "since": world.at(1),
        "attributes": {"p": 1},
    }
    how = {"create": frozenset({"since"}), "unite": frozenset({"notes"})}
    await world.commit(store, world.write("KNOWS", first, **how))
    again = first | {
        "fact": None,
        "notes": ["2", "1"],
        "since": world.at(2),
        "attributes": {"q": 2},
    }
    done = await world.commit(store, world.write("KNOWS", again, **how))
    assert done.rows["KNOWS"] == 1
    assert await scan(store, "KNOWS", "fact", "notes", "since", "attributes") == {
        "k": {
            "uuid": "k",
            "group_id": "g",
            "source": "a",
            "target": "b",
            "fact": "x",
            "notes": ["1", "2"],
            "since": world.at(1),
            "attributes": '{"q":2}',
        }
    }


async def test_several_edges_between_the_same_ends(store, world):
    await world.commit(store, world.write("Person", {"uuid": "a"}, {"uuid": "b"}))
    rows = ({"uuid": k, "source": "a", "target": "b", "fact": k} for k in ("k1", "k2", "k3"))
    await world.commit(store, world.write("KNOWS", *rows))
    assert await values(store, "KNOWS", "fact") == {"k1": "k1", "k2": "k2", "k3": "k3"}


async def test_edges_of_nodes_of_the_same_batch(store, world):
    edge = world.write("KNOWS", {"uuid": "k", "source": "a", "target": "b"})
    await world.commit(store, edge, world.write("Person", {"uuid": "a"}, {"uuid": "b"}))
    assert list(await scan(store, "KNOWS")) == ["k"]


async def test_only_existing_edges(store, world):
    await world.commit(
        store,
        world.write("Person", {"uuid": "a"}, {"uuid": "b"}),
        world.write("KNOWS", {"uuid": "k", "source": "a", "target": "b"}),
    )
    rows = [
        {"uuid": "k", "fact": "x", "source": "a", "target": "b"},
        {"uuid": "none", "source": "z", "target": "z", "fact": "y"},
    ]
    await world.commit(store, world.write("KNOWS", *rows, only_existing=True))
    assert await values(store, "KNOWS", "fact") == {"k": "x"}


@pytest.mark.parametrize(
    ("source", "target", "end"),
    [("a", "gone", "target"), ("gone", "b", "source"), ("n", "b", "source")],
)
async def test_an_edge_without_its_ends_is_an_error_and_nothing_is_written(
    store, world, source, target, end
):
    await world.commit(
        store,
        world.write("Person", {"uuid": "a"}, {"uuid": "b"}),
        world.write("Note", {"uuid": "n"}),
    )
    good = {"uuid": "good", "source": "a", "target": "b"}
    with pytest.raises(DataError, match=rf"(?s)KNOWS.*bad.*{end}|{end}.*KNOWS.*bad"):
        await world.commit(
            store,
            world.write("Person", {"uuid": "c"}),
            world.delete("Note", "n"),
            world.write("KNOWS", good, {"uuid": "bad", "source": source, "target": target}),
            marker=world.marker("h1"),
        )
    assert (await store.statistics()).counts == {"Person": 2, "Note": 1, "KNOWS": 0, "NAMES": 0}
    assert (await store.states("p", {"g": []}))["g"].head is None


async def test_an_edge_keeps_its_ends(store, world):
    await world.commit(
        store,
        world.write("Person", {"uuid": "a"}, {"uuid": "b"}, {"uuid": "c"}),
        world.write("KNOWS", {"uuid": "k", "source": "a", "target": "b", "fact": "x"}),
    )
    with pytest.raises(DataError, match=r"KNOWS"):
        await world.commit(
            store, world.write("KNOWS", {"uuid": "k", "source": "a", "target": "c", "fact": "y"})
        )
    assert (await scan(store, "KNOWS", "fact"))["k"] == {
        "uuid": "k",
        "group_id": "g",
        "source": "a",
        "target": "b",
        "fact": "x",
    }


async def test_delete(store, world):
    await world.commit(store, world.write("Note", {"uuid": "a"}, {"uuid": "b"}, {"uuid": "c"}))
    done = await world.commit(store, world.delete("Note", "a", "c", "not there"))
    assert done.rows["Note"] == 2
    assert list(await scan(store, "Note")) == ["b"]


@pytest.fixture
async def linked(store, world):
    """a → b, a loop at c, and a note that names a."""
    await world.commit(
        store,
        world.write("Person", {"uuid": "a"}, {"uuid": "b"}, {"uuid": "c"}),
        world.write("Note", {"uuid": "n"}),
        world.write(
            "KNOWS",
            {"uuid": "ab", "source": "a", "target": "b"},
            {"uuid": "cc", "source": "c", "target": "c"},
        ),
        world.write("NAMES", {"uuid": "na", "source": "n", "target": "a"}),
    )
    return store


async def test_a_node_with_edges_is_not_deleted(linked, world):
    for key in ("a", "b", "c"):
        with pytest.raises(DataError, match="Person"):
            await world.commit(linked, world.delete("Person", key))
    with pytest.raises(DataError, match="Note"):
        await world.commit(linked, world.delete("Note", "n"))
    assert (await linked.statistics()).counts == {"Person": 3, "Note": 1, "KNOWS": 2, "NAMES": 1}


async def test_detach_deletes_the_edges_too(linked, world):
    done = await world.commit(linked, world.delete("Person", "a", detach=True))
    assert done.rows["Person"] == 1
    assert (await linked.statistics()).counts == {"Person": 2, "Note": 1, "KNOWS": 1, "NAMES": 0}


async def test_edges_go_before_their_nodes(linked, world):
    await world.commit(linked, world.delete("Person", "b"), world.delete("KNOWS", "ab"))
    assert (await linked.statistics()).counts == {"Person": 2, "Note": 1, "KNOWS": 1, "NAMES": 1}


async def test_deletes_come_before_merges(linked, world):
    await world.commit(
        linked,
        world.write("Note", {"uuid": "n", "content": "anew"}),
        world.delete("Note", "n", detach=True),
    )
    assert await values(linked, "Note", "content") == {"n": "anew"}
    assert (await linked.statistics()).counts["NAMES"] == 0


async def test_a_deleted_edge_is_found_no_more(linked, world):
    rows = world.rows(who=["a"], vector=[[1, 0, 0, 0]], text=["fact"])
    edge = {
        "uuid": "ab",
        "source": "a",
        "target": "b",
        "fact": "fact",
        "fact_embedding": [1, 0, 0, 0],
    }
    await world.commit(linked, world.write("KNOWS", edge))
    query = world.query(
        "KNOWS", Method("fulltext", "fact", "text"), Method("nearest", "fact", "vector")
    )
    assert (await linked.search([query], rows))[0].num_rows == 2
    await world.commit(linked, world.delete("Person", "b", detach=True))
    assert (await linked.search([query], rows))[0].num_rows == 0
    assert (
        await linked.match(world.pattern("(x:Person {uuid: who})-[:KNOWS]-(y:Person)"), rows)
    ).num_rows == 0


async def test_vectors_of_another_length_are_refused(store, world):
    await world.commit(
        store, world.write("Person", {"uuid": "a", "name": "A", "name_embedding": [1, 0, 0, 0]})
    )
    longer = type(world)(dimensions=6)
    with pytest.raises(StoreUnavailable, match=r"(?s)Person.*4.*6"):
        await world.commit(
            store,
            longer.write(
                "Person", {"uuid": "b", "name": "B", "name_embedding": [1, 0, 0, 0, 0, 0]}
            ),
        )
    assert list(await scan(store, "Person")) == ["a"]


async def test_a_commit_is_one_round_trip_and_an_empty_one_none(store, world):
    first = world.write("Person", {"uuid": "z", "name_embedding": [0, 1, 0, 0]})
    await world.commit(
        store, first
    )  # a database's first vectors are written behind a lock: two more
    with count_round_trips() as trips:
        await world.commit(
            store,
            world.delete("Note", "x"),
            world.write("Person", {"uuid": "a", "name_embedding": [1, 0, 0, 0]}, {"uuid": "b"}),
            world.write("KNOWS", {"uuid": "k", "source": "a", "target": "b"}),
            marker=world.marker("h1"),
        )
        assert trips.number == 1
        done = await world.commit(
            store,
            world.write("Person", {"uuid": "a"}).__class__("Person", world.table("Person", [])),
        )
        assert not any(done.rows.values())
        assert trips.number == 1


async def test_many_rows_at_once(store, world):
    people = [
        {"uuid": f"p{i:05}", "name": f"name {i}", "name_embedding": [i, 1, 0, 0]}
        for i in range(3000)
    ]
    edges = [
        {"uuid": f"k{i:05}", "source": f"p{i:05}", "target": f"p{i + 1:05}", "fact": f"fact {i}"}
        for i in range(2999)
    ]
    await world.commit(store, world.write("Person", *people), world.write("KNOWS", *edges))
    assert (await store.statistics()).counts == {
        "Person": 3000,
        "Note": 0,
        "KNOWS": 2999,
        "NAMES": 0,
    }
    rows = world.rows(name=[f"name {i}" for i in range(3000)])
    [found] = await store.search([world.query("Person", Method("equal", "name", "name"))], rows)
    assert found.column("uuid").to_pylist() == [row["uuid"] for row in people]
    found = await store.match(world.pattern("(x:Person {name: name})-[r:KNOWS]->(y:Person)"), rows)
    assert [row["y"]["uuid"] for row in found.to_pylist()] == [row["uuid"] for row in people[1:]]


TIMES = {
    "first": datetime.min.replace(tzinfo=UTC),
    "early": datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    "half": datetime(1950, 5, 5, 5, 5, 5, 500000, tzinfo=UTC),
    "before": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "late": datetime(9999, 12, 31, 23, 59, 59, 999998, tzinfo=UTC),
    "last": datetime.max.replace(tzinfo=UTC),
}


async def test_times_of_all_years_are_read_as_written(store, world):
    rows = [{"uuid": key, "at": time, "day": time.date()} for key, time in TIMES.items()]
    await world.commit(store, world.write("Note", *rows))
    assert await values(store, "Note", "at") == TIMES
    days = {key: time.date() for key, time in TIMES.items()}
    assert await values(store, "Note", "day") == days


async def test_conditions_compare_times_of_all_years_exactly(store, world):
    rows = [{"uuid": key, "at": time, "content": "x"} for key, time in TIMES.items()]
    await world.commit(store, world.write("Note", *rows))
    asked = world.rows({"t": "timestamp"}, t=list(TIMES.values()))
    pattern = world.pattern("(n:Note)", "n.at > t", n=("at",))
    found = (await store.match(pattern, asked)).to_pylist()
    later: dict[int, list[datetime]] = {i: [] for i in range(len(TIMES))}
    for row in found:
        later[row["_q"]].append(row["n"]["at"])
    ordered = list(TIMES.values())
    assert {i: sorted(times) for i, times in later.items()} == {
        i: ordered[i + 1 :] for i in range(len(TIMES))
    }
