"""What this machine has for a model to run on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def default_threads(busy: float | None = None) -> int:
    """One thread for each core that this process may use, and a single one where all of them are at work already.

    Threads of a model wait for each other hundreds of times per token. Where each wait is for a turn on a core as well,
    two threads are many times slower than one.

    Args:
        busy: How many cores others use; None for the system's average over the last minute, where it tells.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if busy is None:
        busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if busy >= usable:
        return 1
    return usable if usable <= 4 else usable // 2  # of two threads in one core the second only waits


def available_memory() -> int | None:
    """Bytes that can be had without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


@contextmanager
def patient_threads() -> Iterator[None]:
    """Import a library that uses OpenMP in here, and its threads sleep while they wait for each other.

    They spin otherwise, which gains nothing on an idle machine and on a busy one makes two threads slower than one:
    one spins through the time slice that the other waits for. The library reads this once, when it is loaded.
    """
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]
