"""Many episodes in one run: whether an episode costs more at the end than at the beginning."""

from __future__ import annotations

import asyncio
import resource
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.engine.own import PLAN
from benchmarks.frame.processes import Watch, request, serve
from benchmarks.frame.serving import on_wire, same_as_counted, serving, session_at
from benchmarks.ingest.streams import groups
from benchmarks.search.stored import file_of
from semgraph.execution.result import Progress

Figures = dict[str, float | int]


def grown(episodes: int, number: int, facts: int, before: int, _: int) -> Figures:
    """Episodes of many groups in a process of its own, over a store with facts of another group,
    and after so many other episodes of each group; then the same again.

    `first_` and `last_` are of the first and the last tenth of the episodes: CPU an episode, and
    the memory of the process at its end.
    """
    file = str(file_of(facts)) if facts else ""
    job = {"episodes": episodes, "number": number, "file": file, "before": before}
    return request("benchmarks.engine.growth", job, alone=True)


@dataclass
class Tenths:
    """CPU seconds and memory of this process, at the beginning of a run and after each tenth of its
    episodes.
    """

    episodes: int
    samples: list[tuple[float, float]] = field(default_factory=list)

    def note(self, progress: Progress) -> None:
        """Take in what was committed."""
        if not progress.step and progress.done * 10 >= self.episodes * len(self.samples):
            self.samples.append((time.process_time(), _memory()))

    def figures(self) -> Figures:
        """The first tenth and the last."""
        cpu, memory = zip(*self.samples, strict=True)
        first, last = (
            1e4 * spent / self.episodes for spent in (cpu[1] - cpu[0], cpu[-1] - cpu[-2])
        )
        return {
            "first_ms": round(first, 2), "last_ms": round(last, 2), "growth": round(last / first, 3),
            "first_mib": round(memory[1]), "last_mib": round(memory[-1]),
        }  # fmt: skip


def _memory() -> float:
    """The memory that this process has now, in MiB."""
    return psutil.Process().memory_info().rss / 2**20


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


async def measured(episodes: int, number: int, file: str, before: int) -> Figures:
    """The same in this process."""
    rows, tenths = groups(episodes + before * number, number), Tenths(episodes)
    earlier, rows = rows[: before * number], rows[before * number :]
    with tempfile.TemporaryDirectory() as folder, serving() as server:
        graph = Path(folder) / "graph.db"
        if file:
            shutil.copy(file, graph)
        async with session_at(server.url, f"sqlite:{graph}") as session:
            await session.arun(PLAN, episodes=[{**row, "group_id": "warm"} for row in rows[:3]])
            if earlier:
                await session.arun(PLAN, episodes=earlier)
            server.reset()
            with Watch() as watch:
                first = await session.arun(PLAN, episodes=rows, progress=tenths.note)
            same_as_counted(first.meter.total(), on_wire(server))
            peak = _peak()
            server.reset()
            with Watch() as second:
                again = await session.arun(PLAN, episodes=rows)
            same_as_counted(again.meter.total(), on_wire(server))
    return {
        "seconds": round(watch.seconds, 2), "ms_each": round(1000 * watch.seconds / episodes, 2),
        "cpu_ms_each": round(1000 * watch.cpu / episodes, 2), **tenths.figures(), "peak_mib": round(peak),
        "calls": first.meter.total().calls_issued, "again_s": round(second.seconds, 2),
        "again_calls": again.meter.total().calls_issued,
    }  # fmt: skip


if __name__ == "__main__":
    serve(lambda job: asyncio.run(measured(**job)))
