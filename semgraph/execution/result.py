"""The result of a run, and its progress. Large results of a run with a record are read from the
record on access. Notes name operators that got one answer for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph import display
from semgraph.display import command
from semgraph.execution.record import recorded_parts
from semgraph.execution.windows import InputRows
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import python_rows
from semgraph.formats import stopped
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import SemFilter, SemJoin, SemMap
from semgraph.meter import Meter
from semgraph.relational.batch import INPUT_ROW, PARTITION, runtime_schema
from semgraph.semantic.ask import Failure

LEAST = 10  # the minimum number of distinct rows or pairs for a note about equal answers


# Operators that answer yes or no: the column of the answer, and the words of the note.
_YES_OR_NO = {"sem_filter": ("keep", "kept", "rows"), "sem_join": ("match", "matched", "pairs")}


@dataclass
class _Answers:
    """The answers to one operator: the number of rows, and whether all answers so far are equal."""

    keyword: str
    step: str
    names: tuple[str, ...]  # the columns of an answer
    rows: int = 0
    answer: Any = None
    varied: bool = False
    different: set[tuple[str, str | None]] = field(default_factory=set)

    def add(self, answers: pa.Table) -> None:
        """Add the answers to some rows; rows without an answer do not count."""
        columns = dict.fromkeys(["left", "right", "error", *self.names])
        for row in answers.select([*columns]).to_pylist():
            if row["error"] is not None:
                continue
            answer = canonical_json(plain([row[name] for name in self.names]))
            self._count(1, answer, {(row["left"], row["right"])})
            if self.varied:
                return

    def take(self, other: _Answers) -> None:
        """Add the answers to other rows."""
        self.varied = self.varied or other.varied
        if other.rows:
            self._count(other.rows, other.answer, other.different)

    def _count(self, rows: int, answer: Any, different: set[tuple[str, str | None]]) -> None:
        self.varied = self.varied or (self.rows > 0 and answer != self.answer)
        self.rows, self.answer = self.rows + rows, answer
        if self.varied:
            self.different.clear()
        elif len(self.different) < LEAST:
            self.different |= different

    def note(self, run: str) -> str | None:
        """The note about the answers; None if they vary or are few."""
        if self.varied or len(self.different) < LEAST:
            return None
        count = f"{self.rows:,}"
        if self.keyword not in _YES_OR_NO:
            text = f"{self.keyword} gave the same answer for all {count} rows"
        else:
            _, verb, unit = _YES_OR_NO[self.keyword]
            text = f"{self.keyword} {verb} {count if self.answer == '[true]' else 'none'} of {count} {unit}"
        why = command(f"semgraph why {run} TEXT", f'session.why("TEXT", "{run}")')
        look = f"; look at one: {why}, with the text of a row" if run else ""
        return f"step {self.step}: {text}{look}"


class Uniform:
    """Watches the answers of a run."""

    def __init__(self) -> None:
        self.operators: dict[tuple[str, ...], _Answers] = {}

    @classmethod
    def merge(cls, parts: Iterable[Uniform]) -> Uniform:
        """The answers of a run that consisted of several runs of one plan."""
        whole = cls()
        for part in parts:
            for key, answers in part.operators.items():
                own = _Answers(answers.keyword, answers.step, answers.names)
                whole.operators.setdefault(key, own).take(answers)
        return whole

    def add(self, node: Node, answers: pa.Table) -> None:
        """Add questions and answers, in the format of `semgraph.semantic.Answered.evidence`."""
        if isinstance(node, (SemFilter, SemJoin, SemMap)):
            column = _YES_OR_NO.get(node.keyword, ("",))[0]
            names = (column,) if column else tuple(name for name, _ in node.answers)
            key = (node.step, node.keyword, *(prompt.name for prompt in node.prompt.all))
            own = self.operators.setdefault(key, _Answers(node.keyword, node.step, names))
            if not own.varied:
                own.add(answers)

    def notes(self, run: str = "") -> list[str]:
        """A note for each operator whose answers are all equal.

        Args:
            run: The id of the run, if it has a record.
        """
        return [note for own in self.operators.values() if (note := own.note(run)) is not None]


@dataclass(frozen=True)
class Progress:
    """One event: a step answered some rows, or a window was committed.

    Args:
        step: The step; "" for a commit.
        done: Rows of the step answered so far, or input rows committed so far.
        total: The number of rows known so far.
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
        tables: The plan's results, without hidden columns. Large results of a run with a record are
            read from the record on access; `count` and `head` read no more than they return.
        meter: Counters by step.
        failed: Rows that were set aside. A row kept without its answers (`on_error: null`) is only
            counted, as `rows_failed`.
        written: Nodes and edges written (or deleted), by label, each counted once.
        members: Rows of the input that is cut into windows; 0 without windows.
        skipped: Input rows that earlier runs committed.
        committed: Input rows that this run committed.
        notes: Messages for the user: a partition stopped by another writer, commit markers of
            another version of the plan, ...
        stopped: Why the run ended early (a budget, an interruption), or None.
        keys: Ids of the input rows, by index; () without windows.
        first: Results and writes of the plans that precede the example, in order, if it was run.
        record: Folder of the run record; None if records are off.
        exit_code: The exit code of the command line: 0, 3 with failed rows, 4 at a budget, 1 with a
            stopped partition.
        places: By result, for each row the index of the first input row of its window, or without
            windows of its input row; for results in memory that derive from input rows.
        ids: The id of each of these rows in the lineage of the run, if it is recorded and the plan
            has no windows.
        left_out: Indices of the input rows of windows that are in the record but were not
            committed.
        uniform: The answers of operators, to detect one answer for all rows.
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
    places: Mapping[str, pa.ChunkedArray[Any]] = field(default_factory=dict)
    ids: Mapping[str, Sequence[int]] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()
    uniform: Uniform = field(default_factory=Uniform)

    @staticmethod
    def merge(parts: Sequence[Result], run: str, record: Path | None = None) -> Result:
        """The result of a run that consisted of several runs of one plan, over rows of different
        partitions. It equals the result of one run over all rows.

        Args:
            parts: The results of these runs, at least one.
            run: Id of the run.
            record: Its record.
        """
        return _merged(parts, run, record)

    def __repr__(self) -> str:
        """The run in one line: results, calls, writes and failures."""
        rows = ", ".join(f"{name} {self.count(name)} rows" for name in self.tables)
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
            *([stopped(self.stopped)] if self.stopped else []),
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

    def count(self, name: str) -> int:
        """The number of rows of a result. Raises KeyError."""
        if isinstance(self.tables, RecordedTables):
            return self.tables.count(name)
        return self.tables[name].num_rows

    def head(self, name: str, rows: int) -> pa.Table:
        """The first rows of a result. Raises KeyError."""
        if isinstance(self.tables, RecordedTables):
            return self.tables.head(name, rows)
        return self.tables[name].slice(0, rows)

    def to_pandas(self, name: str | None = None) -> Any:
        """A result as a pandas data frame. A column with dates outside the years 1 to 9999 becomes
        a column of times. Raises KeyError, as `to_arrow`.
        """
        table = self.to_arrow(name)
        try:
            return table.to_pandas()
        except ValueError:
            return table.to_pandas(date_as_object=False)

    def to_polars(self, name: str | None = None) -> Any:
        """A result as a Polars data frame; needs the package polars. Raises KeyError, as
        `to_arrow`.
        """
        return import_module("polars").from_arrow(self.to_arrow(name))

    def rows(self, name: str | None = None) -> list[dict[str, Any]]:
        """A result as a list of mappings. A time outside the years 1 to 9999, which Python does not
        support, is text. Raises KeyError, as `to_arrow`.
        """
        return python_rows(self.to_arrow(name))

    def _repr_html_(self) -> str:
        """The HTML that notebooks display."""
        return display.as_html(self)

    def to_json(self) -> dict[str, Any]:
        """The object that `--format json` prints: plan, run, tables, metrics, failed."""
        return {
            "schema": 1,
            "plan": self.plan,
            "run": self.run,
            "tables": {
                name: [plain(row) for row in python_rows(table)]
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
class ExecutorOptions:
    """The options of an executor.

    Args:
        run: Id of the run.
        now: The time of a slice or wave, by its name; recorded runs replay it.
        again: Whether to reprocess input rows that have a commit marker.
        write: Whether to commit.
        fingerprint: The fingerprint of the plan, its parameters and choices, for commit markers.
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
        left_out: Input rows of windows that were recorded but not committed.
        skipped_by: Input rows that earlier runs committed, by the id of the run.
        halted: The stopped partitions, each with the first input row of the window that stopped it.
    """

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    ids: dict[str, Sequence[int]] = field(default_factory=dict)
    retained: int = 0
    dropped: bool = False
    left_out: set[int] = field(default_factory=set)
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


def result_rows(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    """A result with hidden columns: windows by their first input row, rows within a window in the
    order of the plan.
    """
    table = pa.concat_tables(tables) if tables else runtime_schema(node).empty_table()
    return in_order(table) if INPUT_ROW in table.column_names else table


def result_table(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    """A result without hidden columns, in the order of `result_rows`."""
    return result_rows(node, tables).select(node.schema.names)


_HALTED, _SET_ASIDE, _BUDGET = 1, 3, 4  # exit codes, the worst first: 1, 4, 3
_WORST = (_HALTED, _BUDGET, _SET_ASIDE, 0)


def _merged(parts: Sequence[Result], run: str, record: Path | None) -> Result:
    first = parts[0]
    written: dict[str, int] = {}
    for part in parts:
        for label, count in part.written.items():
            written[label] = written.get(label, 0) + count
    codes = {part.exit_code for part in parts}
    uniform = Uniform.merge(part.uniform for part in parts)
    meter = Meter.merge(part.meter for part in parts)
    return replace(
        first,
        run=run,
        tables=_joined(parts, record),
        ids={name: _ids_in_order(name, parts) for part in parts for name in part.ids},
        meter=meter,
        failed=tuple(
            sorted(chain.from_iterable(p.failed for p in parts), key=lambda f: f.input_row or 0)
        ),
        written=written,
        members=sum(part.members for part in parts),
        skipped=sum(part.skipped for part in parts),
        committed=sum(part.committed for part in parts),
        notes=tuple(
            dict.fromkeys(
                (
                    *chain.from_iterable(p.notes for p in parts),
                    *meter.counted.lines(),
                    *uniform.notes(run),
                )
            )
        ),
        stopped=next((part.stopped for part in parts if part.stopped), None),
        keys=(),
        record=record,
        exit_code=next(code for code in _WORST if code in codes),
        places={},
        left_out=frozenset(chain.from_iterable(part.left_out for part in parts)),
        uniform=uniform,
    )


def _joined(parts: Sequence[Result], record: Path | None) -> Mapping[str, pa.Table]:
    """The results of all parts. They are read from records if at least one part is."""
    read = [part.tables for part in parts if isinstance(part.tables, RecordedTables)]
    if record is None or not read:
        return {name: _in_order(name, parts) for name in parts[0].tables}
    earlier: dict[Path, list[npt.NDArray[np.int64]]] = {}
    for tables in read:
        for source in next(iter(tables.recorded.values())).sources:
            if source.only is not None:
                earlier.setdefault(source.folder, []).append(source.only)
    sources = (
        *(ResultSource(part.record or record, part.left_out) for part in parts),
        *(ResultSource(folder, only=np.concatenate(rows)) for folder, rows in earlier.items()),
    )
    recorded = {
        name: RecordedRows(name, rows.schema, sources) for name, rows in read[0].recorded.items()
    }
    return RecordedTables(recorded, {name: _largest(name, parts) for name in read[0].others})


def _largest(name: str, parts: Sequence[Result]) -> pa.Table:
    return max((part.tables[name] for part in parts), key=lambda table: table.num_rows)


def _in_order(name: str, parts: Sequence[Result]) -> pa.Table:
    """A result of all parts: windows ordered by the index of their first input row. A result that
    derives from no input row is equal in every part that computed it.
    """
    if name not in parts[0].places:
        return _largest(name, parts)
    return pa.concat_tables([part.tables[name] for part in parts]).take(_order(name, parts))


def _ids_in_order(name: str, parts: Sequence[Result]) -> Sequence[int]:
    ids = list(chain.from_iterable(part.ids.get(name, ()) for part in parts))  # empty if it stopped
    return [ids[row] for row in _order(name, parts).tolist()]


def _order(name: str, parts: Sequence[Result]) -> npt.NDArray[np.int64]:
    """The order of the rows of a result of all parts, by index of the input row."""
    places = np.concatenate([part.places[name].to_numpy() for part in parts])
    return np.argsort(places, kind="stable")


RESULTS = "results"  # the folder of a record with the results
# Bytes of results that a run with a record keeps in memory: as much as a record buffers. Larger
# results are read from the record.
RETAINED = 64 << 20
_NUMBERS = [PARTITION, INPUT_ROW]


def in_order(table: pa.Table) -> pa.Table:
    """Rows ordered by the first input row of their window; within a window the order is unchanged."""
    numbered = table.append_column("_row", pa.array(range(table.num_rows)))
    return numbered.sort_by([(PARTITION, "ascending"), ("_row", "ascending")]).drop_columns("_row")


@dataclass(frozen=True)
class ResultSource:
    """A run record, and the input rows whose results it has.

    Args:
        folder: The record.
        left_out: Input rows of windows that were recorded but not committed.
        only: The input rows; None: all except `left_out`.
    """

    folder: Path
    left_out: frozenset[int] = frozenset()
    only: npt.NDArray[np.int64] | None = None

    def has(self, rows: pa.ChunkedArray[Any]) -> npt.NDArray[np.bool_]:
        """For each input row whether the record has its results."""
        numbers = rows.to_numpy()
        if self.only is not None:
            return np.isin(numbers, self.only)
        return ~np.isin(numbers, np.fromiter(self.left_out, np.int64))


@dataclass(frozen=True)
class RecordedRows:
    """One result in run records: parts with the windows in commit order.

    Args:
        name: The name of the result.
        schema: Its columns, including hidden ones.
        sources: The record of the run, and the records of the runs that it resumed.
    """

    name: str
    schema: pa.Schema
    sources: tuple[ResultSource, ...]

    def _parts(
        self, columns: list[str] | None = None
    ) -> Iterator[tuple[pa.Table, npt.NDArray[np.bool_]]]:
        """The parts, each with its rows that belong to the result."""
        kinds = pa.schema([self.schema.field(name) for name in columns or self.schema.names])
        for source in self.sources:
            for part in recorded_parts(source.folder, RESULTS, self.name, columns):
                yield part.select(kinds.names).cast(kinds), source.has(part[INPUT_ROW])

    def table(self) -> pa.Table:
        """All rows, in the order of a result."""
        parts = (part.filter(pa.array(own)) for part, own in self._parts())
        return in_order(pa.concat_tables([self.schema.empty_table(), *parts]))

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(int(own.sum()) for _, own in self._parts([INPUT_ROW]))

    def head(self, rows: int) -> pa.Table:
        """The first rows, in the order of a result. Reads two numbers per row, one part at a time."""
        numbers = [(part[PARTITION].to_numpy(), own) for part, own in self._parts(_NUMBERS)]
        if not numbers:
            return self.schema.empty_table()
        places = np.flatnonzero(np.concatenate([own for _, own in numbers]))
        windows = np.concatenate([window for window, _ in numbers])[places]
        wanted = np.sort(places[np.argsort(windows, kind="stable")[:rows]])
        start, first = 0, []
        for part, _ in self._parts():
            own = wanted[(wanted >= start) & (wanted < start + part.num_rows)] - start
            first.append(part.take(own))
            start += part.num_rows
        return in_order(pa.concat_tables(first))


@dataclass(frozen=True)
class RecordedTables(Mapping[str, pa.Table]):
    """The results of a run by name, without hidden columns. Each is read on first access.

    Args:
        recorded: Results that derive from input rows.
        others: All other results; they are in memory.
    """

    recorded: Mapping[str, RecordedRows]
    others: Mapping[str, pa.Table]
    _read: dict[str, pa.Table] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, name: str) -> pa.Table:
        """A result. Raises KeyError."""
        if name in self.others:
            return self.others[name]
        if name not in self._read:
            self._read[name] = _visible(self.recorded[name].table())
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the results."""
        yield from (*self.recorded, *self.others)

    def __len__(self) -> int:
        """The number of results."""
        return len(self.recorded) + len(self.others)

    def count(self, name: str) -> int:
        """The number of rows of a result. Raises KeyError."""
        return self.others[name].num_rows if name in self.others else self.recorded[name].count

    def head(self, name: str, rows: int) -> pa.Table:
        """The first rows of a result. Raises KeyError."""
        if name in self.others:
            return self.others[name].slice(0, rows)
        return _visible(self.recorded[name].head(rows))


def _visible(table: pa.Table) -> pa.Table:
    return table.drop_columns(_NUMBERS)
