"""CPU of a process and all that it starts, while it works."""

from __future__ import annotations

from collections import Counter

import psutil

OWN, RAY = "semgraph", "Ray"


class Usage:
    """CPU seconds since the first look, of semgraph's processes and of Ray's own.

    Semgraph's are the process itself and the workers while they have a task or an actor. All else
    is Ray's: its servers, and workers that start or wait. Each look adds what was spent since the
    last, so a process that has ended counts up to the look before.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._last: dict[psutil.Process, tuple[float, str]] = {}
        self.seconds: Counter[str] = Counter()
        self.look()
        self.seconds.clear()

    def look(self) -> None:
        """Add what was spent since the last look."""
        for process in (self._root, *self._root.children(recursive=True)):
            try:
                spent, of = sum(process.cpu_times()[:2]), self._of(process)
            except psutil.NoSuchProcess:
                continue
            before, was = self._last.get(process, (0.0, of))
            self.seconds[OWN if OWN in {was, of} else RAY] += spent - before
            self._last[process] = (spent, of)

    def _of(self, process: psutil.Process) -> str:
        name = (process.cmdline() or [""])[0]
        works = name.startswith("ray::") and not name.startswith("ray::IDLE")
        return OWN if works or process == self._root else RAY
