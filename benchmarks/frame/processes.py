"""Time that is taken, and processes that end with this one: steps of a benchmark, and other engines,
each in an environment of its own, which exchange lines of JSON.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Self

from benchmarks.frame.cases import Unmeasured
from benchmarks.frame.lines import PEERS, ROOT

_QUIET = {"OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
_QUIET |= {"GRAPHITI_TELEMETRY_ENABLED": "false"}
_PARENT_DIES = 1  # PR_SET_PDEATHSIG of prctl(2)


class Watch:
    """Wall and CPU seconds of the body of its `with`; the CPU is that of this process."""

    seconds = cpu = 0.0

    def __enter__(self) -> Self:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._began
        self.seconds, self.cpu = time.perf_counter() - wall, time.process_time() - cpu

    def figures(self) -> dict[str, float]:
        """Both, as lines have them."""
        return {"seconds": round(self.seconds, 3), "cpu_ms": round(1000 * self.cpu)}


class Child:
    """A module as a process in a group of its own; Linux ends it when this process is killed."""

    def __init__(
        self,
        words: Sequence[str],
        python: str | Path = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = words[0]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by `stop`
        pipe = subprocess.PIPE
        tied = _tied if sys.platform == "linux" else None
        self.process = subprocess.Popen(
            [str(python), "-m", *words],
            text=True,
            start_new_session=True,
            preexec_fn=tied,  # noqa: PLW1509 - one call before exec
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=pipe,
            stdout=pipe,
            stderr=self._errors,
        )

    def line(self) -> str:
        """The next line that it prints. Raises RuntimeError, with the last line of its errors, where
        it ends instead.
        """
        assert self.process.stdout is not None
        if text := self.process.stdout.readline():
            return text.strip()
        code = self.process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{self.name} ended with {code}: {last}")

    def tell(self, text: str = "") -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """End the process and its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in filter(None, (self.process.stdin, self.process.stdout, self._errors)):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _tied() -> None:
    ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)


_PEERS: dict[tuple[Any, ...], Child] = {}


def request(
    module: str,
    payload: Any,
    *,
    peer: str = "",
    environment: Mapping[str, str] | None = None,
    alone: bool = False,
) -> dict[str, Any]:
    """Send JSON to a module in a process of its own that answers by `serve`, and return the answer.
    The process stays for further requests, so that imports are paid for once, unless it is `alone`.

    Args:
        module: The module.
        payload: What is sent.
        peer: The peer in whose environment it runs; "": this one.
        environment: Further variables.
        alone: Whether the process is new, and ends with the answer.

    Raises:
        Unmeasured: The peer is not installed; has the command.
        RuntimeError: It failed.
    """
    key = (peer, module, *sorted((environment or {}).items()))
    if alone and key in _PEERS:
        _PEERS.pop(key).stop()
    if key not in _PEERS or _PEERS[key].process.poll() is not None:
        python = interpreter(peer) if peer else sys.executable
        _PEERS[key] = Child([module], python, {**_QUIET, **(environment or {})})
    done = False
    try:
        _PEERS[key].tell(json.dumps(payload, default=str))
        reply: dict[str, Any] = json.loads(_PEERS[key].line())
        done = not alone
    finally:
        if not done:  # also after an error or at the time limit of a case
            _PEERS.pop(key).stop()
    if reply.keys() == {"error"}:
        raise RuntimeError(f"{peer or module}: {reply['error']}")
    return reply


def serve(answer: Callable[[Any], Mapping[str, Any]]) -> None:
    """Answer each line of the standard input until its end. An error is an answer."""
    out = sys.stdout
    for line in sys.stdin:
        try:
            with redirect_stdout(sys.stderr):
                reply = answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - reported to the caller
            reply = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(reply) + "\n")
        out.flush()


@atexit.register
def _close() -> None:
    while _PEERS:
        _PEERS.popitem()[1].stop()


def interpreter(peer: str) -> Path:
    """The Python of a peer's environment. Raises Unmeasured with the command that creates it."""
    folder, command, _ = PEERS[peer]
    python = ROOT / folder / "bin" / "python"
    if not python.exists():
        raise Unmeasured(f"{peer} is not installed in {folder}. Run: {command}")
    return python
