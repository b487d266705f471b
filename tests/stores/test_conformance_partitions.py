"""What every store promises of partitions: a write stays within the one that its rows name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.errors import DataError
from semgraph.stores.base import Deletion, PartitionState, ScanQuery, count_round_trips


@pytest.fixture
async def two(store, world):
    """Two people and who knows whom, in group "g" and in group "h"."""
    for group in ("g", "h"):
        await world.commit(
            store,
            world.write(
                "Person",
                *({"uuid": f"{group}{i}", "name": group, "group_id": group} for i in (1, 2)),
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


async def everything(store):
    people = (await store.scan(ScanQuery("Person", ("name", "labels")))).to_pylist()
    edges = (await store.scan(ScanQuery("KNOWS", ("fact",)))).to_pylist()
    return people, edges, await store.states("p", {"g": ["g1", "g2"], "h": ["h1", "h2"]})


async def refused(store, world, what, *writes):
    """Commit what must be refused, beside what could be written; everything stays as it was."""
    before = await everything(store)
    with pytest.raises(DataError, match=what + "; nothing was written"):
        await world.commit(
            store,
            world.write("Person", {"uuid": "g1", "name": "lost"}, {"uuid": "g9"}),
            *writes,
            marker=world.marker("lost", before="head g", rows=("g2",)),
        )
    assert await everything(store) == before


@pytest.mark.parametrize("only_existing", [False, True])
async def test_a_node_of_another_partition_is_not_written(two, world, only_existing):
    rows = {"uuid": "g2", "name": "fine"}, {"uuid": "h1", "name": "theirs", "labels": ["Boss"]}
    write = world.write("Person", *rows, only_existing=only_existing)
    await refused(two, world, "the key of Person h1 is taken", write)


@pytest.mark.parametrize("only_existing", [False, True])
async def test_properties_for_new_nodes_only_are_refused_too(two, world, only_existing):
    create = frozenset({"name", "group_id", "labels"})
    write = world.write(
        "Person", {"uuid": "h1", "labels": ["Boss"]}, create=create, only_existing=only_existing
    )
    await refused(two, world, "the key of Person h1 is taken", write)


async def test_the_empty_partition_is_one_as_others(two, world):
    await refused(
        two,
        world,
        "the key of Person h1 is taken",
        world.write("Person", {"uuid": "h1", "group_id": ""}),
    )
    await world.commit(two, world.write("Person", {"uuid": "e", "group_id": ""}))
    await world.commit(two, world.write("Person", {"uuid": "e", "group_id": "", "name": "E"}))
    await refused(two, world, "the key of Person e is taken", world.write("Person", {"uuid": "e"}))


@pytest.mark.parametrize("ends", [("h1", "h2"), ("g1", "g2")])
async def test_an_edge_of_another_partition_is_not_written(two, world, ends):
    edge = {"uuid": "hk", "source": ends[0], "target": ends[1], "fact": "theirs"}
    await refused(two, world, "the key of KNOWS hk is taken", world.write("KNOWS", edge))


async def test_an_existing_edge_of_another_partition_is_not_written(two, world):
    edge = {"uuid": "hk", "source": "h1", "target": "h2", "fact": "theirs"}
    write = world.write("KNOWS", edge, only_existing=True)
    await refused(two, world, "the key of KNOWS hk is taken", write)


@pytest.mark.parametrize(
    ("source", "target", "end"), [("g1", "h1", "target"), ("h1", "g1", "source")]
)
async def test_an_edge_does_not_lead_into_another_partition(two, world, source, target, end):
    edges = (
        {"uuid": "fine", "source": "g1", "target": "g9"},
        {"uuid": "over", "source": source, "target": target},
    )
    what = f'KNOWS over has the {end} "h1", which is no Person of its group'
    await refused(two, world, what, world.write("KNOWS", *edges))


@pytest.mark.parametrize("end", ["source", "target"])
async def test_an_error_does_not_reveal_what_another_partition_stores(two, world, end):
    """An end in another partition and an end that nobody has give the same error, but for the key
    that was given.
    """
    said = []
    for other in ("h1", "nobody"):
        edge = {"uuid": "over", "source": "g1", "target": "g2", end: other}
        with pytest.raises(DataError) as caught:
            await world.commit(two, world.write("KNOWS", edge))
        said.append(str(caught.value).replace(f'"{other}"', "KEY"))
    assert said[0] == said[1]
    with pytest.raises(DataError, match="is taken") as caught:
        await world.commit(two, world.write("Person", {"uuid": "h1"}))
    assert '"h"' not in str(caught.value)


async def test_rows_without_a_partition_are_merged_wherever_their_key_is(two, world):
    row = {"uuid": "h1", "name": "changed"}
    table = world.table("Person", [row]).drop_columns(["group_id"])
    await world.commit(two, type(world.write("Person", row))("Person", table))
    await world.commit(
        two, world.write("Person", {"uuid": "h2", "name": "changed", "group_id": None})
    )
    await world.commit(
        two,
        world.write("KNOWS", {"uuid": "over", "source": "g1", "target": "h1", "group_id": None}),
    )
    people, edges, _ = await everything(two)
    assert [(one["uuid"], one["group_id"], one["name"]) for one in people] == [
        ("g1", "g", "g"),
        ("g2", "g", "g"),
        ("h1", "h", "changed"),
        ("h2", "h", "changed"),
    ]
    assert [edge["uuid"] for edge in edges] == ["gk", "hk", "over"]


def within(label, group, *keys, detach=False):
    """A delete as plans make it: key and partition."""
    return Deletion(label, pa.table({"uuid": list(keys), "group_id": [group] * len(keys)}), detach)


async def test_rows_of_another_partition_are_not_deleted(two, world):
    before = await everything(two)
    for detach in (False, True):
        done = await world.commit(
            two, within("Person", "g", "h1", "h2", detach=detach), within("KNOWS", "g", "hk")
        )
        assert not any(done.rows.values())
    assert await everything(two) == before


async def test_rows_of_the_partition_are_deleted_with_edges_and_commit_markers(two, world):
    done = await world.commit(two, within("Person", "g", "g1", "h1", detach=True))
    assert done.rows["Person"] == 1
    people, edges, states = await everything(two)
    assert [one["uuid"] for one in people] == ["g2", "h1", "h2"]
    assert [edge["uuid"] for edge in edges] == ["hk"]
    assert (dict(states["g"].committed), list(states["h"].committed)) == ({}, ["h1"])
    assert states["g"] == PartitionState("head g")


async def test_a_delete_within_a_partition_keeps_commit_markers_of_others(two, world):
    marker = world.marker("later", before="head g", rows=("h2",), witness="Person")
    await world.commit(two, marker=marker)
    await world.commit(two, within("Person", "h", "h2", detach=True))
    await world.commit(two, world.write("Person", {"uuid": "h2", "group_id": "h"}))
    assert set((await two.states("p", {"g": ["g1", "h2"]}))["g"].committed) == {"g1", "h2"}


async def test_a_write_within_its_partition_is_one_round_trip(two, world):
    with count_round_trips() as trips:
        await world.commit(
            two,
            within("KNOWS", "g", "gk", "hk"),
            world.write("Person", {"uuid": "g1", "name": "new"}, {"uuid": "g3"}),
            world.write("KNOWS", {"uuid": "new", "source": "g1", "target": "g3"}),
        )
        assert trips.number == 1


async def test_one_batch_cannot_merge_a_key_into_two_partitions(two, world):
    """Refused as such, not as it happens to be stored: the first write passes over it, the second
    would create it.
    """
    first = world.write("Person", {"uuid": "x", "group_id": "h"}, only_existing=True)
    second = world.write("Person", {"uuid": "x", "group_id": "g"})
    await refused(two, world, "the key of Person x is taken", first, second)
