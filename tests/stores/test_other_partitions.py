"""A store knows by which property its rows are divided into groups, and refuses a graph that divides
them by another one, before anything is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from semgraph.errors import PlanError
from semgraph.frontend.graph_files import graph_of
from semgraph.logical.schema import Graph
from semgraph.stores.base import Method, ScanQuery
from semgraph.stores.confined import ConfinedStore
from tests.conftest import driver_of
from tests.stores.conftest import DIMENSIONS, GRAPH, Home, World

PERSON = {"properties": {"name": "string", "summary": "string"}, "index": ["name"]}
STRANGE: dict[str, Mapping[str, Any]] = {
    "a property of its own": {"partition": "tenant"},
    "a stored property": {"partition": "name", "common": {"group_id": "string"}},
    "an indexed property": {"partition": "summary"},
    "the key": {"partition": "uuid", "key": "name"},
    "another key": {"key": "name"},
    "the old name kept as a property": {"partition": "tenant", "common": {"group_id": "string"}},
}


def strange(nodes: Mapping[str, Any] | None = None, **more: Any) -> Graph:
    """The graph of a stranger."""
    return graph_of({"graph": "strange", "nodes": nodes or {"Person": PERSON}, **more})


@pytest.fixture
async def filled(shared_home: Home, world: World) -> Home:
    """People of the groups g and h."""
    async with shared_home.open() as store:
        for group in ("g", "h"):
            people = [{"uuid": f"{group}{i}", "name": "Ann", "group_id": group} for i in (1, 2)]
            knows = {"uuid": f"{group}k", "source": f"{group}1", "target": f"{group}2", "group_id": group}  # fmt: skip
            await world.commit(store, world.write("Person", *people), world.write("KNOWS", knows))
    return shared_home


async def rows(home: Home) -> list[list[dict[str, Any]]]:
    async with home.open() as store:
        return [(await store.scan(ScanQuery(each))).to_pylist() for each in ("Person", "KNOWS")]


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("case", STRANGE)
async def test_a_graph_with_another_partition_is_refused(
    filled: Home, case: str, group: str | None
) -> None:
    before, graph = await rows(filled), strange(**STRANGE[case])
    for opened in ("ensure", "attach", "migrate"):
        store = filled.connect()
        confined: Any = store if group is None else ConfinedStore(store, group)
        try:
            opening = {
                "ensure": lambda: confined.ensure(graph, DIMENSIONS),  # noqa: B023
                "attach": lambda: confined.attach(graph, DIMENSIONS),  # noqa: B023
                "migrate": lambda: confined.migrate(graph, DIMENSIONS, drop=False),  # noqa: B023
            }
            said = "stores Person with partition: group_id, key: uuid|belongs to all groups"
            with pytest.raises(PlanError, match=said):
                await opening[opened]()
        finally:
            await store.aclose()
    assert await rows(filled) == before


async def test_labels_of_its_own_may_have_another_partition(filled: Home) -> None:
    other = strange({"Page": {"properties": {"text": "string"}}}, partition="site", key="url")
    async with filled.open(other) as store:
        assert (await store.scan(ScanQuery("Page"))).num_rows == 0
    assert len((await rows(filled))[0]) == 4


async def test_a_part_of_the_graph_is_no_other_graph(filled: Home, world: World) -> None:
    part = replace(GRAPH, name="part", labels={"Person": GRAPH.labels["Person"]})
    async with filled.open(part) as store:
        [hits] = await store.search(
            [world.query("Person", Method("equal", "name", "wanted"))], world.rows(wanted=["Ann"])
        )
    assert world.keys(hits) == {0: ["g1", "g2"]}


async def test_a_label_that_rows_have_besides_their_own_is_no_way_around(
    neo4j_database: Any, world: World
) -> None:
    """Rows of an open label bear further ones, which a stranger's graph may declare."""
    from semgraph.stores.neo4j.store import Neo4jStore

    server = neo4j_database
    home = Home("neo4j", lambda: Neo4jStore(server.uri, server.user, server.password))
    async with home.open() as store:
        person = {"uuid": "h1", "name": "Ann", "group_id": "h", "labels": ["Boss"]}
        await world.commit(store, world.write("Person", person))
    for partition in ("tenant", "name"):
        graph = strange({"Boss": PERSON}, partition=partition)
        with pytest.raises(PlanError, match="stores Boss with partition: group_id, key: uuid"):
            async with home.open(graph):
                pass


@pytest.mark.parametrize("partition", ["tenant", "name"])
async def test_rows_of_another_program_keep_their_partition(
    neo4j_database: Any, partition: str
) -> None:
    from semgraph.stores.neo4j.store import Neo4jStore

    server = neo4j_database
    driver_of(server).execute_query("CREATE (:Page {uuid: 'p', name: 'x', group_id: 'h'})")
    store = Neo4jStore(server.uri, server.user, server.password)
    with pytest.raises(PlanError, match="stores Page with partition: group_id, key: uuid"):
        await store.attach(strange({"Page": PERSON}, partition=partition), DIMENSIONS)
    await store.attach(strange({"Page": PERSON}), DIMENSIONS)
    await store.aclose()
