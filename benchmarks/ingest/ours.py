"""One run of a plan of semgraph over a stream, or of graphiti-core: its requests, its cost, and the
quality of its graph.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.frame.cases import rounded
from benchmarks.frame.lines import ROOT
from benchmarks.frame.processes import Watch, request, serve
from benchmarks.frame.serving import (
    DIMENSIONS,
    Server,
    on_wire,
    same_as_counted,
    serving,
    session_at,
)
from benchmarks.ingest.streams import Stream, made
from benchmarks.world.scoring import PLAN, as_graph, held
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.logical.schema import Graph
from semgraph.scores import score_graph
from semgraph.stores.base import ScanQuery, Store
from semgraph.stores.neo4j.local.server import start, status
from semgraph.stores.neo4j.store import local_store
from semgraph.stores.registry import lasts
from semgraph.stores.sqlite.store import SqliteStore

LABELS = ("Episodic", "Entity", "MENTIONS", "RELATES_TO")
Figures = dict[str, Any]
Row = Mapping[str, Any]
_READ = {"Entity": ["uuid", "summary"], "RELATES_TO": ["source", "target", "fact", "invalid_at"]}
_WARM: set[str] = set()


def run(
    plan: str, stream: str, store: str, options: Mapping[str, Any], latency: float, trial: int
) -> Figures:
    """Run a plan over a stream, in its own group; the server is a separate process.

    Args:
        plan: Name of a shipped plan.
        stream: A name of `streams.made`.
        store: `memory` or `neo4j-local`.
        options: Of `Session.arun`: params, preset, use; and limits of `Session`: max_calls.
        latency: Of the model, in seconds.
        trial: Number of the trial, the seed of random choices.
    """
    told = made(stream, trial)
    with serving(*switches(told, latency)) as server:
        return tell(plan, told, store, options, server)


def tell(
    plan: str, stream: Stream, store: str, options: Mapping[str, Any], server: Server
) -> Figures:
    """The same with a running server: imports and prepared statements are not measured."""
    if (first := f"{plan} {store} {dict(options)}") not in _WARM:
        warm = replace(made("turns dated", 0), undated=stream.undated)
        asyncio.run(_run(plan, warm, store, options, server))
        _WARM.add(first)
    return asyncio.run(_run(plan, stream, store, options, server))


def grown(plan: str, count: int, options: Mapping[str, Any], trial: int) -> Figures:
    """Add so many messages of a world to a store in memory, in a process of its own, whose memory is
    measured; the model answers immediately.
    """
    with serving(*switches(made(f"grown {count}", trial), 0)) as server:
        job = {"plan": plan, "count": count, "options": options, "trial": trial, "url": server.url}
        return request("benchmarks.ingest.ours", job, alone=True)


def refreshed(plan: str, count: int, options: Mapping[str, Any], trial: int) -> Figures:
    """Add so many messages, refresh the graph, edit a third of the way, and refresh it again."""
    stream = made(f"grown {count}", trial)
    with serving(*switches(stream, 0)) as server:
        return asyncio.run(_refreshed(plan, stream.rows, options, server))


async def _refreshed(
    plan: str, rows: Sequence[Row], options: Mapping[str, Any], server: Server
) -> Figures:
    named = [{**row, "uuid": f"e{n}"} for n, row in enumerate(rows)]
    edited, at = list(named), len(named) // 3
    edited[at] = {**named[at], "content": named[at - 1]["content"]}
    with TemporaryDirectory() as folder:
        journal = f"{folder}/journal.db"
        async with session_at(server.url, f"sqlite:{folder}/graph.db", journal) as session:
            server.reset()
            with Watch() as first:
                whole(await session.arun(plan, episodes=named, **options))
            calls = on_wire(server)["calls"]
            with Watch() as again:
                same = await session.arefresh(plan, episodes=named, **options)
            if same.diff or on_wire(server)["calls"] != calls:
                raise RuntimeError("a refresh of unchanged messages asked or changed something")
            dry = (await session.arefresh(plan, episodes=edited, dry_run=True, **options)).dry
            new = await session.arefresh(plan, episodes=edited, **options)
            with Watch() as applied:
                await new.aapply()
    figures = {
        "calls": calls,
        "cpu_ms": first.figures()["cpu_ms"],
        "applied_ms": applied.figures()["cpu_ms"],
    }
    sure, expected = (dry.requests, dry.calls) if dry is not None else (None, None)
    return figures | {
        "refresh_cpu_ms": again.figures()["cpu_ms"], "ratio": round(again.cpu / first.cpu, 3),
        "sure": sure, "expected": expected, "asked": on_wire(server)["calls"] - calls,
        "changes": len(new.diff),
    }  # fmt: skip


@cache
def _graph() -> Graph:
    """The graph schema of the shipped plans."""
    return load_plan(PLAN).graph


def switches(stream: Stream, latency: float) -> list[str]:
    """The options of the server for a stream."""
    waits = ["--latency", str(latency), "--embedding-latency", str(latency / 20)]
    return [*waits, *["--undated"] * stream.undated]


async def _run(
    plan: str, stream: Stream, where: str, options: Mapping[str, Any], server: Server
) -> Figures:
    if lasts(where):
        await cleared()
    limits = {name: value for name, value in options.items() if name.startswith("max_")}
    chosen = {name: value for name, value in options.items() if name not in limits}
    async with aclosing(_opened(where)) as store:
        await store.ensure(_graph(), DIMENSIONS)
        async with session_at(server.url, store, **limits) as session:
            if stream.before:
                whole(await session.arun(plan, episodes=stream.before, **chosen))
            server.reset()
            with Watch() as watch:
                result = whole(await session.arun(plan, episodes=stream.rows, **chosen))
        wire, total = on_wire(server), result.meter.total()
        same_as_counted(total, wire)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        described = [m for step, m in result.meter.steps.items() if step.startswith("describe/")]
        more = {
            "queries": total.round_trips,
            "peak_mib": round(peak),
            "summary_calls": sum(m.calls_issued for m in described),
            "summary_tokens": sum(m.tokens_in for m in described if m.calls_issued),
        }
        return _by_episode({**wire, **watch.figures(), **more}, stream) | await _left(store, stream)


def whole(result: Result) -> Result:
    """A complete result. Raises RuntimeError otherwise: an early stop must not look cheap."""
    if result.stopped:
        raise RuntimeError(f"stopped before its end: {result.stopped}")
    if result.failed:
        first = f"the first at {result.failed[0].step}: {result.failed[0].error}"
        raise RuntimeError(f"{len(result.failed)} rows failed, {first}")
    return result


def graphiti(
    stream: str, options: Mapping[str, Any], latency: float, trial: int, *, alone: bool = False
) -> Figures:
    """Add a stream with graphiti-core, on the same Neo4j and the same server.

    Args:
        stream: As for `run`.
        options: `bulk`: all in bulk; `environment`: variables for it, such as SEMAPHORE_LIMIT.
        latency: As for `run`.
        trial: As for `run`.
        alone: In its own process, for a measure of its memory.
    """
    told = made(stream, trial)
    running = status(neo4j())
    bolt = [running.uri, running.user, running.password]
    job: Figures = {"do": "add", "bolt": bolt, "dimensions": DIMENSIONS}
    job |= {"before": told.before, "rows": told.rows, "bulk": bool(options.get("bulk"))}
    with serving(*switches(told, latency)) as server:
        asyncio.run(cleared())
        job["url"] = server.url
        more = {"environment": options.get("environment"), "alone": alone}
        found = request("benchmarks.graphiti_itself", job, peer="graphiti-core", **more)
        figures = {**on_wire(server), **found}
    return _by_episode(figures, told) | asyncio.run(_left_in_neo4j(told))


def _by_episode(figures: Figures, stream: Stream) -> Figures:
    """With the average cost of an episode."""
    count, names = len(stream.rows) or 1, ("calls", "queries", "cpu_ms", "tokens_in")
    each = {f"{name}_each": round(figures[name] / count, 3) for name in names}
    ms = round(1000 * figures["seconds"] / count, 2)
    return {**figures, "episodes": len(stream.rows), "data": stream.hash, **each, "ms_each": ms}


async def cleared() -> None:
    """Empty the database, and open it again if needed: an opened database is checked once for rows
    of another engine.
    """
    async with aclosing(_opened("neo4j-local")) as store:
        await store.ensure(_graph(), DIMENSIONS)
        await store.clear()


async def _left_in_neo4j(stream: Stream) -> Figures:
    async with aclosing(_opened("neo4j-local")) as store:
        await store.attach(_graph())
        return await _left(store, stream)


async def _left(store: Store, stream: Stream) -> Figures:
    """The final content of the store, by either engine: counts, and quality if the truth is known."""
    counts = {
        name: (await store.scan(ScanQuery(name, [], stream.groups))).num_rows for name in LABELS
    }
    said = ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
    figures = {"graph": said, "entities": counts["Entity"], "facts": counts["RELATES_TO"]}
    rows = {
        label: (await store.scan(ScanQuery(label, columns, stream.groups))).to_pylist()
        for label, columns in _READ.items()
    }
    figures |= staleness(rows["Entity"], rows["RELATES_TO"])
    if stream.world is None:
        return figures
    truth = as_graph(stream.world.gold(after=len(stream.rows)))
    score = score_graph(await held(store, stream.world), truth)
    shares = {
        "entities_f1": score.pairs.f1,
        "facts_f1": score.edges.f1,
        "valid_f1": score.validity.f1 if score.validity else None,
        "ended_precision": score.ended.precision,
        "ended_recall": score.ended.recall,
    }
    return figures | {name: rounded(share) for name, share in shares.items()}


def staleness(entities: Sequence[Row], facts: Sequence[Row]) -> Figures:
    """Of the entities with facts, the shares whose summary misses a fact that holds, has one that
    ended, or either.
    """
    about: dict[str, list[Row]] = {}
    for fact in facts:
        for end in {fact["source"], fact["target"]}:
            about.setdefault(end, []).append(fact)
    told = [(e["summary"] or "", about[e["uuid"]]) for e in entities if e["uuid"] in about]
    missing = [any(f["fact"] not in s for f in own if f["invalid_at"] is None) for s, own in told]
    outdated = [any(f["fact"] in s for f in own if f["invalid_at"] is not None) for s, own in told]
    stale = [a or b for a, b in zip(missing, outdated, strict=True)]
    shares = {"stale": stale, "missing": missing, "outdated": outdated}
    return {name: rounded(sum(each) / (len(told) or 1)) for name, each in shares.items()}


def _opened(where: str) -> Store:
    return local_store(neo4j()) if lasts(where) else SqliteStore(":memory:")


def neo4j() -> Path:
    """The folder of the benchmarks' own Neo4j, which is started if it does not run."""
    folder = ROOT / ".semgraph" / "neo4j"
    start(folder)
    return folder


def _grown(
    plan: str, count: int, options: Mapping[str, Any], trial: int, url: str
) -> Mapping[str, Any]:
    return tell(plan, made(f"grown {count}", trial), "memory", options, Server(url))


if __name__ == "__main__":
    serve(lambda job: _grown(**job))
