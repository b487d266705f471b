"""What a run is asked for, and what has come of it so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from semgraph.execution.windows import Members
from semgraph.physical.semantic.asking import Failure


@dataclass
class Options:
    """How a run differs from the plain one.

    Args:
        run: Id of the run.
        now: The time of a slice or wave, by its name; recorded runs replay it.
        again: Process members that are marked already.
        write: Whether to commit.
        fingerprint: Of the plan, its parameters and choices, for marks.
        committed: Told after each commit: members committed so far, of how many.
    """

    run: str
    now: Callable[[str], datetime]
    again: bool = False
    write: bool = True
    fingerprint: str = ""
    committed: Callable[[int, int], None] = lambda _done, _total: None


@dataclass
class Outcome:
    """What came of a run; grows while it runs, so that an interrupted one says what it did."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    members: Members | None = None
    skipped: int = 0
    committed: int = 0
    failed_members: set[int] = field(default_factory=set)
    stopped: str | None = None
    halted: set[int] = field(default_factory=set)

    def halt(self, partition: int, note: str) -> None:
        """Stop a partition, and say why."""
        self.halted.add(partition)
        self.notes.append(note)
