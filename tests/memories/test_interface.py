"""Every memory in plans/memories has the interface of docs/memories.md, and keeps its promises with any
conversation.
"""

from __future__ import annotations

import re
from contextlib import aclosing

import pytest

from benchmarks.memories.conversations import Asked, Conversation, of_world, score
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import MEMORIES, Memory
from benchmarks.world import StandIn
from semgraph.expr.types import type_of_arrow
from semgraph.folders import plans_folder
from semgraph.frontend.load import load_plan
from semgraph.stores.sqlite.store import SqliteStore
from tests.memories.conftest import turn

FOLDERS = sorted(path.parent for path in (plans_folder() / "memories").glob("*/write.yaml"))
ANSWERS = {
    "conversation": "string",
    "id": "string",
    "question": "string",
    "answer": "string",
    "evidence": "list<string>",
}
LINES = {"mem0g": 203}
"""The most lines of a memory; others have 160. Mem0g keeps when relations hold, in any order of arrival."""


FIRST = {
    "full context", "turns by both", "graphiti", "graphiti, lean", "mem0", "mem0g", "amem", "hipporag", "graphrag", "graphrag, global",
    "memoryos", "lightmem", "raptor",
}  # fmt: skip
EVERY = pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[] if one in FIRST else [pytest.mark.nightly]) for one in MEMORIES],
)
"""Every memory of the benchmark; those with other options nightly."""


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
    assert len([line for line in lines if not line.startswith("#")]) <= LINES.get(folder.name, 160)


async def told(name, conversation, **noise):
    async with StandIn() as server:
        return await over_world(MEMORIES[name], conversation, server)


@EVERY
async def test_most_questions_about_one_fact_are_answered(name):
    found = await told(name, of_world(2, 3, 0, 12))
    assert found.write.failed == found.read.failed == 0
    assert found.score.f1 > 0.5
    assert found.score.recall > 0.4


@EVERY
async def test_a_conversation_without_turns_tells_nothing(name):
    some = of_world(2, 3, 0, 12)
    found = await told(name, Conversation(some.name, [], some.asked, some.at))
    assert {row["answer"] for row in found.answers} <= {None}
    assert not any(row["evidence"] for row in found.answers)


async def test_a_conversation_that_cannot_be_written_is_not_measured(tmp_path):
    (tmp_path / "write.yaml").write_text(f"""
plan: broken
graph: {plans_folder()}/memories/turns/graph.yaml
inputs: {{turns: {{conversation: string, id: string, at: timestamp, speaker: string, text: string}}}}
windows: {{input: turns, order: [at], key: id, size: all}}
steps:
  parts:
    - from: turns
    - add: {{weight: "-1.0", next: "lag(id) OVER (PARTITION BY conversation ORDER BY turn)"}}
    - cluster: {{key: id, source: id, target: next, weight: weight, algorithm: louvain}}
    - project: {{conversation, id, text, at}}
writes: [{{merge: {{from: parts, node: Turn}}}}]
returns: [parts]
""")
    broken = Memory(str(tmp_path / "write.yaml"), "memories/turns/read")
    async with StandIn() as server:
        with pytest.raises(RuntimeError, match="weight"):
            await over_world(broken, of_world(2, 3, 0, 12), server)


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
    result = await turns.run(
        "read", {}, questions=[{**asked, "conversation": name} for name in ("c", "other")]
    )
    assert result.tables["answers"].num_rows == 0
    assert [one.error for one in result.failed] == ['two questions have the id "q"'] * 2


async def test_turns_of_one_time_are_shown_in_the_order_in_which_they_were_given(memory):
    turns = memory("turns")
    homes = ["Oslo", "Riga", "Accra", "Dakar", "Gdansk"]
    said = [turn(1, f"I live in {home}.") | {"id": f"t{9 + n}"} for n, home in enumerate(homes)]
    await turns.tell(*said)  # t9 before t10
    asked = {"conversation": "c", "id": "q", "question": "Where does Ada Costa live?", "at": None}
    result = await turns.run("read", {"preset": "full_context"}, questions=[asked])
    shown = sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"])
    assert [row["turns"] for row in shown] == [["t9"], ["t10"], ["t11"], ["t12"], ["t13"]]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
async def test_compare_takes_the_read_plan_of_any_memory_and_scores_its_answers(memory, folder):
    told = memory(folder.name)
    await told.tell(turn(1, "I work at Luma."))
    asked = {"conversation": "c", "id": "q", "question": "Where does Ada Costa work?", "at": None}
    found = await told.session.acompare(
        load_plan(folder / "read.yaml"), questions=[asked], step="answered/cited",
        variants=["per_row", "packed(rows=5)"], truth=[{"id": "q", "answer": "Luma"}], say=None,
    )  # fmt: skip
    assert [found[name].quality.f1 for name in ("per_row", "packed(rows=5)")] == [1, 1]


CITIES = [
    "Oslo",
    "Riga",
    "Accra",
    "Dakar",
    "Gdansk",
    "Lisbon",
    "Porto",
    "Quito",
    "Sofia",
    "Turin",
    "Vienna",
    "Warsaw",
]
# What a prompt of a memory lists in the order in which it was said.
LISTED = {
    "turns": [r"Records:(.*)"],
    "mem0": [r"Earlier messages: (.*)New messages:", r"^Summary so far:.*New messages: (.*)"],
    "memoryos": [r"Messages: (.*)"],
    "raptor": [r"Records:(.*)"],
}


@pytest.mark.parametrize("runs", [pytest.param(1, marks=pytest.mark.nightly), 3])
@pytest.mark.parametrize("name", LISTED)
async def test_a_session_of_one_time_keeps_its_order_in_prompts(memory, model, name, runs):
    told = memory(name)
    said = [
        turn(1, f"I have visited {city}.") | {"id": f"s1:{n}"} for n, city in enumerate(CITIES, 1)
    ]
    each, params = len(said) // runs, {"levels": 1} if name == "raptor" else {}
    for n in range(0, len(said), each):
        await told.tell(*said[n : n + each], params=params)
    if name == "turns":
        await told.ask("Which cities has Ada Costa visited?", preset="full_context")
    lists = [
        sorted(filter(found[1].__contains__, CITIES), key=found[1].index)
        for body in model.requests
        for pattern in LISTED[name]
        if (found := re.search(pattern, body["messages"][-1]["content"], re.DOTALL))
    ]
    assert max(map(len, lists)) > 3
    assert lists == [[city for city in CITIES if city in listed] for listed in lists]


async def test_a_turn_with_the_id_of_another_conversation_is_reported_and_not_mixed(memory):
    turns = memory("turns")
    await turns.tell(turn(1, "I work at Luma."))
    result = await turns.tell(turn(1, "I work at Acme.", conversation="other"))
    (failed,) = result.failed
    assert "the key of Turn t1 is taken" in failed.error
    assert "id(PARTITION, ...)" in failed.error
    question = "Where does Ada Costa work?"
    (here,) = await turns.ask(question)
    (there,) = await turns.ask(question, conversation="other")
    assert (here["answer"], there["answer"]) == ("Luma", None)


async def test_two_questions_with_the_same_text_get_the_same_answer(memory):
    turns = memory("turns")
    await turns.tell(turn(1, "I work at Luma."))
    answers = await turns.ask(*["Where does Ada Costa work?"] * 2)
    assert [(row["id"], row["answer"]) for row in answers] == [("q0", "Luma"), ("q1", "Luma")]


async def answers(memory, conversation):
    result = await memory.run("read", {}, questions=conversation.questions)
    return result.tables["answers"].to_pylist()


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("mem0g", {}), ("hipporag", {"window": 4}), ("memoryos", {"short": 2, "hot": 2}),
        *(
            pytest.param(name, params, marks=pytest.mark.nightly)
            for name, params in (("mem0", {}), ("amem", {}), ("graphiti", {}), ("lightmem", {"buffer": 4}))
        ),
    ],
)  # fmt: skip
async def test_a_write_that_stopped_half_way_and_is_run_again_leaves_the_same_answers(
    memory, name, params
):
    told = of_world(2, 3, 1, 12)
    turns = [dict(turn) for turn in told.turns[:12]]
    whole = memory(name)
    calls = (await whole.tell(*turns, params=params)).meter.total().calls_issued
    async with aclosing(SqliteStore(":memory:")) as store:
        stopped = await memory(name, kept=store, max_calls=calls // 2).tell(*turns, params=params)
        assert stopped.stopped
        assert stopped.committed < len(turns)
        again = memory(name, kept=store)
        assert (await again.tell(*turns, params=params)).skipped == stopped.committed
        assert await answers(again, told) == await answers(whole, told)
