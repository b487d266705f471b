"""What every store promises of the ends of edges that a search returns and tests."""

from __future__ import annotations

import pytest

from semgraph.stores.base import Method

WORDS = Method("fulltext", "fact", "text", k=2)
ENDS = (
    ("source", "who", ("name", "labels", "attributes")),
    ("target", "whom", ("name", "turn", "name_embedding")),
)


@pytest.fixture
async def friends(store, world):
    """Ann knows Bob and Cy, Bob knows Cy; all of group g."""
    await world.commit(
        store,
        world.write(
            "Person",
            {"uuid": "a", "name": "Ann", "labels": ["Poet"], "attributes": {"age": 3}, "turn": 1},
            {"uuid": "b", "name": "Bob", "turn": 2, "name_embedding": [1, 0, 0, 0]},
            {"uuid": "c", "name": "Cy", "labels": ["Poet", "Singer"], "turn": 3},
        ),
        world.write(
            "KNOWS",
            {
                "uuid": "ab",
                "source": "a",
                "target": "b",
                "fact": "they met by the sea",
                "fact_embedding": [1, 0, 0, 0],
            },
            {
                "uuid": "ac",
                "source": "a",
                "target": "c",
                "fact": "they met by the sea",
                "fact_embedding": [0, 1, 0, 0],
            },
            {
                "uuid": "bc",
                "source": "b",
                "target": "c",
                "fact": "they met by the sea",
                "fact_embedding": [0, 0, 1, 0],
            },
        ),
    )
    return store


async def search(store, query, rows):
    [found] = await store.search([query], rows)
    return found.to_pylist()


async def test_a_hit_brings_the_nodes_at_its_ends(friends, world):
    query = world.query("KNOWS", Method("equal", "fact", "text"), ends=ENDS)
    found = await search(friends, query, world.rows(text=["they met by the sea"]))
    ab, ac, _ = found
    assert ab["#source"] == {
        "uuid": "a",
        "name": "Ann",
        "labels": ["Poet"],
        "attributes": '{"age":3}',
    }
    assert ab["#target"] == {"uuid": "b", "name": "Bob", "turn": 2, "name_embedding": [1, 0, 0, 0]}
    assert ac["#target"] == {"uuid": "c", "name": "Cy", "turn": 3, "name_embedding": None}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("who.name = 'Ann' AND whom.turn > 2", ["ac"]),
        ("list_contains(who.labels, 'Poet') AND list_contains(whom.labels, 'Poet')", ["ac"]),
        ("whom.uuid = 'c'", ["ac", "bc"]),
        ("who.name = wanted", ["bc"]),
        ("who.name = 'Bob' OR hit.uuid = 'ab'", ["ab", "bc"]),
        ("whom.name IS NULL", []),
    ],
)
@pytest.mark.parametrize("via", ["equal", "fulltext", "nearest"])
async def test_conditions_on_the_ends_act_before_k(friends, world, via, where, expected):
    prop = {"equal": "fact", "fulltext": "fact", "nearest": "fact"}[via]
    method = Method(via, prop, "vector" if via == "nearest" else "text", k=2)
    query = world.query("KNOWS", method, ends=ENDS, where=where)
    assert all(friends.takes(part, ("hit", "who", "whom")) for part in query.where)
    rows = world.rows(text=["they met by the sea"], wanted=["Bob"], vector=[[1, 1, 1, 0]])
    assert sorted(hit["uuid"] for hit in await search(friends, query, rows)) == expected


async def test_a_search_returns_vectors_that_it_names(friends, world):
    query = world.query("KNOWS", Method("equal", "fact", "text"), properties=["fact_embedding"])
    found = await search(friends, query, world.rows(text=["they met by the sea"]))
    assert [hit["fact_embedding"] for hit in found] == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
