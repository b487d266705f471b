"""Questions about a world are answered from records of its messages alone."""

from __future__ import annotations

import json

import pytest

from benchmarks.world.answers.answering import answered
from benchmarks.world.dates import iso
from benchmarks.world.difficulty import LEVELS
from benchmarks.world.questions import KINDS, WIDER, questions
from benchmarks.world.world import World


def records_of(world):
    return [
        {"number": number, "at": iso(message.at), "text": message.content}
        for number, message in enumerate(world.episodes, start=1)
    ]


def asked(world, records, question):
    end = iso(world.episodes[-1].at)
    return answered({"question": question, "at": end, "records": json.dumps(records)})


@pytest.mark.parametrize("level", LEVELS)
def test_all_messages_answer_all_questions(level):
    world = World.make(3, 8, level)
    told = {fact.key: fact.episodes for fact in world.gold().facts}
    numbers = {message.uuid: number for number, message in enumerate(world.episodes, start=1)}
    for one in questions(world, world.episodes[-1].at, count=60, kinds=(*KINDS, *WIDER)):
        found = asked(world, records_of(world), one.text)
        assert (found["answer"] or "") == one.answer, one.text
        for key in one.edges:
            assert {numbers[uuid] for uuid in told[key]} & set(found["sources"]), one.text


def test_without_the_messages_with_the_answer_there_is_none():
    world = World.make(3, 8, 0)
    told = {fact.key: set(fact.episodes) for fact in world.gold().facts}
    now = [q for q in questions(world, world.episodes[-1].at, count=30) if q.kind == "since"]
    for one in now:
        kept = [
            record
            for record, message in zip(records_of(world), world.episodes, strict=True)
            if message.uuid not in told[one.edges[0]]
        ]
        assert asked(world, kept, one.text)["answer"] != one.answer


def test_brackets_say_when_a_record_was_true():
    records = [
        {
            "number": 1,
            "at": None,
            "text": "Ada Costa works at Luma. (from 2024-01-01 until 2024-03-01)",
        },
        {"number": 2, "at": None, "text": "Ada Costa works at Acme Labs. (from 2024-03-01)"},
    ]
    question = {"at": "2024-06-01T00:00:00Z", "records": json.dumps(records)}
    assert answered(question | {"question": "Where does Ada Costa work?"}) == {
        "answer": "Acme Labs",
        "sources": [2],
    }
    past = answered(question | {"question": "Where did Ada Costa work in January 2024?"})
    assert past == {"answer": "Luma", "sources": [1]}
    before = answered(question | {"question": "Where did Ada Costa work before Acme Labs?"})
    assert before == {"answer": "Luma", "sources": [1, 2]}
