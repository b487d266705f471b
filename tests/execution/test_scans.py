"""Reading a label as it is: whose rows are seen, and conditions that no store can decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from tests.execution.conftest import Place

GRAPH = Path(__file__).parents[1] / "fixtures" / "optimizer"
WINDOWS = """
inputs: {asked: {uuid: string, group_id: string, at: timestamp}}
windows: {input: asked, partition: group_id, order: [at], key: uuid, key_of: [at]}
"""


@pytest.fixture
def session(place: Place, tmp_path: Path) -> semgraph.Session:
    (tmp_path / "graph.yaml").write_text(
        (GRAPH / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    return semgraph.Session(
        llm=Oracle(Mind()), store=place.spec, journal=False, runs="", folder=tmp_path
    )


async def names(session: semgraph.Session, body: str, **inputs: Any) -> list[str]:
    path = session.folder / "plan.yaml"
    path.write_text(f"plan: plan\ngraph: graph.yaml\n{body}", encoding="utf-8")
    async with session:
        await session.arun(GRAPH / "fill.yaml")
        result = await session.arun(path, **inputs)
    return sorted(row["name"] for row in result.tables["found"].to_pylist())


async def test_conditions_that_the_store_does_not_take_are_decided_all_the_same(
    session: semgraph.Session,
) -> None:
    where = (
        "word_count(name) > 1 AND alike(name, 'Ann Lea') > 0.5 AND age > 20 AND length(city) = 4"
    )
    body = f"steps:\n  found:\n    - from: {{label: Person, partition: all}}\n    - filter: {where}\n    - project: [name]\nreturns: [found]"
    assert await names(session, body) == ["Ann Lee"]


async def test_a_run_of_some_partitions_sees_the_rows_of_these_alone(
    session: semgraph.Session,
) -> None:
    body = f"{WINDOWS}steps:\n  found:\n    - from: Person\n    - project: [name, group_id]\nreturns: [found]"
    rows = [{"uuid": "a", "group_id": "h", "at": "2025-01-01"}]
    assert await names(session, body, asked=rows) == ["Dan Lee"]


async def test_without_windows_it_must_be_said_that_everybody_is_meant(
    session: semgraph.Session,
) -> None:
    body = "steps:\n  found:\n    - from: Person\n    - project: [name]\nreturns: [found]"
    with pytest.raises(PlanError, match="scan of Person needs a partition.*partition: all"):
        await names(session, body)


LIMITED = """
    - project: [name, group_id]
    - limit: {n: 1}
returns: [found]
"""


async def test_a_limit_over_a_label_is_of_each_partition(session: semgraph.Session) -> None:
    rows = [{"uuid": group, "group_id": group, "at": "2025-01-01"} for group in ("g", "h")]
    assert await names(
        session, f"{WINDOWS}steps:\n  found:\n    - from: Person{LIMITED}", asked=rows
    ) == [
        "Ann Lee",
        "Dan Lee",
    ]


async def test_what_no_store_decides_comes_before_a_limit(session: semgraph.Session) -> None:
    source = "\n    - from: {label: Person, partition: all}\n    - filter: word_count(name) = 1 OR age > 40"
    assert await names(session, f"steps:\n  found:{source}{LIMITED}") == ["Cleo"]
