"""Other engines, each in an environment of its own, run as processes that answer JSON with JSON."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import IO, Any

from benchmarks.suite.benchmark import Unmeasured
from benchmarks.suite.children import begun, ended
from benchmarks.suite.made import ROOT

PEERS = {
    "lotus": (".venv-extras", "make test-extras"),
    "graphiti-core": (".venv-graphiti", "make test-graphiti"),
}
"""Where a peer's environment is, and the command that makes it."""
_QUIET = {
    "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "GRAPHITI_TELEMETRY_ENABLED": "false"
}  # fmt: skip
_KEPT: dict[tuple[Any, ...], tuple[subprocess.Popen[str], IO[str]]] = {}


def asked(
    peer: str,
    module: str,
    arguments: Sequence[str] = (),
    given: Any = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run a module with a peer's interpreter, `given` on its standard input; the last line that it
    prints, as JSON.

    However this ends, also by the time that a case may take, the process and all that it started
    are ended.

    Raises:
        Unmeasured: The peer is not installed; says the command.
        RuntimeError: It ended with an error, whose last line is told, or printed no JSON.
    """
    with tempfile.TemporaryFile("w+") as said:
        process = _begun(peer, module, arguments, environment, said)
        try:
            out, _ = process.communicate(json.dumps(given, default=str))
        finally:
            ended(process)
        return _without_error(peer, _json(peer, process, out, said))


def conversed(
    peer: str, module: str, given: Any, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The same with a process that is kept: a line in, a line out (`answering`); what it imports is
    paid for once.

    Raises as `asked` does; then, and when the time of a case is over, the process is ended, and the
    next question starts another.
    """
    key = (peer, module, *sorted((environment or {}).items()))
    if key not in _KEPT or _KEPT[key][0].poll() is not None:
        interpreter(peer)
        said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by _dropped
        _KEPT[key] = _begun(peer, module, (), environment, said), said
    process, said = _KEPT[key]
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(given, default=str) + "\n")
        process.stdin.flush()
        out = process.stdout.readline()
        if not out:
            process.wait()
        return _without_error(peer, _json(peer, process, out, said))
    except BaseException:
        _dropped(key)
        raise


def _without_error(peer: str, found: dict[str, Any]) -> dict[str, Any]:
    if found.keys() == {"error"}:
        msg = f"{peer}: {found['error']}"
        raise RuntimeError(msg)
    return found


def answering(answer: Callable[[Any], Mapping[str, Any]]) -> None:
    """What a kept process does: answer each line of its standard input, until there is none. An
    error is an answer.
    """
    out = sys.stdout
    for line in sys.stdin:
        try:
            with redirect_stdout(sys.stderr):
                found = answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - told to who asked
            found = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(found) + "\n")
        out.flush()


@atexit.register
def close() -> None:
    """End all that are kept."""
    for key in list(_KEPT):
        _dropped(key)


def _dropped(key: tuple[Any, ...]) -> None:
    process, said = _KEPT.pop(key)
    ended(process)
    said.close()


def interpreter(peer: str) -> Path:
    """The Python of a peer's environment. Raises Unmeasured with the command that makes it."""
    folder, command = PEERS[peer]
    python = ROOT / folder / "bin" / "python"
    if not python.exists():
        msg = f"{peer} is not installed in {folder}. Run: {command}"
        raise Unmeasured(msg)
    return python


def _begun(
    peer: str,
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None,
    said: IO[str],
) -> subprocess.Popen[str]:
    environment = os.environ | _QUIET | dict(environment or {})
    words = [str(interpreter(peer)), "-m", module, *arguments]
    return begun(
        words, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
    )


def _json(peer: str, process: subprocess.Popen[str], out: str, said: IO[str]) -> dict[str, Any]:
    """The last line that was printed. Raises RuntimeError."""
    if process.returncode:
        said.seek(0)
        msg = f"{peer} ended with {process.returncode}: {_last(said.read()) or 'no message'}"
        raise RuntimeError(msg)
    try:
        found: dict[str, Any] = json.loads(_last(out))
    except ValueError:
        msg = f'{peer} printed no JSON, but "{_last(out)[:80]}"'
        raise RuntimeError(msg) from None
    return found


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
