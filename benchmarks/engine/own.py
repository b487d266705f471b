"""The time that processes take to start, and that planning takes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.frame.lines import ROOT
from benchmarks.frame.processes import interpreter
from semgraph.frontend.load import load_plan
from semgraph.optimizer import optimize

PLAN = ROOT / "plans" / "add_episode.yaml"
Figures = dict[str, float | int]


def started(command: tuple[str, ...], _: int) -> Figures:
    """Wall seconds of a command beyond those of an interpreter that does nothing; medians of
    five.
    """
    both = ("-c", "pass"), command
    alone, whole = (median(_wall(sys.executable, words) for _ in range(5)) for words in both)
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
    asked = '    - sem_filter: {prompt: "Does “{text}” complain about anything?"}\n'
    for i in range(steps):
        source = f"s{i - 1}" if i else "rows"
        parts.append(f"  s{i}:\n    - from: {source}\n    - filter: number > {i}\n")
        parts.append(asked * (i % 10 == 9) + f'    - add: {{n{i}: "number + {i}"}}\n')
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
