"""The result of a run, and its progress. Large results of a run with a record are read from the
record on access.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph import display
from semgraph.execution.costs import By, RunCost, costs
from semgraph.execution.record import (
    ROW_ID,
    Run,
    RunRecord,
    read_input,
    read_lines,
    recorded_inputs,
    recorded_parts,
    records_of,
)
from semgraph.execution.uniform import Uniform
from semgraph.expr.types import python_rows
from semgraph.formats import stopped
from semgraph.frontend.classes import read_objects
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.meter import Meter
from semgraph.relational.batch import INPUT_ROW, PARTITION, runtime_schema
from semgraph.semantic.ask import Failure


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
T = TypeVar("T")


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
        """
        first = parts[0]
        written: dict[str, int] = {}
        for part in parts:
            for label, count in part.written.items():
                written[label] = written.get(label, 0) + count
        stopped = next((part.stopped for part in parts if part.stopped), None)
        halted = any(part.exit_code == HALTED for part in parts)
        uniform = Uniform.merge(part.uniform for part in parts)
        meter = Meter.merge(part.meter for part in parts)
        ids: dict[str, Sequence[int]] = {}
        for name in {name: None for part in parts for name in part.ids}:
            own = [row for part in parts for row in part.ids.get(name, ())]  # may be empty
            ids[name] = [own[row] for row in _order(name, parts).tolist()]
        notes = chain.from_iterable(part.notes for part in parts)
        return replace(
            first,
            run=run,
            tables=_joined(parts, record),
            ids=ids,
            meter=meter,
            failed=tuple(
                sorted(chain.from_iterable(p.failed for p in parts), key=lambda f: f.input_row or 0)
            ),
            written=written,
            members=sum(part.members for part in parts),
            skipped=sum(part.skipped for part in parts),
            committed=sum(part.committed for part in parts),
            notes=tuple(dict.fromkeys([*notes, *meter.counted.lines(), *uniform.notes(run)])),
            stopped=stopped,
            keys=(),
            record=record,
            exit_code=exit_code(
                stopped=stopped, halted=halted, failed=any(part.failed for part in parts)
            ),
            places={},
            left_out=frozenset(chain.from_iterable(part.left_out for part in parts)),
            uniform=uniform,
        )

    def __repr__(self) -> str:
        """The run in one line: results, calls, writes and failures."""
        rows = ", ".join(f"{name} {self.count(name)} rows" for name in self.tables)
        total = self.meter.total()
        saved = total.calls_journal + total.calls_coalesced
        written = ", ".join(f"{n} {label}" for label, n in self.written.items() if n)
        parts = [
            f"{self.plan}, run {self.run}",
            rows or "no results",
            f"{total.calls_issued} calls" + (f" (+{saved} kept)" if saved else ""),
            f"{self.skipped} of {self.members} rows were there already" if self.skipped else "",
            f"written: {written}" if self.written else "",
            f"{len(self.failed)} failed" if self.failed else "",
            stopped(self.stopped) if self.stopped else "",
        ]
        return f"<Result {'; '.join(filter(None, parts))}>"

    def __getitem__(self, name: str) -> pa.Table:
        """A result by name. Raises KeyError."""
        if name not in self.tables:
            known = ", ".join(self.tables) or "none"
            raise KeyError(f'{self.plan} returned no "{name}"; its results: {known}')
        return self.tables[name]

    def to_arrow(self, name: str | None = None) -> pa.Table:
        """A result as an Arrow table; without a name, the only one. Raises KeyError."""
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

    @overload
    def rows(self, name: str | None = None) -> list[dict[str, Any]]: ...
    @overload
    def rows(self, name: str | None = None, *, as_: type[T]) -> list[T]: ...
    def rows(self, name: str | None = None, *, as_: Any = None) -> list[Any]:
        """A result as a list of mappings. A time outside the years 1 to 9999, which Python does not
        support, is text.

        Args:
            name: The result; default: the only one.
            as_: The class of the rows, a Pydantic model or a dataclass, in place of mappings. Text
                with JSON is read where the class has no text; further columns are left out.

        Raises:
            KeyError: As `to_arrow`.
            DataError: A row does not fit the class; with row and column.
        """
        rows = python_rows(self.to_arrow(name))
        return rows if as_ is None else read_objects(rows, as_)

    @property
    def cost(self) -> RunCost:
        """The cost of the run."""
        return RunCost.of(self.meter.total())

    def costs(self, by: By = "step") -> list[dict[str, Any]]:
        """The cost of the run in parts by `step`, `model` (as the endpoint names it) or input `row`,
        whose sum is `cost`. Parts without a cost are left out.

        The rows of an item share its calls equally, and a part None has what is of no row or model;
        see docs/budgets.md. Raises PlanError without the run's record, if it is not by step.
        """
        return costs(self.meter, self.record, self.keys, by)

    def _repr_html_(self) -> str:
        """The HTML that notebooks display."""
        return display.as_html(self)

    def to_json(self) -> dict[str, Any]:
        """The object that `--format json` prints: plan, run, tables, metrics, cost, failed. Without a
        record there are only costs by step.
        """
        recorded = self.record is not None and self.record.exists()
        parts: tuple[By, ...] = ("step", "model", "row") if recorded else ("step",)
        tables = {n: [plain(row) for row in python_rows(own)] for n, own in self.tables.items()}
        members = {"given": self.members, "skipped": self.skipped, "committed": self.committed}
        first = [{"plan": f.plan, "run": f.run, "written": dict(f.written)} for f in self.first]
        return {
            "schema": 1,
            "plan": self.plan,
            "run": self.run,
            "tables": tables,
            "metrics": self.meter.as_dict(),
            "cost": self.cost._asdict(),
            "costs": {by: self.costs(by) for by in parts},
            "written": dict(self.written),
            "members": members,
            "failed": [{"step": f.step, "error": f.error, "row": f.row} for f in self.failed],
            "notes": list(self.notes),
            "stopped": self.stopped,
            "first": first,
        }


def result_rows(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    """A result with hidden columns, in the order of windows, then of the plan."""
    table = pa.concat_tables(tables) if tables else runtime_schema(node).empty_table()
    return in_order(table) if INPUT_ROW in table.column_names else table


def result_table(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    """A result without hidden columns, in the order of `result_rows`."""
    return result_rows(node, tables).select(node.schema.names)


HALTED = 1  # the exit code of a run with a stopped partition


def exit_code(*, stopped: str | None, halted: bool, failed: bool) -> int:
    """The exit code: 4 at a budget, else 1 if a partition stopped, else 3 if rows failed."""
    return 4 if stopped else HALTED if halted else 3 if failed else 0


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


def _order(name: str, parts: Sequence[Result]) -> npt.NDArray[np.int64]:
    places = np.concatenate([part.places[name].to_numpy() for part in parts])
    return np.argsort(places, kind="stable")


RESULTS = "results"  # the folder of a record with the results
# Bytes of results that a run with a record keeps in memory: as much as a record buffers. Larger
# results are read from the record.
RETAINED = 64 << 20
_NUMBERS = [PARTITION, INPUT_ROW]


def in_order(table: pa.Table, by: str = PARTITION) -> pa.Table:
    """Rows ordered by the first input row of their window, or another number; among rows with equal
    ones the order is unchanged.
    """
    numbered = table.append_column("_row", pa.array(range(table.num_rows)))
    return numbered.sort_by([(by, "ascending"), ("_row", "ascending")]).drop_columns("_row")


@dataclass(frozen=True)
class ResultSource:
    """A run record, and the input rows whose results it has: `only` some, or the committed."""

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
    """One result, with hidden columns, in the record of the run and those of the runs that it
    resumed: parts with the windows in commit order.
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
    """The results of a run by name, without hidden columns. Those that derive from input rows are
    read from the record on first access; the others are in memory.
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
    hidden = {*_NUMBERS, ROW_ID}
    return table.drop_columns([name for name in table.column_names if name in hidden])


class RunHistory(display.Displayed, list[dict[str, Any]]):
    """Runs, comparisons and tunings, the latest first. Its text is that of `semgraph runs list`."""

    def to_pandas(self) -> Any:
        """A data frame with a row for each record. Needs pandas."""
        times = [datetime.fromisoformat(t) if (t := row["started"]) else None for row in self]
        return import_module("pandas").DataFrame(self).assign(started=times)


_SOURCES = "sources.json"


def keep_sources(
    record: RunRecord, left_out: Sequence[int], earlier: Sequence[ResultSource]
) -> None:
    """Write which recorded rows are no results of a run, and which rows of earlier runs are."""
    rows = {os.path.relpath(each.folder, record.folder): each.only for each in earlier}
    only = {folder: own.tolist() for folder, own in rows.items() if own is not None}
    if left_out or only:
        record.text(_SOURCES, json.dumps({"left_out": list(left_out), "earlier": only}))


def load_result(run: Run) -> Result:
    """The result of a recorded run. Results of a plan without windows are the rows of their steps,
    in the order of their computation.
    """
    facts = run.facts
    files = [(part, part / _SOURCES) for part in records_of(run.folder)]
    kept = [(part, json.loads(file.read_text())) for part, file in files if file.exists()]
    own = [ResultSource(run.folder, frozenset(chain.from_iterable(k["left_out"] for _, k in kept)))]
    for part, each in kept:
        own += [ResultSource(part / to, only=np.array(m)) for to, m in each["earlier"].items()]
    recorded, others = dict[str, RecordedRows](), dict[str, pa.Table]()
    for name, step in (facts.get("returns") or {}).items():
        parts = chain.from_iterable(recorded_parts(s.folder, RESULTS, name) for s in own)
        if (first := next(parts, None)) is not None:
            recorded[name] = RecordedRows(name, first.schema, tuple(own))
            continue
        tables = [*recorded_parts(run.folder, "steps", step)]
        if not tables and step in (inputs := recorded_inputs(run.folder)):
            tables = [read_input(inputs[step])]
        others[name] = _visible(pa.concat_tables(tables or [pa.table({})]))
    failed = tuple(
        Failure(str(row.pop("_step")), str(row.pop("_error")), None, row)
        for row in read_lines(run.folder, "failed.jsonl")
    )
    status, members = facts.get("status"), facts.get("members") or {}
    why = None if status == "done" else str(facts.get("why") or f"the run is {status}")
    return Result(
        str(facts.get("plan")), run.name, RecordedTables(recorded, others), Meter.of(run.metrics),
        failed, facts.get("written") or {}, members.get("given", 0), members.get("skipped", 0),
        members.get("committed", 0), tuple(facts.get("notes") or ()), why, record=run.folder,
        exit_code=4 if status == "budget" else HALTED if why else 3 if failed else 0, left_out=own[0].left_out,
    )  # fmt: skip
