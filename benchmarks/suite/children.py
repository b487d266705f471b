"""Processes that end with this one, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.suite.made import ROOT

_PARENT_DIES = 1  # PR_SET_PDEATHSIG of prctl(2)


def begun(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """A process with a group of its own; Linux ends it when this process is killed."""
    tied = _tied if sys.platform == "linux" else None
    return subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=tied, **options)  # noqa: PLW1509 - a call


def _tied() -> None:
    ctypes.CDLL(None).prctl(_PARENT_DIES, signal.SIGKILL)


def ended(process: subprocess.Popen[str]) -> None:
    """End a process and all of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in filter(None, (process.stdin, process.stdout)):
        with contextlib.suppress(BrokenPipeError):
            stream.close()


def finished(module: str, *arguments: str) -> str:
    """What a module prints last, run by this interpreter; it is ended with all that it started,
    however this ends.

    Raises:
        RuntimeError: It ended with an error; its last line is told.
    """
    with tempfile.TemporaryFile("w+") as said:
        process = begun(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            out, _ = process.communicate()
        finally:
            ended(process)
        said.seek(0)
        last = (said.read().strip().splitlines() or ["no message"])[-1]
    if process.returncode:
        msg = f"{module} ended with {process.returncode}: {last}"
        raise RuntimeError(msg)
    return out.strip().splitlines()[-1]
