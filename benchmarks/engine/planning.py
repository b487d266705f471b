"""How long it takes to plan, as plans get longer."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.suite.made import ROOT

SHIPPED = ROOT / "plans" / "add_episode.yaml"
_HEAD = "plan: long\ninputs: {rows: {id: string, text: string, number: int64}}\nsteps:\n"
_ASKED = '    - sem_filter: {prompt: "Does “{text}” complain about anything?"}\n'


def long_plan(steps: int) -> str:
    """A plan of so many steps, each over the one before: a filter, an expression, every tenth with
    a question to a model.
    """
    parts = []
    for i in range(steps):
        before = f"s{i - 1}" if i else "rows"
        asked = _ASKED if i % 10 == 9 else ""
        parts.append(
            f'  s{i}:\n    - from: {before}\n    - filter: number > {i}\n{asked}    - add: {{n{i}: "number + {i}"}}\n'
        )
    return f"{_HEAD}{''.join(parts)}returns: [s{steps - 1}]\n"


def planned(steps: int, _: int) -> dict[str, Any]:
    """Milliseconds from the file to the plan that is run: read, bound, optimized; the second time
    in a process.

    Args:
        steps: Of a plan that is made for this; 0: the shipped add_episode.
    """
    from semgraph.frontend.load import load_plan
    from semgraph.optimizer import optimize

    with tempfile.TemporaryDirectory() as folder:
        path = SHIPPED
        if steps:
            path = Path(folder) / "long.yaml"
            path.write_text(long_plan(steps), encoding="utf-8")
        times: list[float] = []
        for _turn in range(2):
            began = time.perf_counter()
            plan = load_plan(path)
            read = time.perf_counter()
            optimize(plan)
            times = [read - began, time.perf_counter() - read]
    total = round(1000 * sum(times), 1)
    return {
        "load_ms": round(1000 * times[0], 1),
        "optimize_ms": round(1000 * times[1], 1),
        "total_ms": total,
    }
