"""One new row of a group of which many rows are committed."""

from __future__ import annotations

import asyncio
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.engine.own import PLAN
from semgraph.frontend.load import load_plan
from semgraph.stores.base import CommitMarker, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

COMMITTED = (10, 100_000)
Figures = dict[str, float | int]


def looked_up(committed: int, _: int) -> Figures:
    """CPU milliseconds and peak KiB of a lookup of one new row, over an SQLite file with so many
    commit markers of its group; the median of 200 lookups.
    """
    return asyncio.run(_looked_up(committed))


async def _looked_up(committed: int) -> Figures:
    plan = load_plan(PLAN)
    rows = tuple(f"{n:08x}-0000-0000-0000-000000000000" for n in range(committed))
    marker = CommitMarker(
        plan.name, "g", rows, "f", datetime(2025, 1, 1, tzinfo=UTC), "abcd", None, "h"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "graph.db")
        try:
            await store.ensure(plan.graph, None)
            await store.commit(WriteBatch(()), marker)
            times = [await _cpu_ms(store, plan.name) for _ in range(200)]
            tracemalloc.start()
            await _cpu_ms(store, plan.name)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await store.aclose()
    return {"cpu_ms": round(median(times), 4), "peak_kib": round(peak / 2**10, 1)}


async def _cpu_ms(store: SqliteStore, plan: str) -> float:
    began = time.process_time()
    states = await store.states(plan, {"g": ["new"]})
    spent = time.process_time() - began
    assert states["g"].head == "h"
    assert not states["g"].committed
    return 1_000 * spent
