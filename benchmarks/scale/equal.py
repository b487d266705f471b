"""Whether a run in shards gives the graph and sends the requests of a run in one process: with any
number of shards and workers, and where something dies.

The model server is in this process and has the bodies of all chats.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.engine.own import DIMENSIONS, PLAN
from benchmarks.ingest.messages import groups
from benchmarks.scale.clusters import DRIVER, cluster_here, lives, workers
from benchmarks.scale.graphs import Contents, contents, wire
from benchmarks.suite.children import last_line_of
from benchmarks.suite.made import ROOT
from benchmarks.suite.peers import interpreter_with
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.session import Session
from semgraph.stores.sqlite.store import SqliteStore

Figures = dict[str, float | int]
GROUPS, EPISODES, IN_FLIGHT = 7, 28, 4
LATENCY = 0.02
"""Seconds that the model takes, so that requests are in flight when something dies."""
PART = 36
"""Requests that were sent when something dies."""
LIMIT = 40
"""The `max_calls` of a run that ends before its rows do."""
COUNTS = tuple((shards, workers) for shards in (1, 3, 8) for workers in (2, 3))
LOCAL, RAY = "local: 1, 3, 8 shards by 2, 3 workers", "ray: 1, 3, 8 shards by 2, 3 workers"
WORKER, NODE = "ray: a worker is killed", "ray: a node is removed"
DRIVER_DIES, CALLS = "ray: the driver is killed, and resumed", f"ray: max_calls {LIMIT}"


@dataclass
class Runs:
    """Runs of the same messages against a server, each in a folder of its own.

    Args:
        server: The model.
        folder: Of the runs.
    """

    server: StandIn
    folder: Path
    rows: list[dict[str, Any]] = field(default_factory=lambda: groups(EPISODES, GROUPS))

    def settings(self, name: str, **more: Any) -> dict[str, Any]:
        """Of a session in a folder with this name; as few requests are in flight as limits allow."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "semgraph.toml").write_text(f"[limits]\nin_flight = {IN_FLIGHT}\n")
        return {
            "llm": f"openai:stand-in@{self.server.base_url}",
            "embedder": f"openai:stand-in@{self.server.base_url}?dimensions={DIMENSIONS}",
            "store": f"sqlite:{folder}/graph.db",
            "folder": str(folder),
            **more,
        }

    async def run(self, settings: Mapping[str, Any], **options: Any) -> Result:
        """A run of the messages, or of the run that is resumed."""
        given = options or {"episodes": self.rows}
        async with Session(**settings) as session:
            return await session.arun(PLAN, **given)

    async def sent(self, running: asyncio.Task[Any]) -> None:
        """Wait until a part of the requests has been sent. Raises what the run raises."""
        while len(self.server.requests) < PART and not running.done():  # noqa: ASYNC110 - a server
            await asyncio.sleep(0.005)
        if running.done():
            running.result()
            msg = f"the run ended before {PART} requests"
            raise ValueError(msg)

    def last_run(self, name: str) -> str:
        """The last run in a folder."""
        return max(p.name for p in (self.folder / name / ".semgraph" / "runs").iterdir())

    async def graph(self, name: str) -> Contents:
        """The graph in a folder."""
        store = SqliteStore(self.folder / name / "graph.db")
        return await contents(store, load_plan(PLAN).graph)


@dataclass(frozen=True)
class Attempt:
    """A run in shards to which something happens.

    Args:
        runs: Those it belongs to.
        name: Of its folder.
        settings: Of its session.
        cluster: Of Ray.
    """

    runs: Runs
    name: str
    settings: Mapping[str, Any]
    cluster: Any

    async def begun(self) -> asyncio.Task[Result]:
        """The run, when it has sent a part of its requests."""
        running = asyncio.create_task(self.runs.run(self.settings))
        await self.runs.sent(running)
        return running


async def _whole(attempt: Attempt) -> None:
    await attempt.runs.run(attempt.settings)


async def _worker(attempt: Attempt) -> None:
    running = await attempt.begun()
    workers()[0].send_signal(signal.SIGKILL)
    await running


async def _node(attempt: Attempt) -> None:
    node = attempt.cluster.add_node(num_cpus=2)
    running = await attempt.begun()
    await asyncio.to_thread(attempt.cluster.remove_node, node, allow_graceful=False)
    await running


async def _driver(attempt: Attempt) -> None:
    runs = attempt.runs
    task = {"session": attempt.settings, "plan": str(PLAN), "rows": runs.rows}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DRIVER, json.dumps(task, default=str), cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=DEVNULL, stderr=DEVNULL,
    )  # fmt: skip
    await runs.sent(asyncio.create_task(process.wait()))
    started = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    await process.wait()
    while any(map(lives, started)):  # noqa: ASYNC110 - other processes
        await asyncio.sleep(0.005)
    await runs.run(attempt.settings, resume=runs.last_run(attempt.name))


@dataclass(frozen=True)
class Way:
    """How the rows are run.

    Args:
        engine: Its name.
        counts: Numbers of shards and workers, each a run.
        scenario: What happens.
        lost: Requests that may be sent twice: those in flight when something dies.
        max_calls: The limit of the run.
    """

    engine: str
    counts: tuple[tuple[int, int], ...] = ((4, 2),)
    scenario: Callable[[Attempt], Awaitable[None]] = _whole
    lost: int = 0
    max_calls: int | None = None

    async def differences(self, runs: Runs, cluster: Any) -> Figures:
        """Run all, and compare each with the run in one process."""
        await runs.run(runs.settings("alone"))
        graph, asked = await runs.graph("alone"), wire(runs.server.requests)
        found: Counter[str] = Counter()
        for number, (shards, many) in enumerate(self.counts):
            runs.server.reset()
            engine = f"{self.engine}?shards={shards}&workers={many}"
            name = f"run{number}"
            settings = runs.settings(name, engine=engine, max_calls=self.max_calls)
            await self.scenario(Attempt(runs, name, settings, cluster))
            sent = wire(runs.server.requests)
            found += Counter(beyond=(sent - asked).total(), lacking=(asked - sent).total())
            other = self.max_calls is None and await runs.graph(name) != graph
            found["graphs"] += other
            found["different"] += other or self._different(asked, sent)
            found["requests"] += sent.total()
            found["in_flight"] = max(found["in_flight"], runs.server.counters.most_in_flight)
        names = ("different", "graphs", "beyond", "lacking", "requests", "in_flight")
        return {"runs": len(self.counts), **{name: found[name] for name in names}}

    def _different(self, asked: Counter[str], sent: Counter[str]) -> bool:
        """Whether requests are missing, or more were sent than may be."""
        if self.max_calls is not None:
            return sent.total() != self.max_calls or bool(sent - asked)
        return sent.keys() != asked.keys() or (sent - asked).total() > self.lost


WAYS = {
    LOCAL: Way("local", COUNTS),
    RAY: Way("ray", COUNTS),
    WORKER: Way("ray", scenario=_worker, lost=IN_FLIGHT),
    NODE: Way("ray", ((4, 4),), _node, lost=IN_FLIGHT),
    DRIVER_DIES: Way("ray", scenario=_driver, lost=IN_FLIGHT),
    CALLS: Way("ray", ((3, 2),), max_calls=LIMIT),
}


def compared(way: str, _: int) -> Figures:
    """The differences of runs in shards from one in one process, in a process of its own."""
    python = sys.executable if WAYS[way].engine == "local" else interpreter_with("ray")
    figures: Figures = json.loads(last_line_of(__name__, way, python=python))
    return figures


@asynccontextmanager
async def _runs() -> AsyncIterator[Runs]:
    with tempfile.TemporaryDirectory() as folder:
        async with StandIn(latency=LATENCY) as server:
            yield Runs(server, Path(folder))


async def _compared(way: Way, cluster: Any) -> Figures:
    began = time.perf_counter()
    async with _runs() as runs:
        figures = await way.differences(runs, cluster)
    return {**figures, "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    """Compare by the way of the command line."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    way = WAYS[sys.argv[1]]
    with nullcontext() if way.engine == "local" else cluster_here() as cluster:
        figures = asyncio.run(_compared(way, cluster))
    print(json.dumps(figures))  # last: the cluster prints too


if __name__ == "__main__":
    main()
