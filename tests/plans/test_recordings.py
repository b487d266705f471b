"""Every shipped plan's example has a recording, and it replays: a prompt that changed since makes
this fail. A memory's plans have recordings together or not at all.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from semgraph.session import Session
from semgraph.session.resources import recording_of
from semgraph.stores.base import Store
from tests.plans.conftest import NAMES, PLANS, loaded

RECORDED = [
    name
    for name in NAMES
    if (folder := (PLANS / name).parent) == PLANS or (folder / "recordings").is_dir()
]


async def replay(name: str, store: Any) -> dict[str, Any]:
    async with Session(llm="recorded", store=store, journal=False, runs="") as session:
        result = await session.arun(loaded(name))
    assert not result.failed
    assert result.meter.total().attempts == 0
    return result.to_json()["tables"]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_says_who_answered_and_when(name: str) -> None:
    header = json.loads(recording_of(loaded(name)).read_text(encoding="utf-8").splitlines()[0])
    assert header["model"] == "local:Qwen2.5-Coder-1.5B"
    assert header["date"]


@pytest.mark.parametrize("name", RECORDED)
async def test_an_example_replays_its_recording_without_a_model(name: str) -> None:
    """`make nightly` runs it by both executors of relational steps."""
    assert set(await replay(name, "memory")) == set(loaded(name).returns)


@pytest.mark.parametrize("store", ["neo4j"], indirect=True)
async def test_a_recording_gives_the_same_result_on_both_stores(store: Store) -> None:
    assert await replay("add_episode", store) == await replay("add_episode", "memory")
