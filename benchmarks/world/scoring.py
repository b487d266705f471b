"""The graph that add_episode builds of a world against the gold one, with calls and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.world.gold import Gold
from benchmarks.world.server import StandIn
from benchmarks.world.world import World
from semgraph.expr.functions import key
from semgraph.frontend.load import load_plan
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.logical.schema import Label
from semgraph.meter import StepMetrics
from semgraph.scores import Edge, GraphScore, ScoredGraph, ScoredNode, score_graph
from semgraph.session import Session
from semgraph.stores.base import Store
from semgraph.stores.sqlite.store import SqliteStore

PLAN = Path(__file__).parents[2] / "plans" / "add_episode.yaml"


@dataclass(frozen=True)
class Scored:
    """One run over a world.

    Args:
        world: The world of the messages.
        graph: The content of the store.
        truth: The expected content.
        score: Their comparison.
        metrics: The counts of semgraph.
        wire: The counts of the server.
        failed: Rows that were set aside.
    """

    world: World
    graph: ScoredGraph
    truth: ScoredGraph
    score: GraphScore
    metrics: StepMetrics
    wire: dict[str, Any]
    failed: int


async def scored(world: World, server: StandIn, **options: Any) -> Scored:
    """Ingest a world into an empty store in memory and score the graph; `options` are those of
    `Session.arun`.
    """
    llm = OpenAI("gpt-4.1-mini", server.base_url, "none")
    embedder = OpenAIEmbedder("stand-in", 256, server.base_url, "none")
    store = SqliteStore(":memory:")
    try:
        async with Session(
            llm=llm, embedder=embedder, store=store, journal=False, runs=""
        ) as session:
            result = await session.arun(PLAN, episodes=world.rows, **options)
        graph = await held(store, world)
    finally:
        await asyncio.gather(llm.aclose(), embedder.aclose(), store.aclose())
    truth = as_graph(world.gold())
    score = score_graph(graph, truth)
    metrics, wire = result.meter.total(), server.counters.as_dict()
    return Scored(world, graph, truth, score, metrics, wire, len(result.failed))


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
        name: (await store.scan(name, list(labels[name].columns), [world.group], ())).to_pylist()
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


HEADER = (
    f"{'people':>6} {'level':>5} {'msgs':>5} {'pairs F1':>9} {'B³ F1':>6} {'edge P':>7} {'edge R':>7} {'edge F1':>8} "
    f"{'valid F1':>9} {'ended P':>8} {'ended R':>8} {'calls':>6} {'tokens in':>10} {'out':>7} {'failed':>6}"
)


def line(found: Scored, people: int) -> str:
    """A row under HEADER. Calls and tokens are those on the wire."""
    s, wire = found.score, found.wire
    parts = [s.pairs.f1, s.b_cubed.f1, s.edges.precision, s.edges.recall, s.edges.f1]
    parts += [s.validity.f1 if s.validity else None, s.ended.precision, s.ended.recall]
    widths = (9, 6, 7, 7, 8, 9, 8, 8)
    shown = " ".join(
        f"{'—' if p is None else f'{p:.3f}':>{w}}" for p, w in zip(parts, widths, strict=True)
    )
    head = f"{people:>6} {found.world.difficulty!s:>5} {len(found.world.episodes):>5}"
    return f"{head} {shown} {wire['calls']:>6} {wire['tokens_in']:>10,} {wire['tokens_out']:>7,} {found.failed:>6}"


def differences(found: Scored) -> list[str]:
    """The facts in only one of the graphs, or with different times: a line each, with names."""
    own = {node.key: node.name for node in found.graph.nodes}
    true: dict[Any, str] = {e.key: e.name for e in found.world.gold().entities}
    aligned = found.score.alignment
    lines = [f"entity made twice, or never named: {own[k]}" for k in own if k not in aligned]
    lines += [
        f"entity missing or merged: {true[k]}" for k in true if k not in set(aligned.values())
    ]
    ours = sorted(
        _shown(edge, {k: true.get(aligned.get(k), f"({own[k]})") for k in own})
        for edge in found.graph.edges
    )
    theirs = sorted(_shown(edge, true) for edge in found.truth.edges)
    lines += [f"made:  {one}" for one in ours if one not in theirs]
    lines += [f"true:  {one}" for one in theirs if one not in ours]
    return lines


def _shown(edge: Edge, names: dict[Any, Any]) -> str:
    since, until = (f"{t:%Y-%m-%d %H:%M}" if t else "…" for t in (edge.start, edge.end))
    return f"{names[edge.source]} {edge.label} {names[edge.target]} [{since}, {until})"
