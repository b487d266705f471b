"""Refreshes of small plans without a model: deletes, lists, rows that several write, groups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import semgraph
from semgraph.session.refresh import Refresh
from semgraph.stores.base import Deletion, NodeWrite, Store, WriteBatch
from tests.refresh.conftest import both_stores
from tests.refresh.world import Row, State, state, without

GRAPH = """\
graph: people
common: {created_at: timestamp}
nodes:
  Person: {properties: {name: string, note: string, age: int64, tags: list<string>}, open: [attributes]}
  City: {properties: {name: string, people: string}}
edges:
  LIVES: {source: Person, target: City, properties: {since: string}}
"""
HEAD = """\
plan: {plan}
graph: people.yaml
inputs: {{rows: {{id: string, group_id: string null, op: string null, name: string, city: string null,
                 note: string null, age: int64 null, tags: list<string> null}}}}
windows: {{input: rows, key: id, size: {size}}}
steps:
  said: [{{from: rows}}, {{filter: "op IS NULL"}}, {{add: {{person: "id('p', name)", place: "id('c', city)"}}}}]
"""
SAID = """\
writes:
  - {merge: {from: said, node: Person, key: person, create: {created_at: $now}, unite: [tags]}}
"""
PLANS = {
    "said": (1, SAID),
    "packed": ("all", SAID),
    "plain": (1, "writes: [{merge: {from: said, node: Person, key: person}}]\n"),
    "moves": (1, """\
  homes: [{from: said}, {filter: city IS NOT NULL}, {add: {home: "id(name, city)"}}]
  gone: [{from: rows}, {filter: op = 'gone'}, {project: {group_id, person: "id('p', name)"}}]
writes:
  - {delete: {from: gone, node: Person, key: person, detach: true}}
  - {merge: {from: said, node: Person, key: person, create: {created_at: $now}}}
  - {merge: {from: homes, node: City, key: place, set: {name: city}, create: {created_at: $now}}}
  - {merge: {from: homes, edge: LIVES, key: home, source: person, target: place, set: {since: note}}}
"""),
    "looks": (1, """\
  cities: [{from: {label: City, partition: all}}]
  known: [{from: said}, {join: {other: cities, alias: c, using: {city: name}}}]
writes: [{merge: {from: known, node: Person, key: person, create: {created_at: $now}}}]
"""),
    "cities": (1, "writes: [{merge: {from: said, node: City, key: id}}]\n"),
    "listed": ("all", """\
  all: [{from: said}, {aggregate: {by: [group_id], add: {people: "string_agg(name, ',')"}}},
        {add: {place: "id(group_id)", name: "'all'"}}]
writes:
  - {merge: {from: said, node: Person, key: id, first: true, set: {name: name, note: note, age: age, tags: tags},
             create: {created_at: $now}}}
  - {merge: {from: all, node: City, key: place}}
"""),
}  # fmt: skip


@dataclass
class Small:
    """A session over a store, with small plans."""

    session: semgraph.Session
    store: Store

    async def run(self, plan: str, *rows: Row) -> Any:
        """Run a plan."""
        return await self.session.arun(plan, inputs={"rows": list(rows)}, progress=None)

    async def refreshed(self, plan: str, *rows: Row, **options: Any) -> Refresh:
        """Refresh, apply it, and refresh again, which finds no difference."""
        refresh = await self.session.arefresh(plan, inputs={"rows": list(rows)}, **options)
        await refresh.aapply()
        options.pop("discard_edits", None)
        again = await self.session.arefresh(plan, inputs={"rows": list(rows)}, **options)
        assert len(again.diff) == 0, str(again.diff)
        return refresh

    async def state(self) -> State:
        """All that the store holds, without times of creation."""
        return without(
            await state(self.store, self.session.prepare("said").graph, None), "created_at"
        )

    async def person(self, name: str) -> Row | None:
        """A person, by the name that made its key."""
        found = await self.state()
        return next(
            (r for (at, _), r in found.items() if at == "Person" and r["name"] == name), None
        )

    async def by_hand(self, row: Row, **values: Any) -> None:
        """Change a person past all plans."""
        changed = {"uuid": row["uuid"], "group_id": row["group_id"], **values}
        await self.store.commit(WriteBatch((NodeWrite("Person", pa.Table.from_pylist([changed])),)))

    async def delete(self, row: Row) -> None:
        """Delete a person past all plans."""
        rows = pa.Table.from_pylist([{n: row[n] for n in ("uuid", "group_id")}])
        await self.store.commit(WriteBatch((Deletion("Person", rows, detach=True),)))


@pytest.fixture
async def small(store: Store, tmp_path: Path) -> AsyncIterator[Small]:
    """The plans over an empty store."""
    (tmp_path / "people.yaml").write_text(GRAPH, "utf-8")
    for plan, (size, rest) in PLANS.items():
        text = HEAD.format(plan=plan, size=size) + rest
        (tmp_path / f"{plan}.yaml").write_text(text, "utf-8")
    made = semgraph.Session(store=store, journal="journal.db", runs="", folder=tmp_path)
    await store.ensure(made.prepare("said").graph, None)
    yield Small(made, store)
    await made.aclose()


def row(key: str, name: str, group: str = "g", **values: Any) -> Row:
    """An input row."""
    return {"id": key, "group_id": group, "name": name, **values}


ANN, BEN = row("r1", "Ann", city="Riga", note="x"), row("r2", "Ben", note="y", age=3)


@both_stores
async def test_edges_that_went_with_a_node_come_back_with_it(small: Small) -> None:
    await small.run("moves", ANN)
    before = await small.state()
    await small.run("moves", ANN, row("r2", "Ann", op="gone"))
    assert len(await small.state()) == 1  # the city
    await small.refreshed("moves", ANN, row("r2", "Eve", op="gone"))
    assert await small.state() == before


@both_stores
async def test_a_row_that_moves_to_another_group_moves_what_follows_from_it(small: Small) -> None:
    await small.run("moves", ANN, row("r2", "Ben"), row("r3", "Cleo", "h"))
    moved = [{**ANN, "group_id": "h"}, row("r2", "Ben"), row("r3", "Cleo", "h")]
    refresh = await small.refreshed("moves", *moved, complete=True, retract=1)
    found = await small.state()
    groups = {r.get("name", at): r["group_id"] for (at, _), r in found.items()}
    assert groups == {"Ann": "h", "Riga": "h", "LIVES": "h", "Ben": "g", "Cleo": "h"}
    assert refresh.diff.counts["changed"] == 3


@both_stores
async def test_rows_of_other_groups_are_read_where_the_plan_reads_them(small: Small) -> None:
    await small.run("cities", row("c1", "Riga", "places"))
    await small.run("looks", ANN, BEN)
    assert await small.person("Ann") is not None
    refresh = await small.refreshed("looks", ANN, {**BEN, "city": "Riga"})
    assert refresh.diff.counts["new"] == len(refresh.diff) == 1


@both_stores
async def test_an_edit_stays_in_a_row_that_another_program_made(small: Small) -> None:
    await small.run("said", ANN)
    made = await small.person("Ann")
    assert made is not None
    await small.store.clear(["g"])
    await small.by_hand(made, name="Ann", created_at=datetime(2020, 1, 1, tzinfo=UTC))
    await small.run("said", {**ANN, "age": 3})
    await small.by_hand(made, age=99)
    refresh = await small.refreshed("said", {**ANN, "age": 4})
    assert [change.after for change in refresh.diff.edited] == [{"age": 4}]
    assert (await small.person("Ann") or {})["age"] == 99
    await small.refreshed("said", {**ANN, "age": 4}, discard_edits=True)
    assert (await small.person("Ann") or {})["age"] == 4


@both_stores
async def test_a_row_that_two_plans_write_stays_with_what_the_other_wrote(small: Small) -> None:
    await small.run("said", ANN, BEN)
    await small.run("plain", row("q1", "Ann", age=7))
    await small.refreshed("said", BEN, complete=True, retract=1)
    assert (await small.person("Ann") or {})["age"] == 7
    await small.run("plain", row("q2", "Ben"))
    await small.refreshed("plain", row("q1", "Ann", age=7), row("q2", "Cleo"))
    assert (await small.person("Ben") or {})["note"] == "y"


async def test_a_deletion_stays_if_only_other_rows_of_its_window_changed(small: Small) -> None:
    await small.run("packed", ANN, BEN)
    await small.delete(await small.person("Ann") or {})
    refresh = await small.refreshed("packed", ANN, {**BEN, "age": 4})
    assert await small.person("Ann") is None
    assert [change.sign for change in refresh.diff.edited] == ["-"]
    await small.refreshed("packed", {**ANN, "note": "z"}, {**BEN, "age": 4})
    assert await small.person("Ann") is not None


async def test_rows_of_a_window_keep_the_order_of_their_commit(small: Small) -> None:
    rows = [row(f"r{n}", name) for n, name in enumerate(["Ann", "Ben", "Cleo"])]
    await small.run("listed", *rows)
    for given in ([rows[1]], rows[::-1]):
        refresh = await small.session.arefresh("listed", inputs={"rows": given})
        assert len(refresh.diff) == 0, str(refresh.diff)


async def test_a_list_keeps_the_place_of_what_somebody_added(small: Small) -> None:
    await small.run("said", {**ANN, "tags": ["a"]})
    await small.by_hand(await small.person("Ann") or {}, tags=["a", "mine"])
    later = row("r2", "Ann", note="x", tags=["b"])
    await small.run("said", later)
    await small.refreshed("said", {**ANN, "tags": ["a"]}, later)
    assert (await small.person("Ann") or {})["tags"] == ["a", "mine", "b"]
    await small.refreshed("said", ANN, {**later, "tags": None})
    assert (await small.person("Ann") or {})["tags"] == ["mine"]


@both_stores
async def test_a_list_without_elements_is_as_the_plan_makes_it(small: Small) -> None:
    await small.run("said", {**ANN, "tags": ["a"]})
    await small.refreshed("said", ANN)
    assert "tags" not in (await small.person("Ann") or {})


async def test_a_row_that_was_made_again_after_the_plan_deleted_it_stays(small: Small) -> None:
    rows = [ANN, row("r2", "Ann", op="gone")]
    await small.run("moves", *rows)
    await small.by_hand({"uuid": "mine", "group_id": "g"}, name="Handmade")
    await small.run("plain", row("q1", "Ann", age=7))
    await small.refreshed("moves", *rows)
    assert (await small.person("Ann") or {})["age"] == 7


@pytest.mark.parametrize("store", ["neo4j"], indirect=True)
async def test_what_the_graph_does_not_declare_stays_in_neo4j(small: Small, store: Any) -> None:
    await small.run("moves", ANN, BEN)
    bolt = store._bolt
    await bolt.in_batches("MATCH (n:City) SET n:Place, n.lat = 56.9", {})
    await bolt.in_batches("MATCH ()-[r:LIVES]->() SET r.seen = 'often'", {})
    await bolt.in_batches("MATCH (n:Person {name: 'Ann'}) SET n:Friend, n.nick = 'A'", {})
    await small.refreshed("moves", {**ANN, "note": "z"}, BEN)
    [[labels, lat, seen, friend, nick]] = await bolt.read(
        "MATCH (p:Person)-[r:LIVES]->(n:City) RETURN labels(n), n.lat, r.seen, labels(p), p.nick",
        {},
    )
    assert (sorted(labels), lat, seen) == (["City", "Place"], 56.9, "often")
    assert (sorted(friend), nick) == (["Friend", "Person"], "A")
