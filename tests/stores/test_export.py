"""A group of the graph as networkx has it, and as a file that other programs open: the same from
every store, with all types.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import networkx as nx
import pyarrow.parquet as pq
import pytest

import semgraph
from semgraph.errors import PlanError, StoreUnavailable
from semgraph.frontend.graph_files import graph_of
from semgraph.stores.sqlite.store import SqliteStore
from tests.stores.conftest import GRAPH, at

ANN = {"uuid": "ann", "name": "Ann", "turn": 3, "aliases": ["A", "Annie"], "created_at": at(1),
       "labels": ["User"], "attributes": {"age": 41, "tall": True}, "name_embedding": [1.0, 0.0, 0.0, 0.0]}  # fmt: skip
BEN = {"uuid": "ben", "name": 'Ben & <"Co">\x01', "aliases": []}
NOTE = {"uuid": "note", "content": "They met.", "at": at(2), "day": date(2025, 1, 2), "weight": 0.5,
        "kept": True, "extra": {"b": [1]}, "tags": ["x"]}  # fmt: skip
EDGES = [
    {
        "uuid": "e1",
        "source": "ann",
        "target": "ben",
        "fact": "met",
        "notes": ["note"],
        "since": at(2),
    },
    {"uuid": "e2", "source": "ann", "target": "ben", "fact": "met again", "until": at(3)},
]


@pytest.fixture
async def session(store, world, tmp_path: Path) -> AsyncIterator[semgraph.Session]:
    """A session over a store with two groups."""
    await world.commit(
        store, world.write("Person", ANN, BEN), world.write("Note", NOTE),
        world.write("KNOWS", *EDGES),
        world.write("NAMES", {"uuid": "n1", "source": "note", "target": "ann"}),
    )  # fmt: skip
    await world.commit(
        store, world.write("Person", {"uuid": "zoe", "group_id": "h", "name": "Zoe"})
    )
    async with semgraph.Session(store=store, llm="recorded", folder=tmp_path) as opened:
        yield opened


async def test_a_group_is_a_graph_of_networkx(session):
    made = await session.agraph("g", graph=GRAPH)
    assert isinstance(made, nx.MultiDiGraph)
    assert sorted(made) == ["ann", "ben", "note"]
    assert made.nodes["ann"] == {
        "label": "Person", "uuid": "ann", "group_id": "g", "name": "Ann", "turn": 3, "aliases": ["A", "Annie"],
        "created_at": at(1), "labels": ["User"], "attributes": {"age": 41, "tall": True},
    }  # fmt: skip
    assert made.nodes["note"] == {
        "label": "Note", "uuid": "note", "group_id": "g", "content": "They met.", "at": at(2),
        "day": date(2025, 1, 2), "weight": 0.5, "kept": True, "extra": {"b": [1]}, "tags": ["x"],
    }  # fmt: skip
    assert sorted((a, b, key) for a, b, key in made.edges(keys=True)) == [
        ("ann", "ben", "e1"), ("ann", "ben", "e2"), ("note", "ann", "n1"),
    ]  # fmt: skip
    first = made.edges["ann", "ben", "e1"]
    assert (first["label"], first["fact"], first["since"], first["notes"]) == (
        "KNOWS", "met", at(2), ["note"],
    )  # fmt: skip
    assert "since" not in made.edges["ann", "ben", "e2"]


async def test_a_group_is_shown_as_every_store_has_it(session):
    shown = await session.ashow("g", graph=GRAPH)
    assert shown.counts == {"Person": 2, "Note": 1, "KNOWS": 2, "NAMES": 1}
    assert 'group "g", stored: ' in str(shown)
    assert "2 KNOWS" in str(shown)
    assert await session.agroups(GRAPH) == {"g": shown.counts, "h": {"Person": 1}}


async def test_graphml_opens_in_networkx_with_its_types(session, tmp_path):
    written = await session.aexport("g", "out/graph.graphml", graph=GRAPH)
    assert (written.path, written.nodes, written.edges) == (tmp_path / "out/graph.graphml", 3, 3)
    read = nx.read_graphml(written.path, force_multigraph=True)
    assert read.nodes["note"] == {
        "label": "Note", "uuid": "note", "group_id": "g", "content": "They met.",
        "at": "2025-01-02T12:00:00.123456Z", "day": "2025-01-02", "weight": 0.5, "kept": True,
        "extra": '{"b": [1]}', "tags": '["x"]',
    }  # fmt: skip
    assert (read.nodes["ann"]["turn"], type(read.nodes["ann"]["turn"])) == (3, int)
    assert read.nodes["ben"]["name"] == 'Ben & <"Co">\ufffd'
    assert sorted(read.edges(keys=True)) == sorted(
        (await session.agraph("g", graph=GRAPH)).edges(keys=True)
    )
    assert read.edges["ann", "ben", "e2"]["until"] == "2025-01-03T12:00:00.123456Z"


async def test_json_is_node_link_data(session):
    written = await session.aexport("g", "graph.json", graph=GRAPH)
    data = json.loads(written.path.read_text(encoding="utf-8"))
    read = nx.node_link_graph(data, edges="edges")
    made = await session.agraph("g", graph=GRAPH)
    assert read.nodes["ann"] == {**made.nodes["ann"], "created_at": "2025-01-01T12:00:00.123456Z"}
    assert set(read.edges(keys=True)) == set(made.edges(keys=True))
    assert read.graph == {"group": "g"}


async def test_parquet_has_all_types(session):
    written = await session.aexport("g", "graph.parquet", graph=GRAPH)
    assert (written.nodes, written.edges) == (3, 3)
    nodes = pq.read_table(written.path / "nodes.parquet")
    assert nodes.schema.names[:3] == ["label", "uuid", "group_id"]
    by_key = {row["uuid"]: row for row in nodes.to_pylist()}
    assert by_key["note"]["at"] == at(2)
    assert (by_key["note"]["day"], by_key["note"]["tags"]) == (date(2025, 1, 2), ["x"])
    assert (by_key["ann"]["turn"], by_key["ann"]["content"]) == (3, None)
    assert json.loads(by_key["ann"]["attributes"]) == ANN["attributes"]
    assert not {"name_key", "name_embedding"} & {*nodes.schema.names}
    edges = pq.read_table(written.path / "edges.parquet").to_pylist()
    assert {(e["label"], e["source"], e["target"]) for e in edges} == {
        ("KNOWS", "ann", "ben"), ("NAMES", "note", "ann"),
    }  # fmt: skip
    assert {e["since"] for e in edges} == {at(2), None}


async def test_only_the_named_group_is_read(session):
    assert list(await session.agraph("h", graph=GRAPH)) == ["zoe"]
    with pytest.raises(PlanError) as caught:
        await session.agraph("gg", graph=GRAPH)
    assert 'holds nothing of group "gg". Groups: g, h' in str(caught.value)
    with pytest.raises(PlanError, match='holds nothing of group ""'):
        await session.aexport("", "graph.json", graph=GRAPH)


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
class TestOfOneStore:
    """What does not depend on the store."""

    async def test_a_file_that_is_there_is_replaced_whole_or_not_at_all(self, session, tmp_path):
        file = tmp_path / "graph.json"
        file.write_text("before", encoding="utf-8")
        file.chmod(0o644)
        with pytest.raises(PlanError):
            await session.aexport("nobody", file, graph=GRAPH)
        assert file.read_text(encoding="utf-8") == "before"
        await session.aexport("g", file, graph=GRAPH)
        assert (file.stat().st_mode & 0o777, sorted(tmp_path.glob(".graph*"))) == (0o644, [])

    async def test_unknown_endings_and_places_are_refused(self, session, tmp_path):
        with pytest.raises(PlanError) as caught:
            await session.aexport("g", "graph.graphm", graph=GRAPH)
        assert "Endings: .graphml, .json, .parquet. Did you mean" in str(caught.value)
        (tmp_path / "taken.parquet").write_text("", encoding="utf-8")
        with pytest.raises(FileExistsError):
            await session.aexport("g", "taken.parquet", graph=GRAPH)
        with pytest.raises(PlanError, match='no graph file "nowhere.yaml"'):
            await session.agraph("g", graph="nowhere.yaml")

    async def test_equal_keys_of_two_labels_are_told_apart(self, session, store, world):
        await world.commit(store, world.write("Note", {"uuid": "ann", "content": "me"}))
        made = await session.agraph("g", graph=GRAPH)
        assert sorted(made) == ["ann (Note)", "ann (Person)", "ben", "note"]
        ends = {("ann (Person)", "ben"), ("note", "ann (Person)")}
        assert {*made.edges()} == ends
        drawn = (await session.ashow("g", graph=GRAPH)).picture
        own = drawn.nodes["ann (Person)"], drawn.nodes["ann (Note)"]
        assert [each.label for each in own] == ["User", "Note"]
        edges = [*drawn.edges.values(), *drawn.loose.values()]
        assert {(edge.source, edge.target) for edge in edges} == ends
        assert (await session.aexport("g", "graph.graphml", graph=GRAPH)).nodes == 4
        await session.aexport("g", "graph.parquet", graph=GRAPH)
        nodes = pq.read_table(Path(session.folder) / "graph.parquet" / "nodes.parquet")
        assert sorted(nodes["uuid"].to_pylist()) == ["ann", "ann", "ben", "note"]


ODD = graph_of(
    {
        "graph": "odd",
        "nodes": {
            "Book": {"properties": {"year": "int64", "label": "string", "id": "int64"}},
            "Film": {"properties": {"year": "string"}},
        },
        "edges": {"OF": {"source": "Film", "target": "Book", "properties": {"key": "string"}}},
    }
)


async def test_properties_with_names_or_types_that_clash_are_kept_apart(tmp_path, world):
    odd, store = replace(world, graph=ODD), SqliteStore(tmp_path / "odd.db")
    await store.ensure(ODD, None)
    await world.commit(
        store, odd.write("Book", {"uuid": "b", "year": 1815, "label": "first", "id": 7}),
        odd.write("Film", {"uuid": "f", "year": "MMXX"}),
        odd.write("OF", {"uuid": "o", "source": "f", "target": "b", "key": "k"}),
    )  # fmt: skip
    async with semgraph.Session(store=store, llm="recorded", folder=tmp_path) as session:
        made = await session.agraph("g", graph=ODD)
        assert (made.nodes["b"]["label"], made.nodes["b"]["label_"], made.nodes["b"]["id_"]) == (
            "Book", "first", 7,
        )  # fmt: skip
        await session.aexport("g", "odd.json", graph=ODD)
        await session.aexport("g", "odd.parquet", graph=ODD)
    data = json.loads((tmp_path / "odd.json").read_text(encoding="utf-8"))
    read = nx.node_link_graph(data, edges="edges")
    assert read.edges["f", "b", "o"]["key_"] == "k"
    rows = pq.read_table(tmp_path / "odd.parquet" / "nodes.parquet").to_pylist()
    assert [(row["label"], row["Book.year"], row["Film.year"]) for row in rows] == [
        ("Book", 1815, None), ("Film", None, "MMXX"),
    ]  # fmt: skip
    assert rows[0]["Book.label"] == "first"
    await store.aclose()


def test_a_synchronous_call_gives_the_same_and_a_missing_store_is_named(tmp_path):
    with semgraph.Session(store="sqlite:none.db", llm="recorded", folder=tmp_path) as session:
        with pytest.raises(StoreUnavailable, match="there is no graph at none.db"):
            session.graph("g", graph=GRAPH)
        with pytest.raises(StoreUnavailable, match="there is no graph at none.db"):
            session.export("g", "graph.json", graph=GRAPH)
        with pytest.raises(TypeError, match='Did you mean "graph"'):
            session.graph("g", grap=GRAPH)
    assert list(tmp_path.iterdir()) == []
