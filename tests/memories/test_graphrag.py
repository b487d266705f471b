"""GraphRAG: reports on communities answer questions about all, entities those about what is named."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from datetime import datetime

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.memory import ROWS
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


@pytest.mark.nightly
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


async def test_a_report_sees_relations_by_the_number_of_relations_of_their_ends(memory, model):
    graphrag = memory("graphrag")
    await graphrag.tell(*of_world(2, 4).turns)
    asked = (body["messages"][-1]["content"] for body in model.requests)
    seen = [
        [
            (one["states"], datetime.fromisoformat(one["said"]).isoformat())
            for one in json.loads(found[1])
        ]
        for found in (re.search(r"Statements: (\[.*\])", text) for text in asked)
        if found
    ]
    rows = await graphrag.rows("RELATED")
    relations = {(row["description"], row["at"].isoformat()): row for row in rows}
    degree = Counter(row[end] for row in rows for end in ("source", "target"))
    assert max(map(len, seen)) > 4
    for keys in seen:
        of = [relations[key] for key in keys]
        order = [(-degree[row["source"]] - degree[row["target"]], row["at"]) for row in of]
        assert order == sorted(order)


async def test_a_level_is_read_from_the_reports_on_its_communities_and_on_smaller_ones(
    memory, model
):
    graphrag, told = memory("graphrag"), of_world(1, 16)
    result = await graphrag.tell(*told.turns, params={"largest": 8})
    levels: dict[int, set[str]] = {}
    for row in result.tables["communities"].to_pylist():
        levels.setdefault(row["round"] - 1, set()).add(row["community"])
    rows = await graphrag.rows("Finding")
    assert len(levels) > 1
    for level, communities in levels.items():
        model.reset()
        await graphrag.ask(
            QUESTIONS[2], conversation=told.name, params={"search": "global", "level": level}
        )
        (shown,) = (
            json.loads(found[1])
            for body in model.requests
            if (found := re.search(r"Findings: (\[.*\])", body["messages"][-1]["content"]))
        )
        of_level = [row["text"] for row in rows if row["report"] in communities]
        assert sorted(one["text"] for one in shown) == sorted(of_level)


async def test_points_are_shown_by_their_scores_and_those_of_0_are_not(memory, monkeypatch):
    graphrag = memory("graphrag")
    await graphrag.tell(*TURNS)
    points = [
        {"point": f"2025-01-0{n}: Ada Costa works at {name}.", "score": score, "findings": [1]}
        for n, (name, score) in enumerate([("Luma", 5), ("Acme", 0), ("Kestrel", 90), ("Iron", -1)])
    ]
    monkeypatch.setitem(ROWS, "points", lambda _: {"points": points})
    asked = {"conversation": "c", "id": "q", "question": QUESTIONS[0]}
    result = await graphrag.run("read", {"preset": "global", "until": "shown"}, questions=[asked])
    rows = sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"])
    assert [row["score"] for row in rows] == [90, 5]


async def test_strong_relations_hold_communities_together(memory, monkeypatch):
    graphrag, found = memory("graphrag"), []
    ring = [turn(day, f"I know {day % 4}.", speaker=str(day - 1)) for day in (1, 2, 3, 4)]
    for n in range(2):  # without strengths each of both ways is as good
        name, strong = f"ring {n}", n % 2
        monkeypatch.setitem(
            ROWS, "entities relations",
            lambda record, strong=strong: {"entities": [], "relations": [_knows(record["content"], strong)]},
        )  # fmt: skip
        told = [{**one, "conversation": name, "id": f"{name} {one['id']}"} for one in ring]
        result = await graphrag.tell(*told, params={"levels": 1})
        names = {row["id"]: row["name"] for row in await graphrag.rows("Entity")}
        parts: dict[str, set[str]] = {}
        for row in result.tables["communities"].to_pylist():
            parts.setdefault(row["community"], set()).add(names[row["entity"]])
        found.append(sorted(map(sorted, parts.values())))
    assert found == [[["0", "1"], ["2", "3"]], [["0", "3"], ["1", "2"]]]


def _knows(text, strong):
    """Of four people in a ring every other relation is strong."""
    source, target = re.findall(r"\d", text)
    strength = 10 if int(source) % 2 == strong else 1
    return {"source": source, "target": target, "description": text, "strength": strength}


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
    "fault",
    [
        Fault("prose", on=(2, 8)),
        pytest.param(Fault("truncated", on=(2, 8)), marks=pytest.mark.nightly),
        Fault("refusal", on=(2,)),
    ],
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


@pytest.mark.parametrize("strength", [-1, pytest.param(0, marks=pytest.mark.nightly), 2**63 - 1])
async def test_a_strength_out_of_its_range_is_brought_into_it(memory, monkeypatch, strength):
    relations = ROWS["entities relations"]

    def answered(record):
        found = relations(record)
        return {**found, "relations": [{**one, "strength": strength} for one in found["relations"]]}

    monkeypatch.setitem(ROWS, "entities relations", answered)
    graphrag = memory("graphrag")
    await graphrag.tell(*TURNS)
    assert {row["strength"] for row in await graphrag.rows("RELATED")} == {
        10 if strength > 0 else 1
    }
    assert await graphrag.rows("Finding")


async def test_blank_answers_are_no_entity_no_relation_and_no_finding(memory, monkeypatch):
    blank = {"source": "Ada", "target": "Ben", "description": " \n", "strength": 1}
    elements, report = ROWS["entities relations"], ROWS["title summary rating findings"]
    monkeypatch.setitem(
        ROWS, "entities relations",
        lambda record: {
            "entities": [*elements(record)["entities"], {"name": " \n", "kind": ""}],
            "relations": [*elements(record)["relations"], blank, {**blank, "source": " ", "description": "A."}],
        },
    )  # fmt: skip
    monkeypatch.setitem(
        ROWS, "title summary rating findings",
        lambda record: {
            **report(record),
            "findings": [
                *report(record)["findings"], {"text": "\n", "relations": [1]}, {"text": "No source.", "relations": []},
            ],
        },
    )  # fmt: skip
    graphrag = memory("graphrag")
    await graphrag.tell(*TURNS)
    assert all(row["name"].strip() for row in await graphrag.rows("Entity"))
    assert all(row["description"].strip() for row in await graphrag.rows("RELATED"))
    assert all(row["text"] and row["turns"] for row in await graphrag.rows("Finding"))
    assert [row["answer"] for row in await graphrag.ask(*QUESTIONS)] == ANSWERS


@pytest.mark.parametrize(
    ("params", "lost"),
    [({"search": "global"}, 1), ({"search": "global", "batch": 20}, 3), ({"search": "auto"}, 1)],
    ids=["points", "points of one batch", "choice of the search"],
)
async def test_a_question_for_which_the_search_failed_is_reported_and_not_declined(
    memory, params, lost
):
    await memory("graphrag").tell(*TURNS)
    async with StandIn(faults=(Fault("refusal", on=(lost,)),)) as broken:
        result = await memory("graphrag", broken).run(
            "read", {"params": params},
            questions=[{"conversation": "c", "id": "q", "question": QUESTIONS[0], "at": "2026-01-01T00:00:00Z"}],
        )  # fmt: skip
    assert result.tables["answers"].num_rows == 0
    assert len(result.failed) == 1
