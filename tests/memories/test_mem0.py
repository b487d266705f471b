"""Mem0: each statement is held against the memories like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.memory import ROWS
from benchmarks.world.answers.reading import listed
from tests.memories.conftest import both_stores, turn

WORKS, LIVES = "Where does Ada Costa work?", "Where does Ada Costa live?"


def texts(rows):
    return sorted(row["text"] for row in rows)


async def test_each_decision_does_what_it_says(memory):
    mem0 = memory("mem0")
    told = (
        turn(1, "I work at Luma. I live in Riga."),
        turn(2, "I have moved to Oslo."),
        turn(3, "I work at Luma."),
        turn(4, "I have left Luma."),
    )
    result = await mem0.tell(*told, params={"pair": 1})
    assert [row["event"] for row in result.tables["decided"].to_pylist()] == [
        "ADD", "ADD", "UPDATE", "NOOP", "DELETE",
    ]  # fmt: skip
    (kept,) = await mem0.rows("Memory")
    assert kept["text"] == "Ada Costa has moved to Oslo."
    assert kept["history"] == ["Ada Costa lives in Riga."]
    assert kept["turns"] == ["t2"]


async def test_a_memory_that_joins_two_statements_rests_on_the_turns_of_both(memory, monkeypatch):
    def joined(record):
        (known,) = listed(record["known"])
        both = f"{known['text']} {record['statement']}"
        return {"event": "UPDATE", "memory": known["number"], "becomes": both}

    monkeypatch.setitem(ROWS, "event memory becomes", joined)
    mem0 = memory("mem0")
    await mem0.tell(turn(1, "I work at Luma."), turn(2, "I live in Riga."), params={"pair": 1})
    (kept,) = await mem0.rows("Memory")
    assert (kept["text"], kept["turns"]) == (
        "Ada Costa works at Luma. Ada Costa lives in Riga.",
        ["t1", "t2"],
    )


@pytest.mark.nightly
async def test_without_decisions_questions_about_the_present_get_outdated_answers():
    scores = {}
    for name in ("mem0", "mem0, only added"):
        few = replace(MEMORIES[name], read_options={"params": {"k": 10}})
        async with StandIn() as server:
            found = await over_world(few, of_world(1), server)
        scores[name] = found.score.by_kind
    assert scores["mem0"]["now"] == 1 > scores["mem0, only added"]["now"]
    assert scores["mem0"]["global"] > scores["mem0, only added"]["global"] + 0.1
    assert scores["mem0"]["then"] < scores["mem0, only added"]["then"], (
        "the price: the past is gone"
    )


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    mem0 = memory("mem0")
    await mem0.tell(
        turn(1, "I have joined Luma."),
        turn(2, "I live in Riga. Ada is a friend.", "Ben Ito"),
        turn(3, "I have moved to Riga."),
    )
    works, lives, unknown = await mem0.ask(WORKS, LIVES, "Where does Katya Brandt work?")
    assert (works["answer"], works["evidence"]) == ("Luma", ["t1"])
    assert (lives["answer"], lives["evidence"]) == ("Riga", ["t3"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])


async def test_the_messages_before_give_a_first_name_its_surname(memory):
    mem0 = memory("mem0")
    await mem0.tell(
        turn(1, "I know Jonas Haddad."), turn(2, "Hello."), turn(3, "Jonas lives in Oslo.")
    )
    assert "Jonas Haddad lives in Oslo." in texts(await mem0.rows("Memory"))


async def test_the_summary_names_those_whom_the_last_messages_do_not(memory):
    mem0 = memory("mem0")
    small = [turn(day, "What a day.") for day in range(2, 12)]
    params = {"recent": 3, "every": 2}
    await mem0.tell(
        turn(1, "I know Jonas Haddad."), *small, turn(12, "Jonas lives in Oslo."), params=params
    )
    assert "Jonas Haddad lives in Oslo." in texts(await mem0.rows("Memory"))
    (summary,) = await mem0.rows("Summary")
    assert "Jonas Haddad" in summary["text"]


async def test_turns_of_one_time_keep_their_order_in_context_and_summary(memory, model):
    mem0 = memory("mem0")
    texts_said = ["I know Jonas Haddad.", "Jonas lives in Oslo.", *(f"Day {n}." for n in range(9))]
    turns = [turn(1, text) | {"id": f"t{n}"} for n, text in enumerate(texts_said, start=1)]
    params = {"pair": 1, "every": 2}
    await mem0.tell(*turns[:6], params=params)
    await mem0.tell(*turns[6:], params=params)
    assert "Jonas Haddad lives in Oslo." in texts(await mem0.rows("Memory"))
    asked = [body["messages"][-1]["content"] for body in model.requests]
    told = [text for text in asked if text.startswith("Summary so far")]
    assert [[said for said in texts_said if said in text.split("New messages")[1]] for text in told] == [
        texts_said[n : n + 2] for n in range(0, 10, 2)
    ]  # fmt: skip


async def test_an_addition_that_names_a_memory_hides_no_deletion_of_it(memory, monkeypatch):
    def wordy(record):
        event = "DELETE" if "left" in record["statement"] else "ADD"
        return {"event": event, "memory": listed(record["known"])[0]["number"], "becomes": None}

    monkeypatch.setitem(ROWS, "event memory becomes", wordy)
    mem0 = memory("mem0")
    await mem0.tell(turn(1, "I work at Luma."), params={"pair": 1})
    await mem0.tell(turn(2, "I have left Luma. I live in Riga."))
    assert texts(await mem0.rows("Memory")) == ["Ada Costa lives in Riga."]


async def test_blank_answers_change_nothing(memory, monkeypatch):
    def blank(record):
        return {"event": "UPDATE", "memory": listed(record["known"])[0]["number"], "becomes": " \n"}

    monkeypatch.setitem(ROWS, "event memory becomes", blank)
    mem0 = memory("mem0")
    await mem0.tell(
        turn(1, "I live in Riga."), turn(2, "I have moved to Oslo."), params={"pair": 1}
    )
    assert texts(await mem0.rows("Memory")) == ["Ada Costa has moved to Oslo."]
    monkeypatch.setitem(
        ROWS, "remembered", lambda _: {"remembered": [{"statement": "\n", "message": 1}]}
    )
    monkeypatch.setitem(ROWS, "overview", lambda _: {"overview": "\n"})
    await mem0.tell(turn(3, "I know Ben Ito."), params={"every": 1})
    assert texts(await mem0.rows("Memory")) == ["Ada Costa has moved to Oslo."]
    assert await mem0.rows("Summary") == []


async def test_two_statements_of_one_pair_that_change_one_memory_are_both_kept(memory):
    mem0 = memory("mem0")
    await mem0.tell(turn(1, "I live in Riga."), params={"pair": 1})
    await mem0.tell(turn(2, "I live in Oslo."), turn(3, "I live in Accra."))
    assert texts(await mem0.rows("Memory")) == [
        "Ada Costa lives in Accra.",
        "Ada Costa lives in Oslo.",
    ]


async def test_a_late_turn_about_an_earlier_time_takes_nothing_away(memory):
    mem0 = memory("mem0")
    await mem0.tell(turn(9, "I live in Oslo."))
    await mem0.tell(turn(1, "I live in Riga."))
    assert texts(await mem0.rows("Memory")) == [
        "Ada Costa lives in Oslo.",
        "Ada Costa lives in Riga.",
    ]
    (answer,) = await mem0.ask(LIVES)
    assert (answer["answer"], answer["evidence"]) == ("Oslo", ["t9"])


async def test_conversations_do_not_know_each_other(memory):
    mem0 = memory("mem0")
    await mem0.tell(turn(1, "I live in Riga."), turn(2, "I live in Oslo.", conversation="other"))
    assert texts(await mem0.rows("Memory")) == [
        "Ada Costa lives in Oslo.",
        "Ada Costa lives in Riga.",
    ]
    (answer,) = await mem0.ask(LIVES, conversation="other")
    assert answer["answer"] == "Oslo"


@pytest.mark.parametrize("kind", ["prose", "truncated", "refusal", "wrong_ids"])
async def test_a_pair_without_an_answer_is_reported_and_told_again(memory, kind):
    turns = [turn(1, "I live in Riga."), turn(2, "I work at Luma."), turn(3, "I know Ben Ito.")]
    async with StandIn(faults=(Fault(kind, rate=1.0),)) as broken:
        failed = (await memory("mem0", broken).tell(*turns)).failed
    assert len(failed) == 3
    mem0 = memory("mem0")
    assert await mem0.rows("Memory") == []
    await mem0.tell(*turns)
    assert len(await mem0.rows("Memory")) == 3


async def test_a_failure_half_way_loses_its_own_pair_only_and_the_next_run_adds_it(memory):
    turns = [
        turn(1, "I live in Riga."),
        turn(2, "I have moved to Oslo."),
        turn(3, "I work at Luma."),
    ]
    params = {"pair": 1}
    async with StandIn(faults=(Fault("refusal", on=(2,)),)) as broken:
        result = await memory("mem0", broken).tell(*turns, params=params)
    assert len(result.failed) == 1
    mem0 = memory("mem0")
    before = texts(await mem0.rows("Memory"))
    assert len(before) < 3
    await mem0.tell(*turns, params=params)
    await mem0.tell(*turns, params=params)
    assert texts(await mem0.rows("Memory")) == [
        "Ada Costa has moved to Oslo.",
        "Ada Costa works at Luma.",
    ]
