"""Which test process runs what next: the slowest file first, and what needs the one Neo4j in one
process at a time.

A test on Neo4j has the database for itself. Where two processes come to such tests at the same time
one of them waits, so those of a file are a unit of their own, and while one process has such a unit
the others are given all else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from xdist.scheduler import LoadFileScheduling

CACHED = "semgraph/seconds"
_TURN = " on neo4j"
_GUESSED = {  # seconds of a test, until it has run here; of several beginnings the first counts
    "tests/llm/test_local": 5.0,
    "tests/stores/test_neo4j_local": 5.0,
    "tests/optimizer/test_property": 20.0,
    "tests/world/test_difficulties": 2.0,
    "tests/plans": 1.0,
    "tests/execution": 1.0,
    "tests/bad_input": 1.0,
    "tests/cli": 1.0,
    "tests/browser": 1.0,
    "": 0.2,
}


def unit_of(test: str) -> str:
    """The unit of a test: its file, and apart from that what the file runs on the shared Neo4j."""
    file = test.split("::", 1)[0]
    return file + _TURN if "neo4j" in test and not file.endswith("neo4j_local.py") else file


class InTurn(LoadFileScheduling):
    """Units by how long they take, by a guess where nothing is known: the longest first, Neo4j in
    turn.

    How long a test of a unit took is kept in pytest's cache, in seconds.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._cache = getattr(config, "cache", None)
        self._known: dict[str, float] = (
            self._cache.get(CACHED, {}) if self._cache is not None else {}
        )
        self._took: Counter[str] = Counter()
        self._ran: Counter[str] = Counter()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note how long a test took, and give out more."""
        unit = unit_of(self.registered_collections[node][item_index])
        self._took[unit] += duration
        self._ran[unit] += 1
        super().mark_test_complete(node, item_index, duration)

    def remember(self) -> None:
        """Keep what was noted for the next run."""
        if self._cache is not None:
            now = {unit: round(self._took[unit] / ran, 3) for unit, ran in self._ran.items()}
            self._cache.set(CACHED, {**self._known, **now})

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        taken = any(self._has_turn(other) for other in self.nodes if other is not node)
        self.workqueue.move_to_end(
            max(self.workqueue, key=lambda unit: self._rank(unit, taken)), last=False
        )
        super()._assign_work_unit(node)

    def _has_turn(self, node: Any) -> bool:
        """Whether a process has still to run tests on Neo4j."""
        units = self.assigned_work[node].items()
        return any(not all(tests.values()) for unit, tests in units if unit.endswith(_TURN))

    def _rank(self, unit: str, taken: bool) -> tuple[bool, float]:
        """What is on Neo4j comes first while nobody has it, else last."""
        return unit.endswith(_TURN) != taken, self._seconds(unit) * len(self.workqueue[unit])

    def _seconds(self, unit: str) -> float:
        return self._known.get(unit) or next(
            s for begin, s in _GUESSED.items() if unit.startswith(begin)
        )
