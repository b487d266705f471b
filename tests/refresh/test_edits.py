"""What other plans and people changed in the rows of a plan stays, unless it is told otherwise."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from semgraph.stores.base import EdgeWrite, NodeWrite, Write, WriteBatch
from tests.execution.conftest import PLAN
from tests.refresh.conftest import both_stores
from tests.refresh.world import Row, State, World, different, edited, episode

ROWS = [
    episode(0, "I work at Luma. I live in Riga.", saga="tour"),
    episode(1, "Ben(user): I work at Luma.", saga="tour"),
    episode(2, "I work at Acme.", saga="tour"),
    episode(3, "Ben(user): I live in Oslo.", saga="tour"),
]
OTHERWISE = edited(ROWS, 3, content="Ben(user): I live in Rome.")


def entity(found: State, name: str) -> Row:
    """The one entity of a name."""
    [row] = [row for (label, _), row in found.items() if label == "Entity" and row["name"] == name]
    return row


def fact(found: State, start: str) -> Row:
    """The one fact whose sentence begins so."""
    [row] = facts(found, start)
    return row


def facts(found: State, start: str = "") -> list[Row]:
    """The facts whose sentences begin so."""
    return [r for (at, _), r in found.items() if at == "RELATES_TO" and r["fact"].startswith(start)]


def names(found: State) -> set[str]:
    """The names of entities."""
    return {row["name"] for (label, _), row in found.items() if label == "Entity"}


async def other(world: World, plan: str, **inputs: Any) -> Any:
    """Run another plan."""
    return await world.run(PLAN.with_name(f"{plan}.yaml"), **inputs)


async def by_hand(world: World, write: type[Any], label: str, row: Row, **how: Any) -> None:
    """Write a row past all plans."""
    made: Write = write(label, pa.Table.from_pylist([row]), **how)
    await world.store.commit(WriteBatch((made,)))


@both_stores
async def test_a_changed_property_stays_and_is_listed(world: World) -> None:
    await world.write(ROWS)
    luma = entity(await world.state(), "Luma")
    mine = {"uuid": luma["uuid"], "group_id": "g", "name": "Luma", "summary": "Luma makes lamps."}
    await other(world, "save_nodes", entities=[mine])
    refresh = await world.refreshed(edited(ROWS, 1, content="Ben(user): I lead Project Kite."))
    assert entity(await world.state(), "Luma")["summary"] == "Luma makes lamps."
    [kept] = refresh.diff.edited
    assert (kept.sign, kept.label, kept.key) == ("~", "Entity", luma["uuid"])
    assert kept.before == {"summary": "Luma makes lamps."}
    assert "Luma" in kept.after["summary"]
    refresh = await world.refreshed(ROWS)
    assert entity(await world.state(), "Luma")["summary"] == "Luma makes lamps."
    refresh = await world.refreshed(ROWS, discard_edits=True)
    assert entity(await world.state(), "Luma")["summary"] == luma["summary"]
    assert not refresh.diff.edited
    await world.require_no_change(ROWS)


@both_stores
async def test_a_deleted_node_stays_deleted_with_its_facts_until_a_row_states_it_again(
    world: World,
) -> None:
    await world.write(ROWS)
    before = await world.state()
    await other(world, "delete_nodes", wanted=[{"uuid": entity(before, "Luma")["uuid"]}])
    refresh = await world.refreshed(OTHERWISE)
    found = await world.state()
    assert "Luma" not in names(found)
    assert not [row for row in facts(found) if "Luma" in row["fact"]]
    gone = {(each.sign, each.label) for each in refresh.diff.edited}
    assert gone == {("-", "Entity"), ("-", "RELATES_TO"), ("-", "MENTIONS")}
    assert "Rome" in names(found)
    await world.require_no_change(OTHERWISE)
    again = edited(OTHERWISE, 1, content="Ben(user): I work at Luma. I live in Vienna.")
    await world.refreshed(again)
    found = await world.state()
    assert "Luma" in names(found)
    assert [row["fact"] for row in facts(found) if "Luma" in row["fact"]] == ["Ben works at Luma."]
    await world.refreshed(again, discard_edits=True)
    assert len([row for row in facts(await world.state()) if "Luma" in row["fact"]]) == 2


@both_stores
async def test_a_deleted_fact_stays_deleted_until_edits_are_discarded(world: World) -> None:
    await world.write(ROWS)
    before = await world.state()
    await other(world, "delete_edges", wanted=[{"uuid": fact(before, "Ann works at Luma")["uuid"]}])
    deleted = await world.state()
    await world.require_no_change(ROWS)
    await world.refreshed(OTHERWISE)
    assert not facts(await world.state(), "Ann works at Luma")
    await world.refreshed(ROWS)
    assert different(await world.state(), deleted) == []
    await world.refreshed(ROWS, discard_edits=True)
    restored = await world.state()
    assert fact(restored, "Ann works at Luma") == fact(before, "Ann works at Luma")
    assert {at: row["uuid"] for at, row in restored.items()} == {
        at: r["uuid"] for at, r in before.items()
    }


async def test_elements_of_a_list_that_were_added_or_removed_stay_so(world: World) -> None:
    rows = [*ROWS, episode(4, "I work at Acme.")]
    await world.write(rows)
    acme = fact(await world.state(), "Ann works at Acme")
    assert acme["episodes"] == ["g-e2", "g-e4"]
    mine = {name: acme[name] for name in ("uuid", "group_id", "source", "target")}
    await by_hand(world, EdgeWrite, "RELATES_TO", {**mine, "episodes": ["g-e4", "mine"]})
    await world.require_no_change(rows)
    await world.refreshed([*edited(rows, 3, content="Ben(user): I live in Rome.")])
    assert fact(await world.state(), "Ann works at Acme")["episodes"] == ["g-e4", "mine"]
    await world.refreshed(edited(rows, 4, content="I live in Rome."))
    assert "mine" in fact(await world.state(), "Ann works at Acme")["episodes"]
    await world.refreshed(rows, discard_edits=True)
    assert fact(await world.state(), "Ann works at Acme")["episodes"] == ["g-e2", "g-e4"]


async def test_a_property_that_was_emptied_stays_empty(world: World) -> None:
    await world.write(ROWS)
    luma = fact(await world.state(), "Ann works at Luma")
    assert luma["invalid_at"] == ROWS[2]["valid_at"]
    mine = {**luma, "invalid_at": None}
    await by_hand(world, EdgeWrite, "RELATES_TO", mine, replace=True)
    assert "invalid_at" not in fact(await world.state(), "Ann works at Luma")
    await world.require_no_change(ROWS)
    await world.refreshed(OTHERWISE)
    assert "invalid_at" not in fact(await world.state(), "Ann works at Luma")
    await world.refreshed(ROWS, discard_edits=True)
    assert fact(await world.state(), "Ann works at Luma")["invalid_at"] == ROWS[2]["valid_at"]


async def summarize_saga(world: World) -> None:
    [saga] = [key for label, key in await world.state() if label == "Saga"]
    await other(world, "summarize_saga", sagas=[{"uuid": saga}])


async def build_communities(world: World) -> None:
    await other(world, "build_communities", groups=[{"group_id": "g"}])


async def update_communities(world: World) -> None:
    await build_communities(world)
    rows = [
        {name: row[name] for name in ("uuid", "group_id", "name", "summary")}
        for (label, _), row in (await world.state()).items()
        if label == "Entity"
    ]
    await other(world, "update_communities", entities=rows)


async def merge_entities(world: World) -> None:
    found = await world.state()
    await other(world, "merge_entities", clusters=[
        {"group_id": "g", "keep": entity(found, "Luma")["uuid"], "drop": entity(found, "Acme")["uuid"]}
    ])  # fmt: skip


async def find_duplicates(world: World) -> None:
    await other(world, "find_duplicates", groups=[{"group_id": "g"}])


async def add_labels(world: World) -> None:
    luma = entity(await world.state(), "Luma")
    row = {"uuid": luma["uuid"], "group_id": "g", "name": "Luma", "labels": ["Company"],
           "attributes": '{"town": "Riga"}'}  # fmt: skip
    await other(world, "save_nodes", entities=[row])


async def add_mention(world: World) -> None:
    found = await world.state()
    await by_hand(world, EdgeWrite, "MENTIONS", {
        "uuid": "mine", "group_id": "g", "source": "g-e0", "target": entity(found, "Oslo")["uuid"],
    })  # fmt: skip


async def add_node(world: World) -> None:
    await by_hand(world, NodeWrite, "Entity", {"uuid": "mine", "group_id": "g", "name": "Handmade"})


OTHERS = [
    summarize_saga, build_communities, update_communities, merge_entities, find_duplicates,
    add_labels, add_mention, add_node,
]  # fmt: skip


@pytest.mark.parametrize("change", OTHERS, ids=[each.__name__ for each in OTHERS])
async def test_what_another_plan_did_stays(change: Any, world: World) -> None:
    """After it nothing is to refresh; after a refresh over an edit and over its contrary all is as
    the other plan left it.
    """
    await world.write(ROWS)
    await change(world)
    left = await world.state()
    await world.require_no_change(ROWS)
    await world.refreshed(OTHERWISE)
    assert "Rome" in names(await world.state())
    await world.refreshed(ROWS)
    found = await world.state()
    again = {key for _, key in different_keys(found, left)}
    assert not again - remade(left, found), different(found, left)


def different_keys(one: State, two: State) -> list[tuple[str, str]]:
    """The places of rows that differ."""
    return [at for at, _, _ in different(one, two)]


def remade(left: State, found: State) -> set[str]:
    """The keys of what hangs on Oslo, which went and came back at another time of creation."""
    oslo = entity(left, "Oslo")["uuid"]
    return {
        k
        for (_, k), r in {**left, **found}.items()
        if oslo in (k, r.get("source"), r.get("target"))
    }


async def test_nodes_that_edges_of_others_need_stay(world: World) -> None:
    await world.write(ROWS)
    found = await world.state()
    oslo, riga = entity(found, "Oslo"), entity(found, "Riga")
    await other(world, "save_edges", facts=[{
        "uuid": "mine", "group_id": "g", "source": oslo["uuid"], "target": riga["uuid"],
        "name": "NEAR", "fact": "Oslo is near Riga.",
    }])  # fmt: skip
    await world.refreshed(OTHERWISE)
    found = await world.state()
    assert {"Oslo", "Rome"} <= names(found)
    assert fact(found, "Oslo is near Riga.")["source"] == oslo["uuid"]
    assert not facts(found, "Ben lives in Oslo")
    refresh = await world.refreshed(
        OTHERWISE
    )  # Oslo is now a node of others, which prompts may show
    assert len(refresh.diff) == 0, str(refresh.diff)
    await world.require_no_change(OTHERWISE)
