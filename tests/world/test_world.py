"""The world: the same from the same seed, told in sentences that can be read back, with a graph
that is known at any time.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.world import World
from benchmarks.world.answers.memory import entities, facts
from benchmarks.world.claims import WAYS, read, write
from benchmarks.world.dates import dated
from benchmarks.world.difficulty import LEVELS
from benchmarks.world.gold import Gold
from tests.examples import examples


@pytest.mark.parametrize("difficulty", LEVELS)
def test_one_seed_is_one_world(difficulty: str) -> None:
    one, other = World.make(3, 6, difficulty), World.make(3, 6, difficulty)
    assert (one.rows, one.gold()) == (other.rows, other.gold())
    assert World.make(4, 6, difficulty).rows != one.rows


def test_messages_have_times_of_their_own_in_order_and_ids_of_their_own() -> None:
    world = World.make(1, 10, 2)
    times = [episode.at for episode in world.episodes]
    assert times == sorted(set(times))
    assert len({row["uuid"] for row in world.rows}) == len(world.rows)
    assert [row["valid_at"] for row in world.rows] == sorted(row["valid_at"] for row in world.rows)


@given(
    kind=st.sampled_from(sorted(WAYS)),
    which=st.integers(0, 9),
    subject=st.from_regex(r"[A-Z][a-z]{2,8} [A-Z][a-z]{2,8}", fullmatch=True),
    target=st.from_regex(r"[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8}){0,2}", fullmatch=True),
    role=st.sampled_from(["", "pilot", "baker"]),
    day=st.dates(date(2000, 1, 1), date(2030, 1, 1)),
    how=st.sampled_from(["", "since", "on"]),
)
def test_every_sentence_is_parsed_back(kind, which, subject, target, role, day, how) -> None:
    phrases = WAYS[kind].now
    phrase = phrases[which % len(phrases)]
    text = write(kind, subject, phrase, target, role=role, when=f"{how} {day}" if how else "")
    claim = read(text)
    assert claim is not None
    assert (claim.kind, claim.relation, claim.text) == (kind, WAYS[kind].relation, text)
    assert (claim.subject, claim.target, claim.role, claim.event) == (
        subject,
        target,
        role,
        phrase.event,
    )
    said = "2031-01-01T09:00:00Z"
    assert dated(claim, said).since == (f"{day}T00:00:00Z" if how else said)


@pytest.mark.parametrize("kind", [kind for kind, way in WAYS.items() if way.past])
def test_a_past_fact_is_parsed_with_both_dates(kind: str) -> None:
    claim = read(write(kind, "Ada Costa", None, "Luma", when="from 2019-02-01 to 2021-03-04"))
    assert claim is not None
    told = dated(claim, "2024-01-01T00:00:00Z")
    assert (claim.kind, told.since, told.until) == (
        kind,
        "2019-02-01T00:00:00Z",
        "2021-03-04T00:00:00Z",
    )


@pytest.mark.parametrize("difficulty", LEVELS)
@settings(max_examples=examples(4, 8), deadline=None)
@given(seed=st.integers(0, 10_000), people=st.integers(2, 12))
def test_every_message_states_its_facts_and_no_others(difficulty, seed, people) -> None:
    world = World.make(seed, people, difficulty)
    history: list[str] = []
    for episode, row in zip(world.episodes, world.rows, strict=True):
        record = {"content": row["content"], "history": history[-10:], "valid_at": row["valid_at"]}
        said = [(f["relation"], f["valid_at"]) for f in facts(record)["facts"]]
        stated = [
            (WAYS[s.kind].relation, f"{s.since:%Y-%m-%d}T00:00:00Z" if s.since else row["valid_at"])
            for s in episode.statements
            if s.span
        ]
        assert said == stated, row["content"]
        named = {e["name"] for e in entities(record)["entities"]}
        assert named <= {name for _, name in episode.mentions} | {
            thing.name for thing, _ in episode.mentions
        }
        assert {thing.name for thing, name in episode.mentions if name == thing.name} <= named
        history.append(row["content"])


def homes(gold: Gold, person: str) -> list[str]:
    return [f.target for f in gold.facts if (f.source, f.relation) == (person, "LIVES_IN")]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_nobody_has_two_homes_or_jobs_and_nothing_two_leads_at_a_time(difficulty: str) -> None:
    world = World.make(5, 10, difficulty)
    start, everything = world.episodes[0].at, world.gold()
    for week in range(60):
        at = start + timedelta(weeks=week)
        gold = world.gold(at=at)
        assert gold.facts == tuple(f for f in everything.facts if f.holds(at))
        for relation, end in (("LIVES_IN", "source"), ("WORKS_AT", "source"), ("LEADS", "target")):
            each = Counter(getattr(f, end) for f in gold.facts if f.relation == relation)
            assert max(each.values(), default=1) == 1


def test_people_who_go_back_have_two_homes_of_one_place_after_each_other() -> None:
    facts = World.make(5, 10, "returns").gold().facts
    for relation in ("LIVES_IN", "WORKS_AT", "LEADS"):
        again = Counter((f.source, f.target) for f in facts if f.relation == relation)
        assert max(again.values()) > 1
        for ends in again:
            held = sorted(
                (f.valid_at, f.invalid_at)
                for f in facts
                if (f.relation, f.source, f.target) == (relation, *ends)
            )
            assert all(end and end < since for (_, end), (since, _) in pairwise(held))


def test_a_message_about_a_move_ends_the_previous_home() -> None:
    world = World.make(2, 8, 0)
    everything = world.gold()
    person = next(p for p in {f.source for f in everything.facts} if len(homes(everything, p)) > 1)
    first, second = sorted(
        (f for f in everything.facts if (f.source, f.relation) == (person, "LIVES_IN")),
        key=lambda f: f.valid_at,
    )[:2]
    assert first.invalid_at == second.valid_at
    told = next(e.number for e in world.episodes if e.uuid == second.episodes[0])
    before = next(f for f in world.gold(after=told - 1).facts if f.key == first.key)
    assert before.invalid_at is None, "nobody has said it yet"
    day = second.valid_at - timedelta(days=1)
    assert first.target in homes(world.gold(at=day), person)
    assert second.target not in homes(world.gold(at=day), person)


def test_a_restated_fact_is_one_fact_with_all_its_messages() -> None:
    world = World.make(2, 8, 0)
    repeated = next(f for f in world.gold().facts if len(f.episodes) > 1)
    texts = [e.content for e in world.episodes if e.uuid in repeated.episodes]
    assert len(texts) == len(repeated.episodes) > 1
    first = next(e.number for e in world.episodes if e.uuid == repeated.episodes[0])
    assert [f.episodes for f in world.gold(after=first).facts if f.key == repeated.key] == [
        repeated.episodes[:1]
    ]


@pytest.mark.parametrize(("people", "difficulty"), [(1, 0), (5000, 0), (8, 3)])
def test_a_world_that_cannot_be_is_refused(people: int, difficulty: int) -> None:
    with pytest.raises(ValueError, match="a world has"):
        World.make(1, people, difficulty)
