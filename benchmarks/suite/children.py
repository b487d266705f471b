"""Child processes that end with this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.suite.made import ROOT

_PARENT_DIES = 1  # PR_SET_PDEATHSIG of prctl(2)


def started(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a process in its own process group; Linux ends it when this process is killed."""
    tied = _tied if sys.platform == "linux" else None
    return subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=tied, **options)  # noqa: PLW1509 - a call


def _tied() -> None:
    ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)


def stop(process: subprocess.Popen[str]) -> None:
    """End a process and its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in filter(None, (process.stdin, process.stdout)):
        with contextlib.suppress(BrokenPipeError):
            stream.close()


def last_line_of(module: str, *arguments: str, python: str | Path = sys.executable) -> str:
    """Run a module with this interpreter or another one, and return the last line that it prints.
    Its process group is ended in any case.

    Raises:
        RuntimeError: It failed; has the last line of its errors.
    """
    with tempfile.TemporaryFile("w+") as errors:
        process = started(
            [str(python), "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        try:
            out, _ = process.communicate()
        finally:
            stop(process)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or ["no message"])[-1]
    if process.returncode:
        msg = f"{module} ended with {process.returncode}: {last}"
        raise RuntimeError(msg)
    return out.strip().splitlines()[-1]
