"""The memory of this process."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def peak_mib() -> float:
    """The peak of the memory of this program, in MiB; without /proc that of the process, which counts
    from the fork of its parent on.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
