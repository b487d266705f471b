"""Each published memory is refreshed over its example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semgraph.errors import PlanError
from tests.execution.conftest import PLAN
from tests.refresh.world import World, different, loaded, without

MEMORIES = PLAN.parent / "memories"
NAMES = sorted(path.parent.name for path in MEMORIES.glob("*/write.yaml"))
SAID = "I live in Rome."


def example(plan: Path) -> dict[str, Any]:
    """The rows of a plan's example."""
    inputs: dict[str, Any] = loaded(plan).document["example"]["inputs"]
    return inputs


async def require_empty(world: World, plan: Path, rows: dict[str, Any]) -> None:
    """A refresh over the same rows sends no request and finds nothing."""
    before = len(world.model.requests)
    refresh = await world.session.arefresh(loaded(plan), **rows)
    assert len(refresh.diff) == 0, str(refresh.diff)
    assert len(world.model.requests) == before


@pytest.mark.parametrize("name", NAMES)
async def test_a_memory_is_refreshed(name: str, world: World, tmp_path: Path) -> None:
    """After an unchanged run nothing is to do; after an edit it is as if written anew."""
    plan, graph = MEMORIES / name / "write.yaml", loaded(MEMORIES / name / "write.yaml").graph
    rows = example(plan)
    await world.run(plan, **rows)
    before = await world.state(graph)
    assert before
    await require_empty(world, plan, rows)
    new = {**rows, "turns": [{**rows["turns"][0], "text": SAID}, *rows["turns"][1:]]}
    refresh = await world.session.arefresh(loaded(plan), **new)
    assert len(refresh.diff)
    await refresh.aapply()
    assert "Rome" in str(await world.state(graph))
    await require_empty(world, plan, new)
    back = await world.session.arefresh(loaded(plan), **rows)
    await back.aapply()
    found = without(await world.state(graph), "created_at")
    assert found == without(before, "created_at"), different(found, without(before, "created_at"))


async def test_a_plan_without_windows_says_why_it_is_not_refreshed(world: World) -> None:
    with pytest.raises(PlanError, match=r"save_nodes has no windows") as refused:
        await world.session.arefresh(
            PLAN.with_name("save_nodes.yaml"),
            entities=[{"uuid": "a", "group_id": "g", "name": "Ann"}],
        )
    assert "Run it again: semgraph run" in str(refused.value)
