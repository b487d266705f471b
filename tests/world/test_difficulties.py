"""What makes a world difficult, one by one: how it is told, how it is read, and the graph that it
leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.world import StandIn, World
from benchmarks.world.answers.judging import verdict
from benchmarks.world.answers.reading import facts
from benchmarks.world.difficulty import LEVELS, Difficulty
from benchmarks.world.gold import Episode, Fact
from benchmarks.world.gold import told as gold
from benchmarks.world.scoring import PLAN, as_graph, held
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.scores import score_graph
from semgraph.session import Session
from semgraph.stores.sqlite.store import SqliteStore

SAID = "2025-01-15T09:00:00Z"


def said(text: str, *history: str) -> list[str]:
    """The facts that a message tells, as the server reads them."""
    return [
        f["fact"]
        for f in facts({"content": text, "history": list(history), "valid_at": SAID})["facts"]
    ]


def test_levels_are_called_by_number_or_name_and_changed_in_words() -> None:
    assert (
        World.make(1, 4, 1).rows == World.make(1, 4, "1").rows == World.make(1, 4, LEVELS["1"]).rows
    )
    changed = Difficulty.parse("1,slips=0.4,homonyms=1")
    assert (changed.slips, changed.homonyms, changed.talk) == (0.4, True, LEVELS["1"].talk)
    assert str(changed) == "1,slips=0.4,homonyms=1"


@pytest.mark.parametrize("text", ["7", "1,sarcasm=1", "1,slips=0.9", "1,corrections=-1"])
def test_an_unknown_difficulty_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="difficult|is a rate from 0 to"):
        Difficulty.parse(text)


@pytest.mark.parametrize("level", [name for name, level in LEVELS.items() if level.base == 1])
def test_one_thing_more_leaves_the_truth_as_it_is(level: str) -> None:
    plain, harder = World.make(3, 8, 1), World.make(3, 8, level)
    assert harder.truth == plain.truth
    assert (harder.rows == plain.rows) == (level == "1")


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        (
            "Ada Costa(user): No, I work at Kestrel Labs, not Luma.",
            ["Ada Costa works at Kestrel Labs, not Luma."],
        ),
        (
            "Bruno Weber(user): No, it was not Luma but Kestrel Labs that Ada Costa has joined on 2024-05-01.",
            ["Ada Costa has joined Kestrel Labs on 2024-05-01, not Luma."],
        ),
        (
            "Ada Costa(user): No, it was not Oslo but Riga that I live in.",
            ["Ada Costa lives in Riga, not Oslo."],
        ),
        (
            "Ada Costa(user): I do not work at Luma any more.",
            ["Ada Costa does not work at Luma any more."],
        ),
        ("Ada Costa(user): I have never worked at Luma.", ["Ada Costa has never worked at Luma."]),
        ("Ada Costa(user): Bruno does not work at Luma.", []),
    ],
)
def test_corrections_ends_and_denials_are_parsed(message: str, facts: list[str]) -> None:
    assert said(message) == facts


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        (
            "Ada Costa knows Clara Petrov, not Bruno Weber.",
            "Ada Costa knows Bruno Weber.",
            "contradicts",
        ),
        ("Ada Costa knows Clara Petrov, not Bruno Weber.", "Ada Costa knows Felix Rossi.", None),
        (
            "Ada Costa knows Clara Petrov.",
            "Ada Costa knows Clara Petrov, not Bruno Weber.",
            "duplicate",
        ),
        (
            "Ada Costa does not work at Luma any more.",
            "Ada Costa works at Luma since 2020-01-01.",
            "contradicts",
        ),
        ("Ada Costa does not work at Luma any more.", "Ada Costa has left Luma.", "duplicate"),
        ("Ada Costa has never worked at Luma.", "Ada Costa is employed by Luma.", "contradicts"),
        ("Ada Costa has never worked at Luma.", "Ada Costa works at Acme.", None),
        (
            "Ada Costa does not lead Project Kite any more.",
            "Ada Costa leads Project Kite.",
            "contradicts",
        ),
    ],
)
def test_corrections_ends_and_denials_are_compared(
    new: str, known: str, expected: str | None
) -> None:
    assert verdict(new, known) == expected


def wrongly(world: World) -> list[tuple[Episode, Episode]]:
    """The messages that tell what is not so, each with the one that puts it right."""
    right = {s.retracts.key: e for e in world.episodes for s in e.statements if s.retracts}
    return [
        (e, right[s.span.key])
        for e in world.episodes
        for s in e.statements
        if s.span and s.span.key in right
    ]


def told(world: World, after: int) -> dict[str, Fact]:
    return {fact.key: fact for fact in world.gold(after=after).facts}


@pytest.mark.parametrize("level", ["corrected", "retracted", "everything"])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
@example(seed=637)  # something true is told between what was wrong and what puts it right
def test_a_wrong_fact_holds_until_its_correction_and_never_afterwards(
    level: str, seed: int
) -> None:
    world = World.make(seed, 12, level)
    assert wrongly(world)
    for first, second in wrongly(world):
        (wrong,) = [s.span for s in first.statements if s.span]
        (right,) = second.statements
        before, after = told(world, second.number - 1), told(world, second.number)
        assert before[wrong.key].holds(second.at)
        assert after[wrong.key].retracted
        assert not any(after[wrong.key].holds(at) for at in (first.at, second.at))
        if right.wrong:
            assert right.span is not None
            assert after[right.span.key].valid_at == before[wrong.key].valid_at
        unsaid = [e for e in world.episodes[: second.number] if e not in (first, second)]
        assert all(
            after[f.key].invalid_at == f.invalid_at for f in gold(unsaid).facts if not right.wrong
        )


async def after_each(
    world: World, server: StandIn, rows: Sequence[dict[str, Any]] = ()
) -> list[bool]:
    """Whether the graph is the true one, after each message; `rows` are the world's by default."""
    llm = OpenAI("gpt-4.1-mini", server.base_url, "none")
    embedder = OpenAIEmbedder("stand-in", 256, server.base_url, "none")
    store = SqliteStore(":memory:")
    found = []
    try:
        async with Session(
            llm=llm, embedder=embedder, store=store, journal=False, runs=""
        ) as session:
            for number, row in enumerate(rows or world.rows, 1):
                await session.arun(PLAN, episodes=[row])
                score = score_graph(await held(store, world), as_graph(world.gold(number)))
                parts = [
                    score.pairs.f1,
                    score.edges.f1,
                    score.ended.f1,
                    score.validity.f1 if score.validity else None,
                ]
                found.append(all(part in {None, 1.0} for part in parts))
    finally:
        await asyncio.gather(llm.aclose(), embedder.aclose(), store.aclose())
    return found


@pytest.mark.parametrize(("level", "seed"), [("negated", 10), ("backdated", 4), ("misspelt", 5)])
async def test_the_graph_of_a_readable_world_is_right_after_each_message(
    level: str, seed: int
) -> None:
    world = World.make(seed, 2, level)
    assert world.rows != World.make(seed, 2, 1).rows
    async with StandIn() as server:
        assert all(await after_each(world, server))
