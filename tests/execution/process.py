"""A run as a process of its own: `python -m tests.execution.process TASK`, TASK being JSON; prints
what came of it.
"""

from __future__ import annotations

import json
import sys

import semgraph


def main() -> None:
    task = json.loads(sys.argv[1])
    settings = {name: task[name] for name in ("llm", "embedder", "store", "folder", "journal")}
    with semgraph.Session(**settings) as session:
        try:
            result = session.run(task["plan"], episodes=task["episodes"])
        except KeyboardInterrupt:
            print(json.dumps({"interrupted": True}))
            return
    total = result.meter.total()
    told = {
        name: getattr(result, name)
        for name in ("committed", "skipped", "notes", "exit_code", "stopped")
    }
    print(json.dumps(told | {"issued": total.calls_issued, "journal": total.calls_journal}))


if __name__ == "__main__":
    main()
