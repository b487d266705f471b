"""A refresh in a process of its own: `python -m tests.refresh.process TASK`, a task in JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import semgraph
from semgraph.errors import ConcurrentWrite


def main() -> None:
    """Compute a refresh, say so, wait for a file, apply it, and say what came of it."""
    task = json.loads(sys.argv[1])
    settings = {name: task[name] for name in ("llm", "embedder", "store", "folder")}
    with semgraph.Session(**settings) as session:
        refresh = session.refresh("add_episode", episodes=task["episodes"])
        print("computed", flush=True)
        while not Path(task["go"]).exists():
            time.sleep(0.01)
        try:
            refresh.apply()
        except ConcurrentWrite:
            print("ConcurrentWrite", flush=True)
        else:
            print("applied", flush=True)


if __name__ == "__main__":
    main()
