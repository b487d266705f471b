"""The options of a run, and its outcome so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from semgraph.execution.windows import InputRows, RecordedWindow
from semgraph.relational.batch import INPUT_ROW
from semgraph.semantic.ask import Failure


@dataclass
class ExecutorOptions:
    """The options of an executor.

    Args:
        run: Id of the run.
        now: The time of a slice or wave, by its name; recorded runs replay it.
        again: Whether to reprocess input rows that have a commit marker.
        write: Whether to commit.
        fingerprint: The fingerprint of the plan, its parameters and choices, for commit markers.
        parts: What rows are made by, each with its fingerprint, for commit markers.
        windows: Windows to compute again in place of new ones; all input rows are in one.
        committed: Called at the start and after each commit with two numbers: input rows committed
            so far, and input rows to commit.
        places: The indices of the windowed rows in the input of a larger run; None: their order.
        share: Whether it is a share of a larger run. Without windows the larger run sets rows with
            a NUL aside, once.
    """

    run: str
    now: Callable[[str], datetime]
    again: bool = False
    write: bool = True
    fingerprint: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    windows: Sequence[RecordedWindow] = ()
    committed: Callable[[int, int], None] = lambda _done, _total: None
    places: Sequence[int] | None = None
    share: bool = False


@dataclass
class RunOutcome:
    """The outcome of a run. It grows during the run, so that an interrupted run reports its work.

    Args:
        tables: The rows of each result, wave by wave. Rows that derive from input rows are included
            only while they are in memory.
        ids: Without windows, the ids of the rows of each result that derive from input rows.
        retained: Bytes of the rows in memory that derive from input rows.
        dropped: Whether only the record has the rows that derive from input rows.
        uncommitted_rows: Input rows of windows that were recorded but not committed.
        skipped_by: Input rows that earlier runs committed, by the id of the run.
        halted: The stopped partitions, each with the first input row of the window that stopped it.
    """

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    ids: dict[str, Sequence[int]] = field(default_factory=dict)
    retained: int = 0
    dropped: bool = False
    uncommitted_rows: set[int] = field(default_factory=set)
    skipped_by: dict[str, list[int]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    input_rows: InputRows | None = None
    skipped: int = 0
    committed: int = 0
    failed_rows: set[int] = field(default_factory=set)
    stopped: str | None = None
    halted: dict[int, int] = field(default_factory=dict)

    def add(self, name: str, rows: pa.Table) -> None:
        """Add rows of a result that derive from input rows."""
        if not self.dropped:
            self.tables.setdefault(name, []).append(rows)
            self.retained += rows.nbytes

    def keep_below(self, limit: int) -> None:
        """Drop rows that derive from input rows from memory if they exceed `limit` bytes."""
        if self.retained > limit:
            self.dropped, self.retained = True, 0
            for name, tables in list(self.tables.items()):
                if tables and INPUT_ROW in tables[0].column_names:
                    del self.tables[name]

    def halt(self, partition: int, input_row: int, note: str) -> None:
        """Stop a partition at a window, with a note of the reason."""
        self.halted[partition] = input_row
        self.notes.append(note)
