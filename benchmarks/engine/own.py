"""The cost of a window without model and store, and the time that processes take to start."""

from __future__ import annotations

import asyncio
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
    windows: dict[str, list[Figures]] = {"duckdb": [], "": []}
    for _turn in range(3):
        for executor, figures in windows.items():
            with patch.dict(os.environ, SEMGRAPH_SEGMENTS=executor):
                figures.append(window(number, 0))
    duckdb, rows = (_medians(figures) for figures in windows.values())
    ratio = rows["own_ms"] / duckdb["own_ms"]
    return {**rows, "duckdb_ms": duckdb["own_ms"], "ratio": round(ratio, 3)}


def _medians(figures: list[Figures]) -> Figures:
    return {name: round(median(one[name] for one in figures), 2) for name in figures[0]}


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


def _wall(python: str, words: tuple[str, ...], folder: Path = ROOT) -> float:
    began = time.perf_counter()
    subprocess.run(
        [python, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began
