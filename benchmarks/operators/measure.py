"""One implementation of one task, in this interpreter; `python -m benchmarks.operators.measure`
reads lines of JSON and prints a line for each.

A name that starts with LOTUS is LOTUS by itself; all others are semgraph's.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.frame.processes import Watch, serve
from benchmarks.frame.serving import Server, on_wire, same_as_counted
from benchmarks.operators.cases import Task, tasks
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Limiter, Stack
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.semantic.context import Context
from semgraph.semantic.library import Library

MODEL = "gpt-4.1-mini"
Found = set[Any] | str
Figures = dict[str, Any]
_WARM: set[tuple[str, str]] = set()
atexit.register(gc.unfreeze)  # else libraries complain at exit


def measured(
    server: Server, task: Task, run: Callable[[Watch], Found], counted: StepMetrics | None = None
) -> Figures:
    """One run: its requests at the server, its time, its quality.

    Args:
        server: The model server.
        task: The task.
        run: Runs the operator under the watch; returns the answers, or the name of the error.
        counted: The counts of `run` itself; a difference to the server's is an error.
    """
    watch = Watch()
    server.reset()
    gc.collect()
    gc.freeze()  # garbage and modules from before are not inspected again
    found = run(watch)
    wire = on_wire(server)
    if counted is not None:
        same_as_counted(counted, wire)
    figures: Figures = {**wire, **watch.figures()}
    figures["cpu_ms_per_call"] = round(1000 * watch.cpu / max(1, wire["calls"]), 2)
    figures |= _quality(set() if isinstance(found, str) else found, task.truth)
    figures |= {"error": found} if isinstance(found, str) else {}
    if task.again:
        server.reset(refuse="")
        run(watch)
        figures["paid_again"] = server.counted()["calls"]
    return figures


def _quality(found: set[Any], truth: set[Any]) -> Figures:
    right = len(found & truth)
    recall, precision = right / len(truth), right / max(1, len(found))
    f1 = 2 * recall * precision / (recall + precision) if right else 0.0
    return {"recall": round(recall, 4), "precision": round(precision, 4), "f1": round(f1, 4)}


def way_of(server: Server, name: str, text: str) -> Figures:
    """An implementation by name, over a new journal; a new one runs once before it is measured."""
    task = tasks()[name]
    if text.startswith("LOTUS"):
        from benchmarks.operators.lotus_itself import asking

        ask = asking(server.url, task, text)

        def timed(watch: Watch) -> Found:
            with watch:
                return ask()

        if (name, text) not in _WARM and not task.again:
            timed(Watch())
        _WARM.add((name, text))
        return measured(server, task, timed)
    key, counted = (task.operator, text.partition("(")[0]), StepMetrics()
    with tempfile.TemporaryDirectory() as folder:
        if key not in _WARM:
            warm = _run(server.url, task, text, Path(folder) / "warm.db", StepMetrics(), Watch())
            asyncio.run(warm)
        _WARM.add(key)
        run = partial(_run, server.url, task, text, Path(folder) / "journal.db", counted)
        return measured(server, task, lambda watch: asyncio.run(run(watch)), counted)


async def _run(
    url: str, task: Task, text: str, file: Path, counted: StepMetrics, watch: Watch
) -> set[Any]:
    way = Library().get(task.operator, Choice.parse(text))
    journal = Journal(file)
    llm = Stack(journal=journal).model(OpenAI(MODEL, url, "none"), Limiter(in_flight=64))
    embedder = OpenAIEmbedder("stand-in", None, url, "none")
    try:
        async with Context(llm, embedder, task.node, counted) as ctx:
            node, rows = task.node, task.rows
            with watch:
                answers = await way.answer(node, rows, ctx)
            return task.found(answers)
    finally:
        await llm.aclose()
        await embedder.aclose()
        journal.close()


if __name__ == "__main__":
    serve(lambda given: way_of(Server(given["url"]), given["task"], given["way"]))
