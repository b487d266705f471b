"""Every memory in plans/memories has the interface of docs/memories.md, and keeps its promises with any
conversation.
"""

from __future__ import annotations

import pytest

from benchmarks.memories.conversations import Asked, Conversation, of_world, score
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.world import StandIn
from semgraph.expr.types import type_of_arrow
from semgraph.frontend.load import load_plan
from semgraph.shipped import plans_folder
from tests.memories.conftest import turn

FOLDERS = sorted(path.parent for path in (plans_folder() / "memories").glob("*/write.yaml"))
ANSWERS = {
    "conversation": "string",
    "id": "string",
    "question": "string",
    "answer": "string",
    "evidence": "list<string>",
}
LINES = 150


def columns(schema):
    return {field.name: str(type_of_arrow(field.type)) for field in schema}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_plans_have_the_interface(folder):
    write, read = load_plan(folder / "write.yaml"), load_plan(folder / "read.yaml")
    assert write.writes
    assert {name for name, spec in write.inputs.items() if not spec.optional} == {"turns"}
    assert {name for name, spec in read.inputs.items() if not spec.optional} == {"questions"}
    answers = columns(read.returns["answers"].schema)
    assert ANSWERS.items() <= answers.items()
    assert "shown" in read.returns


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_memory_is_short(folder):
    lines = [line for path in folder.glob("*.yaml") for line in path.read_text().splitlines()]
    assert len(lines) <= LINES


async def told(name, conversation, **noise):
    async with StandIn() as server:
        return await over_world(MEMORIES[name], conversation, server)


@pytest.mark.parametrize("name", MEMORIES)
async def test_most_questions_about_one_fact_are_answered(name):
    found = await told(name, of_world(2, 3, 0, 12))
    assert found.write.failed == found.read.failed == 0
    assert found.score.f1 > 0.5
    assert found.score.recall > 0.4


@pytest.mark.parametrize("name", MEMORIES)
async def test_a_conversation_without_turns_tells_nothing(name):
    some = of_world(2, 3, 0, 12)
    found = await told(name, Conversation(some.name, [], some.asked, some.at))
    assert {row["answer"] for row in found.answers} <= {None}
    assert not any(row["evidence"] for row in found.answers)


def test_a_question_without_an_answer_is_right_if_it_is_declined():
    asked = [
        Asked("a", "?", "", "unanswerable"),
        Asked("b", "?", "Luma", "now", (frozenset({"t1", "t2"}),)),
    ]
    declined = [{"id": name, "answer": None, "evidence": []} for name in "ab"]
    right = {"id": "b", "answer": "Luma", "evidence": ["t2"]}
    assert score(asked, declined).f1 == 0.5
    assert score(asked, [declined[0], right]).f1 == 1
    assert score(asked, [declined[0], right]).recall == 1
    assert score(asked, [right]).f1 == 0.5


async def test_questions_of_two_conversations_with_one_id_are_reported_and_not_mixed(memory):
    turns = memory("turns")
    await turns.tell(turn(1, "I work at Luma."))
    asked = {"id": "q", "question": "Where does Ada Costa work?", "at": "2025-05-01T00:00:00Z"}
    result = await turns._run(
        "read", {}, questions=[{**asked, "conversation": name} for name in ("c", "other")]
    )
    assert result.tables["answers"].num_rows == 0
    assert [one.error for one in result.failed] == ['two questions have the id "q"'] * 2
