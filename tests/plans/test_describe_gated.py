"""When describe_gated asks for a summary and when it does not: each reason, the counters, the state
that it stores, and how it agrees with the plans that always ask.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import semgraph
from benchmarks.ingest.ours import staleness
from benchmarks.ingest.streams import made
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from tests.plans.conftest import Graph, Memory, at, both_stores
from tests.plans.test_cues import FILES, verdicts

DENIED = [next(s for s, cues in verdicts(path).items() if "negated" in cues) for path in FILES]
"""A sentence of each language that denies something."""
GATED: dict[str, Any] = {"preset": "summaries_gated"}
ALWAYS: dict[str, Any] = {"preset": "summaries_always"}
REFRESHED = {"first summary", "negation", "staleness", "pending facts", "end of a burst", "drift"}


def counted(result: Result) -> dict[str, int]:
    """What the run counts of all summaries."""
    return {text: n for own in result.meter.counts.values() for text, n in own.items()}


async def gate(
    memory: Memory, when: datetime, *fresh: str, ended: tuple[str, ...] = (), **params: Any
) -> str:
    """An episode about Ann at a time; why her summary was written or not."""
    known = [e["uuid"] for e in (await memory.graph()).entities]
    named = {
        "uuid": "ann", "episode": f"e{when}", "group_id": "g", "turn": 1, "nth": 1, "name": "Ann",
        "content": "Ann is here.", "history": [], "type": "Entity", "entity": "ann", "new": "ann" not in known,
    }  # fmt: skip
    facts = [
        {"group_id": "g", "turn": 1, "nth": n, "source": "ann", "target": "x", "fact": fact}
        for n, fact in enumerate((*fresh, *ended))
    ]
    result = await memory.run(
        "describe_gated",
        inputs={
            "named": [named],
            "fresh": facts[: len(fresh)],
            "ended": facts[len(fresh) :],
            "episodes": [{"uuid": f"e{when}", "group_id": "g", "valid_at": when}],
        },
        params=params,
    )
    assert not result.failed
    (row,) = result.rows("summaries")
    reason: str = row["reason"]
    assert row["refreshed"] == (reason in REFRESHED)
    kind = "refreshed" if row["refreshed"] else "skipped"
    assert counted(result) == {f"summary_{kind}: {reason}": 1}
    assert result.meter.total().calls_issued == int(row["refreshed"])
    return reason


async def kept(memory: Memory, name: str = "Ann") -> dict[str, Any]:
    """The summary of an entity, and the state of its gate."""
    entity = (await memory.graph()).entity(name)
    state: dict[str, Any] = json.loads(entity["_graphiti_meta"])
    return state | {"summary": entity["summary"]}


@both_stores
async def test_a_new_entity_is_summarised_and_the_same_facts_again_are_not(memory: Memory) -> None:
    assert await gate(memory, at(0), "Ann works at Luma.") == "first summary"
    first = await kept(memory)
    assert first["summary"] == "Ann works at Luma."
    assert set(first) == {
        "fact_hash", "summary_embedding", "last_summary_ts", "_recent_episode_times", "_burst_active",
        "pending", "pending_hash", "summary",
    }  # fmt: skip
    assert len(first["summary_embedding"]) == 256
    assert await gate(memory, at(60)) == "unchanged hash"
    again = await kept(memory)
    assert (again["fact_hash"], again["last_summary_ts"]) == (
        first["fact_hash"],
        first["last_summary_ts"],
    )
    assert again["_recent_episode_times"] == ["2025-01-15 10:00:00+00"]


async def test_an_entity_without_facts_is_summarised_once_from_its_messages(memory: Memory) -> None:
    assert await gate(memory, at(0)) == "first summary"
    assert (await kept(memory))["summary"] == "Ann is here."
    assert await gate(memory, at(60)) == "unchanged hash"


async def test_a_summary_that_was_appended_counts_as_known(memory: Memory) -> None:
    ann = {"uuid": "ann", "group_id": "g", "name": "Ann", "summary": "Ann works at Luma."}
    await memory.run("save_nodes", entities=[ann])
    assert await gate(memory, at(0)) == "unchanged hash"
    assert await gate(memory, at(60), "Ann lives in Rome.") == "first summary"
    assert (await kept(memory))["summary"] == "Ann works at Luma. Ann lives in Rome."


async def test_facts_near_the_summary_wait_and_are_told_with_novel_ones(memory: Memory) -> None:
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(60), "Ann works at Luma still.", drift=0.9) == "low drift"
    waiting = await kept(memory)
    assert (waiting["summary"], waiting["pending"]) == (
        "Ann works at Luma.",
        ["Ann works at Luma still."],
    )
    assert await gate(memory, at(90)) == "low drift"
    assert await gate(memory, at(120), "Bob lives in Oslo, by the sea.", drift=0.1) == "drift"
    told = await kept(memory)
    assert (
        told["summary"]
        == "Ann works at Luma. Ann works at Luma still. Bob lives in Oslo, by the sea."
    )
    assert told["pending"] == []


@pytest.mark.parametrize("denied", ["Ann no longer works at Luma.", *DENIED])
async def test_a_denial_is_told_at_once_whatever_else_holds(memory: Memory, denied: str) -> None:
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(1), denied, drift=2.0, burst=1, cap=99) == "negation"


async def test_what_has_ended_leaves_the_summary(memory: Memory) -> None:
    await gate(memory, at(0), "Ann works at Luma.", "Ann lives in Rome.")
    before = await kept(memory)
    assert await gate(memory, at(1), ended=("Ann works at Luma.",), burst=1) == "negation"
    after = await kept(memory)
    assert after["summary"] == "Ann lives in Rome."
    assert after["fact_hash"] < before["fact_hash"]


async def test_a_pending_fact_that_ends_is_never_told(memory: Memory) -> None:
    await gate(memory, at(0), "Ann works at Luma.")
    await gate(memory, at(1), "Ann lives in Rome.", burst=1)
    assert await gate(memory, at(2), ended=("Ann lives in Rome.",), burst=1) == "negation"
    assert (await kept(memory))["summary"] == "Ann works at Luma."


async def test_in_a_burst_facts_wait_until_too_many_do_or_it_ends(memory: Memory) -> None:
    rules: dict[str, Any] = {"drift": 0.0, "burst": 2, "cap": 3}
    assert await gate(memory, at(0), "Ann works at Luma.", **rules) == "first summary"
    assert await gate(memory, at(1), "Ann lives in Rome.", **rules) == "burst deferral"
    assert (await kept(memory))["_burst_active"]
    more = ("Ann leads Project Kite.", "Ann knows Bob.")
    assert await gate(memory, at(2), *more, **rules) == "burst deferral"
    assert await gate(memory, at(3), "Ann knows Cleo.", **rules) == "pending facts", "four of three"
    assert (await kept(memory))["summary"].count(".") == 5
    assert await gate(memory, at(4), "Ann knows Dan.", **rules) == "burst deferral"
    assert await gate(memory, at(60), **rules) == "end of a burst", "also without a new fact"
    told = await kept(memory)
    assert told["summary"].count(".") == 6
    assert (told["pending"], told["pending_hash"], told["_burst_active"]) == ([], 0, False)
    assert await gate(memory, at(120), **rules) == "unchanged hash"


async def test_what_waits_makes_a_summary_stale(memory: Memory) -> None:
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(60), "Ann works at Luma still.", drift=2.0) == "low drift"
    late = at(0) + timedelta(days=31)
    assert await gate(memory, late, drift=2.0) == "staleness"
    assert (await kept(memory))["summary"] == "Ann works at Luma. Ann works at Luma still."
    assert await gate(memory, late + timedelta(days=90), drift=2.0) == "unchanged hash"


@both_stores
async def test_the_gate_sees_the_end_of_a_fact_at_both_its_ends(memory: Memory) -> None:
    """Luma is not named by the episode that ends its fact."""
    await memory.hear("I work at Luma.", **GATED)
    result = await memory.hear("I work at Acme.", **GATED)
    assert counted(result) == {
        "summary_refreshed: negation": 2,
        "summary_refreshed: first summary": 1,
    }
    graph = await memory.graph()
    assert graph.entity("Ann")["summary"] == "Ann works at Acme."
    assert graph.entity("Luma")["summary"] == ""


@both_stores
async def test_attributes_and_labels_do_not_touch_the_state(memory: Memory, model: StandIn) -> None:
    """The state is no attribute: no prompt shows it, and new attributes leave it."""
    fields = {"employer": "string null"}
    person = {"name": "Person", "description": "a human", "fields": fields}
    for said in ("I work at Luma as an engineer.", "I lead Project Kite.", "I live in Rome."):
        await memory.hear(said, entity_types=[person], **GATED)
    ann = (await memory.graph()).entity("Ann")
    assert ann["labels"] == ["Person"]
    assert json.loads(ann["attributes"]) == {"employer": "Luma"}
    assert json.loads(ann["_graphiti_meta"])["fact_hash"]
    sent = json.dumps(model.requests)
    assert "fact_hash" not in sent
    assert "summary_embedding" not in sent


async def test_the_state_is_in_the_store_and_outlives_the_session(
    model: StandIn, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path / 'graph.db'}"
    for said, reasons in (
        ("I work at Luma.", {"summary_refreshed: first summary": 2}),
        ("It rains.", {"summary_skipped: unchanged hash": 1}),
    ):
        memory = Memory(store, model, tmp_path)
        memory._minute = 60 * len(model.requests)  # an hour for each request: no burst
        assert counted(await memory.hear(said, **GATED)) == reasons
        await memory.session.aclose()


async def test_the_record_of_a_run_has_the_counters(model: StandIn, tmp_path: Path) -> None:
    async with semgraph.Session(
        llm=f"openai:gpt-4.1-mini@{model.base_url}",
        embedder=f"openai:stand-in@{model.base_url}?dimensions=256",
        store="memory",
        journal=False,
        runs=tmp_path,
    ) as session:
        said = [
            {"group_id": "g", "valid_at": at(60 * hour), "content": f"Ann(user): {text}"}
            for hour, text in enumerate(("I work at Luma.", "It rains."))
        ]
        result = await session.arun("add_episode", episodes=said, preset="summaries_gated")
    assert result.record is not None
    metrics = json.loads((result.record / "metrics.json").read_text())
    assert metrics["counts"] == {
        "describe/written": {"summary_refreshed: first summary": 2, "summary_skipped: unchanged hash": 1}
    }  # fmt: skip
    assert result.to_json()["metrics"]["counts"] == metrics["counts"]


async def test_a_pending_fact_of_a_removed_episode_is_never_told(memory: Memory) -> None:
    said = ("I work at Luma.", "I live in Rome.", "I lead Project Kite.", "I know Bob.")
    episodes = [memory.episode(f"Ann(user): {t}", uuid=f"e{i}") for i, t in enumerate(said)]
    await memory.hear(*episodes, **GATED)
    assert "Ann knows Bob." in (await kept(memory))["pending"]
    await memory.run("remove_episode", episodes=[{"uuid": "e3"}])
    result = await memory.hear(memory.episode("Ann(user): I know Cleo.", at(600)), **GATED)
    assert counted(result) == {"summary_refreshed: first summary": 2}
    summary = (await kept(memory))["summary"]
    assert "Bob" not in summary
    assert "Ann knows Cleo." in summary
    assert "Project Kite" in summary


async def test_a_fact_that_holds_again_after_a_removal_is_told_at_both_its_ends(
    memory: Memory,
) -> None:
    first = memory.episode("Ann Day(user): I work at Luma.")
    later = memory.episode("Ann Day(user): I work at Acme.", uuid="e2")
    await memory.hear(first, later, **GATED)
    assert (await kept(memory, "Luma"))["summary"] == ""
    await memory.run("remove_episode", episodes=[{"uuid": "e2"}])
    assert (await kept(memory, "Luma"))["pending"] == ["Ann Day works at Luma."]
    await memory.hear("Luma(user): I know Bob Ray.", **GATED)
    assert "Ann Day works at Luma." in (await kept(memory, "Luma"))["summary"]


async def test_a_merged_entity_tells_what_was_pending_and_has_its_state_again_when_undone(
    memory: Memory,
) -> None:
    for name in ("Ann", "Anna Weber"):
        said = ("I work at Luma.", "I live in Rome.", "I lead Project Kite.", "I know Bob.")
        await memory.hear(*(f"{name}(user): {text}" for text in said), **GATED)
    before = await memory.graph()
    keep, drop = (before.entity(name)["uuid"] for name in ("Ann", "Anna Weber"))
    state = await kept(memory, "Anna Weber")
    assert state["pending"]
    clusters = [{"group_id": "g", "keep": keep, "drop": drop}]
    merged = await memory.run("merge_entities", clusters=clusters)
    told = (await kept(memory))["summary"]
    assert all(fact in told for fact in state["pending"])
    await memory.run("unmerge_entities", moved=merged.rows("moved"))
    assert await kept(memory, "Anna Weber") == state


def told(graph: Graph) -> dict[str, tuple[list[str], int]]:
    """What is told and pending of each entity, and its hash."""
    found = {}
    for entity in graph.entities:
        state = json.loads(entity["_graphiti_meta"])
        sentences = [part for part in entity["summary"].split(". ") if part]
        known = sorted(s.rstrip(".") for s in (*sentences, *state["pending"]))
        found[entity["name"]] = known, state["fact_hash"] + state["pending_hash"]
    return found


@pytest.mark.parametrize("window", [2, "all", "ready"])
async def test_windows_agree_on_what_is_told_and_pending(
    remember: Callable[[StandIn], Memory], model: StandIn, tmp_path: Path, window: Any
) -> None:
    said = ("I work at Luma.", "I lead Project Kite.", "I live in Rome.", "I work at Acme.")
    one, many = remember(model), Memory("memory", model, tmp_path)
    await one.hear(*said, **GATED)
    await many.hear(*said, **GATED, params={"window": window})
    assert told(await many.graph()) == told(await one.graph())
    await many.session.aclose()


HOME, NEW, JOB, OTHER = "I live in Rome.", "I live in Oslo.", "I work at Luma.", "I work at Acme."


@pytest.mark.parametrize("window", [1, "all"])
@pytest.mark.parametrize(
    "said",
    [
        [[(1, JOB)], [(10, JOB)], [(5, OTHER)]],  # what ended at 5 holds again from 10
        [[(1, JOB)], [(5, OTHER), (10, JOB)]],
        [[(21, HOME + " " + NEW)], [(3, HOME), (27, HOME)]],  # a stored fact says what is over
        [[(1, JOB), (5, OTHER), (10, JOB)], [(3, OTHER)]],  # what ended before ends earlier
        [
            [(8, JOB), (9, JOB), (25, OTHER)],
            [(2, JOB)],
            [(5, OTHER)],
        ],  # a part of a stored fact has its end
    ],
)
async def test_a_summary_tells_what_holds_whatever_the_order_of_arrival(
    memory: Memory, said: list[list[tuple[int, str]]], window: Any
) -> None:
    for part in said:
        episodes = [memory.episode(f"Ann Day(user): {text}", at(0, day=day)) for day, text in part]
        await memory.hear(*episodes, **GATED, params={"window": window})
    graph = await memory.graph()
    for entity in graph.entities:
        state = json.loads(entity["_graphiti_meta"])
        told = {line for line in re.split(r"(?<=[.]) ", entity["summary"]) if line}
        own = [f for f in graph.facts if entity["uuid"] in (f["source"], f["target"])]
        holds = {f["fact"] for f in own if f["invalid_at"] is None}
        assert told | {*state["pending"]} == holds


async def test_episodes_that_are_processed_again_are_judged_as_at_first(memory: Memory) -> None:
    episodes = [memory.episode(f"Ann Day(user): {text}") for text in (JOB, HOME, OTHER)]
    first = await memory.hear(*episodes, **GATED)
    before = told(await memory.graph())
    again = await memory.hear(*episodes, **GATED, again=True)
    assert counted(again) == counted(first)
    assert not any(again.written.values())
    assert told(await memory.graph()) == before


async def test_what_is_said_once_more_is_no_news(memory: Memory) -> None:
    await memory.hear(f"Ann Day(user): {JOB}", **GATED)
    before = told(await memory.graph())
    again = await memory.hear(f"Ann Day(user): {JOB}", **GATED)
    assert {*counted(again)} == {"summary_skipped: unchanged hash"}
    assert told(await memory.graph()) == before


async def test_over_forty_episodes_the_gate_saves_calls_and_its_summaries_are_not_staler(
    model: StandIn, tmp_path: Path
) -> None:
    found: dict[str, tuple[int, float]] = {}
    for name, way in (("always", ALWAYS), ("gated", GATED)):
        memory = Memory("memory", model, tmp_path)
        each = {"use": {"from_messages": "per_row"} if name == "always" else {"written": "per_row"}}
        result = await memory.run("add_episode", episodes=made("grown 40", 0).rows, **way, **each)
        calls = sum(
            step.calls_issued
            for step_name, step in result.meter.steps.items()
            if step_name.startswith("describe/")
        )
        graph = await memory.graph()
        found[name] = calls, staleness(graph.entities, graph.facts)["stale"]
        await memory.session.aclose()
    assert found["gated"][0] < 0.7 * found["always"][0]
    assert found["gated"][1] <= found["always"][1]
