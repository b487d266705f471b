"""Processes that run a plan and may be killed: `python -m tests.kill.process` forks one for each task on its input.

A fork of a process that has imported everything starts in milliseconds. A task is a line of JSON. The answers are two lines:
the process id of the fork, and the signal that ended it (0: none).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401
import duckdb  # noqa: F401 - imported here, so that forks need not
import pyarrow.parquet  # noqa: F401

import semgraph
import semgraph.llm.openai
import semgraph.session.running
from semgraph.errors import PlanError
from tests.kill.points import Strike


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Run the plan of a task; what came of it."""
    Strike(task["point"], task["number"]).install()
    settings = {name: task[name] for name in ("llm", "embedder", "store", "folder")}
    with semgraph.Session(**settings) as session:
        try:
            result = session.run(task["plan"], resume=task["resume"], **({} if task["resume"] else task["inputs"]))
        except PlanError:
            if not task["resume"]:
                raise
            result = session.run(task["plan"], **task["inputs"])  # the killed run had not kept its rows
    return {"committed": result.committed, "skipped": result.skipped, "exit_code": result.exit_code}


def child(task: dict[str, Any]) -> None:
    """The fork: leaves what came of the run in a file."""
    os.environ |= task["env"]
    try:
        report = run(task)
    except BaseException:  # noqa: BLE001 - told to the test
        report = {"error": traceback.format_exc()}
    Path(task["report"]).write_text(json.dumps(report))


def main() -> None:
    """Fork for each task, and wait for it."""
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if not pid:
            child(task)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, flush=True)


if __name__ == "__main__":
    main()
