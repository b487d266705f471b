"""What every store promises of the windows that a plan committed, and of replacing them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from semgraph.errors import ConcurrentWrite
from semgraph.stores.base import (
    CommittedRow,
    CommittedWindow,
    History,
    Method,
    NewContent,
    ScanQuery,
    WriteBatch,
)
from semgraph.stores.prepare import RowsRefused

PARTS = {"prompt facts": "p1", "model facts": "m1"}


def window(world, head, before, rows, now=1, **more):
    """A commit marker with all that a window records."""
    given = {
        "now": world.at(now),
        "contents": tuple(f"content of {row}" for row in rows),
        "parts": PARTS,
        "writes": f"writes of {head}",
        **more,
    }
    return world.marker(head, before, rows, **given)


def committed(world, head, rows, now=1, **more):
    """The window that such a marker makes."""
    found = (CommittedRow(row, "f", world.at(now), "r", f"content of {row}") for row in rows)
    given = {"begun": None, "parts": PARTS, "writes": f"writes of {head}", **more}
    return CommittedWindow(tuple(found), world.at(now), **given)


async def history(store, plan="p", partition="g"):
    """What a plan committed in a partition."""
    return (await store.history(plan, [partition]))[partition]


async def rows_of(store):
    """The ids of the rows of each window of plan "p" in group "g"."""
    return [[row.row for row in each.rows] for each in (await history(store)).windows]


def replacement(*writes, heads=None, markers=(), plan="p"):
    """New content in place of what plan "p" committed in group "g"."""
    return NewContent(WriteBatch(writes), plan, heads or {"g": ("h1", "new")}, tuple(markers))


async def test_windows_are_listed_in_the_order_of_their_commits(store, world):
    begun = {"begun": world.at(1, 30)}
    other = {"parts": {"prompt facts": "p2"}}
    await world.commit(store, marker=window(world, "h1", None, ("z", "a", "m"), now=3, **begun))
    await world.commit(store, marker=window(world, "h2", "h1", ("q1",), plan="q"))
    await world.commit(store, marker=window(world, "h3", "h2", ("b",), now=1, **other))
    await world.commit(store, marker=window(world, "h4", "h3", ("á\n'",), now=2, writes=""))
    assert await history(store) == History(
        "h4",
        (
            committed(world, "h1", ("z", "a", "m"), now=3, **begun),
            committed(world, "h3", ("b",), now=1, **other),
            committed(world, "h4", ("á\n'",), now=2, writes=""),
        ),
    )
    assert await history(store, "q") == History("h4", (committed(world, "h2", ("q1",)),))
    found = await store.history("p", ["none", "g"])
    assert found == {"none": History(), "g": await history(store)}
    assert await store.history("p", []) == {}


async def test_many_windows_are_listed_in_the_order_of_their_commits(store, world):
    heads = [None, *(f"h{n}" for n in range(25))]
    for n, (before, head) in enumerate(pairwise(heads)):
        await world.commit(store, marker=window(world, head, before, (f"n{n}",), now=30 - n))
    assert await rows_of(store) == [[f"n{n}"] for n in range(25)]


async def test_states_have_the_content_of_a_row(store, world):
    await world.commit(store, marker=window(world, "h1", None, ("n1",)))
    await world.commit(store, marker=world.marker("h2", "h1", ("n2",)))
    found = (await store.states("p", {"g": ["n1", "n2"]}))["g"].committed
    assert [found[row].content for row in ("n1", "n2")] == ["content of n1", ""]


async def test_a_long_list_of_writes_is_what_was_written(store, world):
    writes = "".join(f'"{n:08x}é",' for n in range(100_000))
    await world.commit(store, marker=window(world, "h1", None, ("n1",), writes=writes))
    assert (await history(store)).windows[0].writes == writes


async def test_a_row_committed_again_belongs_to_its_latest_window(store, world):
    await world.commit(store, marker=window(world, "h1", None, ("n1", "n2")))
    await world.commit(store, marker=window(world, "h2", "h1", ("n3",)))
    await world.commit(store, marker=window(world, "h3", "h2", ("n1",)))
    assert await rows_of(store) == [["n2"], ["n3"], ["n1"]]
    await world.commit(store, marker=window(world, "h4", "h3", ("n2",)))
    assert await rows_of(store) == [["n3"], ["n1"], ["n2"]]


async def test_a_row_without_its_witness_leaves_its_window(store, world):
    own = {"witness": "Note"}
    notes = world.write("Note", *({"uuid": f"n{n}"} for n in (1, 2, 3)))
    await world.commit(store, notes, marker=window(world, "h1", None, ("n1", "n2", "x"), **own))
    await world.commit(store, marker=window(world, "h2", "h1", ("n3",), **own))
    assert await rows_of(store) == [["n1", "n2"], ["n3"]]
    await world.commit(store, world.delete("Note", "n1", "n3"))
    assert await rows_of(store) == [["n2"]]
    await world.commit(store, world.write("Note", {"uuid": "n1"}, {"uuid": "n3"}))
    assert await rows_of(store) == [["n2"]]
    await world.commit(store, marker=window(world, "h3", "h2", ("n3",), **own))
    assert await rows_of(store) == [["n2"], ["n3"]]


async def test_clearing_a_partition_clears_its_history(store, world):
    for group in ("g", "h"):
        marker = window(world, f"{group}1", None, ("n1",), partition=group)
        await world.commit(store, marker=marker)
    await store.clear(["g"])
    assert await history(store) == History()
    assert await history(store, partition="h") == History("h1", (committed(world, "h1", ("n1",)),))
    await world.commit(store, marker=window(world, "g2", None, ("n2",)))
    assert await history(store) == History("g2", (committed(world, "g2", ("n2",)),))
    await store.clear()
    assert set((await store.history("p", ["g", "h"])).values()) == {History()}


async def test_a_replacement_has_its_markers_in_place_of_all_earlier_ones(store, world):
    await world.commit(store, marker=window(world, "h1", None, ("n1",), plan="q"))
    await world.commit(store, marker=window(world, "h2", "h1", ("n1",), partition="g"))
    await world.commit(store, marker=window(world, "h3", "h2", ("n2", "n3")))
    await world.commit(store, marker=window(world, "i1", None, ("m1",), partition="h"))
    await world.commit(store, marker=window(world, "j1", None, ("k1",), partition="k"))
    other = {"parts": {"prompt facts": "p2"}}
    markers = [
        window(world, "ignored", None, ("n3",), now=5, **other),
        window(world, "ignored", None, ("m2",), now=4, partition="h"),
        window(world, "ignored", None, ("n1", "n4"), now=3),
    ]
    heads = {"g": ("h3", "g new"), "h": ("i1", "h new")}
    note = world.write("Note", {"uuid": "a", "content": "new"})
    written = await store.replace(replacement(note, heads=heads, markers=markers))
    assert written.rows == {"Note": 1}
    assert await history(store) == History(
        "g new",
        (
            committed(world, "ignored", ("n3",), now=5, **other),
            committed(world, "ignored", ("n1", "n4"), now=3),
        ),
    )
    assert await history(store, partition="h") == History(
        "h new", (committed(world, "ignored", ("m2",), now=4),)
    )
    assert (await history(store, "q")).windows == (committed(world, "h1", ("n1",)),)
    assert (await history(store, partition="k")).windows == (committed(world, "j1", ("k1",)),)
    assert list((await store.states("p", {"g": ["n2", "n4"]}))["g"].committed) == ["n4"]
    await world.commit(store, marker=window(world, "h4", "g new", ("n0",)))
    assert await rows_of(store) == [["n3"], ["n1", "n4"], ["n0"]]


async def test_a_replacement_with_no_markers_leaves_none(store, world):
    await world.commit(store, marker=window(world, "h1", None, ("n1",)))
    await store.replace(replacement())
    assert await history(store) == History("new")


@pytest.mark.parametrize(
    "heads",
    [
        {"g": ("old", "new")},
        {"g": (None, "new")},
        {"h": (None, "new"), "g": ("old", "new")},
        {"g": ("h1", "new"), "h": ("old", "new")},
    ],
)
async def test_a_replacement_after_a_changed_head_writes_nothing(store, world, heads):
    kept = world.write("Note", {"uuid": "kept", "content": "old"})
    await world.commit(store, kept, marker=window(world, "h1", None, ("n1",)))
    before = await store.history("p", ["g", "h"])
    changes = [
        world.delete("Note", "kept"),
        world.write("Note", {"uuid": "lost"}),
    ]
    markers = [window(world, "new", None, ("n2",))]
    with pytest.raises(ConcurrentWrite):
        await store.replace(replacement(*changes, heads=heads, markers=markers))
    assert await store.history("p", ["g", "h"]) == before
    assert (await store.scan(ScanQuery("Note"))).column("uuid").to_pylist() == ["kept"]


async def test_a_replacement_with_a_refused_row_writes_nothing(store, world):
    await world.commit(store, marker=window(world, "h1", None, ("n1",)))
    before = await history(store)
    writes = [
        world.write("Person", {"uuid": "a", "name": "A"}),
        world.write("KNOWS", {"uuid": "k", "source": "a", "target": "nobody"}),
    ]
    with pytest.raises(RowsRefused) as refused:
        await store.replace(replacement(*writes, markers=[window(world, "new", None, ("n2",))]))
    assert [row.key for row in refused.value.rows] == ["k"]
    assert await history(store) == before
    assert (await store.statistics()).counts["Person"] == 0


async def test_of_a_window_and_a_replacement_at_once_one_wins(shared_home, world):
    await shared_home.reset()
    async with shared_home.open() as one, shared_home.open() as two:
        head = None
        for turn in range(8):
            commit = world.commit(one, marker=window(world, f"c{turn}", head, (f"c{turn}",)))
            new = window(world, "", None, (f"r{turn}",))
            replaced = two.replace(replacement(heads={"g": (head, f"r{turn}")}, markers=[new]))
            ends = await asyncio.gather(commit, replaced, return_exceptions=True)
            stopped = [isinstance(end, ConcurrentWrite) for end in ends]
            assert sorted(stopped) == [False, True]
            head = f"r{turn}" if stopped[0] else f"c{turn}"
            assert (await history(one)).head == head
            assert (await rows_of(one))[-1] == [head]


async def test_an_edge_is_replaced_by_one_with_other_ends(store, world):
    people = [{"uuid": uuid, "name": uuid} for uuid in ("a", "b", "c")]
    edge = {"uuid": "k", "source": "a", "target": "b", "fact": "old heron", "notes": ["n"]}
    await world.commit(
        store,
        world.write("Person", *people),
        world.write("KNOWS", edge | {"fact_embedding": [1, 0, 0, 0]}),
        marker=world.marker("h1"),
    )
    new = {"uuid": "k", "source": "c", "target": "a", "fact": "new stork"}
    writes = [world.delete("KNOWS", "k"), world.write("KNOWS", new, replace=True)]
    assert (await store.replace(replacement(*writes))).rows["KNOWS"] == 2
    found = await store.scan(ScanQuery("KNOWS", ("source", "target", "fact", "notes")))
    assert found.to_pylist() == [{**new, "group_id": "g", "notes": None}]
    query = world.query("KNOWS", Method("fulltext", "fact", "text"), properties=["fact_embedding"])
    [hits] = await store.search([query], world.rows(text=["heron", "stork"]))
    assert [(hit["_q"], hit["fact_embedding"]) for hit in hits.to_pylist()] == [(1, None)]


async def test_a_node_is_deleted_and_made_anew(store, world):
    old = world.write("Person", {"uuid": "a", "name": "Ann", "labels": ["Pilot"], "turn": 3})
    marker = world.marker("h1", rows=("a",), witness="Person")
    await world.commit(store, old, marker=marker)
    writes = [world.delete("Person", "a"), world.write("Person", {"uuid": "a", "name": "Bo"})]
    await store.replace(replacement(*writes, markers=[marker]))
    found = await store.scan(ScanQuery("Person", ("name", "labels", "turn")))
    assert found.to_pylist() == [
        {"uuid": "a", "group_id": "g", "name": "Bo", "labels": [], "turn": None}
    ]
    assert await rows_of(store) == [["a"]]


PERSON = {
    "uuid": "a",
    "name": "Ann heron",
    "summary": "a pilot",
    "turn": 3,
    "aliases": ["A."],
    "labels": ["Pilot", "Swimmer"],
    "attributes": {"age": 41, "home": {"city": "Oslo"}},
    "name_embedding": [1, 0, 0, 0],
}


async def person(store):
    names = ("name", "summary", "turn", "aliases", "labels", "attributes", "name_embedding")
    [found] = (await store.scan(ScanQuery("Person", names))).to_pylist()
    return {name: found[name] for name in names}


async def test_a_replacing_write_sets_its_columns_also_to_null(store, world):
    await world.commit(store, world.write("Person", PERSON))
    cleared = dict.fromkeys(set(PERSON) - {"uuid"}) | {"name_key": None}
    both = world.write("Person", {"uuid": "a", **cleared}, {**PERSON, "uuid": "other"})
    rows = both.rows.slice(0, 1)  # of the types of all columns
    await world.commit(store, type(both)("Person", rows, replace=True))
    nothing = dict.fromkeys(set(PERSON) - {"uuid"})
    assert await person(store) == nothing | {"labels": [], "attributes": "{}"}
    methods = [
        Method("fulltext", "name", "text"),
        Method("equal", "name_key", "text"),
        Method("nearest", "name", "vector"),
    ]
    asked = world.rows(text=["ann heron"], vector=[[1, 0, 0, 0]])
    [hits] = await store.search([world.query("Person", *methods)], asked)
    assert hits.num_rows == 0


async def test_a_replacing_write_leaves_other_columns(store, world):
    await world.commit(store, world.write("Person", PERSON))
    row = {"uuid": "a", "summary": None, "turn": 4, "aliases": ["B."]}
    await world.commit(store, world.write("Person", row, replace=True))
    found = await person(store)
    assert (found["summary"], found["turn"], found["aliases"]) == (None, 4, ["B."])
    assert (found["name"], found["labels"]) == ("Ann heron", ["Pilot", "Swimmer"])
    assert found["attributes"] == '{"age":41,"home":{"city":"Oslo"}}'
    assert found["name_embedding"] == [1, 0, 0, 0]


async def test_a_replacing_write_sets_labels_attributes_and_vectors_to_its_own(store, world):
    await world.commit(store, world.write("Person", PERSON))
    own = {"labels": ["Cook", "Pilot"], "attributes": {"town": ["x"]}, "name": "Ann stork"}
    rows = [
        {"uuid": "a", **own, "name_embedding": [0, 1, 0, 0]},
        {"uuid": "b", "name": "Bo", "labels": None, "attributes": None, "name_embedding": None},
    ]
    await world.commit(store, world.write("Person", *rows, replace=True))
    await world.commit(store, world.delete("Person", "b"))
    found = await person(store)
    assert found["labels"] == ["Cook", "Pilot"]
    assert found["attributes"] == '{"town":["x"]}'
    assert found["name_embedding"] == [0, 1, 0, 0]
    query = world.query("Person", Method("fulltext", "name", "text"))
    [hits] = await store.search([query], world.rows(text=["heron", "stork"]))
    assert hits.column("_q").to_pylist() == [1]


async def test_a_replacing_write_of_edges_sets_its_columns_also_to_null(store, world):
    people = world.write("Person", {"uuid": "a", "name": "A"}, {"uuid": "b", "name": "B"})
    ends = {"source": "a", "target": "b"}
    edges = [
        {"uuid": uuid, **ends, "fact": f"a heron {uuid}", "notes": ["n"], "since": world.at(1),
         "attributes": {"how": "work"}, "fact_embedding": [1, 0, 0, 0]}
        for uuid in ("k1", "k2")
    ]  # fmt: skip
    await world.commit(store, people, world.write("KNOWS", *edges))
    cleared = dict.fromkeys(set(edges[0]) - {"uuid", *ends})
    both = world.write("KNOWS", {"uuid": "k1", **ends, **cleared}, edges[1], replace=True)
    await world.commit(store, both)
    names = ("fact", "notes", "since", "attributes", "fact_embedding")
    first, second = (await store.scan(ScanQuery("KNOWS", (*ends, *names)))).to_pylist()
    assert first == {"uuid": "k1", "group_id": "g", **ends, **cleared, "attributes": "{}"}
    assert second == {**edges[1], "group_id": "g", "attributes": '{"how":"work"}'}
    query = world.query("KNOWS", Method("fulltext", "fact", "text"), Method("nearest", "fact", "v"))
    [hits] = await store.search(
        [query], world.rows({"v": "vector"}, text=["heron"], v=[[1, 0, 0, 0]])
    )
    assert hits.column("uuid").to_pylist() == ["k2", "k2"]


async def test_a_replacing_write_makes_new_rows_unless_only_existing(store, world):
    new = {"uuid": "n", "content": "a heron", "tags": ["x", "x"], "weight": None}
    await world.commit(store, world.write("Note", new, replace=True))
    await world.commit(
        store, world.write("Note", {"uuid": "m"}, {"uuid": "n", "tags": None}, replace=True, only_existing=True)
    )  # fmt: skip
    found = await store.scan(ScanQuery("Note", ("content", "tags", "weight")))
    assert found.to_pylist() == [
        {"uuid": "n", "group_id": "g", "content": "a heron", "tags": None, "weight": None}
    ]


async def test_a_replacing_write_refuses_other_ends_and_other_partitions(store, world):
    people = [{"uuid": uuid} for uuid in ("a", "b")]
    edge = {"uuid": "k", "source": "a", "target": "b"}
    await world.commit(store, world.write("Person", *people), world.write("KNOWS", edge))
    other = {"uuid": "k", "source": "b", "target": "a"}
    with pytest.raises(RowsRefused):
        await world.commit(store, world.write("KNOWS", other, replace=True))
    moved = world.write("Person", {"uuid": "a", "group_id": "h", "turn": 1}, replace=True)
    with pytest.raises(RowsRefused):
        await world.commit(store, moved)
    found = await store.scan(ScanQuery("KNOWS", ("source", "target"), ["g"]))
    assert found.to_pylist() == [{**edge, "group_id": "g"}]
