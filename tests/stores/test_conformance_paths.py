"""What every store promises of trails: `-[way:A|B*1..3]->`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.stores.base import count_round_trips


@pytest.fixture
async def ring(store, world):
    """a → b → c → a, c → d, a loop at d; note n names a; and the same, tagged, in group h."""
    for group in ("g", "h"):
        tag = "" if group == "g" else "h."
        knows = [
            ("ab", "a", "b"),
            ("bc", "b", "c"),
            ("ca", "c", "a"),
            ("cd", "c", "d"),
            ("dd", "d", "d"),
        ]
        await world.commit(
            store,
            world.write(
                "Person", *({"uuid": tag + k, "name": k.upper(), "group_id": group} for k in "abcd")
            ),
            world.write("Note", {"uuid": tag + "n", "content": "n", "group_id": group}),
            world.write(
                "KNOWS",
                *(
                    {"uuid": tag + k, "source": tag + s, "target": tag + t, "group_id": group}
                    for k, s, t in knows
                ),
            ),
            world.write(
                "NAMES",
                {"uuid": tag + "na", "source": tag + "n", "target": tag + "a", "group_id": group},
            ),
        )
    return store


async def trails(store, query, rows):
    """Ordinal, then the keys of the variables; those of a trail joined by blanks."""
    found = await store.match(query, rows)
    return [
        tuple(
            " ".join(step["uuid"] for step in value)
            if isinstance(value, list)
            else value["uuid"]
            if isinstance(value, dict)
            else value
            for value in row.values()
        )
        for row in found.to_pylist()
    ]


async def test_all_paths_up_to_a_length_use_no_edge_twice(ring, world):
    query = world.pattern("(:Person {uuid: who})-[way:KNOWS*1..4]->(to:Person)")
    assert await trails(ring, query, world.rows(who=["a", "d", "nobody", None])) == [
        (0, "ab", "b"),
        (0, "ab bc", "c"),
        (0, "ab bc ca", "a"),
        (0, "ab bc cd", "d"),
        (0, "ab bc cd dd", "d"),
        (1, "dd", "d"),
    ]


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        ("-[way:KNOWS*2..2]->", ["ab bc"]),
        ("<-[way:KNOWS*2]-", ["ca bc"]),
        ("-[way:KNOWS*2]-", ["ab bc", "ca bc", "ca cd"]),
    ],
    ids=["out", "in", "any"],
)
async def test_directions(ring, world, arrow, expected):
    query = world.pattern(f"(:Person {{uuid: who}}){arrow}(:Person)")
    assert [way for _, way in await trails(ring, query, world.rows(who=["a"]))] == expected


async def test_a_loop_is_taken_once_either_way_round(ring, world):
    query = world.pattern("(:Person {uuid: who})-[way:KNOWS*1..2]-(:Person)")
    found = [way for _, way in await trails(ring, query, world.rows(who=["d"]))]
    assert found == ["cd", "dd", "cd bc", "cd ca", "dd cd"]


async def test_several_types_from_an_end_of_any_label(ring, world):
    query = world.pattern("(o {uuid: who})-[way:KNOWS|NAMES*1..2]->(to:Person)", to=("name",))
    rows = world.rows(who=["n", "b"])
    assert await trails(ring, query, rows) == [
        (0, "n", "na", "a"),
        (0, "n", "na ab", "b"),
        (1, "b", "bc", "c"),
        (1, "b", "bc ca", "a"),
        (1, "b", "bc cd", "d"),
    ]
    found = await ring.match(query, rows)
    assert found.slice(1, 1).to_pylist() == [
        {
            "_q": 0,
            "o": {"uuid": "n"},
            "way": [
                {"uuid": "na", "label": "NAMES", "source": "n", "target": "a"},
                {"uuid": "ab", "label": "KNOWS", "source": "a", "target": "b"},
            ],
            "to": {"uuid": "b", "name": "B"},
        }
    ]


async def test_what_labels_have_in_common_can_be_read_and_compared(ring, world):
    query = world.pattern(
        "(o {uuid: who})-[way:KNOWS|NAMES*1..1]-(to)",
        where="to.group_id = group_id AND o.uuid <> to.uuid",
        to=("group_id",),
    )
    found = await ring.match(query, world.rows(who=["a"]))
    assert [row["to"] for row in found.to_pylist()] == [
        {"uuid": uuid, "group_id": "g"} for uuid in ("b", "c", "n")
    ]


async def test_the_far_end_may_be_the_one_that_is_known(ring, world):
    query = world.pattern("(o)-[way:KNOWS|NAMES*1..3]->(to:Person {uuid: who})")
    assert await trails(ring, query, world.rows(who=["b"])) == [
        (0, "a", "ab", "b"),
        (0, "b", "bc ca ab", "b"),
        (0, "c", "ca ab", "b"),
        (0, "n", "na ab", "b"),
    ]


async def test_both_ends_may_be_known_and_neither(ring, world):
    both = world.pattern("(:Person {uuid: who})-[way:KNOWS*1..3]->(:Person {name: name})")
    assert await trails(ring, both, world.rows(who=["a", "b"], name=["D", "B"])) == [
        (0, "ab bc cd"),
        (1, "bc ca ab"),
    ]
    neither = world.pattern("(x:Note)-[way:NAMES*1..2]->(:Person)", where="x.content = wanted")
    assert await trails(ring, neither, world.rows(wanted=["n"])) == [(0, "n", "na")]


async def test_where_over_both_ends(ring, world):
    query = world.pattern(
        "(x:Person)-[way:KNOWS*2]->(y:Person)", where="x.name < y.name AND x.name <> skipped"
    )
    assert await trails(ring, query, world.rows(skipped=["A"])) == [
        (0, "b", "bc cd", "d"),
        (0, "c", "cd dd", "d"),
    ]


async def test_a_variable_length_path_lies_in_one_partition(ring, world):
    text = "(x:Person {name: name})-[way:KNOWS*2]->(:Person)"
    rows = world.rows(name=["A"] * 3, group_id=["g", "h", "none"])
    assert await trails(ring, world.pattern(text), rows) == [
        (0, "a", "ab bc"),
        (1, "h.a", "h.ab h.bc"),
    ]
    lists = world.rows(name=["A"] * 3, group_ids=[["h", "g", "h"], [], None])
    several = world.pattern(text, partition="group_ids")
    assert await trails(ring, several, lists) == [(0, "a", "ab bc"), (0, "h.a", "h.ab h.bc")]
    everywhere = world.pattern(text, partition=None)
    assert await trails(ring, everywhere, world.rows(name=["A"])) == [
        (0, "a", "ab bc"),
        (0, "h.a", "h.ab h.bc"),
    ]


async def test_an_edge_of_another_partition_is_not_walked_along(ring, world):
    await world.commit(
        ring, world.write("KNOWS", {"uuid": "bd", "source": "b", "target": "d", "group_id": None})
    )
    query = world.pattern("(:Person {uuid: who})-[way:KNOWS*1..2]->(:Person)")
    assert await trails(ring, query, world.rows(who=["a"])) == [(0, "ab"), (0, "ab bc")]


async def test_a_variable_length_path_of_no_edges_begins_and_ends_at_one_node(ring, world):
    query = world.pattern("(o {uuid: who})-[way:KNOWS|NAMES*0..1]->(to:Person)")
    assert await trails(ring, query, world.rows(who=["a", "n"])) == [
        (0, "a", "", "a"),
        (0, "a", "ab", "b"),
        (1, "n", "na", "a"),
    ]
    none = world.pattern("(o:Person {uuid: who})-[way:KNOWS*0..0]-(to {name: name})")
    assert await trails(ring, none, world.rows(who=["a", "b"], name=["A", "A"])) == [
        (0, "a", "", "a")
    ]


async def test_a_pattern_continues_after_a_variable_length_path_and_uses_no_edge_twice(ring, world):
    query = world.pattern(
        "({uuid: who})-[way:KNOWS|NAMES*0..2]->(x:Person)-[last:KNOWS]->(y:Person)",
        x=("name",),
        last=("fact",),
        y=("name",),
    )
    rows = world.rows(who=["n", "d"])
    assert await trails(ring, query, rows) == [
        (0, "na", "a", "ab", "b"),
        (0, "na ab", "b", "bc", "c"),
        (1, "", "d", "dd", "d"),
    ]
    found = await ring.match(query, rows)
    assert found.slice(1, 1).to_pylist() == [
        {
            "_q": 0,
            "way": [
                {"uuid": "na", "label": "NAMES", "source": "n", "target": "a"},
                {"uuid": "ab", "label": "KNOWS", "source": "a", "target": "b"},
            ],
            "x": {"uuid": "b", "name": "B"},
            "last": {"uuid": "bc", "source": "b", "target": "c", "fact": None},
            "y": {"uuid": "c", "name": "C"},
        }
    ]


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ("<-[last:KNOWS]-(y:Person)", ["ca"]),
        ("-[last:KNOWS]-(y:Person)", ["ab", "ca", "ab bc"]),
        ("-[last:KNOWS {uuid: edge}]-(y:Person {name: name})", ["ab bc"]),
        ("<-[last:NAMES]-(y:Note)", ["na"]),
        ("-[last:KNOWS]->(y:Person)-[more:KNOWS]->(z:Person)", ["ab bc", "ab bc ca", "ab bc cd"]),
    ],
    ids=["in", "any", "named", "another type", "two"],
)
async def test_directions_after_a_variable_length_path(ring, world, behind, expected):
    query = world.pattern(f"(:Person {{uuid: who}})-[way:KNOWS*0..1]->(:Person){behind}")
    rows = world.rows(who=["a"], edge=["bc"], name=["C"])
    found = [
        " ".join(part for part in row[1:] if len(part) > 1)
        for row in await trails(ring, query, rows)
    ]
    assert found == expected


async def test_the_end_of_a_variable_length_path_may_be_known_and_conditions_read_the_rest(
    ring, world
):
    query = world.pattern(
        "(o)-[way:KNOWS|NAMES*1..1]->(:Person {uuid: who})-[last:KNOWS]->(y:Person)",
        where="y.name > wanted AND last.uuid <> o.uuid",
    )
    assert await trails(ring, query, world.rows(who=["c"], wanted=["C"])) == [
        (0, "b", "bc", "cd", "d")
    ]


async def test_the_rest_of_a_pattern_lies_in_the_partition_of_its_path(ring, world):
    await world.commit(
        ring, world.write("KNOWS", {"uuid": "bd", "source": "b", "target": "d", "group_id": None})
    )
    text = "(:Person {name: name})-[way:KNOWS*0..1]->(:Person)-[last:KNOWS]->(:Person)"
    rows = world.rows(name=["A"] * 3, group_ids=[["h"], [], None])
    assert await trails(ring, world.pattern(text, partition="group_ids"), rows) == [
        (0, "", "h.ab"),
        (0, "h.ab", "h.bc"),
    ]
    own = world.rows(name=["A"])
    assert await trails(ring, world.pattern(text), own) == [(0, "", "ab"), (0, "ab", "bc")]


async def test_one_round_trip_and_none_without_rows(ring, world):
    query = world.pattern("(o {uuid: who})-[way:KNOWS|NAMES*1..3]->(to:Person)")
    with count_round_trips() as trips:
        await ring.match(query, world.rows(who=["a", "n", "b"]))
        assert trips.number == 1
        empty = await ring.match(query, world.rows(who=["a"]).slice(0, 0))
        assert trips.number == 1
    step = pa.struct([(name, pa.string()) for name in ("uuid", "label", "source", "target")])
    assert empty.num_rows == 0
    assert empty.schema.field("way").type == pa.list_(step)
