"""Conditions mean what they mean in DuckDB, also where a store decides them: of dates and times,
numbers, truth values and texts.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle

GRAPH = """
graph: days
nodes: {Day: {properties: {day: date, at: timestamp, weight: double, number: int64, kept: boolean}}}
"""
FILL = """
plan: fill
graph: graph.yaml
inputs: {days: {uuid: string, group_id: string, day: date null, at: timestamp null, weight: double null, number: int64 null, kept: boolean null}}
writes: [{merge: {from: days, node: Day}}]
"""
FIND = """
plan: find
graph: graph.yaml
inputs: {asked: {group_id: string, noon: timestamp null, least: int64 null, text: string null}}
steps: {found: [FOUND]}
returns: [found]
"""
SEARCHED = "{from: asked}, {search: {over: Day, alias: hit, k: 9, order: [hit.uuid], where: WHERE}}, {project: {key: hit.uuid}}"
MATCHED = '{from: asked}, {match: {pattern: "(hit:Day)", where: WHERE}}, {project: {key: hit.uuid}}'
DAYS = [
    {
        "uuid": "a",
        "day": date(2025, 1, 1),
        "at": datetime(2025, 1, 1, tzinfo=UTC),
        "weight": 0.5,
        "number": 1,
        "kept": True,
    },
    {
        "uuid": "b",
        "day": date(2025, 1, 2),
        "at": datetime(2025, 1, 2, 9, tzinfo=UTC),
        "weight": -0.0,
        "number": 0,
        "kept": False,
    },
    {"uuid": "c", "weight": float(2**53)},
]
ROW = {
    "group_id": "g",
    "noon": datetime(2025, 1, 2, 12, tzinfo=UTC),
    "least": 2**53 + 1,
    "text": "nan",
}
CONDITIONS = {
    "hit.day < noon": ["a", "b"],
    "hit.day = noon": [],
    "hit.day IN (noon, DATE '2025-01-01')": ["a"],
    "hit.day BETWEEN '2025-01-02' AND noon": ["b"],
    "hit.at = hit.day": ["a"],
    "hit.day < hit.at": ["b"],
    "hit.at < DATE '2025-01-02'": ["a"],
    "coalesce(hit.at, noon) < '2025-01-02'": ["a"],
    "coalesce(hit.day, '2025-01-01') = '2025-01-01'": ["a", "c"],
    "hit.at < 'infinity'": ["a", "b"],
    "hit.kept = 'true'": ["a"],
    "hit.kept = 1": ["a"],
    "hit.number AND TRUE": ["a"],
    "NOT hit.number": ["b"],
    "hit.number = '1'": ["a"],
    "coalesce(hit.number, '7') = 7": ["c"],
    "hit.number < 100000000000000000000": ["a", "b"],
    "hit.weight = '0.5'": ["a"],
    "hit.weight = least": ["c"],
    "hit.weight >= 0": ["a", "b", "c"],
    "hit.weight < 'nan'::DOUBLE": ["a", "b", "c"],
    "hit.weight < try_cast(text AS DOUBLE)": ["a", "b", "c"],
}  # fmt: skip


@pytest.fixture
async def session(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[semgraph.Session]:
    """A session over a store that holds the days."""
    from semgraph.stores.neo4j.store import Neo4jStore

    (tmp_path / "graph.yaml").write_text(GRAPH, "utf-8")
    (tmp_path / "fill.yaml").write_text(FILL, "utf-8")
    store: Any = "memory"
    if request.param == "neo4j":
        server = request.getfixturevalue("neo4j_database")
        store = Neo4jStore(server.uri, server.user, server.password)
    async with semgraph.Session(
        llm=Oracle(Mind()), store=store, journal=False, runs="", folder=tmp_path
    ) as opened:
        await opened.arun(tmp_path / "fill.yaml", days=[{"group_id": "g", **row} for row in DAYS])
        yield opened
    if not isinstance(store, str):
        await store.aclose()


async def found(session: semgraph.Session, folder: Path, steps: str) -> list[str]:
    """The keys that a step of these operators gives."""
    (folder / "find.yaml").write_text(FIND.replace("FOUND", steps), "utf-8")
    result = await session.arun(folder / "find.yaml", asked=[ROW])
    return sorted(result.tables["found"].column("key").to_pylist())


@pytest.mark.parametrize(
    ("session", "way"),
    [("memory", SEARCHED), ("memory", MATCHED), ("neo4j", SEARCHED)],
    indirect=["session"],
    ids=["search", "match", "search of neo4j"],
)
async def test_what_a_read_compares_is_brought_to_one_type(
    session: semgraph.Session, tmp_path: Path, way: str
) -> None:
    assert {
        where: await found(session, tmp_path, way.replace("WHERE", f'"{where}"'))
        for where in CONDITIONS
    } == CONDITIONS


@pytest.mark.parametrize("session", ["memory"], indirect=True)
@pytest.mark.parametrize("where", ["hit.rank = 0", "hit.number = 1 AND hit.score > 0.5"])
async def test_a_condition_on_the_rank_of_a_hit_is_refused_and_a_filter_after_it_is_not(
    session: semgraph.Session, tmp_path: Path, where: str
) -> None:
    with pytest.raises(
        semgraph.PlanError, match=r"is not known before hits are ranked. Filter in a step after"
    ):
        await found(session, tmp_path, SEARCHED.replace("WHERE", f'"{where}"'))
    after = SEARCHED.replace(", where: WHERE", "").replace(
        ", {project", f', {{filter: "{where}"}}, {{project'
    )
    assert await found(session, tmp_path, after) == ["a"]


@pytest.mark.parametrize("session", ["memory"], indirect=True)
async def test_what_a_filter_of_a_label_compares_is_brought_to_one_type(
    session: semgraph.Session, tmp_path: Path
) -> None:
    own = {
        where: keys
        for where, keys in CONDITIONS.items()
        if not {"noon", "least", "text"} & set(re.findall(r"\w+", where))
    }
    scan = "{from: {label: Day, partition: all}}, {filter: WHERE}, {project: {key: uuid}}"
    asked = {where: scan.replace("WHERE", '"' + where.replace("hit.", "") + '"') for where in own}
    assert own == {where: await found(session, tmp_path, steps) for where, steps in asked.items()}
