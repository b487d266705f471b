"""graphiti-core over a stream, as its users call it; it runs in its own environment, without
semgraph, and answers each job of standard input: url of the model, bolt (address, user, password),
dimensions, messages before the measurement and measured, whether in bulk.
"""

from __future__ import annotations

import asyncio
import resource
import time
from datetime import datetime
from typing import Any

from benchmarks.frame.processes import serve
from benchmarks.graphiti_core import asked, counting, memory_at


async def run_job(job: dict[str, Any]) -> dict[str, float]:
    """Add the messages one after another, or in bulk."""
    memory = memory_at(job["bolt"], job["url"], job["dimensions"])
    try:
        await memory.build_indices_and_constraints()
        await _add(memory, job["before"], bulk=False)
        asked(job["url"], "reset")
        with counting() as statements:
            wall, cpu = time.perf_counter(), time.process_time()
            await _add(memory, job["rows"], bulk=job["bulk"])
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    finally:
        await memory.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    count = statements.count
    return {
        "seconds": round(wall, 3),
        "cpu_ms": round(1000 * cpu),
        "queries": count,
        "peak_mib": round(peak),
    }


async def _add(memory: Any, rows: list[dict[str, Any]], *, bulk: bool) -> None:
    from graphiti_core.nodes import EpisodeType
    from graphiti_core.utils.bulk_utils import RawEpisode

    made = [
        {
            "name": row.get("name") or f"message {i}",
            "source_description": "",
            "reference_time": datetime.fromisoformat(row["valid_at"]),
            "source": EpisodeType.message,
        }
        for i, row in enumerate(rows)
    ]
    if bulk and rows:
        raw = [
            RawEpisode(content=row["content"], **one) for row, one in zip(rows, made, strict=True)
        ]
        await memory.add_episode_bulk(raw, group_id=rows[0]["group_id"])
        return
    for row, one in zip(rows, made, strict=True):
        await memory.add_episode(episode_body=row["content"], group_id=row["group_id"], **one)


if __name__ == "__main__":
    serve(lambda job: asyncio.run(run_job(job)))
