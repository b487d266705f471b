"""One run in one process, and by workers of Ray, which has an environment of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.engine.own import DIMENSIONS, PLAN
from benchmarks.frame.processes import figures_of, interpreter, printed
from benchmarks.frame.serving import Server, on_wire, same_as_counted, serving
from benchmarks.ingest.ours import neo4j
from benchmarks.ingest.streams import groups
from semgraph.frontend.load import load_plan
from semgraph.session import Session
from semgraph.stores.neo4j.local.server import status
from semgraph.stores.neo4j.store import local_store

ALONE = "no engine"
EPISODES, GROUPS, LATENCY, FLIGHT = 2_000, 400, 0.2, 200


def measured(engine: str, _: int) -> dict[str, float]:
    """Episodes of many groups over the local Neo4j; all by the interpreter that has Ray. CPU is that
    of the process and of all that it started. Raises Unmeasured.
    """
    python = interpreter("ray")
    with serving("--latency", str(LATENCY)) as server:
        return figures_of("benchmarks.engine.workers", engine, server.url, python=python)


async def _run(engine: str, url: str, folder: Path, episodes: int, number: int) -> Any:
    given: dict[str, Any] = {
        "llm": f"openai:stand-in@{url}",
        "embedder": f"openai:stand-in@{url}?dimensions={DIMENSIONS}",
        "store": "neo4j",
        "folder": folder,
        **({} if engine == ALONE else {"engine": engine}),
    }
    store = local_store(neo4j())
    await store.ensure(load_plan(PLAN).graph, DIMENSIONS)
    await store.clear()
    await store.aclose()
    async with Session(**given) as session:
        return await session.arun(PLAN, episodes=groups(episodes, number))


def _cpu() -> float:
    own = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True)))


async def _measured(engine: str, server: Server, folder: Path) -> dict[str, float]:
    (folder / "semgraph.toml").write_text(f"[limits]\nin_flight = {FLIGHT}\n")
    at = status(neo4j())
    os.environ |= {"NEO4J_URI": at.uri, "NEO4J_USER": at.user, "NEO4J_PASSWORD": at.password}
    await _run(engine, server.url, folder, 12, 4)  # imports, and workers that start
    server.reset()
    began, cpu = time.perf_counter(), _cpu()
    result = await _run(engine, server.url, folder, EPISODES, GROUPS)
    seconds, cpu = time.perf_counter() - began, _cpu() - cpu
    total = result.meter.total()
    same_as_counted(total, on_wire(server))
    if result.committed != EPISODES:
        raise ValueError(f"{result.committed} of {EPISODES} rows were committed")
    figures = {"seconds": round(seconds, 2), "cpu_s": round(cpu, 2)}
    return {**figures, "episodes": EPISODES, "calls": total.calls_issued}


if __name__ == "__main__":
    os.environ.setdefault("OPENAI_API_KEY", "none")
    with tempfile.TemporaryDirectory() as folder:
        printed(asyncio.run(_measured(sys.argv[1], Server(sys.argv[2]), Path(folder))))
