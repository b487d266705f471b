"""What every store promises of `match` and `scan`."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from semgraph.expr.scalar import parse_scalar
from semgraph.stores.base import ScanQuery, count_round_trips


@pytest.fixture
async def circle(store, world):
    """a → b → c → a, a loop at d, notes that name people, and the same again in group h."""
    for group in ("g", "h"):
        tag = "" if group == "g" else "h."
        edges = [("ab", "a", "b"), ("bc", "b", "c"), ("ca", "c", "a"), ("dd", "d", "d")]
        names = [("n1a", "n1", "a"), ("n1b", "n1", "b"), ("n2b", "n2", "b")]
        await world.commit(
            store,
            world.write(
                "Person",
                *(
                    {"uuid": tag + k, "name": k.upper(), "group_id": group, "turn": i}
                    for i, k in enumerate("abcd")
                ),
            ),
            world.write(
                "Note", *({"uuid": tag + k, "content": k, "group_id": group} for k in ("n1", "n2"))
            ),
            world.write(
                "KNOWS",
                *(
                    {
                        "uuid": tag + k,
                        "source": tag + s,
                        "target": tag + t,
                        "fact": k,
                        "group_id": group,
                    }
                    for k, s, t in edges
                ),
            ),
            world.write(
                "NAMES",
                *(
                    {"uuid": tag + k, "source": tag + s, "target": tag + t, "group_id": group}
                    for k, s, t in names
                ),
            ),
        )
    return store


async def paths(store, query, rows):
    """Rows of the match as tuples: ordinal, then the keys of the variables."""
    found = await store.match(query, rows)
    return [
        (row.pop("_q"), *(struct["uuid"] for struct in row.values())) for row in found.to_pylist()
    ]


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (
            "(x:Person {uuid: who})-[r:KNOWS]->(y:Person)",
            [(0, "a", "ab", "b"), (1, "d", "dd", "d")],
        ),
        (
            "(x:Person {uuid: who})<-[r:KNOWS]-(y:Person)",
            [(0, "a", "ca", "c"), (1, "d", "dd", "d")],
        ),
        (
            "(x:Person {uuid: who})-[r:KNOWS]-(y:Person)",
            [(0, "a", "ab", "b"), (0, "a", "ca", "c"), (1, "d", "dd", "d")],
        ),
    ],
    ids=["out", "in", "any"],
)
async def test_directions(circle, world, arrow, expected):
    assert (
        await paths(circle, world.pattern(arrow), world.rows(who=["a", "d", "nobody", None]))
        == expected
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(n:Note {uuid: who})-[:NAMES]->(p:Person)", [(0, "n1", "a"), (0, "n1", "b")]),
        ("(n:Note {uuid: who})-[:NAMES]-(p:Person)", [(0, "n1", "a"), (0, "n1", "b")]),
        ("(n:Note {uuid: who})<-[:NAMES]-(p:Person)", []),
        ("(p:Person)<-[:NAMES]-(n:Note {uuid: who})", [(0, "a", "n1"), (0, "b", "n1")]),
    ],
)
async def test_edges_between_unlike_labels(circle, world, text, expected):
    assert await paths(circle, world.pattern(text), world.rows(who=["n1"])) == expected


async def test_one_node(circle, world):
    rows = world.rows(name=["A", "D", "Z"])
    assert await paths(circle, world.pattern("(x:Person {name: name})"), rows) == [
        (0, "a"),
        (1, "d"),
    ]


async def test_two_edges_in_a_path(circle, world):
    out = world.pattern("(x:Person {uuid: who})-[:KNOWS]->(:Person)-[r:KNOWS]->(z:Person)")
    assert await paths(circle, out, world.rows(who=["a", "b"])) == [
        (0, "a", "bc", "c"),
        (1, "b", "ca", "a"),
    ]


async def test_no_path_uses_an_edge_twice(circle, world):
    there_and_on = world.pattern("(x:Person {uuid: who})-[r:KNOWS]-(:Person)-[s:KNOWS]-(z:Person)")
    assert await paths(circle, there_and_on, world.rows(who=["a", "d"])) == [
        (0, "a", "ab", "bc", "c"),
        (0, "a", "ca", "bc", "b"),
    ]


async def test_a_path_of_unlike_edges_pinned_at_its_end(circle, world):
    query = world.pattern("(n:Note)-[:NAMES]->(m:Person)-[:KNOWS]->(:Person {uuid: who})")
    expected = [(0, "n1", "a"), (1, "n1", "b"), (1, "n2", "b")]
    assert await paths(circle, query, world.rows(who=["b", "c"])) == expected


async def test_a_row_for_each_path(circle, world):
    query = world.pattern("(:Note)-[:NAMES]->(m:Person)")
    found = await paths(circle, query, world.rows(who=["x"]))
    assert found == [(0, "a"), (0, "b"), (0, "b")]


async def test_maps_of_edges_and_of_several_elements(circle, world):
    by_edge = world.pattern("(x:Person)-[r:KNOWS {fact: fact}]->(y:Person {name: name})")
    rows = world.rows(fact=["bc", "bc"], name=["C", "A"])
    assert await paths(circle, by_edge, rows) == [(0, "b", "bc", "c")]
    by_number = world.pattern("(x:Person {turn: turn, name: name})")
    rows = world.rows({"turn": "int64"}, turn=[1, 1, None], name=["B", "A", "C"])
    assert await paths(circle, by_number, rows) == [(0, "b")]


async def test_maps_read_struct_fields(circle, world):
    rows = world.rows(who=["x", "y"]).append_column("old", pa.array([{"uuid": "b"}, None]))
    assert await paths(circle, world.pattern("(x:Person {uuid: old.uuid})"), rows) == [(0, "b")]


async def test_a_property_map_compares_values_of_each_type(store, world):
    await store.ensure(world.graph, 4)
    note = {"content": "moved", "at": datetime(2025, 1, 15, 10, tzinfo=UTC), "day": date(2025, 1, 15), "weight": 0.5, "kept": True,
            "extra": '{"a":[1,2]}', "tags": ["x", "y"]}  # fmt: skip
    other = {"content": "stayed", "at": datetime(2025, 4, 1, tzinfo=UTC), "day": date(2025, 1, 16), "weight": 1.0, "kept": False,
             "extra": '{"a":[2]}', "tags": ["y"]}  # fmt: skip
    rows = [{"uuid": "n1", **note}, {"uuid": "n2", **other}]
    await world.commit(store, world.write("Note", *rows))
    kinds = {"at": "timestamp", "day": "date", "weight": "double", "kept": "boolean", "extra": "json",
             "tags": "list<string>"}  # fmt: skip
    for name, value in note.items():
        query = world.pattern(f"(n:Note {{{name}: {name}}})")
        asked = world.rows({name: kinds.get(name, "string")}, **{name: [value, None]})
        assert await paths(store, query, asked) == [(0, "n1")], name


async def test_where_over_all_variables(circle, world):
    text = "(x:Person)-[r:KNOWS]->(y:Person)"
    query = world.pattern(text, where="x.turn < y.turn AND r.fact <> skipped")
    assert await paths(circle, query, world.rows(skipped=["none", "ab"])) == [
        (0, "a", "ab", "b"),
        (0, "b", "bc", "c"),
        (1, "b", "bc", "c"),
    ]


async def test_properties_of_variables(circle, world):
    query = world.pattern(
        "(x:Person {uuid: who})-[r:KNOWS]->(:Person)", x=("name", "turn", "labels"), r=("fact",)
    )
    found = await circle.match(query, world.rows(who=["a"]))
    assert found.column_names == ["_q", "x", "r"]
    assert found.to_pylist() == [
        {
            "_q": 0,
            "x": {"uuid": "a", "name": "A", "turn": 0, "labels": []},
            "r": {"uuid": "ab", "source": "a", "target": "b", "fact": "ab"},
        }
    ]


async def test_a_path_lies_in_the_rows_partition(circle, world):
    query = world.pattern("(x:Person)-[:KNOWS]->(y:Person {name: name})")
    rows = world.rows(name=["B"] * 4, group_id=["g", "h", "none", None])
    assert await paths(circle, query, rows) == [(0, "a", "b"), (1, "h.a", "h.b")]
    lists = world.rows(name=["B"] * 3, group_ids=[["h", "g", "h"], [], None])
    several = world.pattern("(x:Person)-[:KNOWS]->(y:Person {name: name})", partition="group_ids")
    assert await paths(circle, several, lists) == [(0, "a", "b"), (0, "h.a", "h.b")]
    everywhere = world.pattern("(x:Person)-[:KNOWS]->(y:Person {name: name})", partition=None)
    assert await paths(circle, everywhere, world.rows(name=["B"])) == [
        (0, "a", "b"),
        (0, "h.a", "h.b"),
    ]


async def test_an_edge_of_another_partition_is_not_seen(circle, world):
    await world.commit(
        circle, world.write("KNOWS", {"uuid": "x", "source": "a", "target": "c", "group_id": None})
    )
    query = world.pattern("(x:Person {uuid: who})-[r:KNOWS]-(y:Person)")
    assert await paths(circle, query, world.rows(who=["c"])) == [
        (0, "c", "bc", "b"),
        (0, "c", "ca", "a"),
    ]


async def test_one_round_trip_and_none_without_rows(circle, world):
    query = world.pattern("(x:Person {uuid: who})-[r:KNOWS]-(y:Person)", x=("aliases",))
    with count_round_trips() as trips:
        await circle.match(query, world.rows(who=["a", "b", "c", "d"]))
        assert trips.number == 1
        empty = await circle.match(query, world.rows(who=["a"]).slice(0, 0))
        assert trips.number == 1
    assert empty.num_rows == 0
    assert empty.schema.field("x").type == pa.struct(
        [("uuid", pa.string()), ("aliases", pa.list_(pa.string()))]
    )


async def test_scan_is_sorted_by_key(circle, world):
    with count_round_trips() as trips:
        found = await circle.scan(ScanQuery("Person", ("name", "turn"), ["g"]))
        assert trips.number == 1
    assert found.column_names == ["uuid", "group_id", "name", "turn"]
    assert found.column("uuid").to_pylist() == ["a", "b", "c", "d"]
    assert found.column("turn").to_pylist() == [0, 1, 2, 3]


async def test_scan_of_edges_brings_their_ends(circle, world):
    found = await circle.scan(ScanQuery("KNOWS", ("fact", "uuid"), ["h"]))
    assert found.column_names == ["uuid", "group_id", "source", "target", "fact"]
    assert found.to_pylist()[0] == {
        "uuid": "h.ab",
        "group_id": "h",
        "source": "h.a",
        "target": "h.b",
        "fact": "ab",
    }


async def test_scan_of_partitions(circle, world):
    async def keys(partitions):
        return (await circle.scan(ScanQuery("Note", (), partitions))).column("uuid").to_pylist()

    assert await keys(["h"]) == ["h.n1", "h.n2"]
    assert await keys(["h", "g", "h", "none"]) == ["h.n1", "h.n2", "n1", "n2"]
    assert await keys(None) == ["h.n1", "h.n2", "n1", "n2"]
    assert await keys([]) == []


async def test_scan_of_the_first_rows(circle, world):
    async def keys(partitions, limit, where=""):
        conjuncts = parse_scalar(where).conjuncts() if where else ()
        return (
            (await circle.scan(ScanQuery("Person", (), partitions, conjuncts, limit)))
            .column("uuid")
            .to_pylist()
        )

    with count_round_trips() as trips:
        assert await keys(["g"], 2) == ["a", "b"]
        assert trips.number == 1
    assert await keys(["g"], 2, "turn >= 1") == ["b", "c"]
    assert await keys(["g", "h"], 5) == ["a", "b", "c", "d", "h.a"]
    assert await keys(None, 1) == ["a"]
    assert await keys(None, 0) == []
    assert await keys(["g"], 100) == ["a", "b", "c", "d"]


async def test_scan_where(circle, world):
    async def keys(where):
        found = await circle.scan(
            ScanQuery("Person", ("name",), None, parse_scalar(where).conjuncts())
        )
        return found.column("uuid").to_pylist()

    assert await keys("turn >= 2 AND name <> 'C'") == ["d", "h.d"]
    assert await keys("name IN ('A', 'D') AND group_id = 'h'") == ["h.a", "h.d"]
    assert await keys("summary IS NULL AND turn < 1") == ["a", "h.a"]
    assert await keys("summary < 'z'") == []
