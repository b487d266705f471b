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
    """The options of an executor. `now` is the time of a slice or wave, by its name; `again`
    reprocesses rows with a commit marker, and `windows` are computed in place of new ones. Commit
    markers take the fingerprints. `committed` is called with input rows committed so far, and to
    commit.

    In a share of a larger run, `places` are the indices of the windowed rows in its input. Without
    windows the larger run sets rows with a NUL aside, once.
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

    Of rows of results that derive from input rows, `retained` counts the bytes; once `dropped`,
    only the record has them. Without windows they have `ids`. Rows of windows that were recorded
    and not committed are `uncommitted_rows`; `skipped_by` has those of earlier runs, by run, and
    `halted`, by partition, the first row of the window that stopped it.
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
