"""The cost of an episode as the graph grows: streams of 10, 100, 1,000 messages of a world, each in
its own process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.ingest.ours import Figures, graphiti, switches, tell
from benchmarks.ingest.streams import made
from benchmarks.suite.children import last_line_of
from benchmarks.suite.serving import Server, serving


def grown(way: str, count: int, trial: int) -> Figures:
    """Add this many messages with one of our plans to a store in memory; the model answers
    immediately.
    """
    with serving(*switches(made(_stream(count), trial), 0)) as server:
        words = "benchmarks.ingest.growing", way, str(count), str(trial), server.url
        found: Figures = json.loads(last_line_of(*words))
    return found


def _stream(count: int) -> str:
    return f"grown {count}"


def grown_by_graphiti(count: int, trial: int) -> Figures:
    """The same with graphiti-core, on Neo4j."""
    return graphiti(_stream(count), {}, 0, trial, alone=True)


def _measured(way: str, count: str, trial: str, url: str) -> dict[str, Any]:
    from benchmarks.ingest.cases import WAYS

    chosen = WAYS[way]
    return tell(
        chosen.plan, made(_stream(int(count)), int(trial)), "memory", chosen.options, Server(url)
    )


if __name__ == "__main__":
    print(json.dumps(_measured(*sys.argv[1:])))
