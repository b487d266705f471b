"""`python -m benchmarks.operators [--lotus PYTHON]`: all measurements in one run, as JSON lines and as a table.

PYTHON is the interpreter of the extras' environment (`make test-extras` makes `.venv-extras/bin/python`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.operators.cases import WAYS

HERE = Path(__file__).parent
LATENCY = 0.05


def main() -> None:
    """Read the command line, measure, write `results/`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--lotus", metavar="PYTHON", help="the interpreter that has LOTUS")
    parser.add_argument("--note", default="", help="what is to be said of the machine")
    arguments = parser.parse_args()
    before = os.getloadavg()
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.operators.server", "--latency", str(LATENCY)],
        stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1],
    )  # fmt: skip
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        lines = _measured(sys.executable, url, "ours")
        if arguments.lotus:
            lines += _measured(arguments.lotus, url, "lotus")
    finally:
        server.terminate()
        server.wait()
    machine = {
        "cores": os.cpu_count(), "python": platform.python_version(), "latency_s": LATENCY, "note": arguments.note,
        "load_before": [round(x, 2) for x in before], "load_after": [round(x, 2) for x in os.getloadavg()],
    }  # fmt: skip
    (HERE / "results").mkdir(exist_ok=True)
    every = "".join(json.dumps(line) + "\n" for line in [machine, *lines])
    (HERE / "results" / "operators.jsonl").write_text(every)
    text = table(machine, lines)
    (HERE / "results" / "operators.md").write_text(text)
    print(text)


def _measured(python: str, url: str, which: str) -> list[dict[str, Any]]:
    command = [python, "-m", "benchmarks.operators.measure", url, which]
    environment = os.environ | {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1], env=environment) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("{"):
                lines.append(json.loads(text))
                print(text, end="", file=sys.stderr, flush=True)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return lines


def table(machine: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    """The lines as Markdown, task by task."""
    said = f"{machine['cores']} cores, Python {machine['python']}, model of {1000 * machine['latency_s']:g} ms, 64 in flight"
    load = f"load average {machine['load_before'][0]} before, {machine['load_after'][0]} after"
    note = f" {machine['note']}" if machine["note"] else ""
    head = [
        f"{said}; {load}.{note}", "",
        "| task | way | calls | attempts | rounds | s | CPU ms a call | recall | precision | |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]  # fmt: skip
    order = {name: i for i, name in enumerate(WAYS)}
    rows = []
    for line in sorted(lines, key=lambda line: order[line["task"]]):
        rest = [f"{line['embeddings']} embedding calls"] if line["embeddings"] else []
        rest += [f"fails: {line['failed']}"] if "failed" in line else []
        rest += [f"run again it pays {line['paid_again']}"] if "paid_again" in line else []
        shown = [
            line["task"], f"`{line['way']}`", line["calls"], line["attempts"], line["rounds"], f"{line['seconds']:.2f}",
            f"{line['cpu_ms_per_call']:.1f}", f"{line['recall']:.2f}", f"{line['precision']:.2f}", ", ".join(rest),
        ]  # fmt: skip
        rows.append("| " + " | ".join(map(str, shown)) + " |")
    return "\n".join([*head, *rows]) + "\n"


if __name__ == "__main__":
    main()
