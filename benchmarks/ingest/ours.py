"""One run of a plan over a stream, with semgraph: what went over the wire, what it took, what the graph is worth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.ingest.streams import MADE, Stream
from benchmarks.suite.made import ROOT
from benchmarks.suite.peers import asked
from benchmarks.suite.serving import Server, on_wire, serving
from benchmarks.world.scoring import PLAN, as_graph, held
from semgraph.frontend.yaml import load_plan
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.meter import StepMetrics
from semgraph.scoring import score_graph
from semgraph.session import Session
from semgraph.stores.base import Store
from semgraph.stores.neo4j import local_store
from semgraph.stores.neo4j_local import start, status
from semgraph.stores.sqlite import SqliteStore

DIMENSIONS = 256
Figures = dict[str, float | int | str | None]
_WARM: set[str] = set()


def run(plan: str, stream: str, store: str, options: Mapping[str, Any], latency: float, trial: int) -> Figures:
    """Tell a stream to a plan, in a group of its own; the server is a process beside.

    Args:
        plan: Name of a shipped plan.
        stream: As in `streams.MADE`.
        store: `memory` or `neo4j-local`.
        options: Of `Session.arun`: params, preset, use.
        latency: Of the model, in seconds.
        trial: Number of the trial; the seed of what is drawn.
    """
    made = MADE[stream](trial)
    switches = ["--latency", str(latency), "--embedding-latency", str(latency / 20), *["--undated"] * made.undated]
    with serving(*switches) as server:
        if (first := f"{plan} {store} {dict(options)}") not in _WARM:
            _WARM.add(first)  # imports and statements that are prepared once are not what is measured
            asyncio.run(_run(plan, replace(made, world=None), store, options, server))
        return asyncio.run(_run(plan, made, store, options, server))


async def _run(plan: str, stream: Stream, where: str, options: Mapping[str, Any], server: Server) -> Figures:
    llm = OpenAI("gpt-4.1-mini", server.url, "none")
    embedder = OpenAIEmbedder("stand-in", DIMENSIONS, server.url, "none")
    store = _opened(where)
    try:
        await store.ensure(load_plan(PLAN).graph, DIMENSIONS)
        await store.clear(groups_of(stream))
        async with Session(llm=llm, embedder=embedder, store=store, journal=False, runs="") as session:
            if stream.before:
                await session.arun(plan, episodes=stream.before, **options)
            server.reset()
            wall, cpu = time.perf_counter(), time.process_time()
            result = await session.arun(plan, episodes=stream.rows, **options)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        figures: Figures = {**on_wire(server), "seconds": round(wall, 3), "cpu_ms": round(1000 * cpu)}
        total = result.meter.total()
        same_as_counted(total, figures)
        figures |= {"episodes": len(stream.rows), "queries": total.round_trips, "failed": len(result.failed)}
        figures["graph"] = ", ".join(f"{count} {label}" for label, count in sorted(result.written.items()) if count)
        return figures | await worth(stream, store)
    finally:
        await asyncio.gather(llm.aclose(), embedder.aclose(), store.aclose())


def graphiti(stream: str, options: Mapping[str, Any], latency: float, trial: int) -> Figures:
    """Tell a stream to graphiti-core, on the same Neo4j and the same server; `bulk` among the options: all at once."""
    made = MADE[stream](trial)
    server_of = status(neo4j())
    switches = ["--latency", str(latency), "--embedding-latency", str(latency / 20), *["--undated"] * made.undated]
    with serving(*switches) as server:
        asyncio.run(_cleared(made))
        bolt = [server_of.uri, server_of.user, server_of.password]
        told = {"url": server.url, "bolt": bolt, "dimensions": DIMENSIONS, "before": made.before, "rows": made.rows}
        found = asked("graphiti-core", "benchmarks.ingest.graphiti_itself", given={**told, "bulk": False, **options})
        figures: Figures = {**on_wire(server), **found, "episodes": len(made.rows)}
    return figures | asyncio.run(_left(made))


async def _cleared(stream: Stream) -> None:
    store = _opened("neo4j-local")
    try:
        await store.ensure(load_plan(PLAN).graph, DIMENSIONS)
        await store.clear(groups_of(stream))
    finally:
        await store.aclose()


async def _left(stream: Stream) -> Figures:
    """What another engine left in the store: counts, and worth where the truth is known."""
    store = _opened("neo4j-local")
    try:
        graph = load_plan(PLAN).graph
        await store.attach(graph)
        counts = {
            name: (await store.scan(name, [], groups_of(stream), ())).num_rows
            for name in ("Episodic", "Entity", "MENTIONS", "RELATES_TO")
        }
        said = ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
        return {"graph": said} | await worth(stream, store)
    finally:
        await store.aclose()


def groups_of(stream: Stream) -> list[str]:
    """The groups that a stream is told to."""
    return list(dict.fromkeys(row["group_id"] for row in (*stream.before, *stream.rows)))


def _opened(where: str) -> Store:
    """A store in memory, or the local Neo4j of the benchmarks, which is started if it does not run."""
    return SqliteStore(":memory:") if where == "memory" else local_store(neo4j())


def neo4j() -> Path:
    """The folder of the benchmarks' own Neo4j, running."""
    folder = ROOT / ".semgraph" / "neo4j"
    start(folder)
    return folder


def same_as_counted(total: StepMetrics, wire: Mapping[str, Any]) -> None:
    """Fail where semgraph's own accounting, chats and embeddings together, is not the server's. Raises ValueError."""
    ours = {"attempts": total.attempts, "tokens_in": total.tokens_in, "tokens_out": total.tokens_out}
    theirs = {
        "attempts": wire["attempts"] + wire["embedding_calls"],
        "tokens_in": wire["tokens_in"] + wire["embedding_tokens"],
        "tokens_out": wire["tokens_out"],
    }
    if ours != theirs:
        msg = f"semgraph counted {ours}, the server {theirs}"
        raise ValueError(msg)


async def worth(stream: Stream, store: Store) -> Figures:
    """How good the graph is, where the truth is known."""
    if stream.world is None:
        return {}
    score = score_graph(await held(store, stream.world.group), as_graph(stream.world.gold()))
    return {
        "entities_f1": _rounded(score.pairs.f1),
        "facts_f1": _rounded(score.edges.f1),
        "valid_f1": _rounded(score.validity.f1) if score.validity else None,
        "ended_precision": _rounded(score.ended.precision),
        "ended_recall": _rounded(score.ended.recall),
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
