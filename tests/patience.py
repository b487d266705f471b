"""How long tests wait for an event before they count as hanging. No test takes a time for a
result.
"""

from __future__ import annotations

import signal

HANGS = 600.0
"""Seconds: far more than a busy machine needs, and a bound for what never happens."""


def default_signals() -> None:
    """Undo, in a child before it begins, that a shell lets what runs in the background ignore
    interrupts.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
