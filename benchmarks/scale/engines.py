"""One run with and without an engine, in a process of its own whose CPU is measured from outside."""

from __future__ import annotations

import asyncio
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.own import DIMENSIONS, PLAN
from benchmarks.ingest.messages import groups
from benchmarks.scale.processes import OWN, RAY, Usage
from benchmarks.suite.children import started, stop
from benchmarks.suite.made import ROOT
from benchmarks.suite.peers import interpreter_with
from benchmarks.suite.serving import Server, on_wire, same_as_counted, serving
from semgraph.engine.engines import EngineSpec
from semgraph.execution.result import Result
from semgraph.session import Session

Figures = dict[str, float | int]
ALONE = "no engine"
_EVERY = 0.2  # seconds between two looks at the processes


@dataclass(frozen=True)
class Carried:
    """A run of add_episode.

    Args:
        engine: As settings name it; ALONE: none.
        groups: Of the messages.
        each: Messages of a group.
        shards: Of the engine.
        latency: Seconds that the model takes.
        in_flight: Requests at one time.
        url: Of the model.
    """

    engine: str
    groups: int
    each: int
    shards: int
    latency: float = 0.0
    in_flight: int = 64
    url: str = ""

    def __call__(self, _: int) -> Figures:
        """Measure it once. All ways run by the interpreter that has Ray."""
        python = interpreter_with("ray")
        with serving("--latency", str(self.latency)) as server:
            task = json.dumps(asdict(self) | {"url": server.url})
            return _watched([str(python), "-m", __name__, task])


def _watched(command: list[str]) -> Figures:
    """Figures of a process that prints a line before its run and one after it, waits for one each,
    and then prints its figures.
    """
    with tempfile.TemporaryFile("w+") as errors:
        pipe = subprocess.PIPE
        process = started(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=errors)
        try:
            _wait(process)
            usage = Usage(process.pid)
            _say(process)
            _wait(process, usage)
            _say(process)
            out, _ = process.communicate()
        except EOFError:
            process.wait()
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            msg = f"the run ended with {process.returncode}: {last}"
            raise RuntimeError(msg) from None
        finally:
            stop(process)
    figures: Figures = json.loads(out.strip().splitlines()[-1])
    own, ray = (round(usage.seconds[name], 2) for name in (OWN, RAY))
    return {**figures, "cpu_s": own, "ray_s": ray}


def _say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _wait(process: subprocess.Popen[str], usage: Usage | None = None) -> None:
    """Wait for a line, and look at the processes meanwhile. Raises EOFError where it ends instead."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not selector.select(_EVERY if usage else None):
            if usage:
                usage.look()
    if usage:
        usage.look()
    if not process.stdout.readline():
        raise EOFError


def _settings(task: Carried, folder: Path) -> dict[str, Any]:
    """Of a session in a folder."""
    folder.mkdir()
    (folder / "semgraph.toml").write_text(f"[limits]\nin_flight = {task.in_flight}\n")
    given: dict[str, Any] = {
        "llm": f"openai:stand-in@{task.url}",
        "embedder": f"openai:stand-in@{task.url}?dimensions={DIMENSIONS}",
        "store": f"sqlite:{folder}/graph.db",
        "folder": folder,
    }
    engine = f"{task.engine}&shards={task.shards}"
    return given if task.engine == ALONE else {**given, "engine": engine}


async def _run(settings: dict[str, Any], rows: list[dict[str, Any]]) -> Result:
    async with Session(**settings) as session:
        return await session.arun(PLAN, episodes=rows)


def _turn() -> None:
    """Tell the process that measures, and wait for it."""
    print(flush=True)
    sys.stdin.readline()


async def measured(task: Carried, folder: Path) -> Figures:
    """The run in this process, after a small one: imports are paid for, and workers are started."""
    await _run(_settings(task, folder / "warm"), groups(12, 4))
    rows, server = groups(task.groups * task.each, task.groups), Server(task.url)
    server.reset()
    _turn()
    began = time.perf_counter()
    result = await _run(_settings(task, folder / "run"), rows)
    seconds = time.perf_counter() - began
    _turn()
    same_as_counted(result.meter.total(), on_wire(server))
    if result.committed != len(rows):
        msg = f"{result.committed} of {len(rows)} rows were committed"
        raise ValueError(msg)
    calls = result.meter.total().calls_issued
    return {"seconds": round(seconds, 2), "episodes": len(rows), "calls": calls}


def main() -> None:
    """Run the task of the command line. Ray starts before all, and stays until the end."""
    task = Carried(**json.loads(sys.argv[1]))
    os.environ.setdefault("OPENAI_API_KEY", "none")
    if task.engine.startswith("ray"):
        from semgraph.engine.on_ray import RayEngine

        RayEngine(EngineSpec.parse(task.engine))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(measured(task, Path(folder)))))


if __name__ == "__main__":
    main()
