"""The scratch copies: all that a plan can read of a store is in them, and the store stays as it
was.
"""

from __future__ import annotations

import pytest

from semgraph.compare.trial import snapshot
from semgraph.frontend.load import load_plan
from tests.compare.standin import StandIn
from tests.compare.test_plans import ARMS, PLAN, episodes, opened, whole
from tests.inside import resources


@pytest.mark.parametrize("kind", ["sqlite", "neo4j"])
async def test_a_copy_holds_what_the_store_holds(kind, request, monkeypatch, tmp_path):
    name = "sqlite:graph.db"
    if kind == "neo4j":
        server = request.getfixturevalue("neo4j_database")
        monkeypatch.setenv("NEO4J_USERNAME", server.user)
        monkeypatch.setenv("NEO4J_PASSWORD", server.password)
        name = server.uri
    plan = load_plan(PLAN)
    async with StandIn() as model, opened(model, tmp_path, store=name) as session:
        await session.arun(PLAN, episodes=episodes())
        async with resources(session).opened_store() as store:
            before = await snapshot(plan, store, ["g"])
            assert before.count > 5
            assert "name_embedding" in before.rows["Entity"].column_names
            async with before.copy() as copy:
                again = await snapshot(plan, copy, ["g"])
        assert {n: t.to_pylist() for n, t in again.rows.items()} == {
            n: t.to_pylist() for n, t in before.rows.items()
        }
        found = await whole(session, variants={"blocks": ARMS["blocks"]})
        assert found.frozen["copied"] == before.count
        async with resources(session).opened_store() as store:
            after = await snapshot(plan, store, None)
    assert {n: t.to_pylist() for n, t in after.rows.items()} == {
        n: t.to_pylist() for n, t in before.rows.items()
    }


async def test_only_the_groups_of_the_rows_are_read(tmp_path):
    others = [{**row, "group_id": "other", "uuid": f"o{n}"} for n, row in enumerate(episodes())]
    async with StandIn() as model, opened(model, tmp_path) as session:
        await session.arun(PLAN, episodes=others)
        found = await whole(session, variants={"blocks": ARMS["blocks"]})
    assert found.frozen["copied"] == 0
