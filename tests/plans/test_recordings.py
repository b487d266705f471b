"""Every shipped plan's example has a recording, and it replays: a prompt that changed since makes
this fail.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from semgraph.session import Session
from semgraph.stores.base import Store
from tests.plans.conftest import PLANS, loaded

NAMES = sorted(path.stem for path in PLANS.glob("*.yaml") if path.stem != "graph")


async def replay(name: str, store: Any) -> dict[str, Any]:
    async with Session(llm="recorded", store=store, journal=False, runs="") as session:
        result = await session.arun(loaded(name))
    assert not result.failed
    assert result.meter.total().attempts == 0
    return result.to_json()["tables"]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_says_who_answered_and_when(name: str) -> None:
    header = json.loads(
        (PLANS / "recordings" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[0]
    )
    assert header["model"] == "local:Qwen2.5-Coder-1.5B"
    assert header["date"]


@pytest.mark.parametrize("name", NAMES)
async def test_an_example_replays_its_recording_without_a_model_by_either_executor(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMGRAPH_SEGMENTS", "both")
    assert set(await replay(name, "memory")) == set(loaded(name).returns)


@pytest.mark.parametrize("store", ["neo4j"], indirect=True)
async def test_a_recording_gives_the_same_result_on_both_stores(store: Store) -> None:
    assert await replay("add_episode", store) == await replay("add_episode", "memory")
