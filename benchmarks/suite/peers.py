"""Other engines, each in its own environment, run as processes that exchange JSON."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from benchmarks.suite.benchmark import Unmeasured
from benchmarks.suite.children import started, stop
from benchmarks.suite.made import ROOT

PEERS = {
    "lotus": (".venv-extras", "make test-extras"),
    "graphiti-core": (".venv-graphiti", "make test-graphiti"),
    "ray": (".venv-ray", "make bench-scale"),
}
"""The environment of each peer and of extras, and the command that creates it."""
_QUIET = {
    "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "GRAPHITI_TELEMETRY_ENABLED": "false"
}  # fmt: skip
_PROCESSES: dict[tuple[Any, ...], tuple[subprocess.Popen[str], IO[str]]] = {}


def run_once(
    peer: str,
    module: str,
    arguments: Sequence[str] = (),
    payload: Any = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a module with a peer's interpreter and JSON on its standard input; returns the last line
    that it prints, as JSON.

    The process and its group are ended in any case, also at the time limit of a case.

    Raises:
        Unmeasured: The peer is not installed; has the command.
        RuntimeError: It failed, with the last line of its errors, or printed no JSON.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = _started(peer, module, arguments, environment, errors)
        try:
            out, _ = process.communicate(json.dumps(payload, default=str))
        finally:
            stop(process)
        return _without_error(peer, _json(peer, process, out, errors))


def request(
    peer: str, module: str, payload: Any, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Like `run_once`, with a process that stays (`serve`): a line in, a line out, so that imports
    are paid for once.

    An error, or the time limit of a case, ends the process; the next request starts a new one.
    """
    key = (peer, module, *sorted((environment or {}).items()))
    if key not in _PROCESSES or _PROCESSES[key][0].poll() is not None:
        interpreter(peer)
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by _close
        _PROCESSES[key] = _started(peer, module, (), environment, errors), errors
    process, errors = _PROCESSES[key]
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(payload, default=str) + "\n")
        process.stdin.flush()
        out = process.stdout.readline()
        if not out:
            process.wait()
        return _without_error(peer, _json(peer, process, out, errors))
    except BaseException:
        _close(key)
        raise


def _without_error(peer: str, reply: dict[str, Any]) -> dict[str, Any]:
    if reply.keys() == {"error"}:
        msg = f"{peer}: {reply['error']}"
        raise RuntimeError(msg)
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
def close() -> None:
    """End all running processes."""
    for key in list(_PROCESSES):
        _close(key)


def _close(key: tuple[Any, ...]) -> None:
    process, errors = _PROCESSES.pop(key)
    stop(process)
    errors.close()


def interpreter(peer: str) -> Path:
    """The Python of a peer's environment. Raises Unmeasured with the command that creates it."""
    folder, command = PEERS[peer]
    python = ROOT / folder / "bin" / "python"
    if not python.exists():
        msg = f"{peer} is not installed in {folder}. Run: {command}"
        raise Unmeasured(msg)
    return python


def interpreter_with(module: str) -> Path:
    """The Python of this process if a module of an extra is installed there, or of the environment
    that has it. Raises Unmeasured with the command that installs it.
    """
    if find_spec(module) is not None:
        return Path(sys.executable)
    folder, command = PEERS[module]
    if not any((ROOT / folder / "lib").glob(f"python*/site-packages/{module}")):
        msg = f"needs the extra {module}, which is not installed in {folder}. Run: {command}"
        raise Unmeasured(msg)
    return interpreter(module)


def _started(
    peer: str,
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None,
    errors: IO[str],
) -> subprocess.Popen[str]:
    environment = os.environ | _QUIET | dict(environment or {})
    command = [str(interpreter(peer)), "-m", module, *arguments]
    pipe = subprocess.PIPE
    return started(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=errors)


def _json(peer: str, process: subprocess.Popen[str], out: str, errors: IO[str]) -> dict[str, Any]:
    """The last printed line. Raises RuntimeError."""
    if process.returncode:
        errors.seek(0)
        msg = f"{peer} ended with {process.returncode}: {_last(errors.read()) or 'no message'}"
        raise RuntimeError(msg)
    try:
        reply: dict[str, Any] = json.loads(_last(out))
    except ValueError:
        msg = f'{peer} printed no JSON, but "{_last(out)[:80]}"'
        raise RuntimeError(msg) from None
    return reply


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
