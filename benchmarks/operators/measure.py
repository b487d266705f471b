"""Measures ways in this interpreter: `python -m benchmarks.operators.measure URL ours|lotus` writes a JSON line for each."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.operators.cases import LOTUS, WAYS, Task, tasks
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.journal import Journal
from semgraph.llm.limits import Limiter
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import stack
from semgraph.logical.plan import Choice
from semgraph.meter import StepMetrics
from semgraph.physical.context import NodeContext
from semgraph.physical.library import Library

MODEL = "gpt-4.1-mini"


def counted(url: str, path: str, *, send: bool = False) -> dict[str, Any]:
    """A request to the server about itself."""
    request = urllib.request.Request(url.removesuffix("/v1") + path, method="POST" if send else "GET")
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def measured(url: str, task: Task, way: str, run: Callable[[], set[Any] | str]) -> dict[str, Any]:
    """One run: what it asked of the server, how long it took, how right it was."""
    counted(url, "/reset", send=True)
    gc.collect()  # what others left behind is not this one's to clear
    began, cpu = time.perf_counter(), time.process_time()
    found = run()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    on_wire = counted(url, "/counters")
    line = {
        "task": task.name, "way": way, "calls": on_wire["calls"], "attempts": on_wire["attempts"],
        "embeddings": on_wire["embedding_calls"], "rounds": on_wire["rounds"], "seconds": round(seconds, 3),
        "cpu_ms_per_call": round(1000 * cpu / max(1, on_wire["calls"]), 2),
    }  # fmt: skip
    if isinstance(found, str):
        return line | {"failed": found, "recall": 0.0, "precision": 0.0}
    right = len(found & task.truth)
    return line | {"recall": round(right / len(task.truth), 3), "precision": round(right / max(1, len(found)), 3)}


def ours(url: str, ways: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """Semgraph's ways, each over a fresh journal; the first of each operator is run once before, to warm up."""
    every, warm = tasks(), set[str]()
    for name, texts in ways.items():
        for text in texts:
            task = every[name]
            with tempfile.TemporaryDirectory() as folder:
                if (key := f"{task.operator} {text.partition('(')[0]}") not in warm:
                    warm.add(key)
                    asyncio.run(_run(url, task, text, Path(folder) / "warm.db"))
                journal = Path(folder) / "journal.db"
                line = measured(url, task, text, lambda t=task, w=text, j=journal: asyncio.run(_run(url, t, w, j)))
                if task.again:
                    counted(url, "/reset?forgiving=1", send=True)
                    asyncio.run(_run(url, task, text, journal))
                    line["paid_again"] = counted(url, "/counters")["calls"]
                yield line


async def _run(url: str, task: Task, text: str, file: Path) -> set[Any]:
    way = Library().get(task.operator, Choice.parse(text))
    journal = Journal(file)
    llm = stack(OpenAI(MODEL, url, "none"), Limiter(in_flight=64), journal=journal)
    embedder = OpenAIEmbedder("stand-in", None, url, "none")
    try:
        async with NodeContext(llm, embedder, task.node, StepMetrics()) as ctx:
            return task.found(await way.answer(task.node, task.rows, ctx))
    finally:
        await llm.aclose()
        await embedder.aclose()
        journal.close()


def main() -> None:
    """Read the command line."""
    url, which = sys.argv[1:]
    for line in ours(url, WAYS if which == "ours" else LOTUS):
        print(json.dumps(line), flush=True)
    if which == "lotus":
        from benchmarks.operators.lotus_itself import itself

        for line in itself(url):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
