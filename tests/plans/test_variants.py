"""One graph, however it is asked for: what each way of adding episodes takes, and that it tells the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.world import StandIn
from tests.plans.conftest import Memory, at

Remember = Callable[[StandIn], Memory]
AS_SHIPPED: dict[str, Any] = {}
FUSED: dict[str, Any] = {"use": {"ask": "ask_together"}}
GRAPHITI: dict[str, Any] = {"preset": "graphiti"}
COMBINED: dict[str, Any] = {"preset": "combined"}
BULK: dict[str, Any] = {"preset": "bulk"}
AT_MOST_TWO: dict[str, Any] = {"preset": "fused"}
JUDGED: dict[str, Any] = {"use": {"judge": "judge_episode(fuse_dates=false)"}}
JUDGED_AND_DATED: dict[str, Any] = {"use": {"judge": "judge_episode", "ask": "ask_together"}}
SEED: dict[str, Any] = {"preset": "seed"}
SEED_FUSED: dict[str, Any] = {"preset": "seed_fused"}
LEAN: dict[str, Any] = {"use": {"read": "read_lean", "resolve": "resolve_together"}}


@pytest.mark.parametrize(
    ("way", "calls"),
    [
        (AS_SHIPPED, 8),
        (FUSED, 8),
        (GRAPHITI, 9),
        (COMBINED, 5),
        (AT_MOST_TWO, 5),
        (JUDGED, 8),
        (BULK, 4),
        (LEAN, 3),
        (SEED, 19),
        (SEED_FUSED, 17),
    ],
)
async def test_every_variant_builds_the_graph_of_the_example(
    remember: Remember, way: dict[str, Any], calls: int
) -> None:
    await _three_turns(remember, way, calls, undated=False)


@pytest.mark.parametrize(
    ("way", "calls"),
    [
        (AS_SHIPPED, 11),
        (GRAPHITI, 13),
        ({**COMBINED, **FUSED}, 6),
        (JUDGED_AND_DATED, 9),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in ((FUSED, 9), (COMBINED, 8), (AT_MOST_TWO, 6), (JUDGED, 11), (BULK, 5))
        ),
    ],
)
async def test_every_variant_builds_it_where_dates_take_calls_of_their_own(
    remember: Remember, way: dict[str, Any], calls: int
) -> None:
    await _three_turns(remember, way, calls, undated=True)


async def _three_turns(
    remember: Remember, way: dict[str, Any], calls: int, *, undated: bool
) -> None:
    async with StandIn(undated=undated) as model:
        memory = remember(model)
        result = await memory.run("add_episode", **way)
        graph = await memory.graph()
        assert (result.meter.total().calls_issued, model.counters.calls) == (calls, calls)
    assert graph.names == ["Alice Chen", "Project Phoenix", "TechCorp"]
    assert [name for _, name, _ in graph.arrows] == [
        "LEADING_PROJECT",
        "PROJECT_DEADLINE",
        "WORKS_AT",
    ]
    assert (len(graph.episodes), len(graph.mentions)) == (3, 6)
    assert len(graph.fact("Alice Chen is currently leading")["episodes"]) == 2


async def test_bulk_takes_two_rounds_however_many_episodes(remember: Remember) -> None:
    async with StandIn(latency=0.3) as model:
        await remember(model).run("add_episode", **BULK)
        assert model.counters.rounds == 2


SAID = [
    "I work at Luma.", "I live in Rome.", "Bob Weber works at Luma.", "I moved to Oslo.", "Bob Weber has joined Acme.",
    "I work at Luma.", "Bob Weber leads Project Kite.",
]  # fmt: skip


OTHERS = {
    "fused_dates": FUSED,
    "combined": COMBINED,
    "bulk": BULK,
    "combined_fused": {**COMBINED, **FUSED},
    "lean": LEAN,
    "fused": AT_MOST_TWO,
    "judged": JUDGED,
}


async def test_every_variant_builds_the_same_graph(memory: Memory) -> None:
    """Each for a group of its own of one graph."""
    for group, variant in ({"shipped": AS_SHIPPED} | OTHERS).items():
        said = (memory.episode(f"Ann(user): {text}", at(n), group) for n, text in enumerate(SAID))
        await memory.hear(*said, **variant)
    facts: dict[str, list[Any]] = {}
    for fact in (await memory.graph()).facts:
        row = fact["fact"], fact["valid_at"], fact["invalid_at"]
        facts.setdefault(fact["group_id"], []).append(row)
    shipped = sorted(facts["shipped"], key=str)
    assert len(shipped) == 6
    assert {g: sorted(rows, key=str) for g, rows in facts.items()} == dict.fromkeys(
        ("shipped", *OTHERS), shipped
    )


@pytest.mark.parametrize("only_linked", [False, True])
async def test_of_names_and_facts_in_one_call_a_name_without_a_fact_stays_unless_it_is_to_go(
    memory: Memory, only_linked: bool
) -> None:
    use = {"read": f"read_combined(only_linked={str(only_linked).lower()})"}
    await memory.hear("I work at Luma.", "Bob is here.", **COMBINED, use=use)
    assert ("Bob" in (await memory.graph()).names) is not only_linked


async def test_a_second_look_finds_what_was_passed_over(memory: Memory) -> None:
    result = await memory.hear("I work at Luma.", preset="reflexion")
    assert memory.model.calls["entities"] == 2
    assert memory.model.calls["facts"] == 2
    asked = [r["messages"][0]["content"] for r in memory.model.requests]
    assert sum("The names were listed already" in text for text in asked) == 1
    assert sum("The facts were stated already" in text for text in asked) == 1
    assert not result.failed


async def test_lean_is_a_plan_of_its_own_that_shares_what_comes_after_reading(
    memory: Memory,
) -> None:
    result = await memory.run("add_episode_lean")
    graph = await memory.graph()
    assert memory.model.counters.calls == 3
    assert (graph.names, len(graph.facts), len(graph.mentions)) == (
        ["Alice Chen", "Project Phoenix", "TechCorp"],
        3,
        6,
    )
    assert {row["change"] for row in result.tables["edges"].to_pylist()} == {"new"}


async def test_lean_shows_what_the_graph_knows_and_asks_besides_only_what_is_in_doubt(
    memory: Memory,
) -> None:
    await memory.hear("I work at Luma.", **LEAN)
    await memory.hear("I work at Acme.", **LEAN)
    graph = await memory.graph()
    assert (
        graph.fact("Ann works at Luma")["invalid_at"] == graph.fact("Ann works at Acme")["valid_at"]
    )
    assert memory.model.counters.calls == 2
    asked = memory.model.requests[-1]["messages"][1]["content"]
    assert '"fact":"Ann works at Luma."' in asked
    assert '"name":"Ann"' in asked
