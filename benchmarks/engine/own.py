"""What a run takes of its own: CPU besides model and store, memory, time to start, time to plan."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.engine.clock import Clock, Timed
from benchmarks.ingest.messages import groups, stream
from benchmarks.suite.made import ROOT
from benchmarks.suite.serving import serving
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.session import Session
from semgraph.stores.sqlite import SqliteStore

PLAN = ROOT / "plans" / "add_episode.yaml"
Figures = dict[str, float | int]


def window(number: int, _: int) -> Figures:
    """CPU of a window more: two runs of different length, so that what a run takes once is not in it."""
    lengths = (10, 40) if number == 1 else (number, 4 * number)
    with serving() as server:
        rows = [list(stream(n, "one")) if number == 1 else groups(n, number) for n in lengths]
        asyncio.run(_run(server.url, rows[0]))
        few, many = (asyncio.run(_run(server.url, part)) for part in rows)
    more = lengths[1] - lengths[0]
    parts = {name: (many[0].seconds[name] - few[0].seconds[name]) / more * 1000 for name in many[0].seconds}
    own = ((many[1] - sum(many[0].seconds.values())) - (few[1] - sum(few[0].seconds.values()))) / more * 1000
    return {"own_ms": round(own, 2)} | {f"{name}_ms": round(ms, 2) for name, ms in parts.items()}


async def _run(url: str, rows: list[dict[str, Any]]) -> tuple[Clock, float]:
    """One run over a store in memory: CPU of model layer and store, and of the process."""
    clock = Clock()
    llm, embedder = OpenAI("stand-in", url, "none"), OpenAIEmbedder("stand-in", None, url, "none")
    store = SqliteStore(":memory:")
    given: Any = {"llm": llm, "embedder": embedder, "store": store}
    timed = {name: Timed(thing, "store" if name == "store" else "model", clock) for name, thing in given.items()}
    started = time.process_time()
    await Session(**timed, journal=False, runs="").arun(PLAN, episodes=rows)
    spent = time.process_time() - started
    for thing in given.values():
        await thing.aclose()
    return clock, spent


def started(command: tuple[str, ...], _: int) -> Figures:
    """Wall seconds of a command beyond those of an interpreter that does nothing; medians of five."""
    times = [sorted(_wall(words) for _ in range(5))[2] for words in (("-c", "pass"), command)]
    return {"seconds": round(times[1] - times[0], 4), "python_s": round(times[0], 4)}


def _wall(words: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def planned(_: int) -> Figures:
    """Seconds from the file to the plan that is run: read, bound, optimized; the second time in a process."""
    from semgraph.frontend.yaml import load_plan
    from semgraph.optimizer import optimize

    times: list[float] = []
    for _turn in range(2):
        began = time.perf_counter()
        plan = load_plan(PLAN)
        read = time.perf_counter()
        optimize(plan)
        times = [read - began, time.perf_counter() - read]
    return {"load_ms": round(1000 * times[0], 1), "optimize_ms": round(1000 * times[1], 1)}


def many(episodes: int, number: int, _: int) -> Figures:
    """Many episodes of many groups in a process of its own: seconds, peak memory; then the same again."""
    words = [sys.executable, "-m", "benchmarks.engine.own", str(episodes), str(number)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    names = ("seconds", "peak_gib", "calls", "again_s", "again_calls")
    return dict(zip(names, map(float, done.stdout.split()), strict=True))


def _many(episodes: int, number: int) -> list[float]:
    rows, found = groups(episodes, number), list[float]()
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        given: Any = {"journal": False, "runs": "", "store": f"sqlite:{Path(folder) / 'graph.db'}"}
        llm, embedder = f"openai:stand-in@{server.url}", f"openai:stand-in@{server.url}"
        with Session(llm=llm, embedder=embedder, **given) as session:
            for _turn in range(2):
                began = time.perf_counter()
                calls = session.run(PLAN, episodes=rows).meter.total().calls_issued
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
                found += [round(time.perf_counter() - began, 1), round(peak, 3), calls]
    return [*found[:3], found[3], found[5]]


if __name__ == "__main__":
    import os

    os.environ.setdefault("OPENAI_API_KEY", "none")
    print(*_many(*map(int, sys.argv[1:])))
