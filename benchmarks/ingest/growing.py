"""What an episode takes as the graph grows: streams of 10, 100, 1,000 messages of a world, each in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.ingest.ours import Figures, graphiti, run
from benchmarks.suite.children import finished


def grown(way: str, count: int, trial: int) -> Figures:
    """Tell so many messages by a way of ours to a store in memory; the model answers at once."""
    found: Figures = json.loads(finished("benchmarks.ingest.growing", way, str(count), str(trial)))
    return found


def grown_by_graphiti(count: int, trial: int) -> Figures:
    """The same with graphiti-core, on Neo4j."""
    return graphiti(f"grown {count}", {}, 0, trial, alone=True)


def _measured(way: str, count: str, trial: str) -> dict[str, Any]:
    from benchmarks.ingest.cases import WAYS

    chosen = WAYS[way]
    return run(chosen.plan, f"grown {count}", "memory", chosen.options, 0, int(trial))


if __name__ == "__main__":
    print(json.dumps(_measured(*sys.argv[1:])))
