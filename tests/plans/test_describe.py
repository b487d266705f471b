"""What all plans that describe entities share, and describe_by_model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from tests.plans.conftest import Memory, both_stores

PLANS = ("describe_entities", "describe_by_model", "describe_by_model(by=facts)", "describe_gated")
ALWAYS: dict[str, Any] = {"preset": "summaries_always"}
FACTS: dict[str, Any] = {"use": {"describe": "describe_by_model(by=facts)"}}
PERSON = {"name": "Person", "description": "a human", "fields": {"employer": "string null"}}


def asked(model: StandIn, *words: str) -> list[str]:
    """The last messages of the chats whose system message has some words."""
    chats = [request["messages"] for request in model.requests]
    return [chat[-1]["content"] for chat in chats if all(w in chat[0]["content"] for w in words)]


@pytest.mark.parametrize("plan", PLANS)
async def test_labels_and_attributes_are_kept_whichever_plan_describes(
    memory: Memory, plan: str
) -> None:
    for said in ("I work at Luma.", "I lead Project Kite."):
        await memory.hear(said, entity_types=[PERSON], use={"describe": plan})
    graph = await memory.graph()
    ann = graph.entity("Ann")
    assert ann["labels"] == ["Person"]
    assert json.loads(ann["attributes"]) == {"employer": "Luma"}
    for fact in ("Ann works at Luma.", "Ann leads Project Kite."):
        assert fact in ann["summary"]
    assert graph.entity("Luma")["summary"] == "Ann works at Luma."


@pytest.mark.parametrize("plan", PLANS)
async def test_a_summary_by_the_model_is_cut(memory: Memory, plan: str) -> None:
    places = ["Rome", "Oslo", "Porto"]
    await memory.hear(
        *(f"I know {place} Weber." for place in places),
        params={"summary_chars": 20},
        use={"describe": plan},
    )
    assert 0 < len((await memory.graph()).entity("Ann")["summary"]) <= 40


@both_stores
async def test_the_model_summarises_each_entity_of_each_episode(
    memory: Memory, model: StandIn
) -> None:
    result = await memory.hear("I work at Luma.", "I lead Project Kite.", "It rains.", **ALWAYS)
    assert result.meter.steps["describe/from_messages"].rows_in == 2 + 2 + 1
    assert model.calls["summary"] == 3, "those of an episode share a call"
    assert (await memory.graph()).entity("Ann")["summary"] == (
        "Ann works at Luma. Ann leads Project Kite."
    )


async def test_it_reads_the_old_summary_the_message_and_earlier_ones(
    memory: Memory, model: StandIn
) -> None:
    await memory.hear("I work at Luma.", "I lead Project Kite.", **ALWAYS)
    last = asked(model, "up to date with new messages")[-1]
    (ann,) = (line for line in last.splitlines() if '"Ann"' in line)
    assert json.loads(ann.partition(" ")[2]) == {
        "name": "Ann",
        "known": "Ann works at Luma.",
        "heard": ["Ann(user): I lead Project Kite."],
        "history": ["Ann(user): I work at Luma."],
    }


async def test_what_a_message_contradicts_leaves_a_summary_by_the_model(memory: Memory) -> None:
    await memory.hear("I work at Luma.", "I work at Acme.", **ALWAYS)
    graph = await memory.graph()
    assert graph.entity("Ann")["summary"] == "Ann works at Acme."
    assert graph.entity("Luma")["summary"] == "Ann works at Luma.", "no later episode names it"


@both_stores
async def test_by_facts_a_summary_has_those_that_hold(memory: Memory, model: StandIn) -> None:
    said = ("I work at Luma.", "I live in Rome.", "I work at Acme.", "Bob is here.")
    await memory.hear(*said, **FACTS)
    graph = await memory.graph()
    assert graph.entity("Ann")["summary"] == "Ann lives in Rome. Ann works at Acme."
    assert graph.entity("Bob")["summary"] == "", "without facts there is nothing to say"
    shown = asked(model, "Each record is a fact")[-1]
    assert "Luma" not in shown


@pytest.mark.parametrize("window", [2, "all"])
async def test_by_facts_windows_agree(
    remember: Callable[[StandIn], Memory], model: StandIn, tmp_path: Path, window: Any
) -> None:
    said = ("I work at Luma.", "I lead Project Kite.", "I live in Rome.", "I work at Acme.")
    one, many = remember(model), Memory("memory", model, tmp_path)
    await one.hear(*said, **FACTS)
    await many.hear(*said, **FACTS, params={"window": window})
    told = [
        {e["name"]: e["summary"] for e in (await each.graph()).entities if e["name"] != "Luma"}
        for each in (one, many)
    ]
    assert told[0] == told[1]
    await many.session.aclose()


@pytest.mark.parametrize("plan", ["describe_by_model", "describe_gated"])
async def test_language_and_instructions_reach_the_prompt(
    memory: Memory, model: StandIn, plan: str
) -> None:
    named = {
        "uuid": "m", "episode": "e", "group_id": "g", "turn": 1, "nth": 1, "name": "Ann", "content": "Ann is here.",
        "history": [], "type": "Entity", "entity": "ann", "new": True,
    }  # fmt: skip
    fact = {"turn": 1, "nth": 1, "fact": "Ann works at Luma.", "source": "ann", "target": "luma"}
    said = {"language": "German", "instructions": "Leave out all ages."}
    model.refuse = "Ann"
    await memory.run(plan, inputs={"named": [named], "fresh": [fact]}, params=said)
    assert asked(model, "Write in German.", "Leave out all ages.")
