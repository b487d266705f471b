"""One run in one process, and by workers of Ray, which has an environment of its own."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.engine.own import PLAN
from benchmarks.frame.processes import request, serve
from benchmarks.frame.serving import DIMENSIONS, Server, on_wire, same_as_counted, serving
from benchmarks.ingest.ours import cleared, neo4j
from benchmarks.ingest.streams import groups
from semgraph.session import Session
from semgraph.stores.neo4j.local.server import status

ALONE = "no engine"
EPISODES, GROUPS, LATENCY, FLIGHT = 2_000, 400, 0.2, 200


def measured(engine: str, _: int) -> dict[str, float]:
    """Episodes of many groups over the local Neo4j; all by the interpreter that has Ray. CPU is that
    of the process and of all that it started. Raises Unmeasured.
    """
    with serving("--latency", str(LATENCY)) as server:
        job = {"engine": engine, "url": server.url}
        return request("benchmarks.engine.workers", job, peer="ray", alone=True)


async def _run(engine: str, url: str, folder: Path, episodes: int, number: int) -> Any:
    model = f"openai:stand-in@{url}"
    given: dict[str, Any] = {"llm": model, "embedder": f"{model}?dimensions={DIMENSIONS}"}
    given |= {"store": "neo4j", "folder": folder} | ({} if engine == ALONE else {"engine": engine})
    await cleared()
    async with Session(**given) as session:
        return await session.arun(PLAN, episodes=groups(episodes, number))


def _cpu() -> float:
    own = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True)))


async def _measured(engine: str, url: str, folder: Path) -> dict[str, float]:
    server = Server(url)
    (folder / "semgraph.toml").write_text(f"[limits]\nin_flight = {FLIGHT}\n")
    at = status(neo4j())
    os.environ |= {"NEO4J_URI": at.uri, "NEO4J_USER": at.user, "NEO4J_PASSWORD": at.password}
    await _run(engine, url, folder, 12, 4)  # imports, and workers that start
    server.reset()
    began, cpu = time.perf_counter(), _cpu()
    result = await _run(engine, url, folder, EPISODES, GROUPS)
    seconds, cpu = time.perf_counter() - began, _cpu() - cpu
    total = result.meter.total()
    same_as_counted(total, on_wire(server))
    if result.committed != EPISODES:
        raise ValueError(f"{result.committed} of {EPISODES} rows were committed")
    figures = {"seconds": round(seconds, 2), "cpu_s": round(cpu, 2)}
    return {**figures, "episodes": EPISODES, "calls": total.calls_issued}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        serve(lambda job: asyncio.run(_measured(**job, folder=Path(folder))))
