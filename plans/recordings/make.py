"""Makes the recordings of this folder anew: the example of each shipped plan, answered by the local
model.

    python plans/recordings/make.py [PLAN...]

A recording holds the answers, the embeddings and the times of one real run. `--llm recorded`
replays it on any store.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from semgraph.session import Session
from semgraph.session.inputs import example_rows
from semgraph.stores.sqlite.store import SqliteStore

HERE = Path(__file__).parent


def record(path: Path) -> None:
    """Record one plan's example, over the graph that the plans before it left in their own
    recordings.
    """
    store = SqliteStore(":memory:")
    with Session(llm="local", embedder="local", store=store, journal=False, runs="") as session:
        example = example_rows(session.prepare(path))
        for name in example.after:
            with Session(llm="recorded", store=store, journal=False, runs="") as before:
                before.run(HERE.parent / f"{name}.yaml")
        started = time.perf_counter()
        result = session.run(path, record_to=HERE / f"{path.stem}.jsonl", **example.inputs)
        calls, failed = result.meter.total().calls_issued, len(result.failed)
        print(f"{path.stem}: {calls} calls, {time.perf_counter() - started:.0f} s, {failed} failed")


def main(names: list[str]) -> None:
    """Record the named plans, or all; plans that others come after first."""
    paths = [path for path in sorted(HERE.parent.glob("*.yaml")) if path.name != "graph.yaml"]
    for path in paths:
        if not names or path.stem in names:
            record(path)


if __name__ == "__main__":
    main(sys.argv[1:])
