"""People who move, and return, told to `add_episode`: the graph is that of `timeline`, and nobody has
two homes at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.world import StandIn
from tests.plans.conftest import Memory
from tests.plans.test_timeline import distinct, drawn, few, overlapping
from tests.plans.timeline import Held, Statement, timeline

HOMES = (
    "Rome", "Porto", "Oslo", "Riga", "Bonn", "Lyon", "Bern", "Kyiv", "Faro", "Lviv", "Cork", "York",
    "Bath", "Nice", "Graz", "Linz", "Ulm",
)  # fmt: skip
ZERO = datetime(2024, 1, 1, tzinfo=UTC)
NIGHTLY = settings.get_current_profile_name() == "random"
CASES, MOVES = (200, 20) if NIGHTLY else (5, 5)
"""Runs of up to eight people, and the most statements of one: `make nightly` draws new ones."""
PRESETS = ({}, {"preset": "fused"}, {"preset": "combined"}, {"preset": "lean"})


class Person(NamedTuple):
    """What one person tells, in the order of arrival; how many statements arrive in one run; whether
    all is said at the end, with dates, and not when it begins to hold.
    """

    moves: Sequence[Statement]
    together: int
    dated: bool


def text(moves: Sequence[Statement], dated: bool) -> str:
    """What is said of them."""
    since = (f" since {ZERO + timedelta(days=one.at):%Y-%m-%d}" if dated else "" for one in moves)
    said = (f"I live in {one.state}{day}." for one, day in zip(moves, since, strict=True))
    return f"Ann(user): {' '.join(said)}"


def runs(people: Sequence[Person]) -> Iterator[list[dict[str, Any]]]:
    """The episodes of each run, of all people, each a group."""
    for first in range(max(len(one.moves) for one in people)):
        found = [
            {
                "group_id": f"g{n}", "uuid": f"g{n}-{place}", "content": text([move], one.dated),
                "valid_at": ZERO + timedelta(days=1000 + place if one.dated else move.at),
            }
            for n, one in enumerate(people)
            for place, move in enumerate(one.moves)
            if place // one.together == first
        ]  # fmt: skip
        if found:
            yield found


async def homes(memory: Memory, count: int) -> list[list[Held]]:
    """Where people live, from when until when, as the graph says."""
    graph, found = await memory.graph(), defaultdict(list)
    names = {row["uuid"]: row["name"] for row in graph.entities}
    for fact in graph.facts:
        since, until = (
            fact[name] and (fact[name] - ZERO).days for name in ("valid_at", "invalid_at")
        )
        found[fact["group_id"]].append(Held(names[fact["target"]], since, until))
    return [sorted(found[f"g{n}"]) for n in range(count)]


@st.composite
def persons(draw: st.DrawFn) -> Person:
    days = draw(st.lists(st.integers(1, 60), min_size=2, max_size=MOVES, unique=True))
    homes = st.sampled_from(HOMES[: draw(st.sampled_from((2, 3, len(HOMES))))])
    moves = [Statement(draw(homes), day) for day in days]
    return Person(moves, draw(st.integers(1, 3)), draw(st.booleans()))


@settings(max_examples=CASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    people=st.lists(persons(), min_size=1, max_size=8),
    window=st.sampled_from([1, 2, 3, "all", "ready"]),
)
async def test_nobody_has_two_homes_at_once(
    tmp_path: Any, people: list[Person], window: int | str
) -> None:
    async with StandIn() as model:
        memory = Memory("memory", model, tmp_path)
        for episodes in runs(people):
            result = await memory.run("add_episode", episodes=episodes, params={"window": window})
            assert not result.failed
        found = await homes(memory, len(people))
        await memory.session.aclose()
    for person, lived in zip(people, found, strict=True):
        assert not overlapping(lived), (person, lived)
        told = {one.state for one in person.moves}
        # of a statement that repeats a stored fact the graph keeps the episode, not the date
        if not person.dated or len(told) == len(person.moves):
            assert lived == timeline(person.moves), person


async def test_homes_of_many_people_in_the_same_towns(memory: Memory) -> None:
    """Who else lives there, and who else moved then, takes nobody's place among the candidates."""
    names, towns = ("Ann", "Bea", "Cem", "Dan"), HOMES[:12]
    for n in range(len(towns)):
        said = [
            memory.episode(
                f"{name}(user): I live in {towns[(n + place) % len(towns)]}.",
                ZERO + timedelta(days=n, minutes=place),
            )
            for place, name in enumerate(names)
        ]
        await memory.hear(*said)
    homes = {e["uuid"] for e in (await memory.graph()).entities if e["name"] in names}
    facts = (await memory.graph()).facts
    assert len(facts) == len(names) * len(towns)
    assert sorted(f["source"] for f in facts if f["invalid_at"] is None) == sorted(homes)


@few(12)
@pytest.mark.parametrize("options", PRESETS, ids=str)
async def test_homes_of_one_episode_follow_each_other(
    memory: Memory, options: dict[str, Any], few: int | None
) -> None:
    cases = drawn(distinct(3, ("Rome", "Porto")), few)
    episodes = [
        {"group_id": f"g{n}", "content": text(told, True), "valid_at": ZERO + timedelta(days=99)}
        for n, told in enumerate(cases)
    ]
    result = await memory.run("add_episode", episodes=episodes, **options)
    assert not result.failed
    assert await homes(memory, len(cases)) == [timeline(told) for told in cases]


async def test_the_same_words_for_another_time_in_one_episode(memory: Memory) -> None:
    told = ("Rome", 1), ("Oslo", 3), ("Rome", 5), ("Rome", None), ("Rome", 5)
    claims = [
        {
            "episode": "e1", "group_id": "g", "turn": 1, "nth": nth, "said_at": ZERO, "source": "Ann",
            "target": home, "name": "LIVES_IN", "fact": f"Ann lives in {home}.", "typed": False,
            "valid_at": day and ZERO + timedelta(days=day), "invalid_at": None,
        }
        for nth, (home, day) in enumerate(told)
    ]  # fmt: skip
    named = [
        {"episode": "e1", "name_key": name.lower(), "entity": name, "type": "Entity"}
        for name in ("Ann", "Rome", "Oslo")
    ]
    linked = await memory.run("link_facts", claims=claims, named=named)
    facts = linked["facts"].to_pylist()
    assert [(one["target"], (one["valid_at"] - ZERO).days) for one in facts] == list(told[:3])
    assert len({one["uuid"] for one in facts}) == 3
    settled = await memory.run("settle_facts", facts=facts)
    homes = [
        Held(
            one["target"],
            *(time and (time - ZERO).days for time in (one["valid_at"], one["invalid_at"])),
        )
        for one in settled["fresh"].to_pylist()
    ]
    assert sorted(homes) == timeline(Statement(*one) for one in told[:3])


async def test_two_homes_of_one_episode_from_the_same_time_both_hold(memory: Memory) -> None:
    """An exception: which of them is the later one is not known, and no question is asked."""
    await memory.hear("I live in Rome. I live in Oslo.")
    assert memory.model.calls["verdict"] == 0
    assert [f["invalid_at"] for f in (await memory.graph()).facts] == [None, None]
    await memory.hear("I live in Porto.")
    ends = {f["fact"].split()[3]: f["invalid_at"] is None for f in (await memory.graph()).facts}
    assert ends == {"Rome.": False, "Oslo.": False, "Porto.": True}


async def test_as_in_graphiti_facts_of_one_episode_are_not_compared(memory: Memory) -> None:
    episode = memory.episode(text([Statement("Rome", 1), Statement("Oslo", 3)], dated=True))
    await memory.hear(episode, preset="graphiti")
    assert memory.model.calls["verdict"] == 0
    assert [f["invalid_at"] for f in (await memory.graph()).facts] == [None, None]
