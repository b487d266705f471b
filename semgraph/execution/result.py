"""The result of a run, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph import display
from semgraph.execution.windows import InputRows
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.meter import Meter
from semgraph.relational.batch import INPUT_ROW, PARTITION, runtime_schema
from semgraph.semantic.ask import Failure


@dataclass(frozen=True)
class Progress:
    """One thing that happened: a step answered some rows, or a window was committed.

    Args:
        step: The step; "" for a commit.
        done: Rows of the step answered so far, or input rows committed so far.
        total: Of how many that are known so far.
        meter: The run's counters, live.
    """

    step: str
    done: int
    total: int
    meter: Meter


OnProgress = Callable[[Progress], None]


@dataclass(repr=False)
class Result:
    """The outcome of a run.

    Args:
        plan: Name of the plan.
        run: Id of the run: four or more hexadecimal digits, the name of its folder.
        tables: The plan's results, without hidden columns.
        meter: Counters by step.
        failed: Rows that were set aside; one kept without its answers (`on_error: null`) is only
            counted, as `rows_failed`.
        written: Nodes and edges written (or deleted), by label, each counted once.
        members: Rows of the input that is cut into windows; 0 without windows.
        skipped: Those of them that were committed by earlier runs.
        committed: Those that this run committed.
        notes: What the user should know: a partition stopped by another writer, marks of another
            version of the plan, ...
        stopped: Why the run ended early (a budget, an interruption), or None.
        keys: Ids of the input rows, by their place; () without windows.
        first: Of the plans after which the example comes, if it was run: what they gave and wrote,
            in their order.
        record: Folder of the run record; None where records are off.
        exit_code: As the command line gives it: 0, 3 with failed rows, 4 at a budget, 1 with a
            partition stopped.
    """

    plan: str
    run: str
    tables: Mapping[str, pa.Table]
    meter: Meter
    failed: tuple[Failure, ...] = ()
    written: Mapping[str, int] = field(default_factory=dict)
    members: int = 0
    skipped: int = 0
    committed: int = 0
    notes: tuple[str, ...] = ()
    stopped: str | None = None
    keys: tuple[str, ...] = ()
    first: tuple[Result, ...] = ()
    record: Path | None = None
    exit_code: int = 0

    def __repr__(self) -> str:
        """The run in a line: what it gave, what it asked, what it wrote, what failed."""
        rows = ", ".join(f"{name} {table.num_rows} rows" for name, table in self.tables.items())
        total = self.meter.total()
        saved = total.calls_journal + total.calls_coalesced
        parts = [
            f"{self.plan}, run {self.run}",
            rows or "no results",
            f"{total.calls_issued} calls" + (f" (+{saved} kept)" if saved else ""),
            *(
                [f"{self.skipped} of {self.members} rows were there already"]
                if self.skipped
                else []
            ),
            *(
                ["written: " + ", ".join(f"{n} {label}" for label, n in self.written.items() if n)]
                if self.written
                else []
            ),
            *([f"{len(self.failed)} failed"] if self.failed else []),
            *([f"stopped: {self.stopped}"] if self.stopped else []),
        ]
        return f"<Result {'; '.join(parts)}>"

    def __getitem__(self, name: str) -> pa.Table:
        """A result by name. Raises KeyError."""
        if name not in self.tables:
            known = ", ".join(self.tables) or "none"
            raise KeyError(f'{self.plan} returned no "{name}"; its results: {known}')
        return self.tables[name]

    def to_arrow(self, name: str | None = None) -> pa.Table:
        """A result as an Arrow table; without a name, the only one.

        Raises:
            KeyError: There is no such result, or there are several.
        """
        if name is None and len(self.tables) != 1:
            known = ", ".join(self.tables) or "none"
            raise KeyError(f"name one of the results of {self.plan}: {known}")
        return self[next(iter(self.tables)) if name is None else name]

    def to_pandas(self, name: str | None = None) -> Any:
        """A result as a pandas data frame. Raises KeyError, as `to_arrow`."""
        return self.to_arrow(name).to_pandas()

    def to_polars(self, name: str | None = None) -> Any:
        """A result as a Polars data frame; needs the package polars. Raises KeyError, as
        `to_arrow`.
        """
        return import_module("polars").from_arrow(self.to_arrow(name))

    def rows(self, name: str | None = None) -> list[dict[str, Any]]:
        """A result as a list of mappings. Raises KeyError, as `to_arrow`."""
        return self.to_arrow(name).to_pylist()

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        return display.as_html(self)

    def to_json(self) -> dict[str, Any]:
        """The object that `--format json` prints: plan, run, tables, metrics, failed."""
        return {
            "schema": 1,
            "plan": self.plan,
            "run": self.run,
            "tables": {
                name: [plain(row) for row in table.to_pylist()]
                for name, table in self.tables.items()
            },
            "metrics": {
                "total": self.meter.total().as_dict(),
                "steps": {name: step.as_dict() for name, step in self.meter.steps.items()},
                "operators": {
                    name: [m.as_dict() for m in parts]
                    for name, parts in self.meter.operators().items()
                },
            },
            "written": dict(self.written),
            "members": {
                "given": self.members,
                "skipped": self.skipped,
                "committed": self.committed,
            },
            "failed": [{"step": f.step, "error": f.error, "row": f.row} for f in self.failed],
            "notes": list(self.notes),
            "stopped": self.stopped,
            "first": [
                {"plan": f.plan, "run": f.run, "written": dict(f.written)} for f in self.first
            ],
        }


@dataclass
class RunOptions:
    """How a run differs from the plain one.

    Args:
        run: Id of the run.
        now: The time of a slice or wave, by its name; recorded runs replay it.
        again: Process input rows again that have a commit marker.
        write: Whether to commit.
        fingerprint: Of the plan, its parameters and choices, for marks.
        committed: Called after each commit with the input rows committed so far, and how many there are.
    """

    run: str
    now: Callable[[str], datetime]
    again: bool = False
    write: bool = True
    fingerprint: str = ""
    committed: Callable[[int, int], None] = lambda _done, _total: None


@dataclass
class RunOutcome:
    """The outcome of a run; grows while it runs, so that an interrupted one reports what it did."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    written: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    input_rows: InputRows | None = None
    skipped: int = 0
    committed: int = 0
    failed_rows: set[int] = field(default_factory=set)
    stopped: str | None = None
    halted: dict[int, int] = field(default_factory=dict)
    """The partitions that were stopped, each with the first input row of the window where."""

    def halt(self, partition: int, input_row: int, note: str) -> None:
        """Stop a partition at a window, and say why."""
        self.halted[partition] = input_row
        self.notes.append(note)


def result_table(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    """A result without hidden columns: windows by their first input row, rows within a window in
    the order of the plan.
    """
    table = pa.concat_tables(tables) if tables else runtime_schema(node).empty_table()
    if INPUT_ROW in table.column_names:
        numbered = table.append_column("_row", pa.array(range(table.num_rows)))
        table = numbered.sort_by([(PARTITION, "ascending"), ("_row", "ascending")])
    return table.select(node.schema.names)
