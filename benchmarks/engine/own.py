"""The cost of a window without model and store, of planning, of a lookup of commit markers, and the
time that processes take to start.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Generator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.frame.lines import ROOT
from benchmarks.frame.processes import interpreter
from benchmarks.frame.serving import Server, on_wire, same_as_counted, serving
from benchmarks.ingest.streams import groups, stream
from semgraph.frontend.load import load_plan
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.optimizer import optimize
from semgraph.session import Session
from semgraph.stores.base import CommitMarker, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

PLAN = ROOT / "plans" / "add_episode.yaml"
Figures = dict[str, float | int]
DIMENSIONS = 256
"""The length of vectors; configured, since a request for it would be an extra call."""
_warm = False


class Timed:
    """An object whose awaited methods are charged to a name: seconds of CPU of the event loop's
    thread, step by step.
    """

    def __init__(self, inner: Any, name: str, clock: Counter[str]) -> None:
        self._inner, self._name, self._clock = inner, name, clock

    def __getattr__(self, key: str) -> Any:
        found = getattr(self._inner, key)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return (
                _Charged(result, self._name, self._clock)
                if isinstance(result, Awaitable)
                else result
            )

        return call


class _Charged:
    def __init__(self, inner: Awaitable[Any], name: str, clock: Counter[str]) -> None:
        self._inner, self._name, self._clock = inner, name, clock

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, value = self._inner.__await__(), None
        while True:
            started = time.thread_time()
            try:
                waiting = steps.send(value)
            except StopIteration as stop:
                return stop.value
            finally:
                self._clock[self._name] += time.thread_time() - started  # type: ignore[assignment]
            value = yield waiting


def window(number: int) -> Figures:
    """The CPU of one more window: two runs of different length, without their constant part."""
    global _warm  # noqa: PLW0603 - of this process
    lengths = (10, 40) if number == 1 else (number, 3 * number)
    with serving() as server:
        rows = [list(stream(n, "one")) if number == 1 else groups(n, number) for n in lengths]
        if not _warm:  # imports, plans and prepared statements
            asyncio.run(_run(server.url, groups(12, 2)))
            _warm = True
        few, many = (asyncio.run(_run(server.url, part)) for part in rows)
    more = 1000 / (lengths[1] - lengths[0])
    return {f"{name}_ms": round((many[name] - few[name]) * more, 2) for name in many}


async def _run(url: str, rows: list[dict[str, Any]]) -> Counter[str]:
    """CPU seconds of one run over a store in memory: of the model layer, the store, and the rest."""
    clock: Counter[str] = Counter()
    llm = OpenAI("stand-in", url, "none")
    embedder, store = OpenAIEmbedder("stand-in", DIMENSIONS, url, "none"), SqliteStore(":memory:")
    given: Any = {"llm": llm, "embedder": embedder, "store": store}
    charged = {"llm": "model", "embedder": "model", "store": "store"}
    timed: Any = {name: Timed(thing, charged[name], clock) for name, thing in given.items()}
    server = Server(url)
    server.reset()
    began = time.process_time()
    result = await Session(**timed, journal=False, runs="").arun(PLAN, episodes=rows)
    clock["own"] = time.process_time() - began - clock["model"] - clock["store"]  # type: ignore[assignment]
    same_as_counted(result.meter.total(), on_wire(server))
    for thing in given.values():
        await thing.aclose()
    return clock


def against_duckdb(number: int, _: int) -> Figures:
    """CPU of a window more, and the same where DuckDB computes all relational steps and searches:
    medians of three, in turn.
    """
    windows: dict[str, list[Figures]] = {"duckdb": [], "": []}
    for _turn in range(3):
        for executor, figures in windows.items():
            with patch.dict(os.environ, SEMGRAPH_SEGMENTS=executor):
                figures.append(window(number))
    duckdb, rows = (
        {name: round(median(one[name] for one in figures), 2) for name in figures[0]}
        for figures in windows.values()
    )
    ratio = round(rows["own_ms"] / duckdb["own_ms"], 3)
    return {**rows, "duckdb_ms": duckdb["own_ms"], "ratio": ratio}


def started(command: tuple[str, ...], _: int) -> Figures:
    """Wall seconds of a command beyond those of an interpreter that does nothing; medians of
    five.
    """
    alone, whole = (
        median(_wall(sys.executable, words) for _ in range(5))
        for words in (("-c", "pass"), command)
    )
    return {"seconds": round(whole - alone, 4), "python_s": round(alone, 4)}


def imported(peer: str, module: str, _: int) -> Figures:
    """The same for the import of graphiti-core or LOTUS, in its own environment; each once, after
    one that warms the disk cache. Raises Unmeasured.
    """
    python = str(interpreter(peer))
    words = (f"import {module}", "pass", f"import {module}")
    _, alone, whole = (_wall(python, ("-c", one)) for one in words)
    return {"seconds": round(whole - alone, 4), "python_s": round(alone, 4)}


def command(words: tuple[str, ...], _: int) -> Figures:
    """Milliseconds of a command, the whole process with the start of Python: the best of five in an
    empty folder, after one that fills the disk cache; `cpu_ms` likewise.
    """
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _turn in range(6):
            cpu = _cpu_of_children()
            wall = _wall(sys.executable, ("-m", "semgraph", *words), Path(folder))
            times.append((wall, _cpu_of_children() - cpu))
    wall, cpu = (min(part) for part in zip(*times[1:], strict=True))
    return {"ms": round(1000 * wall), "cpu_ms": round(1000 * cpu)}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wall(python: str, words: tuple[str, ...], folder: Path = ROOT) -> float:
    environment, quiet = os.environ | {"PYTHONPATH": str(ROOT)}, subprocess.DEVNULL
    began = time.perf_counter()
    subprocess.run(
        [python, *words], cwd=folder, env=environment, stdout=quiet, stderr=quiet, check=True
    )
    return time.perf_counter() - began


def long_plan(steps: int) -> str:
    """A plan of so many steps, each over the one before: a filter, an expression, every tenth with
    a question to a model.
    """
    head = "plan: long\ninputs: {rows: {id: string, text: string, number: int64}}\nsteps:\n"
    parts = []
    for i in range(steps):
        asked = '    - sem_filter: {prompt: "Does “{text}” complain about anything?"}\n' * (
            i % 10 == 9
        )
        before = (
            f"  s{i}:\n    - from: {f's{i - 1}' if i else 'rows'}\n    - filter: number > {i}\n"
        )
        parts.append(f'{before}{asked}    - add: {{n{i}: "number + {i}"}}\n')
    return f"{head}{''.join(parts)}returns: [s{steps - 1}]\n"


def planned(steps: int, _: int) -> Figures:
    """Milliseconds from the file to the plan that is run: read, bound, optimized; the second time
    in a process. 0 steps: the shipped add_episode.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.yaml" if steps else PLAN
        if steps:
            path.write_text(long_plan(steps), encoding="utf-8")
        times: list[float] = []
        for _turn in range(2):
            began = time.perf_counter()
            plan = load_plan(path)
            read = time.perf_counter()
            optimize(plan)
            times = [read - began, time.perf_counter() - read]
    load, rest = (round(1000 * one, 1) for one in times)
    return {"load_ms": load, "optimize_ms": rest, "total_ms": round(1000 * sum(times), 1)}


def looked_up(committed: int, _: int) -> Figures:
    """CPU milliseconds of a lookup of one new row, over an SQLite file with so many commit markers
    of its group; the median of 200.
    """
    return asyncio.run(_looked_up(committed))


async def _looked_up(committed: int) -> Figures:
    plan = load_plan(PLAN)
    rows = tuple(f"{n:08x}-0000-0000-0000-000000000000" for n in range(committed))
    at, times = datetime(2025, 1, 1, tzinfo=UTC), list[float]()
    marker = CommitMarker(plan.name, "g", rows, "f", at, "abcd", None, "h")
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "graph.db")
        try:
            await store.ensure(plan.graph, None)
            await store.commit(WriteBatch(()), marker)
            for _turn in range(200):
                began = time.process_time()
                states = await store.states(plan.name, {"g": ["new"]})
                times.append(time.process_time() - began)
                assert states["g"].head == "h"
                assert not states["g"].committed
        finally:
            await store.aclose()
    return {"cpu_ms": round(1000 * median(times), 4)}
