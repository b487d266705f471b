"""Processes that end with this one, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

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
    process.communicate()
