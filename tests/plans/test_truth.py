"""The graph of a world that is told is the world's truth; groups, their order and a second run
change nothing.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn, World
from benchmarks.world.scoring import as_graph
from semgraph.expr.functions import key
from semgraph.scores import Edge, GraphScore, ScoredGraph, ScoredNode, score_graph

from .conftest import Graph, Memory

Remember = Callable[[StandIn], Memory]


def scored(graph: Graph) -> ScoredGraph:
    """What the store holds, as it is scored."""
    where: dict[str, set[str]] = {row["uuid"]: set() for row in graph.entities}
    for mention in graph.mentions:
        where[mention["target"]].add(mention["source"])
    nodes = (
        ScoredNode(row["uuid"], frozenset(where[row["uuid"]]), name=key(row["name"]))
        for row in graph.entities
    )
    edges = (
        Edge(f["source"], f["target"], f["name"], {}, f["valid_at"], f["invalid_at"])
        for f in graph.facts
    )
    return ScoredGraph(tuple(nodes), tuple(edges))


def of_group(graph: Graph, group: str) -> Graph:
    """The part of a graph that is a group's."""
    parts = (graph.episodes, graph.entities, graph.facts, graph.mentions)
    return Graph(*([row for row in rows if row["group_id"] == group] for rows in parts))


def against(graph: Graph, world: World, after: int | None = None) -> GraphScore:
    return score_graph(scored(of_group(graph, world.group)), as_graph(world.gold(after)))


def right(score: GraphScore) -> bool:
    """Whether nothing is missing, made up, merged, or holds at a wrong time."""
    parts = [score.pairs.f1, score.b_cubed.f1, score.edges.f1, score.ended.f1]
    return all(
        part in {None, 1.0} for part in [*parts, score.validity.f1 if score.validity else None]
    )


def asked(model: StandIn) -> Counter[str]:
    """The requests of a run, whatever their order."""
    return Counter(json.dumps(body["messages"], sort_keys=True) for body in model.requests)


OPTIONS: dict[str, dict[str, Any]] = {
    "one by one": {"params": {"window": 1}},
    "all at once": {"params": {"window": "all", "rivals": 60}},
    "one question for all that is open": {"use": {"judge": "judge_episode(fuse_dates=false)"}},
    "five at once": {"params": {"window": 5, "rivals": 60}},
    "all that are read": {"preset": "ready", "params": {"rivals": 60}},
}


@pytest.mark.parametrize(
    ("seed", "difficulty", "options"),
    [
        pytest.param(14, 0, "one by one", marks=pytest.mark.nightly),
        pytest.param(14, 0, "all at once", marks=pytest.mark.nightly),
        pytest.param(14, 0, "one question for all that is open", marks=pytest.mark.nightly),
        (10, 1, "all at once"),
        (10, 1, "one question for all that is open"),
    ],
)
async def test_the_graph_equals_the_truth_of_the_world(
    memory: Memory, seed: int, difficulty: int, options: str
) -> None:
    """At once, what is said again is among the candidates as often as it is said: their list must
    be long enough.
    """
    world = World.make(seed, 2, difficulty)
    await memory.hear(*world.rows, **OPTIONS[options])
    assert right(against(await memory.graph(), world))


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        pytest.param(2, "one by one", marks=pytest.mark.nightly),
        (8, "five at once"),
        pytest.param(3, "all at once", marks=pytest.mark.nightly),
        (1, "all that are read"),
    ],
)
async def test_the_graph_equals_the_truth_of_people_who_go_back(
    memory: Memory, seed: int, options: str
) -> None:
    world = World.make(seed, 2, "returns")
    facts = Counter((f.source, f.relation, f.target) for f in world.gold().facts)
    assert max(facts.values()) > 1
    await memory.hear(*world.rows, **OPTIONS[options])
    assert right(against(await memory.graph(), world))


async def test_the_graph_equals_the_truth_after_each_episode(memory: Memory) -> None:
    world = World.make(10, 2, 1)
    for number, row in enumerate(world.rows, 1):
        await memory.hear(row)
        assert right(against(await memory.graph(), world, number)), row["content"]


@pytest.mark.parametrize("seed", [6, pytest.param(27, marks=pytest.mark.nightly)])
async def test_differences_by_design_are_bounded(
    remember: Remember, model: StandIn, seed: int
) -> None:
    """Two people of one name are one where nothing is asked about an exact name; initials are near
    no name, so they are new.
    """
    memory, world = remember(model), World.make(seed, 2, 2)
    await memory.hear(*world.rows)
    score = against(await memory.graph(), world)
    assert score.pairs.f1 >= 0.9
    assert score.edges.f1 >= 0.6


FIRST = 10  # messages that are told of each: a fact has ended by then
GROUPS = [World.make(seed, 2, 1, group) for seed, group in ((10, "a"), (52, "b"), (53, "c"))]


async def test_groups_told_one_after_the_other_or_interleaved_are_the_same(
    remember: Remember,
) -> None:
    """What one tells changes nothing of another, asks nothing else, and told twice changes
    nothing.
    """
    async with StandIn() as model:
        memory, earlier = remember(model), {}
        for world in GROUPS:
            await memory.hear(*world.rows[:FIRST])
            graph = await memory.graph()
            assert {group: of_group(graph, group) for group in earlier} == earlier
            assert right(against(graph, world, FIRST))
            earlier[world.group] = of_group(graph, world.group)
        in_turn = asked(model)
    left = {world.group: iter(world.rows) for world in GROUPS}
    order = random.Random(0).sample([world.group for world in GROUPS] * FIRST, len(GROUPS) * FIRST)
    rows = [next(left[group]) for group in order]
    async with StandIn() as model:
        memory = remember(model)
        await memory.hear(*rows)
        graph = await memory.graph()
        assert asked(model) == in_turn
        assert all(right(against(graph, world, FIRST)) for world in GROUPS)
        again = await memory.hear(*rows)
        assert (again.skipped, asked(model), await memory.graph()) == (len(rows), in_turn, graph)


async def test_what_was_added_last_can_be_taken_back(memory: Memory, tmp_path: Path) -> None:
    """What it had ended stays ended: an episode is taken back that ends nothing."""
    await memory.hear("I work at Luma.", "I live in Porto.")
    before = await memory.graph()
    await memory.hear("I know Ben Ray.")
    last = next(e for e in (await memory.graph()).episodes if "Ben Ray" in e["content"])
    await memory.run("remove_episode", episodes=[{"uuid": last["uuid"], "group_id": "g"}])
    after = await memory.graph()
    assert after.names == before.names
    assert after.arrows == before.arrows
    assert len(after.episodes) == 2
