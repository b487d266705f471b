"""What a plan committed in the partitions of its inputs, compared with the inputs now."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import product
from typing import Any

import pyarrow as pa

from semgraph.display import command, option
from semgraph.errors import PlanError
from semgraph.execution.windows import InputRows, RecordedWindow, content_of
from semgraph.logical.plan import LogicalPlan, Windowing
from semgraph.logical.sinks import Merge
from semgraph.stores.base import CommittedRow, CommittedWindow, History

Row = tuple[str, str]  # partition and key of an input row
_NAMED = 10  # rows that reasons name
_SHARE = 0.1  # of the rows of a partition, which a refresh retracts without being told


@dataclass(frozen=True)
class InputChanges:
    """How the input rows differ from those that were committed.

    Args:
        new: Rows without a commit marker.
        edited: Rows with other values than those that were committed.
        gone: Committed rows that are retracted.
        kept: Committed rows without values in the inputs.
    """

    new: frozenset[Row] = frozenset()
    edited: frozenset[Row] = frozenset()
    gone: frozenset[Row] = frozenset()
    kept: frozenset[Row] = frozenset()

    @property
    def _changed(self) -> tuple[tuple[str, frozenset[Row]], ...]:
        return ("edited", self.edited), ("new", self.new), ("gone", self.gone)

    def cause(self, row: Row) -> str:
        """What happened to a row, in words; "" if nothing did."""
        for word, rows in self._changed:
            if row in rows:
                return f"row {row[1]} {word}"
        return ""

    @property
    def reasons(self) -> list[str]:
        """What happened to each row that changed, or to how many."""
        lines: list[str] = []
        for word, rows in self._changed:
            few = len(rows) <= _NAMED
            lines += map(self.cause, sorted(rows)) if few else [f"{len(rows):,} rows {word}"]
        return lines


@dataclass(frozen=True)
class Committed:
    """What a plan committed, by partition.

    Args:
        history: The windows of each partition.
        adopted: Whether rows that an earlier version wrote are taken as they are.
    """

    history: Mapping[str, History]
    adopted: bool = False

    @cached_property
    def rows(self) -> dict[Row, CommittedRow]:
        """The committed rows."""
        return {(name, row.row): row for name, window in self.windows for row in window.rows}

    @cached_property
    def windows(self) -> list[tuple[str, CommittedWindow]]:
        """All windows with their partitions, in the order of their commits in each."""
        return [(name, window) for name, own in self.history.items() for window in own.windows]

    def require_lists(self, plan: LogicalPlan) -> None:
        """Refuse rows whose markers do not list what was written. Raises PlanError."""
        old = [name for name, window in self.windows if window.writes is None]
        if old and not self.adopted:
            what = (
                f'rows of group "{old[0]}" were written by an earlier version, which did not record'
            )
            typed = f"semgraph refresh {plan.name} --adopt", "session.refresh(..., adopt=True)"
            hint = f"to take all rows of its labels in these groups as its own: {command(*typed)}"
            raise PlanError(f"{what} what {plan.name} wrote", hint=hint)

    def changes(self, given: InputRows, *, complete: bool, retract: int | None) -> InputChanges:
        """Compare input rows with the committed ones. Raises PlanError if too many would go."""
        rows = {
            (given.partition_of_row[m], key): "" if m in given.bare else given.contents[m]
            for m, key in enumerate(given.keys)
        }
        bare = {row for row, content in rows.items() if not content}
        known = rows.keys() & self.rows.keys() - bare
        edited = {row for row in known if self.rows[row].content != rows[row]}
        new, absent = frozenset(rows.keys() - self.rows.keys()), self.rows.keys() - rows.keys()
        if not complete:
            return InputChanges(new, frozenset(edited), kept=frozenset(absent | bare))
        self._require_few(absent, retract)
        return InputChanges(new, frozenset(edited), frozenset(absent), frozenset(bare))

    def _require_few(self, absent: set[Row], retract: int | None) -> None:
        """Refuse to retract more than a tenth of a partition, unless told. Raises PlanError."""
        counts = Counter(partition for partition, _ in self.rows)
        for name, gone in sorted(Counter(partition for partition, _ in absent).items()):
            all_rows = counts[name]
            if gone > (max(1, math.floor(all_rows * _SHARE)) if retract is None else retract):
                what = f'{gone} of {all_rows} rows of group "{name}" are not in the inputs'
                hint = f"to remove what follows from them, add {option('retract', gone)}"
                raise PlanError(what, hint=hint)

    def changed_parts(self, parts: Mapping[str, str], fingerprint: str) -> list[str]:
        """The prompts, models, parameters, ... that differ from when rows were written."""
        found: dict[str, None] = {}
        windows = [window for _, window in self.windows]
        for old in {id(w.parts): w.parts for w in windows if w.parts}.values():
            found |= dict.fromkeys(n for n in {**old, **parts} if old.get(n) != parts.get(n))
        others = any(row.fingerprint != fingerprint for w in windows for row in w.rows)
        return [*found] or (["the plan"] if others else [])


@dataclass(frozen=True)
class WindowLayout:
    """The windows in which a refresh computes its rows.

    Args:
        windowing: The plan's windowing.
        rows: All rows to compute.
        committed: What was committed.
        now: `$now` of new rows.
        in_order: Whether windows are cut by the plan's order, in place of the committed ones.
        fresh: The rows about which the model is asked anew.
    """

    windowing: Windowing
    rows: InputRows
    committed: Committed
    now: datetime
    in_order: bool = False
    fresh: frozenset[Row] = frozenset()

    def windows(self) -> tuple[RecordedWindow, ...]:
        """The windows, in order in each partition."""
        windows: list[RecordedWindow] = []
        for name, own in zip(self.rows.partitions, self.rows.of, strict=True):
            windows += self._of_partition(name, [self.rows.keys[m] for m in own])
        return tuple(windows)

    def _of_partition(self, name: str, keys: Sequence[str]) -> Iterator[RecordedWindow]:
        """The windows of a partition: committed ones keep their rows; new rows form windows of their
        own, before the first window with a row that comes after them.
        """
        marked = self.committed.rows
        if self.in_order or self.committed.adopted:
            yield from self._cut(name, keys)
            return
        turns = {key: turn for turn, key in enumerate(keys)}
        added = [key for key in keys if (name, key) not in marked]
        history = self.committed.history.get(name, History())
        for window in history.windows:
            own = [row.row for row in window.rows if row.row in turns]
            if own:
                last = max(turns[key] for key in own)
                before = [key for key in added if turns[key] < last]
                added = added[len(before) :]
                yield from self._cut(name, before)
                yield self._window(name, own, window.now, window.begun)
        yield from self._cut(name, added)

    def _cut(self, name: str, keys: Sequence[str]) -> Iterator[RecordedWindow]:
        size = max(self.windowing.window_size(len(keys)), 1)
        for start in range(0, len(keys), size):
            own = keys[start : start + size]
            marked = (self.committed.rows.get((name, key)) for key in own)
            times = [row.now if row is not None else self.now for row in marked]
            yield self._window(name, own, max(times), None)

    def _window(
        self, name: str, keys: Sequence[str], now: datetime, begun: datetime | None
    ) -> RecordedWindow:
        fresh = any((name, key) in self.fresh for key in keys)
        return RecordedWindow(name, tuple(keys), now, begun or now, fresh)


@dataclass(frozen=True)
class CommittedRows:
    """The values of input rows, read from the nodes that the plan wrote from them.

    Args:
        sink: The sink that writes a node for each input row under the row's id; None: there is none.
        windowing: The plan's windowing.
        schema: The columns of the input.
        nodes: The stored nodes of the sink's label, by key.
    """

    sink: Merge | None
    windowing: Windowing
    schema: pa.Schema
    nodes: Mapping[str, Mapping[str, Any]]

    def table(self, rows: Sequence[tuple[Row, str]]) -> pa.Table:
        """Input rows with these fingerprints of their values. Raises PlanError for rows whose values
        are not all stored.
        """
        found = [(row, self._restored(row[1], content)) for row, content in rows]
        if lost := [row[1] for row, values in found if values is None]:
            named = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
            what = f"the graph does not hold all values of the input rows {named}"
            hint = f"give them as input {self.windowing.input} too"
            raise PlanError(what, hint=hint)
        key, partition = self.windowing.key, self.windowing.partition
        data = [{**(values or {}), key: row[1], partition: row[0]} for row, values in found]
        return pa.Table.from_pylist(data, schema=self.schema)

    def _restored(self, key: str, content: str) -> dict[str, Any] | None:
        """The values of a row: those that have its fingerprint. A property that the sink computes,
        `coalesce(name, '')`, may stand for a NULL.
        """
        node, sink = self.nodes.get(key), self.sink
        if node is None or sink is None:
            return None
        computed = {name for name, _ in sink.set}
        apart = {self.windowing.key, self.windowing.partition}
        row = {
            name: node.get(name)
            for name in self.schema.names
            if name not in apart and (name in computed or name in sink.input.schema.names)
        }
        unsure = [name for name in row if name in computed and row[name] is not None]
        for nulls in product((False, True), repeat=len(unsure)):
            guess = row | {name: None for name, null in zip(unsure, nulls, strict=True) if null}
            if content_of(guess) == content:
                return guess
        return None


def with_kept(table: pa.Table, kept: pa.Table, given: InputRows) -> pa.Table:
    """The input with the rows that it lacks first, and without rows that only name a key."""
    named = [m for m in range(len(given.keys)) if m not in given.bare]
    return pa.concat_tables([kept, table.take(pa.array(named, pa.int64()))])


def as_committed(windowing: Windowing, table: pa.Table, committed: Committed) -> pa.Table:
    """The input with its committed rows in the order of their commits in each partition; new rows
    keep their places.
    """
    order = {row: number for number, row in enumerate(committed.rows)}
    parts, keys = (table.column(name).to_pylist() for name in (windowing.partition, windowing.key))
    places: dict[str, list[tuple[int, int]]] = {}
    for place, row in enumerate(zip(parts, keys, strict=True)):
        if row in order:
            places.setdefault(row[0], []).append((order[row], place))
    taken = list(range(table.num_rows))
    for own in places.values():
        for to, (_, place) in zip(sorted(place for _, place in own), sorted(own), strict=True):
            taken[to] = place
    return table.take(pa.array(taken, pa.int64()))
