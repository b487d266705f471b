"""One question about all that is open once an episode is read: who is who, and what its facts are
to the known ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.world import StandIn
from tests.plans.conftest import Memory, at, both_stores

Remember = Callable[[StandIn], Memory]
FUSED: dict[str, Any] = {"preset": "fused"}
APART: dict[str, Any] = {"use": {"judge": "judge_episode(fuse_dates=false)"}}
PEOPLE = {
    "glider": ("Sam", "Sam flies a glider."), "cello": ("Sam", "Sam plays the cello."), "luma": ("Luma", ""),
    "alice": ("Alice Chen", "Alice Chen sings."), "bob": ("Bob Marsh", "Bob Marsh sings."),
}  # fmt: skip


class Answering(StandIn):
    """Answers the one question in a way of its own."""

    def __init__(self, **answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def _row(self, skill: str, record: Any) -> dict[str, Any]:
        return self._answer if skill == "names facts" else super()._row(skill, record)


async def planted(memory: Memory, *who: str, **facts: tuple[str, str]) -> None:
    """Entities, and facts by their sentences, that the graph holds."""
    entities = [
        {"uuid": u, "group_id": "g", "name": PEOPLE[u][0], "summary": PEOPLE[u][1]} for u in who
    ]
    rows = [
        {
            "uuid": fact,
            "group_id": "g",
            "source": source,
            "target": target,
            "name": "SAID",
            "valid_at": at(0),
        }
        | {"fact": f"{fact.replace('_', ' ')}.", "episodes": []}
        for fact, (source, target) in facts.items()
    ]
    await memory.run(memory.here("planted.yaml"), entities=entities, facts=rows)


def question(memory: Memory) -> str:
    """The one question of the last episode."""
    said = [str(body["messages"][-1]["content"]) for body in memory.model.requests]
    return next(text for text in reversed(said) if "Names in doubt:" in text)


@pytest.mark.parametrize(
    ("way", "hobby", "ends"),
    [
        (FUSED, "glider", True),
        (APART, "cello", False),
        pytest.param(FUSED, "cello", False, marks=pytest.mark.nightly),
        pytest.param(APART, "glider", True, marks=pytest.mark.nightly),
    ],
)
async def test_what_is_known_of_one_who_was_not_meant_does_not_count(
    memory: Memory, way: dict[str, Any], hobby: str, ends: bool
) -> None:
    await planted(memory, "glider", "cello", "luma", Sam_works_at_Luma=("glider", "luma"))
    await memory.hear(f"Sam works at Acme. Sam has his {hobby} here.", **way)
    graph = await memory.graph()
    assert graph.fact("Sam works at Acme")["source"] == hobby
    assert (graph.fact("Sam works at Luma")["invalid_at"] is not None) is ends
    assert memory.model.calls["names facts"] == 1
    assert not memory.model.calls.keys() & {
        "match",
        "verdict",
        "since until duplicates contradicts",
    }


@both_stores
async def test_both_ends_may_be_in_doubt(memory: Memory) -> None:
    await planted(memory, "alice", "bob", Alice_Chen_knows_Bob_Marsh=("alice", "bob"))
    await memory.hear("Alice knows Bob.", **FUSED)
    graph = await memory.graph()
    assert graph.arrows == [("Alice Chen", "SAID", "Bob Marsh")]
    assert len(graph.fact("Alice")["episodes"]) == 1
    assert memory.model.calls == {"entities facts": 1, "names facts": 1, "summary": 1}


async def test_only_what_is_open_is_shown(memory: Memory) -> None:
    await planted(memory, "alice", "luma", Alice_Chen_works_at_Luma=("alice", "luma"))
    await memory.hear("I live in Rome. Alice works at Acme.", **FUSED)
    shown = question(memory)
    assert 'Names in doubt: [{"candidates":[1],"name":"Alice","number":1}]' in shown
    assert 'Known entities: [{"known":"Alice Chen sings.","name":"Alice Chen","number":1}]' in shown
    assert (
        'New facts: [{"compare":[1],"date":false,"fact":"Alice works at Acme.","number":1}]'
        in shown
    )
    assert 'Known facts: [{"fact":"Alice Chen works at Luma.","number":1}]' in shown


async def test_where_nothing_is_open_nothing_is_asked(memory: Memory) -> None:
    await memory.hear("I live in Rome.", "I live in Rome.", "I live in Rome.", **FUSED)
    assert memory.model.calls == {"entities facts": 3}
    assert len((await memory.graph()).fact("Ann lives")["episodes"]) == 3


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        ([], []),
        (
            [{"number": 1, "known": 7}],
            [{"number": 9, "since": None, "until": None, "duplicates": [], "contradicts": [1]}],
        ),
    ],
    ids=["left out", "of other numbers"],
)
async def test_what_is_not_answered_is_asked_about_as_without_it(
    remember: Remember, names: list[Any], facts: list[Any]
) -> None:
    async with Answering(names=names, facts=facts) as model:
        memory = remember(model)
        await planted(memory, "alice", "luma", Alice_Chen_works_at_Luma=("alice", "luma"))
        await memory.hear("Alice works at Acme.", **FUSED)
        graph = await memory.graph()
        assert model.calls == {
            "entities facts": 1,
            "names facts": 1,
            "summary": 1,
            "match": 1,
            "since until duplicates contradicts": 1,
        }
    assert "Alice" not in graph.names
    assert graph.fact("Alice Chen works")["invalid_at"] is not None


async def test_an_answer_is_kept_for_what_was_shown(remember: Remember) -> None:
    """Also against what a pair by itself would be told to be."""
    none = {"number": 1, "since": None, "until": None, "duplicates": [], "contradicts": []}
    async with Answering(names=[{"number": 1, "known": None}], facts=[none]) as model:
        memory = remember(model)
        await planted(memory, "alice", "luma", Alice_Chen_works_at_Luma=("alice", "luma"))
        await memory.hear("Alice works at Acme.", **FUSED)
        graph = await memory.graph()
        assert model.calls == {"entities facts": 1, "names facts": 1, "summary": 1}
    assert {"Alice", "Alice Chen"} <= set(graph.names)
    assert graph.fact("Alice Chen works")["invalid_at"] is None


@pytest.mark.parametrize(("pairs", "verdicts"), [(2, {"alice": "contradicts"}), (1, {})])
async def test_facts_are_looked_for_between_what_names_are_likeliest_to_be(
    memory: Memory, pairs: int, verdicts: dict[str, str | None]
) -> None:
    await planted(memory, "alice", "luma", Alice_Chen_works_at_Luma=("alice", "luma"))
    said = {"group_id": "g", "content": "Ann(user): Alice works at Acme.", "history": []}
    place = {"episode": "e", "group_id": "g", "turn": 1, "nth": 1}
    names = [
        said
        | place
        | {"uuid": uuid, "name": name, "name_key": name.lower(), "nth": nth, "type": "Entity"}
        for nth, (uuid, name) in enumerate({"m1": "Alice", "m2": "Acme"}.items(), 1)
    ]
    claim = place | {
        "said_at": at(1),
        "source": "Alice",
        "target": "Acme",
        "name": "WORKS_AT",
        "valid_at": at(1),
    }
    result = await memory.run(
        "judge_episode",
        episodes=[said | {"uuid": "e", "valid_at": at(1)}],
        names=names,
        claims=[claim | {"fact": "Alice works at Acme."}],
        params={"pairs": pairs},
    )
    told = result.tables["verdicts"].to_pylist()
    assert {row["source"]: row["verdict"] for row in told} == verdicts
    assert [row["same"] for row in result.tables["answered"].to_pylist()] == [True]


async def test_with_lean_who_is_who_is_asked_while_reading(memory: Memory) -> None:
    await memory.hear(
        "I work at Luma.",
        "I work at Acme.",
        use={"read": "read_lean", "judge": "judge_episode", "resolve": "resolve_together"},
    )
    assert memory.model.counters.calls == 2
    assert (await memory.graph()).fact("Ann works at Luma")["invalid_at"] is not None
