"""The cost of a run without model and store: CPU, memory, time to start."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.engine.clock import Clock, Timed
from benchmarks.ingest.messages import groups, stream
from benchmarks.suite.children import last_line_of
from benchmarks.suite.made import ROOT
from benchmarks.suite.peers import interpreter
from benchmarks.suite.serving import Server, on_wire, same_as_counted, serving
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.session import Session
from semgraph.stores.sqlite.store import SqliteStore

PLAN = ROOT / "plans" / "add_episode.yaml"
Figures = dict[str, float | int]
DIMENSIONS = 256
"""The length of vectors; configured, since a request for it would be an extra call."""
_warm = False


def window(number: int, _: int) -> Figures:
    """The CPU of one more window: two runs of different length, without their constant part."""
    lengths = (10, 40) if number == 1 else (number, 3 * number)
    with serving() as server:
        rows = [list(stream(n, "one")) if number == 1 else groups(n, number) for n in lengths]
        _warmed(server.url)
        few, many = (asyncio.run(_run(server.url, part)) for part in rows)
    more = lengths[1] - lengths[0]
    parts = {
        name: (many[0].seconds[name] - few[0].seconds[name]) / more * 1000
        for name in many[0].seconds
    }
    own = (
        ((many[1] - sum(many[0].seconds.values())) - (few[1] - sum(few[0].seconds.values())))
        / more
        * 1000
    )
    return {"own_ms": round(own, 2)} | {f"{name}_ms": round(ms, 2) for name, ms in parts.items()}


def against_duckdb(number: int, _: int) -> Figures:
    """CPU of a window more, and the same where DuckDB computes all relational steps and searches:
    medians of three, in turn.
    """
    own: dict[str, list[float]] = {"duckdb": [], "": []}
    for _turn in range(3):
        for executor, figures in own.items():
            with patch.dict(os.environ, SEMGRAPH_SEGMENTS=executor):
                figures.append(window(number, 0)["own_ms"])
    duckdb, rows = (median(figures) for figures in own.values())
    return {
        "own_ms": round(rows, 2),
        "duckdb_ms": round(duckdb, 2),
        "ratio": round(rows / duckdb, 3),
    }


def _warmed(url: str) -> None:
    """Import, plan and prepare statements, once in this process: two groups of six messages."""
    global _warm  # noqa: PLW0603 - of this process
    if not _warm:
        asyncio.run(_run(url, groups(12, 2)))
        _warm = True


async def _run(url: str, rows: list[dict[str, Any]]) -> tuple[Clock, float]:
    """One run over a store in memory: CPU of model layer and store, and of the process."""
    clock = Clock()
    llm, embedder = (
        OpenAI("stand-in", url, "none"),
        OpenAIEmbedder("stand-in", DIMENSIONS, url, "none"),
    )
    store = SqliteStore(":memory:")
    given: Any = {"llm": llm, "embedder": embedder, "store": store}
    timed = {
        name: Timed(thing, "store" if name == "store" else "model", clock)
        for name, thing in given.items()
    }
    server = Server(url)
    server.reset()
    began = time.process_time()
    result = await Session(**timed, journal=False, runs="").arun(PLAN, episodes=rows)
    spent = time.process_time() - began
    same_as_counted(result.meter.total(), on_wire(server))
    for thing in given.values():
        await thing.aclose()
    return clock, spent


def started(command: tuple[str, ...], _: int) -> Figures:
    """Wall seconds of a command beyond those of an interpreter that does nothing; medians of
    five.
    """
    times = [
        sorted(_wall(sys.executable, words) for _ in range(5))[2]
        for words in (("-c", "pass"), command)
    ]
    return {"seconds": round(times[1] - times[0], 4), "python_s": round(times[0], 4)}


def imported(peer: str, module: str, _: int) -> Figures:
    """The same for the import of graphiti-core or LOTUS, in its own environment; each once, after
    one that warms the disk cache.

    Raises:
        Unmeasured: It is not installed.
    """
    python = interpreter(peer)
    times = [
        _wall(str(python), ("-c", words))
        for words in (f"import {module}", "pass", f"import {module}")
    ]
    return {"seconds": round(times[2] - times[1], 4), "python_s": round(times[1], 4)}


def _wall(python: str, words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run(
        [python, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


def many(episodes: int, number: int, _: int) -> Figures:
    """Many episodes of many groups in a process of its own: seconds, CPU, peak memory; then the
    same again.
    """
    found: Figures = json.loads(last_line_of("benchmarks.engine.own", str(episodes), str(number)))
    return found


def _many(episodes: int, number: int) -> Figures:
    rows, found = groups(episodes, number), list[Figures]()
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        given: Any = {"journal": False, "runs": "", "store": f"sqlite:{Path(folder) / 'graph.db'}"}
        llm = OpenAI("stand-in", server.url, "none")
        embedder = OpenAIEmbedder("stand-in", DIMENSIONS, server.url, "none")
        with Session(llm=llm, embedder=embedder, **given) as session:
            for _turn in range(2):
                server.reset()
                began, cpu = time.perf_counter(), time.process_time()
                total = session.run(PLAN, episodes=rows).meter.total()
                seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
                same_as_counted(total, on_wire(server))
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
                found.append({"s": seconds, "cpu": cpu, "peak": peak, "calls": total.calls_issued})
    first, again = found
    return {
        "seconds": round(first["s"], 2), "ms_each": round(1000 * first["s"] / episodes, 2),
        "cpu_ms_each": round(1000 * first["cpu"] / episodes, 2), "peak_mib": round(first["peak"]), "calls": first["calls"],
        "again_s": round(again["s"], 2), "again_calls": again["calls"],
    }  # fmt: skip


if __name__ == "__main__":
    os.environ.setdefault("OPENAI_API_KEY", "none")
    print(json.dumps(_many(*map(int, sys.argv[1:]))))
