"""The published algebra: what `ask_seed` and `ask_seed_fused` ask, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from semgraph.logical.node import walk
from semgraph.logical.semantic import Semantic
from tests.plans.conftest import Memory, at, both_stores, loaded

both_plans = pytest.mark.parametrize("ask", ["ask_seed", "ask_seed_fused"])
FACTS = [
    {"uuid": uuid, "group_id": "g", "said_at": at(0), "fact": fact}
    for uuid, fact in (
        ("f1", "Ann is employed by Luma."),
        ("f2", "Ann works at Acme."),
        ("f3", "Ann has left Luma."),
    )
]
KNOWN = [
    {"uuid": uuid, "known": "k1", "pool": pool, "old": {"fact": "Ann works at Luma."}, "rank": 1}
    for uuid, pool in (("f1", "same"), ("f2", "rival"), ("f3", "same"))
]


async def verdicts(memory: Memory, ask: str, **options: Any) -> dict[str, str]:
    found = await memory.run(ask, facts=FACTS, pairs=KNOWN, **options)
    return {row["uuid"]: row["verdict"] for row in found.tables["verdicts"].to_pylist()}


@both_plans
async def test_only_facts_between_the_same_entities_are_asked_about(
    memory: Memory, ask: str
) -> None:
    assert await verdicts(memory, ask) == {"f1": "duplicate", "f3": "contradicts"}
    assert memory.model.counters.calls == {"ask_seed": 4, "ask_seed_fused": 2}[ask]


@both_plans
async def test_all_facts_with_candidates_are_asked_about(memory: Memory, ask: str) -> None:
    found = await verdicts(memory, ask, params={"related": False})
    assert found == {"f1": "duplicate", "f2": "contradicts", "f3": "contradicts"}
    assert memory.model.counters.calls == {"ask_seed": 5, "ask_seed_fused": 3}[ask]


@both_plans
async def test_dates_are_passed_on_and_none_is_asked_for(memory: Memory, ask: str) -> None:
    dates = [{"uuid": "f1", "since": at(1), "until": None}]
    found = await memory.run(ask, facts=FACTS, pairs=[], dates=dates)
    assert found.tables["dates"].to_pylist() == dates
    assert memory.model.counters.calls == 0


@both_plans
def test_instructions_are_part_of_each_question(ask: str) -> None:
    plan = loaded(ask, params={"instructions": "Brands are not owners."})
    asked = [n.prompt for n in walk(*plan.roots) if isinstance(n, Semantic)]
    assert asked
    assert all("Brands are not owners." in p.rules for prompt in asked for p in prompt.all)


@both_stores
@pytest.mark.parametrize("preset", ["seed", "seed_fused"])
async def test_a_job_that_was_left_ends_and_one_stated_again_is_the_same(
    memory: Memory, preset: str
) -> None:
    await memory.hear(
        "I work at Luma.", "I am employed by Luma.", "I have left Luma.", preset=preset
    )
    graph = await memory.graph()
    job, left = graph.fact("Ann works at Luma"), graph.fact("Ann has left")
    assert len(graph.facts) == 2
    assert len(job["episodes"]) == 2
    assert job["invalid_at"] == left["valid_at"]


@pytest.mark.parametrize(("preset", "ended"), [("seed", False), ("seed_fused", True)])
async def test_a_job_elsewhere_ends_the_old_one_if_all_facts_are_asked_about(
    memory: Memory, preset: str, ended: bool
) -> None:
    await memory.hear("I work at Luma.", "I work at Acme.", preset=preset)
    graph = await memory.graph()
    assert (graph.fact("Ann works at Luma")["invalid_at"] is not None) is ended
