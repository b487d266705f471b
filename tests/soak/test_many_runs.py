"""Many runs of one session at the same time: one rate, one set of connections, and memory that
stays flat.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from itertools import pairwise
from pathlib import Path

from benchmarks.world.waiting import Rates
from tests.soak.conftest import Server, session, tickets


async def test_a_thousand_concurrent_runs_keep_the_rate_of_their_session(tmp_path: Path) -> None:
    """6,000 a minute: the server takes 100 a second and 200 at once, so it refuses what is faster
    than its limit.
    """
    async with Server(rates=Rates(rpm=6000, burst=2)) as server:
        async with session(server, tmp_path, "?rpm=6000&in_flight=32", runs="") as opened:
            runs = (opened.arun("complaints", tickets=tickets(n)) for n in range(1000))
            results = await asyncio.gather(*runs)
        assert [result.tables["complaints"].num_rows for result in results] == [1] * 1000
        assert (server.counters.calls, server.counters.attempts, server.counters.refused) == (
            1000,
            1000,
            0,
        )
        assert server.counters.most_in_flight <= 32
        assert len(server.connections) <= 32


async def test_memory_stays_flat_over_twenty_rounds_of_runs(server: Server, tmp_path: Path) -> None:
    async with session(server, tmp_path, runs="") as opened:

        async def held_after(number: int) -> int:
            await asyncio.gather(
                *(opened.arun("complaints", tickets=tickets(5 * number + n)) for n in range(5))
            )
            server.requests.clear()
            server.cache.forget()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        for number in range(3):
            await held_after(number)
        tracemalloc.start()
        try:
            held = [await held_after(3 + number) for number in range(20)]
        finally:
            tracemalloc.stop()
    # What is cached for ever (compiled patterns, code) comes in the first rounds. A run that left
    # its rows, its requests or its record behind would hold some 20 kB: 1 MB in the last ten
    # rounds. The interpreter's own table of names may grow once, by megabytes.
    growth = sorted(after - before for before, after in pairwise(held[9:]))
    assert sum(growth[:-1]) < 300_000, held
