"""Commits: writes of a transaction, made from the rows of sinks, and counts of their distinct keys."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from semgraph.errors import ConcurrentWrite, DataError, EngineError, Problem
from semgraph.execution.outcome import ExecutorOptions, RunOutcome
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import InputRows, Window
from semgraph.formats import shortened
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.sinks import Delete, Merge, Sink
from semgraph.physical.plan import SinkSpec
from semgraph.physical.vectors import EmbedTextsOf, NoVectors, vectors_of
from semgraph.relational.batch import Batch, values
from semgraph.semantic.ask import Failure
from semgraph.stores.base import (
    CommitMarker,
    Deletion,
    EdgeWrite,
    NodeWrite,
    Write,
    WriteBatch,
    count_round_trips,
)
from semgraph.stores.prepare import RowsRefused
from semgraph.stores.writes import recorded

_LONG = 120


Sinks = Sequence[tuple[SinkSpec, Batch]]


@dataclass(frozen=True)
class Unwritten:
    """A row of a sink that cannot be written, by its index. Either the store refuses it, or the
    embedder rejects a text of it, or rows of the window contradict each other, or it lacks a key.
    """

    spec: SinkSpec
    batch: Batch
    place: int
    problem: Problem
    by_store: bool = False
    by_embedder: bool = False

    @property
    def input_row(self) -> int | None:
        """The input row from which it derives, or None."""
        return self.batch.input_rows()[self.place]

    @property
    def key(self) -> tuple[str, str]:
        """The label and key under which it would have been stored."""
        sink = self.spec.sink
        return sink.label.name, str(self.batch.table.column(sink.graph.key)[self.place].as_py())

    def lacks_vector(self, lacking: Collection[tuple[str, str]]) -> bool:
        """Whether it lacks a vector, or is an edge of a node without a vector."""
        label, table = self.spec.sink.label, self.batch.table
        return self.by_embedder or any(
            (getattr(label, end), str(table.column(end)[self.place].as_py())) in lacking
            for end in label.ends
        )

    def failure(self) -> Failure:
        """The failed row."""
        sink = self.spec.sink
        names = self.spec.rows.logical.schema.names
        shown = self.batch.table.select(names).slice(self.place, 1).to_pylist()[0]
        position = self.problem.position or sink.origin
        return Failure(
            sink.step,
            str(replace(self.problem, step=None, position=position)),
            self.input_row,
            shown,
        )


Refused = tuple[int, str, str, bool]  # partition, label, key, and whether the store refused it


def nothing_written(unwritten: Sequence[Unwritten]) -> DataError:
    """The error for rows that cannot be written, in a plan without windows."""
    problem, sink, more = unwritten[0].problem, unwritten[0].spec.sink, len(unwritten) - 1
    others = f" ({more} more cannot be written either)" if more else ""
    what = f"{problem.what}{others}; nothing was written"
    return DataError(what, step=problem.step, position=problem.position, hint=problem.hint).at(
        sink.step, sink.origin
    )


def failures_of(
    window: Window, unwritten: Sequence[Unwritten], before: set[Refused]
) -> list[Failure]:
    """The failed rows of a window that was not committed. If a row is refused again although its
    input row was left out, it derives from several: all rows of the window fail.
    """
    refused = [(window.partition, *row.key, row.by_store) for row in unwritten]
    again = [
        row
        for row, refusal in zip(unwritten, refused, strict=True)
        if refusal in before and row.input_row is not None
    ]
    before |= set(refused)
    failures = [row.failure() for row in unwritten]
    if again:
        others = set(window.rows) - {row.input_row for row in unwritten}
        failures += [replace(again[0].failure(), input_row=row) for row in sorted(others)]
    return failures


def without(sinks: Sinks, rows: Collection[int]) -> Sinks:
    """The rows of sinks, without rows that derive from the given input rows."""
    return [(spec, batch.without_input_rows(rows)) for spec, batch in sinks]


def without_unwritten(sinks: Sinks, unwritten: Sequence[Unwritten]) -> Sinks:
    """The rows of sinks, without the rows of unwritten nodes and edges."""
    dropped = {row.key for row in unwritten}
    kept = []
    for spec, batch in sinks:
        label, keys = spec.sink.label.name, batch.column(spec.sink.graph.key)
        places = [i for i, key in enumerate(keys) if (label, str(key)) not in dropped]
        kept.append((spec, batch.take(places)))
    return kept


@dataclass(frozen=True)
class Writes:
    """A batch, the sink and the source rows of each write, and the rows left out."""

    batch: WriteBatch
    sinks: tuple[tuple[SinkSpec, Batch], ...]
    unwritten: tuple[Unwritten, ...] = ()

    @contextmanager
    def locating_errors(self) -> Iterator[None]:
        """Add the position of the refused sink to errors of the store."""
        try:
            yield
        except RowsRefused:
            raise
        except DataError as error:
            for write, (spec, _) in zip(self.batch.writes, self.sinks, strict=True):
                if write is error.write or write.rows.num_rows == self.batch.rows:
                    raise error.at(spec.sink.step, spec.sink.origin) from error
            raise

    def refused(self, error: RowsRefused) -> list[Unwritten]:
        """The rows of sinks that a store refused: all rows with a key that the error names."""
        refused = []
        for write, (spec, batch) in zip(self.batch.writes, self.sinks, strict=True):
            problems = {row.key: row.problem for row in error.rows if row.write is write}
            keys = values(batch.table.column(spec.sink.graph.key)) if problems else ()
            refused += [
                Unwritten(spec, batch, i, problems[key], True)
                for i, key in enumerate(keys)
                if key in problems
            ]
        return refused


async def _with_vectors(sink: Sink, batch: Batch, embed: EmbedTextsOf) -> Batch:
    table = batch.table
    for derived in sink.label.derived.values() if isinstance(sink, Merge) else ():
        if derived.by == "embed" and batch.has(derived.of):
            vectors: pa.Array[Any] = pa.nulls(0)
            if batch.num_rows:
                vectors = await vectors_of(
                    batch, derived.name, batch.column(derived.of), embed, sink.graph.partition
                )
            table = table.append_column(derived.name, vectors)
    return Batch.of_table(table)


def writes_of(sinks: Sinks) -> Writes:
    """The writes of some sinks: deletes first, then nodes, then edges. Sinks without rows also have
    writes, so that all batches of a plan have the same shape. Raises DataError.
    """
    writes: list[tuple[Write, tuple[SinkSpec, Batch]]] = []
    unwritten: list[Unwritten] = []
    for spec, batch in sinks:
        key = spec.sink.graph.key
        unite = frozenset(spec.sink.unite) if isinstance(spec.sink, Merge) else frozenset[str]()
        key_column = spec.sink.key if isinstance(spec.sink, Merge | Delete) else ""
        rows, problems = one_row_a_key(batch.visible(), key, unite, key_column)
        unwritten += [Unwritten(spec, batch, place, problem) for place, problem in problems.items()]
        writes.append((_write(spec.sink, rows, unite), (spec, batch)))
    writes.sort(key=lambda pair: (Deletion, NodeWrite, EdgeWrite).index(type(pair[0])))
    return Writes(
        WriteBatch(tuple(write for write, _ in writes)),
        tuple(origin for _, origin in writes),
        tuple(unwritten),
    )


def _write(sink: Sink, rows: pa.Table, unite: frozenset[str]) -> Write:
    if isinstance(sink, Delete):
        return Deletion(sink.label.name, rows, sink.detach)
    if not isinstance(sink, Merge):
        raise EngineError(f"step {sink.step}: {sink.keyword} does not write")
    create = frozenset(name for name, _ in sink.create)
    kind = NodeWrite if sink.label.kind == "node" else EdgeWrite
    return kind(sink.label.name, rows, create, unite, bool(sink.only))


def one_row_a_key(
    rows: pa.Table, key: str, unite: frozenset[str], key_column: str
) -> tuple[pa.Table, dict[int, Problem]]:
    """One row for each key, and the problems of the other rows, by index. Rows with equal keys must
    agree in every column outside `unite`; NULL agrees with all values. A row that contradicts an
    earlier one, or lacks a key, is left out.
    """
    keys = rows.column(key).to_pylist() if rows.num_rows else ()
    if None not in keys and len(set(keys)) == len(keys):
        return rows, {}
    problems: dict[int, Problem] = {}
    merged: dict[Any, dict[str, Any]] = {}
    for place, row in enumerate(rows.to_pylist()):
        before = merged.setdefault(row[key], row) if row[key] is not None else row
        if row[key] is None:
            problems[place] = _no_key(rows, place, key, key_column)
        elif before is not row and (name := _first_that_differs(before, row, unite)) is not None:
            problems[place] = _differs(rows, key, name, before, row)
        elif before is not row:
            _take_in(before, row, unite)
    return pa.Table.from_pylist(list(merged.values()), schema=rows.schema), problems


def _first_that_differs(
    before: Mapping[str, Any], row: Mapping[str, Any], unite: frozenset[str]
) -> str | None:
    for name, value in row.items():
        given = None not in (before[name], value)
        if name not in unite and given and value != before[name]:
            return name
    return None


def _take_in(before: dict[str, Any], row: Mapping[str, Any], unite: frozenset[str]) -> None:
    for name, value in row.items():
        if name in unite:
            old = before[name] or []
            before[name] = [*old, *(v for v in value or [] if v not in old)]
        elif before[name] is None:
            before[name] = value


def _no_key(rows: pa.Table, place: int, key: str, key_column: str) -> Problem:
    rest = f"filter: {key_column or key} IS NOT NULL"
    hint = f"make a key of what tells rows apart, id(...), or leave such rows out before: {rest}"
    return Problem(f'the key "{key}" of a row to write is NULL: {_shown(rows, place)}', hint=hint)


def _differs(
    rows: pa.Table, key: str, name: str, before: Mapping[str, Any], row: Mapping[str, Any]
) -> Problem:
    two = f"{shortened(_json(before[name]), _LONG)} and {shortened(_json(row[name]), _LONG)}"
    hint = f"make one row of them before: {{distinct: [{key}]}} keeps the first, aggregate puts them together"
    if pa.types.is_list(rows.schema.field(name).type):
        hint += f"; unite: [{name}] unites lists"
    return Problem(f'two rows with {key} "{row[key]}" differ in "{name}": {two}', hint=hint)


def _shown(rows: pa.Table, place: int) -> str:
    """A row in one line, without NULLs."""
    row = rows.drop_columns(
        [f.name for f in rows.schema if pa.types.is_fixed_size_list(f.type)]
    ).slice(place, 1)
    values = {name: value for name, value in row.to_pylist()[0].items() if value is not None}
    shown = ", ".join(f"{name} {_json(value)}" for name, value in values.items())
    return shortened(shown, _LONG) or "all of it is NULL"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


COMMIT = "commit"
_AT_ONCE = 8  # concurrent transactions of different partitions


@dataclass(frozen=True)
class CommitAttempt:
    """Whether a window was committed. If no row is unwritten either, its partition stopped."""

    done: bool = False
    unwritten: Sequence[Unwritten] = ()


class Commits:
    """The transactions of one run. It tracks the head of each partition as last seen by this run."""

    def __init__(self, runtime: Runtime, options: ExecutorOptions, outcome: RunOutcome) -> None:
        self.runtime, self.options, self.outcome = runtime, options, outcome
        self.plan = runtime.plan
        self.heads: dict[int, str | None] = {}
        self._written: dict[str, DistinctKeys] = {}
        self._passing = Counter[str]()  # rows of writes that skip missing nodes and edges
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def write_rows(self, sinks: Sinks) -> list[Unwritten]:
        """Write and record rows in one transaction, without markers; return the unwritten ones."""
        ready, unwritten = await self.with_vectors(sinks)
        unwritten = unwritten or await self._write(ready, None)
        if not unwritten:
            self.record(sinks)
        return unwritten

    def record(self, sinks: Sinks) -> None:
        """Record the rows of merges, unless writing is off."""
        for spec, batch in sinks if self.options.write else ():
            if isinstance(spec.sink, Merge):
                self.runtime.recorder.written(spec.sink.label.name, batch.visible())

    async def with_vectors(self, sinks: Sinks) -> tuple[Sinks, list[Unwritten]]:
        """The rows of some sinks as `commit_window` takes them, and the rows that lack a vector. If
        rows fail by input row, rows that derive from none are noted.
        """
        ready: list[tuple[SinkSpec, Batch]] = []
        unwritten: list[Unwritten] = []
        embed = partial(self.runtime.embed, COMMIT)
        for spec, rows in sinks:
            batch, complete = rows, False
            while not complete:
                try:
                    ready.append((spec, await _with_vectors(spec.sink, batch, embed)))
                    complete = True
                except NoVectors as error:
                    for place, what in error.errors.items():
                        row = Unwritten(spec, batch, place, Problem(what), by_embedder=True)
                        if not self.runtime.note_if_left_out(row.failure()):
                            unwritten.append(row)
                    batch = error.others
        return ready, unwritten

    async def commit_window(
        self,
        window: Window,
        rows: InputRows,
        sinks: Sinks,
        firsts: Sinks,
        now: datetime,
        begun: datetime,
    ) -> CommitAttempt:
        """Write a window with its commit markers, in one transaction, or nothing. `firsts` were
        written before, and markers list them too; `begun` is `$now` of the steps that ran ahead. A
        partition stops if another run wrote it first, or at an error that belongs to no row.
        """
        if not self.options.write or not self.plan.sinks:
            return CommitAttempt(done=True)
        head = uuid4().hex
        try:
            own, first = (
                [(spec, batch.of_input_rows(window.rows)) for spec, batch in each]
                for each in (sinks, firsts)
            )
            marker = self._marker(window, rows, now, begun, head)
            unwritten = await self._write(own, marker, first)
        except DataError as error:
            note = f'group "{rows.partitions[window.partition]}" stopped: {error}'
            self.outcome.halt(window.partition, window.rows[0], note)
            return CommitAttempt()
        except ConcurrentWrite as error:
            self.outcome.halt(window.partition, window.rows[0], str(error))
            return CommitAttempt()
        if unwritten:
            return CommitAttempt(unwritten=unwritten)
        self.heads[window.partition] = head
        self.outcome.committed += len(window.rows)
        self.options.committed(self.outcome.committed, len(rows.keys) - self.outcome.skipped)
        return CommitAttempt(done=True)

    async def _write(
        self, sinks: Sinks, marker: CommitMarker | None, firsts: Sinks = ()
    ) -> list[Unwritten]:
        writes = writes_of(sinks)
        if writes.unwritten:
            return list(writes.unwritten)
        if marker is not None:
            listed = (*writes_of(firsts).batch.writes, *writes.batch.writes)
            marker = replace(marker, writes=recorded(self.plan.logical.graph, listed))
        if writes.batch.rows or marker is not None:
            try:
                await self._commit(writes, marker)
            except RowsRefused as error:
                return writes.refused(error)
        return []

    def _marker(
        self, window: Window, rows: InputRows, now: datetime, begun: datetime, head: str
    ) -> CommitMarker:
        return CommitMarker(
            plan=self.plan.logical.name,
            partition=rows.partitions[window.partition],
            rows=tuple(rows.keys[row] for row in window.rows),
            fingerprint=self.options.fingerprint,
            now=now,
            run=self.options.run,
            before=self.heads[window.partition],
            head=head,
            witness=witness_of(self.plan.logical),
            contents=tuple(rows.contents[row] for row in window.rows),
            begun=begun,
            parts=self.options.parts,
        )

    async def _commit(self, writes: Writes, marker: CommitMarker | None) -> None:
        metrics = self.runtime.meter.step(COMMIT)
        async with self._slots:
            started = time.perf_counter()
            with writes.locating_errors(), count_round_trips() as trips:
                try:
                    done = await self.runtime.store.commit(writes.batch, marker)
                finally:
                    metrics.round_trips += trips.number
            metrics.seconds += time.perf_counter() - started
        for label in dict.fromkeys(w.label for w in writes.batch.writes if w.rows.num_rows):
            own = [write for write in writes.batch.writes if write.label == label]
            self._count(label, own, done.rows.get(label, 0))

    def _count(self, label: str, writes: Sequence[Write], done: int) -> None:
        """Count the rows of a label. Each merged key counts once. Of writes that the store may skip
        (deletes, merges of existing rows), the rows that it wrote count.
        """
        keys, key = self._written.setdefault(label, DistinctKeys()), self.plan.logical.graph.key
        all_done = done == sum(write.rows.num_rows for write in writes)
        passing: set[Any] = set()
        for write in writes:
            if not isinstance(write, Deletion) and (all_done or not write.only_existing):
                keys.add(values(write.rows.column(key)))
                done -= write.rows.num_rows
            else:
                passing.update(values(write.rows.column(key)))
        self._passing[label] += min(done, len(passing))
        self.outcome.written[label] = keys.count + self._passing[label]


def witness_sink(plan: LogicalPlan) -> Merge | None:
    """The sink that writes a node for each input row under the row's id, before any model call."""
    for sink in plan.writes if plan.windows else ():
        key = plan.windows and plan.windows.key
        if (
            isinstance(sink, Merge)
            and sink.first
            and sink.node
            and key == (sink.key or sink.graph.key)
        ):
            return sink
    return None


def witness_of(plan: LogicalPlan) -> str | None:
    """The label of that node."""
    sink = witness_sink(plan)
    return sink.node if sink is not None else None


_RECENT = 16_384  # hashes held as Python numbers, some 70 bytes each


class DistinctKeys:
    """Counts distinct keys by 64-bit hashes, in some 12 bytes per key.

    Among n keys, two have equal hashes, so that the count is one too small, with a probability
    below n² / 2^65: 1 in 150,000 for 15 million keys, the number of a million rows. Hashes of texts
    differ between processes, so no input collides permanently.
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.empty(0, np.int64)  # all others

    @property
    def count(self) -> int:
        """The number of keys."""
        return len(self._sorted) + len(self._recent)

    def add(self, keys: Iterable[Hashable]) -> None:
        """Add some keys, known or new."""
        new = np.fromiter(set(map(hash, keys)) - self._recent, np.int64)
        places = np.searchsorted(self._sorted, new).clip(max=max(len(self._sorted) - 1, 0))
        known = self._sorted[places] == new if len(self._sorted) else np.zeros(len(new), bool)
        self._recent.update(new[~known].tolist())
        if len(self._recent) >= max(_RECENT, len(self._sorted) // 16):
            recent = np.fromiter(self._recent, np.int64)
            self._sorted = np.sort(np.concatenate((self._sorted, recent)))
            self._recent = set()
