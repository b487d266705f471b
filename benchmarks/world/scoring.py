"""The graph that add_episode builds of a world, and the gold one, as they are scored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from benchmarks.world.gold import Gold
from benchmarks.world.world import World
from semgraph.expr.functions import key
from semgraph.frontend.load import load_plan
from semgraph.logical.schema import Label
from semgraph.scores import Edge, ScoredGraph, ScoredNode
from semgraph.stores.base import ScanQuery, Store

PLAN = Path(__file__).parents[2] / "plans" / "add_episode.yaml"


def as_graph(gold: Gold) -> ScoredGraph:
    """A gold graph as it is scored: an entity's occurrences are the messages that name it."""
    nodes = (ScoredNode(e.key, frozenset(e.episodes), name=key(e.name)) for e in gold.entities)
    edges = (Edge(f.source, f.target, f.relation, {}, f.valid_at, f.invalid_at) for f in gold.facts)
    return ScoredGraph(tuple(nodes), tuple(edges))


@cache
def _labels() -> Mapping[str, Label]:
    return load_plan(PLAN).graph.labels


async def held(store: Store, world: World) -> ScoredGraph:
    """The graph of a world in a store, as it is scored.

    Messages are matched by their names: graphiti-core gives its episodes ids of its own.
    """
    labels = _labels()
    rows = {
        name: (
            await store.scan(ScanQuery(name, list(labels[name].columns), [world.group]))
        ).to_pylist()
        for name in ("Episodic", "Entity", "RELATES_TO", "MENTIONS")
    }
    message_ids = {row["name"]: row["uuid"] for row in world.rows}
    messages = {row["uuid"]: message_ids[row["name"]] for row in rows["Episodic"]}
    where: dict[str, set[str]] = {row["uuid"]: set() for row in rows["Entity"]}
    for mention in rows["MENTIONS"]:
        where[mention["target"]].add(messages[mention["source"]])
    nodes = (
        ScoredNode(row["uuid"], frozenset(where[row["uuid"]]), name=key(row["name"]))
        for row in rows["Entity"]
    )
    edges = (
        Edge(row["source"], row["target"], row["name"], {}, row["valid_at"], row["invalid_at"])
        for row in rows["RELATES_TO"]
    )
    return ScoredGraph(tuple(nodes), tuple(edges))
