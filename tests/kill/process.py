"""Processes that run a plan and may be killed: `python -m tests.kill.process` forks one for each
task on its input.

What the first fork that ends by itself has imported is imported here, so that the next need not. A
task is a line of JSON. The answers are two lines: the process id of the fork, and the signal that
ended it (0: none).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import semgraph
from semgraph.errors import PlanError
from tests.kill.points import Strike


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Run the plan of a task; what came of it."""
    strike = Strike(task["point"], task["number"])
    strike.install()
    settings = {name: task[name] for name in ("llm", "embedder", "store", "folder")}
    with semgraph.Session(**settings) as session:
        if task.get("refresh"):
            refresh = session.refresh(task["plan"], **task["inputs"])
            refresh.apply()
            told = {"changes": len(refresh.diff)}
            return {**told, "passed": strike.counts, "modules": list(sys.modules)}
        try:
            result = session.run(
                task["plan"], resume=task["resume"], **({} if task["resume"] else task["inputs"])
            )
        except PlanError:
            if not task["resume"]:
                raise
            result = session.run(
                task["plan"], **task["inputs"]
            )  # the killed run had not kept its rows
    told = {"committed": result.committed, "skipped": result.skipped, "exit_code": result.exit_code}
    return {**told, "passed": strike.counts, "modules": list(sys.modules)}


def child(task: dict[str, Any]) -> None:
    """The fork: leaves what came of the run in a file."""
    os.environ |= task["env"]
    try:
        report = run(task)
    except BaseException:  # noqa: BLE001 - told to the test
        report = {"error": traceback.format_exc()}
    Path(task["report"]).write_text(json.dumps(report))


def import_all(modules: list[str]) -> None:
    """Import what a fork has imported, but what it made itself."""
    for name in modules:
        with suppress(ImportError):
            import_module(name)


def main() -> None:
    """Fork for each task, and wait for it."""
    learned = False
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if not pid:
            child(task)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        if not (learned or status):
            import_all(json.loads(Path(task["report"]).read_text()).get("modules", []))
            learned = True
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    main()
