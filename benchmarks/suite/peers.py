"""Other engines, each in an environment of its own, run as processes that print one JSON line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.suite.benchmark import Unmeasured
from benchmarks.suite.made import ROOT

PEERS = {"lotus": (".venv-extras", "make test-extras"), "graphiti-core": (".venv-graphiti", "make test-graphiti")}
"""Where a peer's environment is, and the command that makes it."""
_QUIET = {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def asked(peer: str, module: str, arguments: Sequence[str] = (), given: Any = None) -> dict[str, Any]:
    """Run a module with a peer's interpreter, `given` on its standard input; the last line that it prints, as JSON.

    Raises:
        Unmeasured: The peer is not installed; says the command.
        RuntimeError: It ended with an error, whose last line is told.
    """
    folder, command = PEERS[peer]
    python = ROOT / folder / "bin" / "python"
    if not python.exists():
        msg = f"{peer} is not installed in {folder}. Run: {command}"
        raise Unmeasured(msg)
    environment: Mapping[str, str] = os.environ | _QUIET
    done = subprocess.run(
        [str(python), "-m", module, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, input=json.dumps(given, default=str),
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        msg = f"{peer} ended with {done.returncode}: {last[0]}"
        raise RuntimeError(msg)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
