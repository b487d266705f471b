"""GraphRAG: reports on communities answer questions about all, entities those about what is named."""

from __future__ import annotations

import random

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.world import Fault, StandIn
from tests.memories.conftest import both_stores, turn

BEN = "Ben Ito"
TURNS = (
    turn(1, "I have joined Luma."),
    turn(2, "I live in Riga.", BEN),
    turn(3, "Ada Costa works at Luma.", BEN),
    turn(4, "I have moved to Riga."),
    turn(5, "I have joined Kestrel Labs.", BEN),
    turn(6, "I have left Luma. I have joined Kestrel Labs."),
    turn(7, "I have moved to Oslo.", BEN),
)
QUESTIONS = (
    "Where does Ada Costa work?",
    "Who has changed jobs?",
    "Which places do people live in?",
)
ANSWERS = ["Kestrel Labs", "Ada Costa", "Oslo, Riga"]


def findings(rows, *conversations):
    return sorted(
        row["text"] for row in rows if not conversations or row["conversation"] in conversations
    )


async def test_questions_about_all_are_answered_from_the_reports_alone():
    scores = {}
    for name in ("graphrag", "graphrag, local", "turns by both"):
        async with StandIn() as server:
            scores[name] = (await over_world(MEMORIES[name], of_world(2), server)).score.by_kind
    assert scores["graphrag"]["global"] > scores["graphrag, local"]["global"] + 0.05
    assert scores["graphrag"]["global"] > scores["turns by both"]["global"] + 0.2


async def test_large_communities_are_split_and_each_level_holds_all_entities(memory):
    graphrag = memory("graphrag")
    result = await graphrag.tell(*of_world(1, 16).turns, params={"largest": 8})
    levels: dict[int, dict[str, set[str]]] = {}
    for row in result.tables["communities"].to_pylist():
        levels.setdefault(row["round"], {}).setdefault(row["community"], set()).add(row["entity"])
    assert max(map(len, levels[1].values())) > 8
    assert len(levels[2]) > len(levels[1])
    for community in levels[2].values():
        assert any(community <= other for other in levels[1].values())
    reports = {row["community"]: row["levels"] for row in result.tables["reports"].to_pylist()}
    for level, communities in levels.items():
        assert all(level - 1 in reports[name] for name in communities)


async def test_a_finding_rests_on_the_turns_that_say_it(memory):
    told, graphrag = of_world(1), memory("graphrag")
    assert not (await graphrag.tell(*told.turns)).failed
    said = {row["id"]: f"{row['speaker']} {row['text']}" for row in told.turns}
    rows = await graphrag.rows("Finding")
    assert rows
    for row in rows:
        who = row["text"].split(": ")[1].split()[0]
        assert all(who in said[turn] or "She" in said[turn] for turn in row["turns"])


async def test_points_are_collected_in_batches_and_put_together(memory, model):
    graphrag, told = memory("graphrag"), of_world(1)
    await graphrag.tell(*told.turns)
    options = {"conversation": told.name, "preset": "global"}
    question = "Which places do people live in?"
    (whole,) = await graphrag.ask(question, **options)
    model.reset()
    (parts,) = await graphrag.ask(question, params={"batch": 300}, **options)
    assert sum("Findings:" in str(body["messages"]) for body in model.requests) > 2
    assert whole["answer"]
    assert set(parts["answer"].split(", ")) <= set(whole["answer"].split(", "))


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    graphrag = memory("graphrag")
    await graphrag.tell(*TURNS)
    for preset in (None, "global", "local"):
        answers = await graphrag.ask(*QUESTIONS, preset=preset)
        assert [row["answer"] for row in answers] == ANSWERS
        assert "t6" in answers[0]["evidence"]


async def test_one_turn_is_enough(memory):
    graphrag = memory("graphrag")
    await graphrag.tell(TURNS[0])
    for params in ({"search": "global"}, {"search": "global", "level": 2}, {"search": "local"}):
        (answer,) = await graphrag.ask("Where does Ada Costa work?", params=params)
        assert (answer["answer"], answer["evidence"]) == ("Luma", ["t1"])


async def test_turns_that_relate_nothing_have_no_community(memory):
    graphrag = memory("graphrag")
    assert not (await graphrag.tell(turn(1, "Good morning."), turn(2, "Hello, Ben Ito."))).failed
    assert {row["name"] for row in await graphrag.rows("Entity")} == {"Ada Costa", BEN}
    assert await graphrag.rows("Finding") == []
    (answer,) = await graphrag.ask("Who has changed jobs?")
    assert (answer["answer"], answer["evidence"]) == (None, [])


async def test_the_order_of_the_rows_does_not_matter(memory):
    graphrag = memory("graphrag")
    await graphrag.tell(*TURNS)
    mixed = random.Random(1).sample(TURNS, len(TURNS))
    await graphrag.tell(*({**one, "conversation": "mixed"} for one in mixed))
    rows = await graphrag.rows("Finding")
    assert findings(rows, "mixed") == findings(rows, "c")


async def test_what_was_never_said_is_not_answered(memory):
    graphrag = memory("graphrag")
    await graphrag.tell(*TURNS)
    for preset in ("global", "local"):
        answers = await graphrag.ask(
            "Where does Vera Lind live?", "When was Ada Costa born?", preset=preset
        )
        assert [(row["answer"], row["evidence"]) for row in answers] == [(None, []), (None, [])]


async def test_new_turns_are_reported_with_what_was_known(memory):
    graphrag = memory("graphrag")
    await graphrag.tell(*({**one, "conversation": "other"} for one in TURNS))
    await graphrag.tell(*TURNS[:5])
    first = await graphrag.rows("Finding")
    await graphrag.tell(*TURNS[5:])
    rows = await graphrag.rows("Finding")
    assert findings(rows, "c") != findings(first, "c")
    assert findings(rows, "c") == findings(rows, "other") == findings(first, "other")


async def test_a_write_that_stopped_half_way_writes_nothing_and_is_run_again(memory):
    graphrag = memory("graphrag")
    assert (await memory("graphrag", max_calls=3).tell(*TURNS)).stopped
    assert await graphrag.rows("RELATED") == []
    assert not (await graphrag.tell(*TURNS)).stopped
    assert [row["answer"] for row in await graphrag.ask(*QUESTIONS)] == ANSWERS


@pytest.mark.parametrize(
    "fault", [Fault("prose", on=(2, 8)), Fault("truncated", on=(2, 8)), Fault("refusal", on=(2,))]
)
async def test_a_turn_that_is_not_read_is_reported_and_read_by_the_next_run(memory, fault):
    async with StandIn(faults=(fault,)) as broken:
        graphrag = memory("graphrag", broken)
        (failure,) = (await graphrag.tell(*TURNS)).failed
        read = {row["turn"] for row in await graphrag.rows("RELATED")}
        assert read == {row["id"] for row in TURNS} - {failure.row["id"]}
    mended = memory("graphrag")
    assert not (await mended.tell(*TURNS)).failed
    assert {row["turn"] for row in await mended.rows("RELATED")} == {row["id"] for row in TURNS}
    assert [row["answer"] for row in await mended.ask(*QUESTIONS)] == ANSWERS


async def test_turns_without_a_report_are_reported_and_written_by_the_next_run(memory):
    async with StandIn(faults=(Fault("prose", on=tuple(range(8, 30))),)) as broken:
        graphrag = memory("graphrag", broken)
        assert (await graphrag.tell(*TURNS)).failed
    mended = memory("graphrag")
    assert not (await mended.tell(*TURNS)).failed
    assert [row["answer"] for row in await mended.ask(*QUESTIONS)] == ANSWERS


async def test_numbers_of_missing_findings_are_no_evidence(memory):
    await memory("graphrag").tell(*TURNS)
    async with StandIn(faults=(Fault("wrong_ids", rate=1.0),)) as broken:
        (answer,) = await memory("graphrag", broken).ask(QUESTIONS[0], preset="local")
        assert answer["evidence"] == []
