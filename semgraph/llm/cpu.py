"""What this machine has for a model to run on."""

from __future__ import annotations

import os
from pathlib import Path


def default_threads() -> int:
    """One thread for each core that this process may use; of two threads in one core the second only waits."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return usable if usable <= 4 else usable // 2


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
