"""Makes the recordings of this folder anew: the example of each shipped plan, answered by the local model.

    python plans/recordings/make.py [PLAN...]

A recording holds the answers, the embeddings and the times of one real run. `--llm recorded` replays it on any store.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from semgraph.session import Session

HERE = Path(__file__).parent


def main(names: list[str]) -> None:
    """Record the named plans, or all that have an example."""
    for path in sorted(HERE.parent.glob("*.yaml")):
        if path.name == "graph.yaml" or (names and path.stem not in names):
            continue
        with Session(llm="local", embedder="local", store="memory", journal=False, runs="") as session:
            started = time.perf_counter()
            result = session.run(path, record_to=HERE / f"{path.stem}.jsonl")
            calls = result.meter.total().calls_issued
            print(f"{path.stem}: {calls} calls, {time.perf_counter() - started:.0f} s, {len(result.failed)} failed")


if __name__ == "__main__":
    main(sys.argv[1:])
