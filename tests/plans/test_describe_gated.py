"""When a summary is written anew, and when it is not: hash, drift, negation, bursts and age;
counted by reason.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.plans.conftest import Memory, at, both_stores


async def one(memory: Memory, summary: str = "") -> None:
    """A graph of one entity."""
    ann = {"uuid": "ann", "group_id": "g", "name": "Ann", "summary": summary}
    await memory.run(memory.here("planted.yaml"), entities=[ann], facts=[])


async def gate(
    memory: Memory, when: datetime, *fresh: str, ended: tuple[str, ...] = (), **params: Any
) -> str:
    """Tell of an entity at a time; why its summary was written or not."""
    result = await memory.run(
        "gated_summaries",
        entities=[{"uuid": "ann", "group_id": "g", "at": when}],
        stated=[
            {"uuid": f"+{f}", "group_id": "g", "source": "ann", "target": "ann", "fact": f}
            for f in fresh
        ],
        ended=[
            {"uuid": f"+{f}", "group_id": "g", "source": "x", "target": "ann", "fact": f}
            for f in ended
        ],
        params=params,
    )
    assert not result.failed
    (row,) = result.tables["summaries"].to_pylist()
    (count,) = result.tables["counts"].to_pylist()
    assert (count["reason"], count["refreshed"], count["entities"]) == (
        row["reason"],
        row["refreshed"],
        1,
    )
    assert row["refreshed"] == (row["reason"] in {"negation", "stale", "novel"})
    assert result.meter.total().calls_issued == int(row["refreshed"])
    reason: str = row["reason"]
    return reason


async def kept(memory: Memory) -> dict[str, Any]:
    """What the entity keeps."""
    ann = (await memory.graph()).entity("Ann")
    found: dict[str, Any] = json.loads(json.loads(ann["attributes"])["_graphiti_meta"])
    return found | {"summary": ann["summary"]}


async def test_what_was_never_told_is_told_and_the_same_again_is_not(memory: Memory) -> None:
    await one(memory)
    assert await gate(memory, at(0), "Ann works at Luma.") == "stale"
    first = await kept(memory)
    assert (first["summary"], first["pending"], first["burst_active"]) == (
        "Ann works at Luma.",
        [],
        False,
    )
    assert len(first["summary_embedding"]) == 256
    assert await gate(memory, at(60)) == "same"
    again = await kept(memory)
    assert (again["fact_hash"], again["last_summary_ts"]) == (
        first["fact_hash"],
        first["last_summary_ts"],
    )


@both_stores
async def test_facts_that_lead_nowhere_new_wait_and_are_told_with_what_is_new(
    memory: Memory,
) -> None:
    await one(memory)
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(60), "Ann works at Luma still.", drift=0.9) == "low drift"
    assert (await kept(memory))["summary"] == "Ann works at Luma."
    assert (await kept(memory))["pending"] == ["Ann works at Luma still."]
    assert await gate(memory, at(120), "Bob lives in Oslo, by the sea.", drift=0.1) == "novel"
    told = await kept(memory)
    assert (
        told["summary"]
        == "Ann works at Luma. Ann works at Luma still. Bob lives in Oslo, by the sea."
    )
    assert told["pending"] == []


@pytest.mark.parametrize("denied", ["Ann no longer works at Luma.", "Ann has never been to Oslo."])
async def test_a_denial_is_told_at_once_whatever_else_holds(memory: Memory, denied: str) -> None:
    await one(memory)
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(1), denied, drift=2.0, burst=1, cap=99) == "negation"


async def test_what_has_ended_leaves_the_summary(memory: Memory) -> None:
    await one(memory)
    await gate(memory, at(0), "Ann works at Luma.", "Ann lives in Rome.")
    before = await kept(memory)
    assert await gate(memory, at(1), ended=("Ann works at Luma.",)) == "negation"
    after = await kept(memory)
    assert after["summary"] == "Ann lives in Rome."
    assert after["fact_hash"] < before["fact_hash"]


async def test_in_a_burst_it_waits_until_it_ends_or_too_much_is_waiting(memory: Memory) -> None:
    await one(memory)
    rules = {"drift": 0.0, "burst": 2, "cap": 3}
    assert await gate(memory, at(0), "Ann works at Luma.", **rules) == "stale"
    assert await gate(memory, at(1), "Ann lives in Rome.", **rules) == "burst"
    assert (await kept(memory))["burst_active"]
    assert (
        await gate(memory, at(2), "Ann leads Project Kite.", "Ann knows Bob.", **rules) == "burst"
    )
    assert await gate(memory, at(3), "Ann knows Cleo.", **rules) == "novel", "four are too many"
    assert (await kept(memory))["summary"].count(".") == 5
    assert await gate(memory, at(4), "Ann knows Dan.", **rules) == "burst"
    assert await gate(memory, at(60), "Ann knows Eris.", **rules) == "novel", "it has ended"
    assert (await kept(memory))["recent_episode_times"] == ["2025-01-15 10:00:00+00"]


async def test_what_a_burst_put_off_is_told_when_the_entity_is_next_mentioned(
    memory: Memory,
) -> None:
    """Nothing new has to be said by then; and until then the hash stays that of what the summary
    says.
    """
    await one(memory)
    said = ("Ann works at Luma.", "Ann lives in Rome.", "Ann knows Bob.", "Ann leads Project Kite.")
    reasons = [await gate(memory, at(minute), fact) for minute, fact in enumerate(said)]
    assert reasons == ["stale", "novel", "burst", "burst"]
    waiting = await kept(memory)
    assert waiting["pending"] == list(said[2:])
    assert await gate(memory, at(5)) == "burst"
    assert (await kept(memory))["fact_hash"] == waiting["fact_hash"]
    assert await gate(memory, at(60)) == "novel"
    told = await kept(memory)
    assert told["summary"] == " ".join(said)
    assert (told["pending"], told["pending_hash"], told["burst_active"]) == ([], 0, False)
    assert told["fact_hash"] == waiting["fact_hash"] + waiting["pending_hash"]
    assert await gate(memory, at(120)) == "same"


async def test_what_waits_makes_a_summary_old(memory: Memory) -> None:
    await one(memory)
    said = ("Ann works at Luma.", "Ann lives in Rome.", "Ann knows Bob.", "Ann leads Project Kite.")
    for minute, fact in enumerate(said):
        await gate(memory, at(minute), fact)
    assert await gate(memory, at(0) + timedelta(days=61)) == "stale"
    assert (await kept(memory))["summary"] == " ".join(said)


async def test_facts_that_lead_nowhere_new_wait_until_the_summary_is_old(memory: Memory) -> None:
    await one(memory)
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(60), "Ann works at Luma still.", drift=0.9) == "low drift"
    assert await gate(memory, at(120)) == "low drift"
    assert await gate(memory, at(0) + timedelta(days=61)) == "stale"
    assert (await kept(memory))["summary"] == "Ann works at Luma. Ann works at Luma still."


async def test_no_more_facts_wait_than_may(memory: Memory) -> None:
    await one(memory)
    await gate(memory, at(0), "Ann works at Luma.")
    assert await gate(memory, at(60), "Ann works at Luma still.", drift=1.9, cap=1) == "low drift"
    assert await gate(memory, at(120), "Ann works at Luma now.", drift=1.9, cap=1) == "novel"


async def test_a_summary_that_is_old_is_written_anew(memory: Memory) -> None:
    await one(memory)
    await gate(memory, at(0), "Ann works at Luma.")
    late = at(0) + timedelta(days=31)
    assert await gate(memory, late, "Ann works at Luma still.", drift=2.0) == "stale"


async def test_other_attributes_stay(memory: Memory) -> None:
    ann = {"uuid": "ann", "group_id": "g", "name": "Ann", "attributes": {"age": 30}}
    await memory.run("save_nodes", entities=[ann])
    await gate(memory, at(0), "Ann works at Luma.")
    assert json.loads((await memory.graph()).entity("Ann")["attributes"])["age"] == 30


async def test_some_of_the_skipped_are_returned_for_looking_at(memory: Memory) -> None:
    people = [
        {"uuid": f"p{i}", "group_id": "g", "name": f"P{i}", "summary": "Known."} for i in range(40)
    ]
    await memory.run(memory.here("planted.yaml"), entities=people, facts=[])
    rows = [{"uuid": p["uuid"], "group_id": "g", "at": at(0)} for p in people]
    result = await memory.run("gated_summaries", entities=rows, params={"sample": 0.25})
    assert 0 < result.tables["skipped"].num_rows < 40
    assert result.meter.total().calls_issued == 0
    assert result.tables["counts"].to_pylist() == [
        {"reason": "same", "refreshed": False, "entities": 40}
    ]


async def test_an_entity_that_is_not_there_or_of_another_group_is_set_aside(memory: Memory) -> None:
    await one(memory)
    rows = [
        {"uuid": "nobody", "group_id": "g", "at": at(0)},
        {"uuid": "ann", "group_id": "h", "at": at(0)},
    ]
    result = await memory.run("gated_summaries", entities=rows)
    assert {f.error for f in result.failed} == {
        "there is no entity nobody in the group g",
        "there is no entity ann in the group h",
    }
