"""Graphiti behind the interface: turns are episodes, and facts that are over stay with their days."""

from __future__ import annotations

import pytest

from benchmarks.world import Fault, StandIn
from semgraph.folders import plans_folder
from semgraph.frontend.document import read_file
from tests.memories.conftest import both_stores, turn

NOW, THEN = "Where does Ada Costa live?", "Where did Ada Costa live in January 2025?"
MOVES = (turn(1, "I live in Oslo."), turn(2, "I know Ben Ito."), turn(40, "I have moved to Riga."))


@both_stores
async def test_a_fact_that_is_over_answers_about_its_time_alone_on_both_stores(memory):
    graphiti = memory("graphiti")
    await graphiti.tell(*MOVES)
    now, then, unknown = await graphiti.ask(NOW, THEN, "Where does Katya Brandt live?")
    assert (now["answer"], now["evidence"]) == ("Riga", ["t40"])
    assert (then["answer"], then["evidence"]) == ("Oslo", ["t1"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])
    ends = {row["fact"]: row["invalid_at"] for row in await graphiti.rows("RELATES_TO")}
    assert f"{ends['Ada Costa lives in Oslo.']:%Y-%m-%d}" == "2025-02-10"
    assert ends["Ada Costa has moved to Riga."] is None


async def test_a_turn_that_comes_late_ends_nothing_that_was_said_after_it(memory):
    graphiti = memory("graphiti")
    await graphiti.tell(turn(9, "I live in Oslo."))
    await graphiti.tell(turn(1, "I live in Riga."))
    (answer,) = await graphiti.ask(NOW)
    assert (answer["answer"], answer["evidence"]) == ("Oslo", ["t9"])


async def test_conversations_do_not_know_each_other(memory):
    graphiti = memory("graphiti")
    await graphiti.tell(MOVES[0], {**MOVES[2], "conversation": "other"})
    (here,), (there,) = await graphiti.ask(NOW), await graphiti.ask(NOW, conversation="other")
    assert (here["answer"], there["answer"]) == ("Oslo", "Riga")


async def test_a_failure_half_way_loses_its_own_turn_only_and_the_next_run_adds_it(memory):
    async with StandIn(faults=(Fault("refusal", on=(2,)),)) as broken:
        first = await memory("graphiti", broken).tell(*MOVES)
    assert (len(first.failed), first.committed) == (1, 2)
    second = await memory("graphiti").tell(*MOVES)
    assert (second.skipped, second.committed) == (2, 1)


@pytest.mark.parametrize(
    "preset",
    [
        "graphiti", "seed_fused", "reflexion", "combined", "fused", "lean", "ready", "bulk", "summaries_always",
        "summaries_gated", "documents",
    ],
)  # fmt: skip
async def test_each_preset_of_add_episode_writes_the_same_facts(memory, preset):
    presets = [
        read_file(plans_folder() / f"{name}.yaml").data["presets"]
        for name in ("add_episode", "memories/graphiti/write")
    ]
    assert presets[0].keys() - {"seed"} == presets[1].keys(), "seed does not ask about other homes"
    graphiti = memory("graphiti")
    await graphiti.tell(*MOVES, preset=preset)
    ends = {row["fact"]: row["invalid_at"] is None for row in await graphiti.rows("RELATES_TO")}
    assert ends == {
        "Ada Costa lives in Oslo.": False, "Ada Costa knows Ben Ito.": True, "Ada Costa has moved to Riga.": True,
    }  # fmt: skip
