"""Runs one of the measurements; see README.md."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.ingest.cpu import Clock, Timed
from benchmarks.ingest.messages import groups, stream
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.session import Session
from semgraph.stores.sqlite import SqliteStore

PLAN = Path(__file__).parents[2] / "plans" / "add_episode.yaml"


@contextlib.contextmanager
def standin(*options: str) -> Iterator[str]:
    """The stand-in in a process of its own; its address."""
    command = [sys.executable, "-m", "benchmarks.world", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PLAN.parents[1])
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def session(url: str, store: str) -> Session:
    """A session on the stand-in, without journal and record."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    return Session(llm=f"openai:stand-in@{url}", embedder=f"openai:stand-in@{url}", store=store, journal=False, runs="")


def turns(_: argparse.Namespace) -> None:
    """The three turns of the example."""
    print(f"{'store':<12} {'facts':<8} {'calls':>5} {'round trips':>11} {'a window':>9}   graph")
    for name, store in (("SQLite", "memory"), ("Neo4j", "neo4j-local")):
        for facts in ("dated", "undated"):
            with standin(*(["--undated"] if facts == "undated" else [])) as url, session(url, store) as run:
                group = f"turns-{facts}-{time.time_ns()}"
                rows = [
                    {**row, "group_id": group} for row in run.prepare(PLAN).document["example"]["inputs"]["episodes"]
                ]
                result = run.run(PLAN, episodes=rows)
                total = result.meter.total()
                trips = total.round_trips - 1  # one asks which rows are there already
                calls = total.calls_issued + total.calls_coalesced
                print(f"{name:<12} {facts:<8} {calls:>5} {trips:>11} {trips / 3:>9.1f}   {dict(result.written)}")


def cpu(_: argparse.Namespace) -> None:
    """Own CPU, model layer and store apart: for a window more, and for a run as such. The first run warms up."""
    with standin() as url:
        for number, lengths in ((1, (10, 30)), (100, (100, 300))):
            label = f"{number} groups" if number > 1 else "one group"
            rows = [list(stream(n, "one")) if number == 1 else groups(n, number) for n in lengths]
            asyncio.run(_cpu(url, rows[0]))
            few, many = (asyncio.run(_cpu(url, part)) for part in rows)
            own = [total - sum(clock.seconds.values()) for clock, total in (few, many)]
            each = (own[1] - own[0]) / (lengths[1] - lengths[0])
            parts = {
                name: (s - few[0].seconds[name]) / (lengths[1] - lengths[0]) for name, s in many[0].seconds.items()
            }
            beside = ", ".join(f"{name} {s * 1000:.1f}" for name, s in parts.items())
            print(
                f"{label:<12} own {each * 1000:.1f} ms an episode ({beside}), {own[0] - each * lengths[0]:.2f} s a run"
            )


async def _cpu(url: str, rows: list[dict[str, Any]]) -> tuple[Clock, float]:
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


def streamed(_: argparse.Namespace) -> None:
    """20 episodes into one group, the model at 200 ms."""
    with standin("--latency", "0.2", "--embedding-latency", "0.01") as url, session(url, "neo4j-local") as run:
        run.run(PLAN, episodes=list(stream(2, f"warm-{time.time_ns()}")))
        started = time.perf_counter()
        result = run.run(PLAN, episodes=list(stream(20, f"stream-{time.time_ns()}")))
        total = result.meter.total()
        print(f"{total.calls_issued} calls, {total.round_trips} store queries, {time.perf_counter() - started:.1f} s")


def many(arguments: argparse.Namespace) -> None:
    """Many episodes of many groups: peak memory; then again."""
    import resource

    rows = groups(arguments.episodes, arguments.groups)
    with tempfile.TemporaryDirectory() as folder, standin() as url, session(url, f"sqlite:{folder}/graph.db") as run:
        for attempt in ("first", "again"):
            started = time.perf_counter()
            result = run.run(PLAN, episodes=rows)
            total = result.meter.total()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024
            seconds = time.perf_counter() - started
            print(
                f"{attempt}: {result.committed} committed, {result.skipped} there already, {total.calls_issued} calls, "
                f"wrote {dict(result.written)}, {seconds:.0f} s, peak {peak:.2f} GiB"
            )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest")
    commands = parser.add_subparsers(required=True)
    for name, measure in (("turns", turns), ("cpu", cpu), ("stream", streamed), ("many", many)):
        command = commands.add_parser(name, help=measure.__doc__)
        command.set_defaults(measure=measure)
        if name == "many":
            command.add_argument("--episodes", type=int, default=10_000)
            command.add_argument("--groups", type=int, default=100)
    arguments = parser.parse_args()
    arguments.measure(arguments)


if __name__ == "__main__":
    main()
