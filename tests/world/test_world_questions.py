"""Questions about a world: from what was told by a time, with the facts that answer them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.world import World
from benchmarks.world.gold import Fact
from benchmarks.world.questions import Question, questions
from tests.examples import examples

WORLD = World.make(1, 16, 2)
END = WORLD.episodes[-1].at


def asked(kind: str, world: World = WORLD, at: datetime = END) -> list[Question]:
    return [one for one in questions(world, at, count=90) if one.kind == kind]


def answering(one: Question, world: World = WORLD, at: datetime = END) -> list[Fact]:
    facts = {f.key: f for f in world.gold(after=sum(e.at <= at for e in world.episodes)).facts}
    return [facts[key] for key in one.edges]


def names(world: World) -> dict[str, str]:
    return {t.key: f"{t.name} the {t.role}" if t.role else t.name for t in world.truth.things}


def test_the_same_arguments_give_the_same_questions_and_another_seed_others() -> None:
    assert questions(WORLD, END, count=40, seed=3) == questions(WORLD, END, count=40, seed=3)
    assert questions(WORLD, END, count=40, seed=3) != questions(WORLD, END, count=40, seed=4)


def test_a_world_with_too_few_messages_reports_the_number_of_questions() -> None:
    with pytest.raises(
        ValueError, match=r"^\d+ questions can be asked of this world at .*, not 5000"
    ):
        questions(WORLD, END, count=5000)


@settings(max_examples=examples(4, 10), deadline=None)
@given(seed=st.integers(0, 1000), difficulty=st.sampled_from([0, 1, 2]), day=st.integers(100, 420))
def test_answers_follow_from_the_facts_stated_by_then(seed: int, difficulty: int, day: int) -> None:
    world = World.make(seed, 10, difficulty)
    at, called = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day), names(world)
    for one in questions(world, at, count=30, seed=seed):
        facts = answering(one, world, at)
        assert (one.answer == "") == (not facts) == (one.kind == "unanswerable")
        if facts and one.kind == "since":
            assert one.answer == f"{facts[0].valid_at:%Y-%m-%d}"
        elif facts:
            ends = [{called[f.source], called[f.target]} for f in facts]
            assert all(any(name in pair for pair in ends) for name in one.answer.split(", "))
        assert one.subject in one.text


def test_questions_about_now_and_about_a_past_month_have_their_own_answers() -> None:
    assert all(fact.holds(END) for one in asked("now") for fact in answering(one))
    for one in asked("then"):
        (fact,) = answering(one)
        assert not fact.holds(END)
        assert one.about is not None
        assert fact.holds(one.about)
        assert one.text.endswith(f"in {one.about:%B %Y}?")


def test_questions_distinguish_people_with_the_same_name() -> None:
    twice = {t.name for t in WORLD.truth.things if t.role}
    texts = [one.text for one in questions(WORLD, END, count=150)]
    named = [text for text in texts if any(name in text for name in twice)]
    assert named
    assert all(re.search(r" the [a-z]+\b", text) for text in named)


def test_no_question_is_about_later_messages() -> None:
    early = WORLD.episodes[40].at
    told = {s.span.key for e in WORLD.episodes[:41] for s in e.statements if s.span}
    assert {key for one in questions(WORLD, early, count=40) for key in one.edges} <= told
