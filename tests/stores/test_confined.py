"""A store that is confined to a partition reads and writes no other, whatever is asked of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semgraph.errors import PlanError
from semgraph.stores.base import (
    Deletion,
    Method,
    NewContent,
    PartitionState,
    ScanQuery,
    WriteBatch,
)
from semgraph.stores.confined import ConfinedStore


@pytest.fixture
async def confined(store, world):
    """Ann knows Bob, in group "g" and in group "h", seen by "g" alone."""
    for group in ("g", "h"):
        people = (
            {"uuid": f"{group}{n}", "name": name, "group_id": group}
            for n, name in ((1, "Ann"), (2, "Bob"))
        )
        knows = {"uuid": f"{group}k", "source": f"{group}1", "target": f"{group}2", "group_id": group, "fact": "f"}  # fmt: skip
        await world.commit(
            store,
            world.write("Person", *people),
            world.write("KNOWS", knows),
            marker=world.marker(f"head {group}", partition=group),
        )
    own = ConfinedStore(store, "g")
    await own.attach(world.graph, world.dimensions)
    return own


async def rows_of_others(store):
    people = (await store.scan(ScanQuery("Person", ("name",), ["h"]))).to_pylist()
    edges = (await store.scan(ScanQuery("KNOWS", ("fact",), ["h"]))).to_pylist()
    return people, edges, await store.states("p", {"h": ["n1"]})


@pytest.mark.parametrize(
    ("partition", "columns", "expected"),
    [
        (None, {}, {0: ["g1"]}),  # all
        ("group_id", {"group_id": ["g"]}, {0: ["g1"]}),
        ("group_id", {"group_id": ["h"]}, {}),
        ("group_ids", {"group_ids": [["h", "g"]]}, {0: ["g1"]}),
        ("group_ids", {"group_ids": [["h"]]}, {}),
        ("group_ids", {"group_ids": [None]}, {}),
    ],
)
async def test_a_search_finds_rows_of_its_partition_alone(
    confined, world, partition, columns, expected
):
    query = world.query("Person", Method("equal", "name", "wanted"), partition=partition)
    (hits,) = await confined.search([query], world.rows(wanted=["Ann"], **columns))
    assert world.keys(hits) == expected


async def test_searches_that_name_the_partition_otherwise_share_a_round_trip(confined, world):
    queries = [
        world.query("Person", Method("equal", "name", "wanted"), partition=partition)
        for partition in (None, "group_id", "group_ids")
    ]
    rows = world.rows(wanted=["Ann", "Bob"], group_id=["h", "g"], group_ids=[["h"], ["g", "h"]])
    hits = await confined.search(queries, rows)
    assert [world.keys(each) for each in hits] == [{0: ["g1"], 1: ["g2"]}, {1: ["g2"]}, {1: ["g2"]}]


async def test_a_path_stays_in_its_partition(confined, world):
    pattern = "(a:Person)-[k:KNOWS]->(b:Person)"
    rows = world.rows(group_id=["h"])
    everywhere = await confined.match(world.pattern(pattern, partition=None), rows)
    assert [row["k"]["uuid"] for row in everywhere.to_pylist()] == ["gk"]
    assert (await confined.match(world.pattern(pattern), rows)).num_rows == 0


@pytest.mark.parametrize(
    ("partitions", "expected"), [(None, ["g1", "g2"]), (["g", "h"], ["g1", "g2"]), (["h"], [])]
)
async def test_a_scan_reads_its_partition_alone(confined, partitions, expected):
    rows = await confined.scan(ScanQuery("Person", ("name",), partitions))
    assert rows.column("uuid").to_pylist() == expected


async def test_what_it_writes_is_written(confined, store, world):
    await world.commit(
        confined,
        world.write("Person", {"uuid": "g3", "name": "Cleo"}),
        marker=world.marker("next", before="head g", rows=("n2",)),
    )
    assert (await confined.states("p", {"g": ["n2"]}))["g"].head == "next"
    deletion = Deletion("Person", world.table("Person", [{"uuid": "g3"}]))
    await world.commit(confined, deletion)
    assert (await store.scan(ScanQuery("Person", (), ["g"]))).num_rows == 2


async def test_rows_of_another_partition_or_of_none_are_refused(confined, store, world):
    before = await rows_of_others(store)
    stray = {"uuid": "h3", "name": "Cleo", "group_id": "h"}
    for writes in (
        [world.write("Person", {"uuid": "g4"}), world.write("Person", stray)],
        [Deletion("Person", world.table("Person", [{"uuid": "h1", "group_id": "h"}]), detach=True)],
        [world.delete("Person", "h1", detach=True)],  # wherever it is
    ):
        with pytest.raises(PlanError, match='this session has the group "g" alone'):
            await world.commit(confined, *writes)
    with pytest.raises(PlanError, match='writes the group "h"'):
        await world.commit(confined, marker=world.marker("lost", partition="h", before="head h"))
    with pytest.raises(PlanError, match='writes the group "h"'):
        await confined.states("p", {"h": ["n1"]})
    assert await rows_of_others(store) == before
    assert (await store.scan(ScanQuery("Person", (), ["g"]))).num_rows == 2


async def test_it_lists_and_replaces_windows_of_its_partition_alone(confined, store, world):
    before = await rows_of_others(store)
    new = world.write("Person", {"uuid": "g3", "name": "Cleo"})
    marker = world.marker("", rows=("n2",))
    replacement = NewContent(WriteBatch((new,)), "p", {"g": ("head g", "new")}, (marker,))
    await confined.replace(replacement)
    [window] = (await confined.history("p", ["g"]))["g"].windows
    assert [row.row for row in window.rows] == ["n2"]
    stray = WriteBatch((world.write("Person", {"uuid": "h3", "group_id": "h"}),))
    for other in (
        replace(replacement, heads={"h": ("head h", "lost")}, markers=()),
        replace(replacement, markers=(replace(marker, partition="h"),)),
        replace(replacement, heads={"g": ("new", "lost")}, batch=stray),
    ):
        with pytest.raises(PlanError, match='writes the group "h"'):
            await confined.replace(other)
    with pytest.raises(PlanError, match='writes the group "h"'):
        await confined.history("p", ["g", "h"])
    assert await rows_of_others(store) == before
    assert (await store.states("p", {"g": []}))["g"].head == "new"


async def test_clearing_all_clears_its_partition(confined, store):
    before = await rows_of_others(store)
    await confined.clear()
    assert (await store.scan(ScanQuery("Person"))).column("uuid").to_pylist() == ["h1", "h2"]
    assert (await store.states("p", {"g": ["n1"]}))["g"] == PartitionState()
    assert await rows_of_others(store) == before
    with pytest.raises(PlanError, match='writes the group "h"'):
        await confined.clear(["h"])


async def test_indexes_of_all_partitions_are_not_its_business(confined, world):
    with pytest.raises(PlanError, match="the schema of .* belongs to all groups"):
        await confined.migrate(world.graph, None, drop=True)
