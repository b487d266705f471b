"""Loops: rounds that apply a body to the rows of the previous round, until each group has ended."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.expr.row_functions import frozen
from semgraph.expr.scalar import ROWS
from semgraph.logical.iterate import WAS, Iterate, Round
from semgraph.logical.node import column_scalar
from semgraph.logical.relational import Aggregate
from semgraph.physical.failed_rows import without_faulty
from semgraph.physical.plan import ExecutionContext, GroupEnd, PhysicalNode
from semgraph.relational.batch import Batch
from semgraph.relational.segments import Segment, compile_segment, run_segment
from semgraph.semantic.context import DryRunEnded

_HOLDS = "#until"
Group = tuple[Hashable, ...]  # the window of a group, None without windows, and its values of `by`


@dataclass(frozen=True, eq=False, repr=False)
class RoundTable(PhysicalNode):
    """The rows of the last round, which the loop provides. If several loops share this node, its
    rounds are observed as those of the last one.
    """

    loop: Iterate

    def content(self) -> list[str]:
        """Identifies the node by the body of the loop."""
        return [*super().content(), self.loop.body.fingerprint]

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:  # noqa: ARG002
        """Raises DryRunEnded, because outside of the loop there is no round."""
        raise DryRunEnded


@dataclass(frozen=True, eq=False, repr=False)
class IterateRows(PhysicalNode):
    """A loop. Its inputs are the rows of round 0, then the loop-invariant inputs of the rounds. The
    body computes the next round, in which the last one replaces the nodes in `rounds`.
    """

    logical: Iterate
    body: PhysicalNode
    rounds: tuple[RoundTable, ...]

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        known = dict(zip(self.inputs[1:], inputs[1:], strict=True))
        loop = _Rounds(self, self.as_round(inputs[0]))
        rows_in = 0
        await loop.judge(None, evaluation)
        while loop.goes_on:
            last = loop.last
            rows_in += last.num_rows
            known.update((node, last) for node in self.rounds)
            rows, lost = await evaluation.again(self.body, known)
            loop.take(self.as_round(rows.without_input_rows(lost)))
            await loop.judge(last, evaluation)
        evaluation.ended(self.logical, loop.ends())
        for node in self.rounds:
            if node.loop is self.logical:
                evaluation.remember_counts(node, inputs[0].num_rows, rows_in)
        return loop.result(self.schema)

    def content(self) -> list[str]:
        return [*super().content(), self.logical.body.fingerprint]

    def as_round(self, rows: Batch) -> Batch:
        """Rows of the body, with the columns in the order of the input."""
        return rows.in_order(self.inputs[0].schema.names)

    @cached_property
    def until(self) -> Segment | None:
        """The statement that decides which groups have ended."""
        loop = self.logical
        if loop.until is None:
            return None
        judged = Round(name=loop.name, columns=loop.judged, windowed=loop.windowed)
        by = tuple((name, column_scalar(name)) for name in loop.by)
        held = Aggregate(
            input=judged, by=by, add=((_HOLDS, loop.until),), step=loop.step, origin=loop.origin
        )
        return compile_segment(held, {judged: ROWS})


class _Rounds:
    """The groups of a loop, and their rounds so far. `rows` are its input, which is round 0."""

    def __init__(self, node: IterateRows, rows: Batch) -> None:
        self.node, self.logical, self._above = node, node.logical, rows
        self.number, self.last, self._groups = 0, rows, _in_windows(rows, self.logical.by)
        self._places: dict[Group, int] = {}  # the first row of each group in the input
        for place, group in enumerate(self._groups):
            self._places.setdefault(group, place)
        if not rows.has_input_rows and not self.logical.by:
            self._places = {(None,): 0}
        self._open = set(self._places)
        self._ended = dict.fromkeys(self._places, False)
        self._seen: set[tuple[Group, Group]] = set()
        self._kept: list[tuple[int, Batch, list[Group]]] = []
        self._only(self._unseen())

    @property
    def goes_on(self) -> bool:
        """Whether a group has rows for another round."""
        return bool(self._open) and self.number < self.logical.times

    def ends(self) -> list[GroupEnd]:
        """Whether each group has ended."""
        rows = self._above.input_rows() or [None]
        return [
            GroupEnd(group, rows[self._places[group]], end) for group, end in self._ended.items()
        ]

    def take(self, rows: Batch) -> None:
        """Take the rows of the next round, without rows of ended groups and without rows of earlier
        rounds. Raises DataError if the input lacks a group.
        """
        self.number += 1
        self.last, self._groups = rows, _in_windows(rows, self.logical.by)
        alive = {group[0] for group in self._open}
        for group in self._groups:
            if group not in self._places and group[0] in alive:
                shown = _shown(group[1:])
                what = f"round {self.number} has a row of the group {shown}, which the rows above have not"
                raise DataError(what, hint="keep the columns of by as they are")
        self._only([group in self._open for group in self._groups])
        self._only(self._unseen())

    def _only(self, wanted: Sequence[bool]) -> None:
        if not all(wanted):
            self.last = self.last.take(list(compress(range(len(wanted)), wanted)))
            self._groups = list(compress(self._groups, wanted))

    def _unseen(self) -> list[bool]:
        """Which rows of the last round have values of `distinct` that are new in their group."""
        names = self.logical.distinct
        unseen = []
        for row in zip(self._groups, _tuples(self.last, names), strict=True) if names else ():
            unseen.append(row not in self._seen)
            self._seen.add(row)
        return unseen

    async def judge(self, before: Batch | None, evaluation: ExecutionContext) -> None:
        """End groups without rows and groups for which `until` holds; keep rows for the result."""
        held = await self._held(before, evaluation)
        over = held | (self._open - set(self._groups))
        done = over if self.number < self.logical.times else self._open
        every = self.logical.keep == "all"
        self._keep([every or group in done for group in self._groups])
        self._ended |= dict.fromkeys(over, True)
        self._open -= over
        self._only([group in self._open for group in self._groups])

    def _keep(self, wanted: Sequence[bool]) -> None:
        places = list(compress(range(len(wanted)), wanted))
        groups = list(compress(self._groups, wanted))
        self._kept.append((self.number, self.last.take(places), groups))

    async def _held(self, before: Batch | None, evaluation: ExecutionContext) -> set[Group]:
        """The groups of the last round for which `until` holds. Raises DataError."""
        keys = self._keys(self.last)
        if self.node.until is None or not self.last.num_rows:
            return set()
        judged = self.last
        if self.logical.key:
            own = {} if before is None else {key: n for n, key in enumerate(self._keys(before))}
            judged = _with_was(judged, before or judged.slice(0, 0), [own.get(k) for k in keys])
        verdicts = await self._verdicts(self.node.until, judged, evaluation)
        return set(compress(_in_windows(verdicts, self.logical.by), verdicts.column(_HOLDS)))

    async def _verdicts(self, until: Segment, judged: Batch, evaluation: ExecutionContext) -> Batch:
        """Whether `until` holds, for each group of rows. Rows that make it fail are set aside."""
        try:
            return await run_segment(until, [judged], evaluation.now)
        except DataError as error:
            [judged], failures = await without_faulty(until, [judged], evaluation.now, error)
        evaluation.fail(failures)
        lost = {failure.input_row for failure in failures}
        self._only([row not in lost for row in self.last.input_rows()])
        return await run_segment(until, [judged], evaluation.now)

    def _keys(self, rows: Batch) -> list[Group]:
        """The key of each row, in its window. Raises DataError if two rows share a key."""
        if not self.logical.key:
            return []
        keys = _in_windows(rows, self.logical.key)
        seen: set[Group] = set()
        for key in keys:
            if key in seen:
                raise DataError(f"round {self.number} has two rows with the key {_shown(key[1:])}")
            seen.add(key)
        return keys

    def result(self, schema: pa.Schema) -> Batch:
        """The kept rows, ordered by the first row of each group, or by round in each window."""
        every = self.logical.keep == "all"
        parts = [_with_round(rows, n, schema) if every else rows for n, rows, _ in self._kept]
        rows = Batch.concatenated(parts)
        groups = [group for _, _, own in self._kept for group in own]
        if every:  # the order of a window does not depend on other windows
            first: dict[Hashable, int] = {}
            for (window, *_), place in self._places.items():
                first.setdefault(window, place)
            rank = [first[group[0]] for group in groups]
        else:
            rank = [self._places[group] for group in groups]
        order = sorted(range(len(rank)), key=rank.__getitem__)
        return rows.derived_from(rows).reordered(order)


def _with_round(rows: Batch, number: int, schema: pa.Schema) -> Batch:
    """The rows with the number of their round, before the hidden columns."""
    place = len(schema) - (2 if rows.has_input_rows else 0) - 1
    if rows.in_tuples:
        own = [(*row[:place], number, *row[place:]) for row in rows.rows]
        return Batch(schema, own, None, rows.ids, rows.sources)
    numbers = pa.repeat(pa.scalar(number, pa.int64()), rows.num_rows)
    table = rows.table.add_column(place, schema.field(place), numbers)
    return Batch(schema, None, table, rows.ids, rows.sources)


def _with_was(rows: Batch, before: Batch, places: Sequence[int | None]) -> Batch:
    """The rows with a struct of the row at `places` of the previous round; NULL without such a row."""
    visible = rows.visible()
    taken = before.visible().take(pa.array(places, pa.int64())).combine_chunks()
    columns = [column.combine_chunks() for column in taken.columns]
    missing = pa.array([place is None for place in places], pa.bool_())
    was = pa.StructArray.from_arrays(columns, fields=list(visible.schema), mask=missing)
    table = rows.table.add_column(visible.num_columns, pa.field(WAS, was.type), was)
    return Batch.of_table(table)


def _tuples(rows: Batch, names: Collection[str]) -> list[Group]:
    """The values of some columns, as tuples that are equal for equal rows."""
    if not names:
        return [()] * rows.num_rows
    return list(zip(*(map(frozen, rows.column(name)) for name in names), strict=True))


def _in_windows(rows: Batch, names: Collection[str]) -> list[Group]:
    windows: Sequence[int | None] = rows.partitions() or [None] * rows.num_rows
    own = _tuples(rows, names)
    return [(window, *values) for window, values in zip(windows, own, strict=True)]


def _shown(values: Iterable[Any]) -> str:
    return f"({', '.join('NULL' if value is None else str(value) for value in values)})"
